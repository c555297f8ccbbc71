"""Loops and branches as machine code: several phases, stacks of while loops, branches per example."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from tests.oracles import outputs_of

pytest.importorskip("llvmlite", reason="llvmlite is not installed")

from tests.native.test_programs import assert_close, native


def halve(x: Any) -> Any:
    """Halve until the sum is below one."""
    return ft.while_loop(
        lambda c: np.sum(c[0] ** 2) > 1.0, lambda c: (np.sin(c[0]) * 0.7, c[1] + 1), (x, 0)
    )


def halve_bounded(x: Any) -> Any:
    """Halve until the sum is below one, at most 50 times."""
    return ft.while_loop(lambda c: np.sum(c * c) > 1.0, lambda c: np.sin(c) * 0.7, x, max_steps=50)


def whole(f: Callable[..., Any], *arguments: Any) -> None:
    """Compare a program that is one function of machine code with the evaluator."""
    program = ft.trace(f)(*arguments)
    made = native(program)
    leaves = [x if np.ndim(x) else np.asarray(x)[()] for x in arguments]
    for _ in range(2):
        found = made.call(*leaves)
        for one, other in zip(found, outputs_of(ft.evaluate(program, *leaves)), strict=True):
            assert_close(one, other)
    assert made.fallbacks == 0


@pytest.mark.parametrize("size", [1, 3, 100])
def test_derivatives_of_while_loops_are_whole(size: int) -> None:
    x = np.linspace(0.3, 1.4, size) + 1.0
    whole(ft.grad(lambda x: np.sum(np.exp(halve_bounded(x)))), x)
    whole(ft.value_and_grad(lambda x: np.sum(np.exp(halve(x)[0]))), x)
    whole(lambda x: ft.jvp(halve_bounded, (x,), (np.cos(x),)), x)


def test_stacks_of_while_loops_inside_scans() -> None:
    x = np.linspace(1.0, 2.0, 6)

    def f(x: Any) -> Any:
        return ft.scan(lambda c, y: (halve_bounded(c + y * 3.0), np.sum(c)), x, x)[0].sum()

    whole(ft.grad(f), x)


def test_a_loop_of_more_steps_than_memory_runs_by_numpy() -> None:
    x = np.linspace(0.5, 1.0, 10_000)

    def f(x: Any) -> Any:
        count = ft.while_loop(
            lambda c: c[1] < 80, lambda c: (c[0] * 0.99 + np.sin(c[0]) * 0.01, c[1] + 1), (x, 0)
        )
        return np.sum(count[0])

    program = ft.trace(ft.grad(f))(x)
    made = native(program)
    (found,) = made.call(x)
    np.testing.assert_allclose(found, ft.evaluate(program, x), rtol=1e-12)
    assert made.fallbacks == 1


@pytest.mark.parametrize("size", [3, 60])
def test_branches_per_example_are_whole(size: int) -> None:
    x = np.linspace(-1.0, 1.0, 4 * size).reshape(size, 4)

    def f(row: Any) -> Any:
        return ft.cond(np.sum(row) > 0.3, lambda r: np.exp(r) * r[0], lambda r: r * 2.0 - r[1], row)

    def g(row: Any, k: Any) -> Any:
        return ft.switch(k, [lambda r: r + 1.0, lambda r: np.cos(r), lambda r: r * r[0]], row)

    whole(ft.vmap(f), x)
    whole(ft.vmap(ft.grad(lambda r: np.sum(f(r)))), x)
    whole(ft.vmap(g), x, np.arange(size) - 1)
    whole(ft.vmap(f), np.abs(x))
