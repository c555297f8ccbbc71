"""The plan: what it says of liveness, aliasing and memory is true, whichever backend follows it."""

from __future__ import annotations

import dataclasses
import tracemalloc
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.executor import Runner
from functrace.executor.codegen.numpy_source import NUMPY
from functrace.executor.plan.planner import Plan, plan, planned
from functrace.tracing.evaluate import evaluate_program
from tests.compositions.functions import BATCH, X, scalar
from tests.executor.toy_backend import Closures

pytestmark = pytest.mark.bits


def programs_of(f: Any) -> list[tuple[ft.Program, Any]]:
    return [
        (ft.trace(lambda x: (*ft.value_and_grad(f)(x), x))(X), X),
        (ft.trace(lambda x: (ft.hessian(f)(x), x.T, x))(X), X),
        (ft.trace(ft.vmap(ft.value_and_grad(f)))(BATCH), BATCH),
        (ft.trace(ft.grad(ft.checkpoint(f)))(X), X),
    ]


@scalar
def test_a_second_backend_of_the_same_plan_is_equal(f: Any) -> None:
    for program, x in programs_of(f):
        expected = evaluate_program(program, [x])
        made = plan(program)
        for backend in (NUMPY, Closures()):
            found = backend.compile(made)(x)
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_array_equal(a, b)
            arrays = [a for a in (*found, x) if isinstance(a, np.ndarray)]
            assert not any(
                np.shares_memory(a, b) for k, a in enumerate(arrays) for b in arrays[k + 1 :]
            )


def test_loops_and_choices_are_plans_of_their_own() -> None:
    def f(x: Any) -> Any:
        def body(c: Any, t: Any) -> Any:
            return ft.cond(np.sum(c) > 0, np.cos, np.tanh, c) * t, np.exp(c)

        c, ys = ft.scan(body, x, np.linspace(0.1, 1.0, 6))
        return np.sum(c) + np.sum(ys**2)

    for program in (ft.trace(f)(X), ft.trace(ft.grad(f))(X), ft.trace(ft.vmap(f))(BATCH)):
        made = plan(program)
        scans = [step for step in made.steps if step.bodies]
        assert scans and all(isinstance(body, Plan) for step in scans for body in step.bodies)
        x = BATCH if program.avals[program.input_ids[0]].shape == BATCH.shape else X
        expected = evaluate_program(program, [x])
        for backend in (NUMPY, Closures()):
            for a, b in zip(backend.compile(made)(x), expected, strict=True):
                np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(Runner(program, backend).compile()(x)[0], expected[0])


class Watching:
    """A backend that looks, after every operation, which memory there is, and compares it with what
    the plan says.
    """

    def compile(self, plan: Plan) -> Any:
        program = plan.program

        def run(*arguments: Any) -> tuple[Any, ...]:
            values: dict[int, Any] = {
                **program.constant_values,
                **dict(zip(program.input_ids, arguments, strict=True)),
            }
            alive = []
            for step in plan.steps:
                primitive, operands, params = program.ops[step.first]
                given = [values[i] if i >= 0 else program.literals[~i] for i in operands]
                made = primitive.eval(
                    *given, *params, **({} if step.into is None else {"out": values[step.into]})
                )
                for i in step.dies:
                    if i != step.into:
                        assert i in values, "it dies once"
                    alive.append(i)
                for j, value in zip(
                    plan.results(step), made if primitive.many else (made,), strict=True
                ):
                    values[j] = value
                    assert_owner(plan, values, j)
                for i in step.dies:
                    del values[i]
            return tuple([values[i] for i in program.output_ids])

        return run


def assert_owner(plan: Plan, values: dict[int, Any], j: int) -> None:
    """A new array shares memory with what the plan says, and with nothing else."""
    if not isinstance(values[j], np.ndarray):
        return
    for i, other in values.items():
        if i == j or not isinstance(other, np.ndarray):
            continue
        may_be_view = plan.program.ops[j][0].fresh is None and not plan.program.ops[j][0].is_ufunc
        if np.shares_memory(values[j], other) and not may_be_view:
            assert plan.owners.get(i, i) == plan.owners[j], (plan.program, i, j)


@scalar
def test_owners_describe_shared_memory(f: Any) -> None:
    for program, x in programs_of(f):
        made = plan(program)
        if not any(step.bodies for step in made.steps):
            Watching().compile(made)(x)


@pytest.mark.parametrize("n", [1 << 14, 1 << 17])
def test_the_peak_equals_the_measured_one(n: int) -> None:
    def chain(x: Any) -> Any:
        for _ in range(4):
            x = np.tanh(x * 1.5) + np.sin(x)
        return np.sum(x)

    x = np.linspace(0.0, 1.0, n)
    for f in (
        chain,
        ft.grad(chain),
        ft.grad(ft.checkpoint(chain)),
        lambda x: (np.cos(x)[::2], x[1:]),
    ):
        made = plan(ft.trace(f)(x))
        for backend in (NUMPY, Closures()):
            run = backend.compile(made)
            run(x)
            tracemalloc.start()
            run(x)
            measured = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert measured <= made.peak_bytes + 40_000, (measured, made.peak_bytes)
            assert measured >= 0.9 * made.peak_bytes


def test_a_plan_prints() -> None:
    lines = [
        "a: f64[1000] = tanh x",
        "b: f64[1000] = square a",
        "c: f64[1000] = sub 1.0 b",
        "return a, c, x",
    ]
    program = ft.Program.parse("\n  ".join(["f(x: f64[1000]) {", *lines]) + "\n}")
    assert str(planned(program)) == (
        "f(x: f64[1000])  # at most 24,000 bytes\n"
        "  a: f64[1000] = tanh x     # 8,000 bytes\n"
        "  b: f64[1000] = square a   # 16,000 bytes\n"
        "  c: f64[1000] = sub 1.0 b  # 16,000 bytes, into b, drops b\n"
        "  return a, c, x (a copy)"
    )


@pytest.mark.full
def test_results_that_nothing_reads_are_freed() -> None:
    made = plan(ft.trace(lambda x: np.sum(np.linalg.qr(x)[1]))(np.ones((3, 3))))
    (qr, total) = made.steps
    q, r = made.results(qr)
    assert made.freed(qr) == (*qr.dies, q) and made.freed(total) == (r,)
    assert "drops x, a\n" in str(made)

    x = np.random.default_rng(0).uniform(size=(300, 300))
    made = plan(ft.trace(lambda x: np.sum(np.linalg.qr(np.sin(np.linalg.qr(x)[1] @ x))[1]))(x))
    for backend in (NUMPY, Closures()):
        run = backend.compile(made)
        run(x)
        tracemalloc.start()
        run(x)
        measured = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert measured <= made.peak_bytes + 100_000, (measured, made.peak_bytes)


def test_a_plan_is_frozen() -> None:
    made = plan(ft.trace(np.sin)(X))
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.copied = ()  # type: ignore[misc]
    with pytest.raises(TypeError):
        made.owners[0] = 1  # type: ignore[index]
    with pytest.raises(AttributeError):
        made.groups[0].steps[0].into = 0  # type: ignore[misc]
