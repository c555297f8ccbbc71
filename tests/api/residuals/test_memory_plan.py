"""`memory_plan`: its peaks are measured ones, its values explain its points, and it changes
nothing.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ArgumentError, ConcretizationError
from functrace.executor.memory.of_plans import timeline_of_plan
from functrace.executor.plan.planner import plan
from tests.executor.plan.test_peaks import CASES, HIDDEN, SQUARE

SLACK = 100_000
"""Bytes that are no arrays: recordings, frames, the small objects of each operation."""
RNG = np.random.default_rng(0)


def measured(run: Callable[[], Any]) -> int:
    """Return the peak of bytes that a call allocates, its results included."""
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        run()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def assert_close(predicted: int, found: int, text: object) -> None:
    """Within 10 %, and `SLACK`."""
    assert abs(found - predicted) <= 0.1 * found + SLACK, (predicted, found, str(text))


def assert_explained(made: Any) -> None:
    """The values alive at a point are its bytes, and every value says why it is alive."""
    for point in made.points:
        assert sum(value.nbytes for value in made.alive(point.index)) == point.nbytes, point
    for value in made.at_peak:
        assert made.why(value, made.peak.index)


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "grad": ft.grad,
    "value_and_grad": ft.value_and_grad,
    "jit": ft.jit,
    "jit(grad)": lambda f: ft.jit(ft.grad(f)),
    "grad(checkpoint)": lambda f: ft.grad(ft.checkpoint(f)),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize(("f", "x"), CASES, ids=[f.__name__ for f, _ in CASES])
def test_the_predicted_peak_is_the_measured_one(f: Any, x: Any, name: str) -> None:
    call = TRANSFORMS[name](f)
    for _ in range(2):
        call(x)
    made = ft.memory_plan(call)(x)
    assert_explained(made)
    hidden = HIDDEN if x is SQUARE else 0
    found = measured(lambda: call(x))
    assert made.peak_bytes <= 1.1 * found + SLACK + hidden
    assert made.peak_bytes >= 0.9 * found - SLACK, (made.peak_bytes, found, str(made))


@pytest.mark.numpy_source
@pytest.mark.parametrize("n", [20, 3000])
def test_instruction_lists_are_as_measured(n: int) -> None:
    """Un-jitted gradients on small arrays: in small programs nothing is freed before the end."""

    def f(x: Any) -> Any:
        for _ in range(40):
            x = np.sin(x) * np.exp(-x)
        return np.sum(x)

    x = RNG.uniform(size=n)
    for _ in range(3):
        ft.grad(f)(x)
    made = ft.memory_plan(ft.grad(f))(x)
    assert made.runs == "un-jitted, instruction list"
    assert_explained(made)
    assert_close(made.peak_bytes, measured(lambda: ft.grad(f)(x)), made)


@pytest.mark.parametrize("f", [f for f, _ in CASES], ids=[f.__name__ for f, _ in CASES])
def test_the_timeline_of_a_plan_has_its_peak(f: Any) -> None:
    x = dict(CASES)[f]
    for g, args in ((f, x), (ft.grad(f), x), (ft.vmap(ft.grad(f)), np.stack([x, x]))):
        planned = plan(ft.trace(g)(args))
        made = timeline_of_plan(planned, "f", "")
        assert made.peak_bytes == planned.peak_bytes
        assert_explained(made)


@pytest.mark.numpy_source
def test_phases_and_residuals() -> None:
    def loss(ws: Any, x: Any) -> Any:
        for w in ws:
            x = np.tanh(x @ w)
        return np.mean(x**2)

    ws, x = [0.1 * RNG.normal(size=(64, 64)) for _ in range(4)], RNG.normal(size=(512, 64))
    for call in (ft.grad(loss), ft.jit(ft.grad(loss)), ft.jit(ft.value_and_grad(loss))):
        made = ft.memory_plan(call)(ws, x)
        found = [point.phase for point in made.points]
        turn = found.index("backward")
        assert turn > 4 and set(found[:turn]) == {"forward"}
        residuals = {value.made for value in made.values if value.kind == "residual"}
        assert "tanh" in residuals
        assert {v.kind for v in made.values if v.aval.shape == (64, 64)} >= {"argument", "result"}
        assert any(point.source is not None and "x @ w" in point.source.expression
                   for point in made.points)  # fmt: skip
        whys = [made.why(value, made.peak.index) for value in made.at_peak if made.peak]
        assert any(why.startswith("residual: read") and "backward" in why for why in whys)


def test_a_jvp_has_no_reverse_pass() -> None:
    def pushed(x: Any) -> Any:
        return ft.jvp(np.sin, (x,), (x,))

    made = ft.memory_plan(pushed, backend="numpy")(np.ones(1000))
    assert {point.phase for point in made.points} == {"forward"}


def test_a_checkpointed_part_is_recomputed_in_the_reverse_pass() -> None:
    def layer(x: Any) -> Any:
        return np.cumsum(np.tanh(np.exp(x)))

    def f(x: Any, wrap: Any = lambda g: g) -> Any:
        for _ in range(3):
            x = wrap(layer)(x)
        return np.sum(x**2)

    x = np.linspace(0.0, 1.0, 1 << 15)
    plain = ft.memory_plan(ft.grad(f), backend="numpy")(x)
    less = ft.memory_plan(ft.grad(lambda x: f(x, ft.checkpoint)), backend="numpy")(x)
    assert less.peak_bytes < plain.peak_bytes
    again = [p for p in less.points if p.operation == "exp" and p.phase == "backward"]
    assert again and not any(p.operation == "exp" and p.phase == "backward" for p in plain.points)


def test_loops_show_their_bodies_and_stacks() -> None:
    def f(x: Any) -> Any:
        def step(c: Any, k: Any) -> Any:
            return np.tanh(c) * k, np.sin(c)

        c, ys = ft.scan(step, x, np.linspace(0.5, 1.0, 20))
        return np.sum(c) + np.sum(ys**2)

    made = ft.memory_plan(ft.grad(f), backend="numpy")(np.ones(1000))
    assert max(point.depth for point in made.points) == 1
    assert any(value.made == "scan, stack" and value.nbytes == 160_000 for value in made.values)
    assert any("read by this scan" in made.why(v, p.index) or "scan" in made.why(v, p.index)
               for p in made.points if p.depth for v in made.alive(p.index))  # fmt: skip


def test_a_branch_that_is_read_is_the_only_one() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.sin(x)) if x[0] > 0.0 else np.sum(np.sort(x) * x)

    taken = ft.memory_plan(ft.grad(f))(np.ones(1 << 15))
    other = ft.memory_plan(ft.grad(f))(-np.ones(1 << 15))
    assert not any(point.operation == "sort" for point in taken.points)
    assert any(point.operation == "sort" for point in other.points)
    with pytest.raises(ConcretizationError):
        ft.memory_plan(ft.grad(f))(ft.ShapeDtype((1 << 15,)))


def test_shapes_alone_are_enough() -> None:
    f = ft.grad(lambda x: np.sum(np.exp(np.sin(x))))
    x = np.ones(1 << 20)
    made = ft.memory_plan(f)(ft.ShapeDtype((1 << 40,)))
    assert made.peak_bytes == ft.memory_plan(f)(x).peak_bytes << 20
    assert made.given_bytes == 8 << 40


def test_nothing_is_computed_nor_left() -> None:
    from functrace.executor.runner import WATCHED

    called: list[int] = []

    def f(x: Any) -> Any:
        ft.debug.callback(lambda _: called.append(1), x) if ft.is_traced(x) else None
        return np.sum(np.sin(x))

    ft.memory_plan(ft.jit(f))(np.ones(3))
    assert not called
    with pytest.raises(ZeroDivisionError):
        ft.memory_plan(ft.grad(lambda x: 1 / 0))(np.ones(3))
    assert WATCHED.get() is None
    assert ft.grad(f)(np.zeros(3)).tolist() == [1.0, 1.0, 1.0]


def test_several_runs_of_one_call() -> None:
    """A function that runs two transforms un-jitted: the residuals of a pullback live between."""
    x, seed = RNG.uniform(size=1 << 16), np.ones(1 << 16)

    def f(x: Any) -> Any:
        _, pull = ft.vjp(lambda y: np.cumsum(np.exp(np.sin(y))), x)
        return pull(seed)[0]

    f(x)
    made = ft.memory_plan(f)(x)
    assert made.runs.startswith("un-jitted")
    assert_explained(made)
    assert_close(made.peak_bytes, measured(lambda: f(x)), made)


@pytest.mark.numpy_source
def test_arguments_that_are_no_arrays_are_passed_on() -> None:
    f = ft.jit(lambda x, how, n: np.sum(getattr(np, how)(x) * n), static_argnames=("how",))
    f(np.ones(1000), how="exp", n=3)
    made = ft.memory_plan(f)(np.ones(1000), how="exp", n=3)
    assert made.points[0].operation == "exp"


@pytest.mark.numpy_source
def test_donated_memory_is_not_counted() -> None:
    def f(x: Any) -> Any:
        return np.exp(np.sin(x) * 2.0)

    x = np.ones(1 << 16)
    plain = ft.memory_plan(ft.jit(f))(x)
    donated = ft.memory_plan(ft.jit(f, donate_argnums=0))(x)
    assert donated.peak_bytes < plain.peak_bytes


def layers(x: Any) -> Any:
    for _ in range(4):
        x = np.sin(np.cumsum(x, axis=1)) * np.tanh(x)
    return np.sum(x * x)


@pytest.mark.parametrize("n", [40, 400])
@pytest.mark.parametrize(
    "f",
    [
        layers,
        ft.grad(layers),
        ft.vmap(lambda v: np.cumsum(np.sin(v)) / (1.0 + np.sum(v * v))),
        lambda x: np.abs(np.fft.rfft(np.sin(np.cos(x)) @ np.cumsum(x, axis=0))) + 1.0,
        lambda x: (x @ x + np.tanh(x)) @ x,
    ],
)
def test_machine_code_needs_what_its_plan_says(f: Any, n: int) -> None:
    pytest.importorskip("llvmlite")
    x = RNG.normal(size=(n, n))
    run: Any = ft.jit(f, backend="native")
    for _ in range(2):
        run(x)
    made = ft.memory_plan(run)(x)
    assert made.runs.startswith("jit, machine code")
    assert_explained(made)
    assert_close(made.peak_bytes, measured(lambda: run(x)), made)
    assert ft.memory_plan(f, backend="native")(x).peak_bytes == made.peak_bytes


def test_programs_of_xla_report_their_memory() -> None:
    pytest.importorskip("jax")
    x = np.ones((300, 300))
    made = ft.memory_plan(
        ft.jit(lambda x: (np.cumsum(np.sin(x) @ x, axis=0), x + 1.0), backend="xla")
    )(x)
    assert made.runs == "jit, XLA" and made.given_bytes == x.nbytes
    assert 2 * x.nbytes <= made.peak_bytes <= 6 * x.nbytes
    assert_explained(made)
    plain = ft.memory_plan(lambda x: x + 1.0, backend="xla")(x)
    assert x.nbytes <= plain.peak_bytes < x.nbytes + 1000
    with pytest.raises(ArgumentError, match="backend"):
        ft.memory_plan(np.sin, backend="fpga")


def test_text_and_html() -> None:
    made = ft.memory_plan(ft.grad(lambda x: np.sum(np.sin(np.exp(x)))), backend="numpy")(
        np.ones(1000)
    )
    text = str(made)
    assert "at most 16,000 bytes" in text and "← peak" in text and "residual: " in text
    html = made._repr_html_()
    assert html.count("<svg") == 1 and html.count("<title>") == 2 * len(made.points)


def test_a_plot_is_a_file(tmp_path: Any) -> None:
    pytest.importorskip("matplotlib")
    made = ft.memory_plan(ft.grad(lambda x: np.sum(np.sin(np.exp(x)))))(np.ones(1000))
    made.plot(str(tmp_path / "memory.png"))
    assert (tmp_path / "memory.png").read_bytes().startswith(b"\x89PNG")


def test_loops_of_unknown_length_tell_the_bytes_of_a_step() -> None:
    def f(x: Any) -> Any:
        def step(carry: Any) -> Any:
            return np.sin(carry[0]), carry[1] + 1

        return np.sum(ft.while_loop(lambda c: c[1] < np.sum(c[0]) * 0 + 5, step, (x, 0))[0])

    made = ft.memory_plan(ft.grad(f), backend="numpy")(np.ones(1000))
    assert 8000 <= made.nbytes_each <= 16100
    assert f"{made.nbytes_each:,} bytes for each step" in str(made)
