"""Tiers: interpreted calls first, then compiled ones; in between no call does more than the first one did."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.executor import Runner, compilation
from functrace.executor import runner as tiers
from functrace.executor.backend import compiled
from functrace.executor.numpy_source import NUMPY
from functrace.executor.plan import plan, planned
from functrace.tracing.evaluate import evaluate_program
from tests.executor.test_reuse import LAYOUTS, chains, shaped

X = np.array([0.3, 0.5, 0.7])
_ADVANCED = Runner.__dict__["_advanced"]  # tests/conftest.py puts another one in its place


@pytest.fixture(autouse=True)
def _earned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Runner, "_advanced", _ADVANCED)


def chain(turns: int) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        for _ in range(turns):
            x = np.sin(x) * 1.01
        return np.sum(x)

    return f


class Clock:
    """Time as the executor sees it: every look at it takes so many seconds; compiling looks twice per step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, interpreting: float, step: float) -> None:
        self.now, self.interpreting, self.step = 0.0, interpreting, step
        self.steps = 0
        monkeypatch.setattr(tiers, "perf_counter", lambda: self.now)
        inner = compilation.compiling

        def compiling(program: Any, backend: Any) -> Iterator[None]:
            steps = inner(program, backend)
            while True:
                self.now += self.step
                self.steps += 1
                try:
                    next(steps)
                except StopIteration as end:
                    return end.value
                yield

        monkeypatch.setattr(compilation, "compiling", compiling)
        interpret = Runner.interpret

        def interpreted(runner: Runner, arguments: Any, lines: Any) -> Any:
            self.now += self.interpreting
            return interpret(runner, arguments, lines)

        monkeypatch.setattr(Runner, "interpret", interpreted)


def test_a_call_takes_one_step_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, interpreting=1.0, step=0.01)
    program = ft.trace(ft.grad(chain(300)))(X)
    runner, expected = Runner(program), evaluate_program(program, [X])
    for call in range(60):
        np.testing.assert_array_equal(runner([X])[0], expected[0])
        assert clock.steps <= call
    assert runner._compiled is not None
    assert 20 <= clock.steps <= 50


def test_compiling_waits_until_it_is_earned(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, interpreting=1.0, step=5.0)
    program = ft.trace(chain(300))(X)
    runner = Runner(program)
    calls = 0
    while runner._compiled is None:
        assert runner._invested <= runner._interpreted + clock.step
        runner([X])
        calls += 1
    assert calls >= 5 * (clock.steps - 1)


def test_short_programs_are_compiled_in_one_piece() -> None:
    steps = compilation.compiling(ft.trace(chain(10))(X), NUMPY)
    assert len(list(steps)) == 2  # folded, written, compiled


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_pieces_are_the_evaluators_bit_for_bit(layout: str, size: int) -> None:
    x = LAYOUTS[layout](shaped((6, 8, 10)))
    args = (x, x * 0.7, shaped((10,)))
    for f in (chains, ft.grad(lambda *xs: sum(map(np.sum, chains(*xs))), argnums=(0, 1, 2))):
        program = ft.trace(f)(*args)
        run = compiled(plan(program, size=size), NUMPY)
        for found, expected in zip(run(*args), evaluate_program(program, args), strict=True):
            np.testing.assert_array_equal(found, expected, strict=True)


def test_what_dies_in_a_piece_is_let_go_there() -> None:
    program = ft.trace(lambda x: np.sum(np.cos(np.cos(np.cos(np.cos(np.cos(x)))))))(np.zeros(1 << 17))
    peaks = []
    for size in (None, 1):
        run = compiled(planned(program, size=size), NUMPY)
        tracemalloc.start()
        run(np.zeros(1 << 17))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + (1 << 20) + 100_000  # one array may be held, not five


def test_loops_and_choices_are_compiled_in_steps_too() -> None:
    def body(c: Any, x: Any) -> Any:
        for _ in range(60):
            c = np.sin(c) + x
        return c, ft.cond(np.sum(c) > 0, np.cos, np.tanh, c)

    def f(x: Any) -> Any:
        c, ys = ft.scan(body, x[0], x)
        return np.sum(c) + np.sum(ys)

    x = np.linspace(0.1, 1.0, 12).reshape(4, 3)
    runner = Runner(ft.trace(f)(x))
    assert len(list(compilation.compiling(runner.flat, NUMPY))) > 8
    expected = evaluate_program(runner.program, [x])
    while runner._compiled is None:
        np.testing.assert_array_equal(runner([x])[0], expected[0])
    np.testing.assert_array_equal(runner([x])[0], expected[0])


def test_threads_share_a_compilation() -> None:
    program = ft.trace(ft.grad(chain(60)))(X)
    runner, expected = Runner(program), evaluate_program(program, [X])
    wrong: list[Any] = []

    def work() -> None:
        for _ in range(60):
            try:
                (found,) = runner([X])
                if found.tobytes() != expected[0].tobytes():
                    wrong.append(found)
            except Exception as error:
                wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_an_interrupted_step_is_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = Runner(ft.trace(chain(10))(X))
    expected = runner([X])

    def interrupted(_program: Any, _backend: Any) -> Iterator[None]:
        raise KeyboardInterrupt
        yield

    with monkeypatch.context() as patch:
        patch.setattr(compilation, "compiling", interrupted)
        with pytest.raises(KeyboardInterrupt):
            runner([X])
    for _ in range(50):
        np.testing.assert_array_equal(runner([X])[0], expected[0])
