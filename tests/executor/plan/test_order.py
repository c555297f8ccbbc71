"""The order of operations in a group: equal, and the best there is of those that can be tried."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import functrace as ft
from functrace.executor.plan.fusion import CHEAP, VIEWS
from functrace.executor.plan.order import in_least_cache
from functrace.executor.plan.planner import planned
from functrace.ir.program import Program
from functrace.ir.structures import FusionGroup
from functrace.passes import optimized
from functrace.tracing.evaluate import evaluate_program

UNARY = [np.sin, np.tanh, np.exp, np.square, np.negative, lambda x: x * 0.5]
BINARY = [np.add, np.subtract, np.multiply]


def random_program(seed: int, operations: int) -> Program:
    rng = np.random.default_rng(seed)

    def f(x, y):
        values = [x, y]
        for _ in range(operations):
            a, b = (values[rng.integers(len(values))] for _ in range(2))
            values.append(rng.choice(BINARY)(a, b) if rng.random() < 0.6 else rng.choice(UNARY)(a))
        return values[-1], values[len(values) // 2]

    return ft.trace(f)(*np.linspace(0.1, 1, 12).reshape(2, 6))


def most_alive(program: Program, order: tuple[int, ...]) -> int:
    """The largest number of live results by definition; an operation may write into an operand at
    its last use.
    """
    operands = {k: set(program.ops[k][1]) for k in order}
    last = {i: n for n, k in enumerate(order) for i in operands[k]}
    alive: set[int] = set()
    most = 0
    for n, k in enumerate(order):
        alive = {i for i in alive if last.get(i, -1) > n} | {k}
        most = max(most, sum(bool(program.avals[i].shape) for i in alive))
    return most


def is_order(program: Program, order: tuple[int, ...]) -> bool:
    place = {k: n for n, k in enumerate(order)}
    return all(place.get(i, -1) < place[k] for k in order for i in program.ops[k][1])


@pytest.mark.parametrize("seed", range(40))
def test_an_order_is_equal_and_keeps_as_few_alive_as_any(seed: int) -> None:
    program = random_program(seed, 4 + seed % 4)
    found = in_least_cache(program, 1, CHEAP, VIEWS)
    arguments = [*np.linspace(0.2, 0.9, 12).reshape(2, 6)]
    for a, b in zip(
        evaluate_program(program, arguments), evaluate_program(found, arguments), strict=True
    ):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    schedule = [k for k, _ in program.schedule]
    best = min(
        most_alive(program, order)
        for order in itertools.permutations(schedule)
        if is_order(program, order)
    )
    assert (
        most_alive(found, tuple([k for k, _ in found.schedule])) <= best + 1
    )  # copies of arguments count, too


@pytest.mark.parametrize("operations", [20, 40])
def test_it_is_not_worse_than_before(operations: int) -> None:
    worse = 0
    for seed in range(10):
        program = random_program(seed, operations)
        found = in_least_cache(program, 1, CHEAP, VIEWS)
        before, after = (most_alive(p, tuple([k for k, _ in p.schedule])) for p in (program, found))
        worse += after > before
    assert worse == 0


def test_the_gradient_of_a_sum_of_functions_needs_four_buffers() -> None:
    step = ft.value_and_grad(lambda x: np.sum(np.tanh(x) * np.exp(-(x**2)) + np.log1p(x**2)))
    plan = planned(optimized(ft.trace(step)(np.linspace(-1, 1, 1 << 18))))
    (body,) = [
        step.bodies[0].program for step in plan.steps if isinstance(step.structure, FusionGroup)
    ]
    assert most_alive(body, tuple([k for k, _ in body.schedule])) == 4
