"""Predicted peaks of loops and branches: one case for each way in which memory is held or freed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from tests.executor.memory.test_random_programs import measured

SLACK = 150_000
"""Bytes that are no arrays."""
RNG = np.random.default_rng(0)
X = RNG.uniform(0.1, 0.9, size=100_000)
ROWS = RNG.uniform(0.1, 0.9, size=(40_000, 3, 4))


def carries_in_turn(x: Any) -> Any:
    return ft.fori_loop(0, 6, lambda _, c: np.sin(c) * 0.5, x)


def a_carry_that_dies_in_a_step(x: Any) -> Any:
    def step(_: Any, c: Any) -> Any:
        y = np.sort(c)
        return np.cumsum(y[::-1] - np.mean(y))

    return ft.fori_loop(0, 6, step, x)


def rotated_carries(x: Any) -> Any:
    step = lambda _, c: (c[1], c[2], np.cumsum(c[0]) * 1e-3)
    return ft.fori_loop(0, 9, step, (x, 2.0 * x, 3.0 * x))[0]


def swapped_carries(x: Any) -> Any:
    return ft.fori_loop(0, 6, lambda _, c: (c[1], np.sin(c[0])), (x, np.cos(x)))[1]


def carries_that_are_not_read(x: Any) -> Any:
    ys = ft.scan(lambda c, k: (np.sin(c) * k, np.cos(c)), x, np.arange(3.0))[1]
    return np.sort(np.sum(np.cumsum(ys, axis=0), axis=0))


def no_steps(x: Any) -> Any:
    return ft.fori_loop(0, 0, lambda _, c: np.log1p(np.sort(c) + np.cumsum(c)), np.sin(x))


def one_step(x: Any) -> Any:
    return ft.fori_loop(0, 1, lambda _, c: np.log1p(np.sort(c) + np.cumsum(c)), np.sin(x))


def long_body(x: Any) -> Any:
    """Too long to be inlined."""

    def step(c: Any, k: Any) -> Any:
        for _ in range(40):
            c = np.sin(c) * k
        return c, np.cos(c)

    return np.sum(ft.scan(step, x, np.linspace(0.5, 1.0, 4))[1], axis=0)


def nested(x: Any) -> Any:
    def outer(c: Any, k: Any) -> Any:
        inner = lambda d, m: (np.sort(d * m) + c, np.sum(d))
        c, ys = ft.scan(inner, np.cos(c), np.arange(4.0))
        return c * k, c + np.sum(ys)

    return ft.scan(outer, x, np.arange(3.0))[0]


def until(x: Any) -> Any:
    more = lambda s: s[1] < 5 + (np.sum(s[0]) > 1e300)
    return ft.while_loop(more, lambda s: (np.sin(np.sort(s[0]) + x), s[1] + 1), (x, 0))[0]


def chosen(x: Any) -> Any:
    large = lambda v: np.sort(np.cumsum(v) + v[::-1]) * np.cumsum(v)
    return np.sin(ft.cond(np.sum(x) > 0.0, large, np.negative, x))


def chosen_in_a_loop(x: Any) -> Any:
    return ft.fori_loop(0, 4, lambda _, c: ft.cond(np.sum(c) > 0.0, np.sort, np.sin, c) + c, x)


CASES: list[Callable[..., Any]] = [
    carries_in_turn, a_carry_that_dies_in_a_step, rotated_carries, swapped_carries,
    carries_that_are_not_read, no_steps, one_step, long_body, nested, until, chosen,
    chosen_in_a_loop,
]  # fmt: skip


def slices(x: Any) -> Any:
    """A fusion group whose operands are slices along another axis than the first runs whole."""
    step = lambda c, v: (
        np.sum(np.sin(v) * np.cos(v) * np.exp(-v)) + c,
        np.tanh(v) * np.cos(v) + 1.0,
    )
    return ft.scan(step, 0.0, x)[1]


def chosen_for_each(x: Any) -> Any:
    longer = lambda v: np.log(v + np.sqrt(v * v + 1.0)) * np.cos(v)
    return ft.cond(np.sum(x) > 6.0, longer, np.sin, x)


def until_each(x: Any) -> Any:
    more = lambda s: (s[1] < 4) & (np.sum(s[0]) < 100.0)
    return ft.while_loop(more, lambda s: (np.sin(s[0]) + x, s[1] + 1), (x, 0))[0]


BATCHED: list[Callable[..., Any]] = [slices, chosen_for_each, until_each]


def check(run: Callable[..., Any], x: Any, most: int = 0) -> None:
    """Check the predicted peak; ``most`` is the number of steps of loops of unknown length."""
    for _ in range(2):
        run(x)
    made = ft.memory_plan(run)(x)
    found = measured(lambda: run(x))
    predicted = made.peak_bytes + most * made.nbytes_each
    assert abs(found - predicted) <= 0.1 * found + SLACK, (found, str(made))
    for point in made.points:
        assert sum(value.nbytes for value in made.alive(point.index)) == point.nbytes, point
    assert all(made.why(value, made.peak.index) for value in made.at_peak if made.peak)


def of_sum(f: Callable[..., Any]) -> Callable[..., Any]:
    return ft.grad(lambda x: np.sum(f(x)))


@pytest.mark.numpy_source
@pytest.mark.parametrize("gradient", [False, True], ids=["value", "gradient"])
@pytest.mark.parametrize("f", CASES, ids=[f.__name__ for f in CASES])
def test_compiled_loops_and_branches(f: Any, gradient: bool) -> None:
    check(ft.jit(of_sum(f) if gradient else f), X, 5 if f is until else 0)


@pytest.mark.numpy_source
@pytest.mark.parametrize("gradient", [False, True], ids=["value", "gradient"])
@pytest.mark.parametrize("f", BATCHED, ids=[f.__name__ for f in BATCHED])
def test_loops_and_branches_of_a_batch(f: Any, gradient: bool) -> None:
    g = ft.vmap(f)
    check(ft.jit(of_sum(g) if gradient else g), ROWS, 4 if f is until_each else 0)


@pytest.mark.numpy_source
@pytest.mark.parametrize("subscripts", ["ab,cb->ac", "abc,cbd->ad", "abc,dba->dc", "abc,adc->bd"])
@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (2, 0, 1)], ids=str)
def test_contractions_of_operands_in_other_orders(subscripts: str, axes: tuple[int, ...]) -> None:
    left, right = subscripts.partition("->")[0].split(",")
    rank = len(left)
    order = tuple(a for a in axes if a < rank)
    x = RNG.normal(size=(90,) * rank)
    y = RNG.normal(size=(90,) * len(right))
    f = lambda x: np.einsum(subscripts, np.transpose(x, order), np.transpose(y)) * 2.0
    check(ft.jit(f), x)


@pytest.mark.parametrize("n", [1024, 4096])
def test_tiles_of_machine_code(n: int) -> None:
    pytest.importorskip("llvmlite")
    ws = [RNG.normal(size=(128, 128)) / 12.0 for _ in range(4)]
    x = RNG.normal(size=(n, 128))

    def loss(ws: Any) -> Any:
        h = x
        for w in ws:
            h = np.tanh(h @ w)
        return np.mean(h * h)

    check(ft.jit(ft.grad(loss), backend="native"), ws)
