"""A stack of matrices times one matrix is one product, where nothing has to be copied for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.passes import without
from functrace.passes.matmul_selection import flatten_stacks

RNG = np.random.default_rng(0)
WHOLE = [without("batched matmul"), without("small matmul")]


def words(program: ft.Program) -> list[str]:
    return [str(op[0]) for op in program.ops]


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
@pytest.mark.parametrize("shape", [(2, 3, 4), (5, 2, 3, 4), (3, 2, 2)], ids=str)
def test_products_of_stacks_are_those_without_the_pass(shape: tuple[int, ...], dtype: str) -> None:
    x, w = RNG.normal(size=shape).astype(dtype), RNG.normal(size=(shape[-1], 5)).astype(dtype)

    def f(x: Any, w: Any) -> Any:
        return np.tanh(x) @ w

    def loss(x: Any, w: Any) -> Any:
        return np.sum(np.abs(f(x, w)) ** 2)

    program = flatten_stacks(ft.trace(f)(x, w)).check()
    assert words(program)[-3:] == ["reshape", "matmul", "reshape"]
    for g in (f, ft.grad(loss, argnums=(0, 1)), ft.vmap(f, in_axes=(0, None))):
        expected, found = ft.jit(g, passes=WHOLE)(x, w), ft.jit(g)(x, w)
        for a, b in zip(ft.tree.leaves(found), ft.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5 if dtype == "f4" else 1e-13)
            assert a.dtype == b.dtype


def test_bodies_have_them_too() -> None:
    x, w = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(4, 4))

    def f(x: Any, w: Any) -> Any:
        return ft.while_loop(lambda y: np.sum(y * y) < 1e3, lambda y: np.sin(y) @ w + y, x)

    assert str(flatten_stacks(ft.trace(f)(x, w))).count(" reshape ") == 2
    np.testing.assert_allclose(ft.jit(f)(x, w), f(x, w), rtol=1e-9)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, w: np.swapaxes(x, 0, 1) @ w,
        lambda x, w: x @ x.swapaxes(1, 2),
        lambda x, w: w.T @ np.swapaxes(x, 1, 2),
        lambda x, w: x[:1] @ w,
        lambda x, w: x[0] @ w,
        lambda x, w: x @ w[:, 0],
    ],
)
def test_others_stay_as_they_are(f: Any) -> None:
    program = ft.trace(f)(RNG.normal(size=(2, 3, 4)), RNG.normal(size=(4, 5)))
    assert flatten_stacks(program) is program
