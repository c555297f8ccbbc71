"""``checkpoint(f, policy=binomial(slots))``: Python loops by binomial schedules."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.control.schedules import binomial_cost
from functrace.errors import ArgumentError
from functrace.policies import binomial
from functrace.tracing.binding import bind
from tests.api.control_flow.test_checkpointed_loops import COUNT, counted_p
from tests.oracles import assert_same

RNG = np.random.default_rng(7)
W = RNG.normal(size=(6, 6)) * 0.4
X = RNG.normal(size=6)
ROWS = RNG.normal(size=(30, 6))
MATRICES = [RNG.normal(size=(6, 6)) * 0.4 for _ in range(8)]


def plain(x: Any) -> Any:
    for _ in range(30):
        x = np.sin(x) * 0.9 + 0.1 * np.roll(x, 1)
    return np.sum(x)


def rows(x: Any) -> Any:
    for k in range(30):
        x = np.tanh(W @ x + ROWS[k])
    return np.sum(x * x)


def results_of_steps(x: Any) -> Any:
    total = 0.0
    for _ in range(20):
        y = np.cos(x)
        x = np.tanh(W @ y)
        total = total + np.sum(y)
    return total * np.sum(x)


def values_of_the_last_step(x: Any) -> Any:
    for _ in range(12):
        y = np.cos(x)
        z = y * x
        x = np.tanh(W @ z)
    return np.sum(x * z) + np.sum(y)


def two_carries(x: Any) -> Any:
    v = np.zeros(6)
    for _ in range(25):
        v = v - 0.1 * np.sin(x)
        x = x + 0.1 * v
    return np.sum(x**2) + np.sum(v)


def two_loops(x: Any) -> Any:
    for _ in range(10):
        x = np.sin(x) + x * x * 0.1
    x = np.exp(-x)
    for _ in range(15):
        x = np.tanh(W @ x)
    return np.sum(x)


def layers(x: Any) -> Any:
    for m in MATRICES:
        x = np.tanh(m @ x) + x
    return np.sum(x)


def broadcast_operands(x: Any) -> Any:
    """The steps take arrays of other shapes, which broadcast: they are three loops."""
    square = x * np.ones((6, 1))
    for r in (W, *ROWS[:14], *ROWS[14:20, :1]):
        square = np.tanh(square) * r + np.sin(square) * 0.5
        square = np.cos(square) + square * r
    return np.sum(square)


FUNCTIONS = {
    f.__name__: f
    for f in (
        plain, rows, results_of_steps, values_of_the_last_step, two_carries, two_loops, layers,
        broadcast_operands,
    )
}  # fmt: skip


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_derivatives_are_those_of_the_function(f: Any) -> None:
    g = ft.checkpoint(f, policy=binomial(3))
    assert_same(ft.grad(g)(X), ft.grad(f)(X))
    assert_same(ft.jit(ft.grad(g))(X), ft.grad(f)(X))
    assert ft.trace(g)(X) != ft.trace(f)(X)
    batch = np.stack([X, X[::-1]])
    np.testing.assert_allclose(ft.vmap(ft.grad(g))(batch), ft.vmap(ft.grad(f))(batch), rtol=1e-12)
    np.testing.assert_allclose(ft.hessian(g)(X), ft.hessian(f)(X), rtol=1e-9, atol=1e-11)


def test_captured_values_that_are_traced() -> None:
    def f(w: Any, policy: Any) -> Any:
        def inner(x: Any) -> Any:
            for k in range(9):
                x = np.tanh(w @ x + w[k % 6, 0])
            return x

        return np.sum(ft.checkpoint(inner, policy=policy)(X))

    np.testing.assert_allclose(
        ft.grad(f)(W, binomial(2)), ft.grad(f)(W, ft.policies.save), rtol=1e-12
    )


def test_steps_that_run_are_the_binomial_optimum() -> None:
    def f(x: Any) -> Any:
        for _ in range(40):
            x = bind(counted_p, (np.sin(x),), ())
        return np.sum(x)

    COUNT[0] = 0
    ft.grad(ft.checkpoint(f, policy=binomial(4)))(X)
    assert COUNT[0] == binomial_cost(40, 4) + 1


def test_memory_is_that_of_the_slots() -> None:
    x = np.linspace(0.0, 1.0, 20_000)

    def f(x: Any) -> Any:
        for _ in range(100):
            x = x + 0.01 * np.sin(x)
        return np.sum(x)

    def peak(f: Any) -> float:
        g = ft.grad(f)
        g(x)
        tracemalloc.start()
        g(x)
        found = tracemalloc.get_traced_memory()[1] / x.nbytes
        tracemalloc.stop()
        return found

    assert peak(ft.checkpoint(f, policy=binomial(5))) < 12.0
    assert peak(f) > 90.0


def test_a_function_without_equal_steps_raises() -> None:
    for f in (np.sin, lambda x: np.sum(np.sin(np.cos(x)) * x)):
        with pytest.raises(ArgumentError, match="no equal steps"):
            ft.grad(lambda x, f=f: np.sum(ft.checkpoint(f, policy=binomial(3))(x)))(X)
