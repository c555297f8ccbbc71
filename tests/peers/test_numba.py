"""Kernels that numba compiles, which take plain arrays only: primitives of ours inside every
transform.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import UnsupportedFunctionError

numba = pytest.importorskip("numba")

X = np.array([0.4, -1.1, 0.8, 0.3])
BATCH = np.stack([X, X[::-1], 2.0 * X])
WEIGHTS = np.array([1.0, -0.5, 2.0, 0.7])


@numba.njit
def _smoothed(x: Any, rate: float) -> Any:
    out = np.empty_like(x)
    last = 0.0
    for i in range(x.size):
        last = rate * last + (1.0 - rate) * x[i] ** 3
        out[i] = last
    return out


@numba.njit
def _smoothed_back(ct: Any, x: Any, rate: float) -> Any:
    out = np.empty_like(x)
    last = 0.0
    for i in range(x.size - 1, -1, -1):
        last = rate * last + ct[i]
        out[i] = (1.0 - rate) * last * 3.0 * x[i] ** 2
    return out


def like(x: Any, *_: Any) -> Any:
    return x


RATE = 0.3


def smoothed() -> Callable[[Any], Any]:
    """An exponential average of cubes, whose first derivative is compiled, too."""
    cubes = ft.primitive(lambda x: _smoothed(np.ascontiguousarray(x), RATE), results=like)
    back = ft.primitive(
        lambda ct, x: _smoothed_back(np.ascontiguousarray(ct), np.ascontiguousarray(x), RATE),
        results=like,
    )
    cubes.defvjp(lambda ct, y, x: (back(ct, x),))
    back.defvjp(lambda ct, y, g, x: (_along(ct, x), ct * y * 2.0 / x))
    return cubes


def _along(t: Any, x: Any) -> Any:
    """The derivative of the averages of cubes along ``t``."""
    powers = RATE ** np.maximum(np.arange(4)[:, None] - np.arange(4), 0) * np.tri(4)
    return (1.0 - RATE) * powers @ (t * 3.0 * x**2)


def written_out(x: Any) -> Any:
    """The same in NumPy."""
    powers = RATE ** np.maximum(np.arange(4)[:, None] - np.arange(4), 0) * np.tri(4)
    return (1.0 - RATE) * powers @ x**3


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: ft.grad(f)(X),
    "hessian": lambda f: ft.hessian(f)(X),
    "jit hessian": lambda f: ft.jit(ft.hessian(f))(X),
    "jit vmap": lambda f: ft.jit(ft.vmap(f))(BATCH),
    "jit vmap grad": lambda f: ft.jit(ft.vmap(ft.grad(f)))(BATCH),
    "jit vmap hessian": lambda f: ft.jit(ft.vmap(ft.hessian(f)))(BATCH),
    "checkpoint": lambda f: ft.grad(ft.checkpoint(f))(X),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_kernel_is_a_primitive(transform: str) -> None:
    kernel = smoothed()
    found = TRANSFORMS[transform](lambda x: np.sum(np.sin(kernel(x)) * WEIGHTS))
    expected = TRANSFORMS[transform](lambda x: np.sum(np.sin(written_out(x)) * WEIGHTS))
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


def test_a_kernel_without_rules_is_called_as_it_is() -> None:
    averages = ft.pure_callback(lambda x: _smoothed(np.ascontiguousarray(x), RATE), X, X)
    np.testing.assert_allclose(averages, written_out(X))
    staged = ft.jit(
        lambda x: ft.pure_callback(lambda x: _smoothed(np.ascontiguousarray(x), RATE), x, x) * 2.0
    )
    np.testing.assert_allclose(staged(X), 2.0 * written_out(X))


def test_a_kernel_on_traced_values_raises() -> None:
    with pytest.raises(
        UnsupportedFunctionError,
        match=r"TracedArray[\s\S]*test_numba\.py[\s\S]*functrace\.primitive",
    ):
        ft.grad(lambda x: np.sum(_smoothed(x, RATE)))(X)
