"""Equal steps of unrolled Python loops become loops of XLA, with the same results."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import functrace as ft

pytest.importorskip("jax", reason="jax is not installed")

from functrace.passes.rerolling import Region, evaluation_order, loops_in
from functrace.xla.program import XlaBackend, XlaProgram

RNG = np.random.default_rng(0)
X, W, ROWS = RNG.normal(size=6), RNG.normal(size=(6, 6)) / 3, RNG.normal(size=(30, 6))


def regions(f: Callable[..., Any], *args: Any) -> tuple[Region, ...]:
    program = XlaProgram(ft.trace(f)(*args), (), XlaBackend()).program
    return loops_in(program, evaluation_order(program))


def check(f: Callable[..., Any], *args: Any) -> None:
    found = ft.tree.leaves(ft.jit(f, backend="xla")(*args))
    expected = ft.tree.leaves(ft.jit(f, backend="numpy")(*args))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def relaxed(x: Any) -> Any:
    for _ in range(40):
        x = np.sin(x) * 0.9 + 0.1 * np.roll(x, 1)
    return np.sum(x)


def momentum(x: Any, w: Any) -> Any:
    v = np.zeros_like(x)
    for _ in range(25):
        v = 0.9 * v - w @ x
        x = x + 0.1 * v
    return np.sum(x * x)


def layers(x: Any, ws: Any) -> Any:
    for w in ws:
        x = np.tanh(w @ x)
    return np.sum(x)


def over_rows(xs: Any) -> Any:
    total = 0.0
    for k in range(30):
        total = np.sin(total) * 0.5 + np.sin(xs[k]) @ xs[k]
    return total


def kept(x: Any) -> Any:
    """All steps are results."""
    found = []
    for _ in range(20):
        x = np.sin(x) + x * 0.5 - 0.1
        found.append(x)
    return np.stack(found), found[3], found[-1]


def two_steps_back(x: Any) -> Any:
    a, b = x, x * 0.5
    for _ in range(40):
        a, b = b, np.cos(a) + b * 0.1
    return a + b


def changing(x: Any) -> Any:
    """The steps differ: no loop."""
    for k in range(60):
        x = np.sin(x) * (0.1 * k)
    return x


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int]] = {
    "relaxed": (relaxed, (X,), 1),
    "gradient": (ft.grad(relaxed), (X,), 2),
    "second order": (ft.hessian(relaxed), (X[:3],), 2),
    "momentum": (ft.grad(momentum, argnums=(0, 1)), (X, W), 2),
    "layers": (ft.grad(layers, argnums=(0, 1)), (X, [W + 0.01 * k for k in range(30)]), 2),
    "rows": (over_rows, (ROWS,), 1),
    "rows, gradient": (ft.grad(over_rows), (ROWS,), 2),
    "kept": (kept, (X,), 1),
    "kept, vjp": (lambda x: ft.vjp(kept, x)[1](tuple(np.ones_like(y) for y in kept(x))), (X,), 2),
    "two steps back": (two_steps_back, (X,), 1),
    "changing": (changing, (X,), 0),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_numpy(name: str) -> None:
    f, args, _ = CASES[name]
    check(f, *args)


@pytest.mark.parametrize("name", CASES)
def test_loops_are_found(name: str) -> None:
    f, args, count = CASES[name]
    found = regions(f, *args)
    assert len(found) == count
    for region in found:
        assert region.steps >= 19


def test_a_loop_is_one_loop_of_the_module() -> None:
    run = XlaProgram(ft.trace(ft.grad(relaxed))(X), (), XlaBackend())
    text = run.staged().as_text()
    assert text.count("stablehlo.while") == 2
    # (one step of each loop, and one cosine of a step that is left)
    assert text.count("stablehlo.sine ") + text.count("stablehlo.cosine ") <= 3


def test_errors_of_rolled_steps_are_raised() -> None:
    def walk(x: Any, k: Any) -> Any:
        for _ in range(30):
            k = (k * 2 + x[k].astype(int)) + 1
        return k

    run = ft.jit(walk, backend="xla")
    assert run(np.full(200, -2.0), np.int64(1)) == walk(np.full(200, -2.0), np.int64(1))
    with pytest.raises(IndexError, match="out of bounds"):
        run(np.zeros(200), np.int64(1))


def test_long_programs_without_loops_give_a_warning() -> None:
    def long(x: Any) -> Any:
        for k in range(300):
            x = np.sin(x) * (0.001 * k)
        return x

    with pytest.warns(RuntimeWarning, match=r"functrace\.scan"):
        ft.jit(long, backend="xla")(X)


OPERATIONS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda a, b: a + b,
    lambda a, b: a * b * 0.5,
    lambda a, b: np.sin(a) - b,
    lambda a, b: np.roll(a, 1) + 0.1 * b,
    lambda a, b: np.where(a > b, a * 0.9, b),
    lambda a, b: a - np.mean(b),
    lambda a, b: np.tanh(W @ a) + b * 0.1,
)


@settings(max_examples=12)
@given(
    st.lists(st.tuples(*[st.integers(0, 6)] * 4), min_size=2, max_size=5),
    st.integers(5, 30),
    st.booleans(),
)
def test_random_recurrences(recipe: list[tuple[int, ...]], steps: int, is_gradient: bool) -> None:
    def f(x: Any) -> Any:
        state = [x, x * 0.5, np.cos(x)]
        for _ in range(steps):
            for number, first, second, target in recipe:
                made = OPERATIONS[number % len(OPERATIONS)](state[first % 3], state[second % 3])
                state[target % 3] = np.tanh(made)
        return np.sum(state[0] * state[1]) + np.sum(state[2])

    check(ft.grad(f) if is_gradient else f, X)


def test_a_stack_that_begins_elsewhere_is_copied_as_a_whole() -> None:
    def chain(x: Any) -> Any:
        for _ in range(100):
            x = np.tanh(np.roll(np.sin(x), 1) * 1.01 + 0.1)
        return np.sum(x)

    run = XlaProgram(ft.trace(ft.grad(chain))(X), (), XlaBackend())
    text = run.staged().as_text()
    assert text.count("stablehlo.while") == 2
    assert text.count("stablehlo.slice") < 20
    check(ft.grad(chain), X)


@pytest.mark.parametrize("steps", [50, 800])
def test_elementwise_steps_are_a_loop_where_there_are_many(steps: int) -> None:
    def chain(x: Any) -> Any:
        for _ in range(steps):
            x = np.sin(x) * 0.5 + x
        return x

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = XlaProgram(ft.trace(chain)(X), (), XlaBackend())
    assert run.staged().as_text().count("stablehlo.while") == (steps > 700)
    check(chain, X)
