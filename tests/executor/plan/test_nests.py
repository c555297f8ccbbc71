"""Loop nests: a backend that fuses in its own way runs groups, and whole programs, from their
description alone.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import functrace as ft
from functrace.executor.plan.fusion import REDUCTIONS, is_pointwise, write_group
from functrace.executor.plan.loop_nests import Access, LoopNest
from functrace.executor.plan.planner import Plan, Step, plan, planned
from functrace.executor.policy import Policy
from functrace.ir.parts import Rewrite
from functrace.ir.program import Program
from functrace.ir.structures import FusionGroup
from functrace.ops import elementwise as ew
from functrace.tracing.evaluate import evaluate_program
from tests.executor.toy_backend import Closures
from tests.laws.programs import Recipe, programs, seeds


def fused(program: Program) -> Program:
    """A policy of its own: what follows each other, elementwise operations, reductions and views,
    is one group.
    """
    write, order = Rewrite(program), list[int]()
    schedule = [k for k, _ in program.schedule]

    def end() -> None:
        read = {i for k in schedule if k not in order for i in program.ops[k][1]} | {
            *program.output_ids
        }
        operands = dict.fromkeys(
            [i for k in order for i in program.ops[k][1] if i >= 0 and i not in order]
        )
        if len(order) > 1:
            write_group(
                write,
                order,
                [*operands],
                [k for k in order if k in read],
                FusionGroup(program.avals[order[0]].shape),
            )
        else:
            for k in order:
                write.keep(k)
        order.clear()

    for k in schedule:
        primitive = program.ops[k][0]
        if (
            is_pointwise(program, k)
            or primitive in REDUCTIONS
            or (primitive.view and not primitive.effects)
        ):
            order.append(k)
        else:
            end()
            write.keep(k)
    end()
    return write.finish()


class InOrder(Closures):
    """Runs step by step; every reduction in C order, where NumPy's depends on the layout of memory."""

    def function(self, plan: Plan, step: Step) -> Callable[..., Any]:
        primitive, _, params = plan.program.ops[step.first]
        run = super().function(plan, step)
        if primitive in REDUCTIONS:
            run = functools.partial(reduce_in_order, REDUCTIONS[primitive], params[0])
        return lambda *operands, **_: run(
            *[np.array(x, order="C")[()] if isinstance(x, np.ndarray) else x for x in operands]
        )


def reduce_in_order(ufunc: np.ufunc, axes: tuple[int, ...], x: Any) -> tuple[Any]:
    if not x.size:
        return (ufunc.reduce(x, axes),)
    last = np.moveaxis(x, axes, range(x.ndim - len(axes), x.ndim))
    shape = last.shape[: x.ndim - len(axes)]
    return (ufunc.accumulate(last.reshape(*shape, -1), axis=-1)[..., -1],)


class Points(InOrder):
    """Runs loop nests point by point; ``counts`` are the statements of each."""

    policy = Policy(group=fused)

    def __init__(self) -> None:
        self.counts: list[int] = []

    def function(self, plan: Plan, step: Step) -> Callable[..., Any]:
        if isinstance(step.structure, FusionGroup):
            return lambda *operands: self.by_nests(step.bodies[0], *operands)
        return super().function(plan, step)

    def by_nests(self, plan: Plan, *arguments: Any) -> tuple[Any, ...]:
        """Run all of a plan."""
        program = plan.program
        given = {**program.constant_values, **dict(zip(program.input_ids, arguments, strict=True))}
        memory = {i: np.array(x, order="C").reshape(-1) for i, x in given.items()}

        def value(i: int) -> Any:
            root, offset, strides = plan.views.get(i) or (i, 0, None)
            aval = program.avals[i]
            return np.ndarray(aval.shape, aval.dtype, memory[root], offset, strides)[()]

        for part in plan.nests:
            if isinstance(part, LoopNest):
                self.counts.append(len(part.statements))
                run_nest(plan, part, memory)
                continue
            operands = [
                value(i) if i >= 0 else program.literals[~i] for i in program.ops[part.first][1]
            ]
            made = super().function(plan, part)(*operands)
            for j, x in zip(plan.results(part), made, strict=True):
                memory[j] = np.array(x, order="C").reshape(-1)
        return tuple([np.copy(value(i))[()] for i in program.output_ids])


def run_nest(plan: Plan, nest: LoopNest, memory: dict[int, Any]) -> None:
    for statement in nest.statements:
        aval = plan.program.avals[statement.first]
        start = (
            0 if statement.by is None or statement.by.identity is None else statement.by.identity
        )
        memory[statement.result.variable] = np.full(math.prod(aval.shape), start, aval.dtype)
    for point in np.ndindex(nest.space):
        for statement in nest.statements:
            typed = plan.typed[statement.first]
            values = [
                element(memory, x, point) if isinstance(x, Access) else x
                for x in statement.operands
            ]
            values = [x.astype(dtype) for x, dtype in zip(values, typed.dtypes, strict=True)]
            primitive, _, params = plan.program.ops[statement.first]
            result = values[0] if statement.by is not None else primitive.eval(*values, *params)
            if any(point[a] for a in statement.reduced):
                result = statement.by(element(memory, statement.result, point), result)
            memory[statement.result.variable][place(statement.result, point)] = result


def element(memory: dict[int, Any], access: Access, point: tuple[int, ...]) -> Any:
    return memory[access.variable].view(access.dtype)[place(access, point)]


def place(access: Access, point: tuple[int, ...]) -> int:
    return access.offset + sum([s * i for s, i in zip(access.strides, point, strict=True)])


def check(f: Any, *args: Any) -> list[int]:
    """Run in fusion groups, and as one; return the statements of each loop nest of the program as
    one.
    """
    program = ft.trace(f)(*args)
    expected = InOrder().compile(plan(program, Policy()))(*args)
    for found, value in zip(expected, evaluate_program(program, args), strict=True):
        np.testing.assert_allclose(found, value, 1e-9, 1e-9)
    backend = Points()
    runs = [
        backend.compile(plan(program, backend.policy)),
        lambda *x: backend.by_nests(plan(program, Policy()), *x),
    ]
    for run in runs:
        backend.counts.clear()
        for found, value in zip(run(*args), expected, strict=True):
            assert found.dtype == value.dtype and found.shape == value.shape
            np.testing.assert_array_equal(found, value)
    return backend.counts


pytestmark = pytest.mark.bits

X = np.linspace(-1.0, 2.0, 12).reshape(3, 4)
ROW = np.array([0.5, -1.0, 2.0, 0.25])


def test_a_chain_is_one_loop_nest() -> None:
    assert check(
        lambda x, row: (np.tanh(x * row + 2) ** 2 / np.arange(1, 4)[:, None]) > 0.25, X, ROW
    ) == [6]


def test_readers_of_a_reduction_begin_another_loop_nest() -> None:
    def softmax(x: Any) -> Any:
        e = np.exp(x - np.max(x, axis=1, keepdims=True))
        return e / np.sum(e, axis=1, keepdims=True)

    assert check(softmax, X) == [1, 3, 1]


def test_reductions_are_in_the_loop_nest_of_their_operands() -> None:
    def f(x: Any) -> Any:
        y = np.sin(x) * 2.0
        return (
            np.sum(y, axis=0),
            np.min(y, axis=1),
            np.sum(y > 0),
            np.prod(y),
            np.any(y > 1.9, axis=0),
            y,
        )

    (count,) = {*check(f, X)} - {1}
    assert count == 9


def test_views_are_index_maps() -> None:
    assert check(lambda x: x.T * 2.0 + x.reshape(4, 3) - x[::-1, ::-1].T[:, :1] + x[1, 2], X) == [4]
    assert check(lambda z: np.real(z[1:]) * z.imag[:-1] + 1.0, X + 1j * X[::-1]) == [2]
    y = np.arange(6.0).reshape(2, 3)
    assert check(lambda x: (lambda a: a + a[::-1] * 2.0)(np.sin(x)), y) == [
        1,
        2,
    ]  # another element: another loop nest


def test_steps_without_a_loop_nest_stay_steps() -> None:
    def f(x: Any) -> Any:
        a = np.tanh(x) * 2.0
        return np.sum(np.exp(a @ a.T) + 1.0, axis=0), np.concatenate([a, a * 3.0])

    assert sum(check(f, X)) == 6
    made = plan(ft.trace(f)(X), Policy())
    assert sum([not isinstance(part, LoopNest) for part in made.nests]) == 2


def test_a_fusion_group_of_numpy_has_a_loop_nest() -> None:
    x = np.linspace(0.0, 1.0, 1 << 18)
    made = plan(ft.trace(ft.grad(lambda x: np.sum(np.tanh(x) * np.exp(-x * x))))(x))
    (group,) = [step for step in made.steps if isinstance(step.structure, FusionGroup)]
    (nest,) = group.bodies[0].nests
    assert isinstance(nest, LoopNest) and nest.space == x.shape
    assert all(
        access.strides == (1,)
        for s in nest.statements
        for access in s.operands
        if isinstance(access, Access)
    )


def test_literals_are_typed_elements() -> None:
    made = planned(
        ft.trace(lambda x: np.where(x > 1, 2, x) * np.float32(0.5))(np.ones(3, np.float32))
    )
    (nest,) = made.nests
    assert isinstance(nest, LoopNest)
    assert [type(x) for s in nest.statements for x in s.operands if not isinstance(x, Access)] == [
        np.float32
    ] * 2
    assert made.program.ops[nest.statements[1].first][0] is ew.where


def test_empty_spaces_reduce_to_the_identity() -> None:
    check(lambda x: (np.sum(x[:, :0], axis=1), np.prod(x[:0] * 2.0, axis=0), np.all(x[:0] > 0)), X)


@given(programs(), seeds())
def test_random_programs_run_by_their_loop_nests(recipe: Recipe, seed: int) -> None:
    arguments = recipe.arguments(seed)

    def pulled(*values: Any) -> Any:
        results, pullback = ft.vjp(recipe, *values)
        return results, pullback(tuple(np.cos(y) for y in results))

    with np.errstate(all="ignore"):
        check(recipe, *arguments)
        check(pulled, *arguments)
