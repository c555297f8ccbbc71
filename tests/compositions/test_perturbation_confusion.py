"""Perturbation confusion: the derivatives of different levels must not meet (Siskind and
Pearlmutter, 2005 and 2008).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft

Derivative = Callable[[Callable[[Any], Any]], Callable[[Any], Any]]


def forward(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: ft.jvp(f, (x,), (1.0,))[1]


def linearized(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: ft.linearize(f, x)[1](1.0)


def pulled(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: ft.vjp(f, x)[1](1.0)[0]


WAYS: dict[str, Derivative] = {
    "grad": ft.grad,
    "jvp": forward,
    "linearize": linearized,
    "vjp": pulled,
}
pairs = pytest.mark.parametrize(
    "outer, inner",
    [(a, b) for a in WAYS.values() for b in WAYS.values()],
    ids=[f"{a} of {b}" for a in WAYS for b in WAYS],
)


@pairs
def test_derivative_of_x_times_derivative_of_sum(outer: Derivative, inner: Derivative) -> None:
    assert outer(lambda x: x * inner(lambda y: x + y)(1.0))(1.0) == 1.0


@pairs
def test_derivative_of_x_times_derivative_of_product(outer: Derivative, inner: Derivative) -> None:
    assert outer(lambda x: x * inner(lambda y: x * y)(2.0))(3.0) == 6.0


@pairs
def test_constant_inner_function(outer: Derivative, inner: Derivative) -> None:
    assert outer(lambda x: x * inner(lambda y: x * 1.0 + 0.0 * y)(1.0))(5.0) == 0.0


@pairs
def test_inner_derivative_at_the_outer_point(outer: Derivative, inner: Derivative) -> None:
    found = outer(lambda x: inner(lambda y: np.sin(x * y))(x))(0.5)  # x cos(x^2)
    np.testing.assert_allclose(found, np.cos(0.25) - 2 * 0.25 * np.sin(0.25), rtol=1e-14)


@pairs
def test_returned_closure_of_the_outer_level(outer: Derivative, inner: Derivative) -> None:
    # The classic of higher-order functions: D (\x. \y. f(x + y)) applied twice must not mix the two
    # x's.
    shift = lambda offset: lambda f: lambda x: f(x + offset)
    derived = lambda f, x: outer(lambda offset: shift(offset)(f)(x))(0.0)
    twice = lambda x: derived(lambda y: derived(np.exp, y), x)
    np.testing.assert_allclose(twice(1.0), np.e, rtol=1e-14)
    np.testing.assert_allclose(inner(twice)(1.0), np.e, rtol=1e-14)


@pairs
def test_three_levels_of_products(outer: Derivative, inner: Derivative) -> None:
    def f(x: Any) -> Any:
        return x * inner(lambda y: y * outer(lambda z: x * y * z)(y))(x)

    # innermost: x y; middle: d/dy (x y^2) = 2 x y at y = x: 2 x^2; f(x) = 2 x^3.
    np.testing.assert_allclose(outer(f)(2.0), 24.0, rtol=1e-14)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_vmap_between_the_levels(way: Derivative) -> None:
    points = np.array([1.0, 2.0, 3.0])
    found = way(lambda x: np.sum(ft.vmap(lambda p: x * way(lambda y: x + y * p)(p))(points)))(5.0)
    np.testing.assert_allclose(found, 6.0, rtol=1e-14)
    rows = ft.vmap(lambda p: way(lambda x: x * way(lambda y: p * x + y)(p))(p))(points)
    np.testing.assert_allclose(rows, np.ones(3), rtol=1e-14)
