"""Structures: loops and choices run from their description alone, without a function of
functrace's.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ArgumentError
from functrace.executor import Runner
from functrace.executor.plan.planner import Plan, plan
from functrace.ir.aval import ShapeDtype
from functrace.ir.structures import Branch, Loop, Stack
from functrace.tracing.evaluate import evaluate_program
from tests.executor.codegen.test_inlined_loops import drawn, example, same
from tests.executor.toy_backend import Closures

pytestmark = pytest.mark.bits


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", range(80))
def test_random_loops_and_their_derivatives_run_from_their_description(seed: int) -> None:
    loop, kinds, rng = drawn(seed)
    values = tuple(example(kind, rng) for kind in kinds)
    floats = [k for k, kind in enumerate(kinds) if kind not in ("int", "bool")]

    def total(*given: Any) -> Any:
        results = loop(ft, given)
        return sum([np.sum(np.sin(results[k])) for k in floats], 0.0)

    programs = [ft.trace(lambda *s: loop(ft, s))(*values)]
    if floats:
        programs.append(ft.trace(ft.value_and_grad(total, argnums=tuple(floats)))(*values))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # integers wrap around; floats overflow
        for program in programs:
            found = Closures().compile(plan(Runner(program).flat))(*values)
            same(found, evaluate_program(program, values))


def loops(plan: Plan) -> list[tuple[Loop, tuple[Stack, ...]]]:
    steps = [step for step in plan.steps if isinstance(step.structure, Loop)]
    return [
        (step.structure, step.structure.stacks([body.program for body in step.bodies]))
        for step in steps
    ]


VECTOR = ShapeDtype((3,), np.dtype(np.float64))
X = np.array([0.3, 0.7, 1.1])


def doubled(x: Any, most: int | None = None) -> Any:
    def step(state: Any) -> Any:
        return np.sin(state[0]) * 2.0, state[1] + 1

    return np.sum(ft.while_loop(lambda s: s[1] < 5, step, (x, 0), max_steps=most)[0])


def test_residual_stacks_of_a_while_loop_are_described() -> None:
    (forward, kept), (backward, read) = loops(
        plan(Runner(ft.trace(ft.value_and_grad(doubled))(X)).flat)
    )
    assert forward.has_condition and forward.gives and forward.most is None
    assert kept == (
        Stack(VECTOR, 0, 3, (), 2),
    )  # the last result holds it; before it stand whether to go on, and the carry
    assert backward.takes == (1, 0) and backward.reverse == (True,) and not backward.has_condition
    assert [(s.aval, s.phase, s.readers) for s in read] == [
        (VECTOR, None, ((0, backward.constants + 1),))
    ]


def test_residual_stacks_of_a_loop_with_phases_are_described() -> None:
    ((loop, kept),) = loops(plan(ft.trace(ft.grad(doubled))(X)))
    assert loop.has_condition and loop.hidden == 1 and loop.reverse == (False, True)
    assert [(s.aval, s.phase, s.readers, s.result) for s in kept] == [
        (VECTOR, 0, ((1, loop.constants + 1),), None)
    ]


def test_stacks_of_a_scan_are_its_results() -> None:
    def f(x: Any) -> Any:
        return ft.scan(lambda c, t: (c * t, (np.exp(c), t)), x, np.arange(4.0))[1]

    ((loop, kept),) = loops(plan(ft.trace(f)(X)))
    assert loop.length == 4 and not loop.has_condition
    assert [(s.aval.shape, s.phase, s.output, s.readers, s.result) for s in kept] == [
        ((3,), 0, 1, (), 1),
        ((), 0, 2, (), 2),
    ]


def test_exceeding_max_steps_raises_the_error_of_the_loop() -> None:
    program = ft.trace(lambda x: doubled(x, 4))(X)
    made = plan(program)
    ((loop, _),) = loops(made)
    with pytest.raises(ArgumentError, match="not done after max_steps=4") as raised:
        Closures().compile(made)(X)
    assert raised.value.what == loop.error.what


@pytest.mark.parametrize("gradient", [False, True])
def test_examples_choose_for_themselves(gradient: bool) -> None:
    def f(n: Any, x: Any) -> Any:
        return ft.switch(n, [np.sqrt, lambda x: np.sin(x) * 2.0, np.log, lambda x: x / 0.0], x)

    f = ft.grad(f, argnums=1) if gradient else f
    ns, xs = np.array([0, 1, 2, 1, -3]), np.array([4.0, -1.0, 2.0, 0.0, 9.0])
    program = ft.trace(ft.vmap(f))(ns, xs)
    made = plan(program)
    assert [step.structure for step in made.steps if isinstance(step.structure, Branch)]
    (found,) = Closures().compile(made)(ns, xs)
    np.testing.assert_array_equal(found, evaluate_program(program, [ns, xs])[0])
    assert np.isfinite(found).all()
