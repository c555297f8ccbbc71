"""Derivatives inside derivatives: grad of a function that calls grad, vjp of vjp, triple nesting,
closures.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft
from tests.compositions.functions import V, X, jacobian_by_differences, scalar, vector


@scalar
def test_grad_of_function_that_calls_grad(f: Any) -> None:
    def gradient_norm(x: Any) -> Any:
        return np.sum(ft.grad(f)(x) ** 2)

    expected = 2.0 * ft.hessian(f)(X) @ ft.grad(f)(X)
    np.testing.assert_allclose(ft.grad(gradient_norm)(X), expected, rtol=1e-10)
    np.testing.assert_allclose(
        ft.grad(gradient_norm)(X), jacobian_by_differences(gradient_norm, X), rtol=1e-6
    )


@scalar
def test_grad_of_gradient_step(f: Any) -> None:
    def after_step(rate: Any) -> Any:
        return f(X - rate * ft.grad(f)(X))

    def after_step_from(x: Any) -> Any:
        return f(x - 1e-3 * ft.grad(f)(x))

    rate = np.array(1e-3)
    np.testing.assert_allclose(
        ft.grad(after_step)(rate), jacobian_by_differences(after_step, rate)[()], rtol=1e-4
    )
    np.testing.assert_allclose(
        ft.grad(after_step_from)(X),
        jacobian_by_differences(after_step_from, X),
        rtol=1e-6,
        atol=1e-7,
    )


def test_vjp_of_vjp() -> None:
    def pulled(x: Any, bar: Any) -> Any:
        _, pullback = ft.vjp(vector, x)
        return pullback(bar)[0]

    bar = np.array([0.5, -2.0])
    value, pullback = ft.vjp(pulled, X, bar)
    np.testing.assert_allclose(value, bar @ jacobian_by_differences(vector, X), rtol=1e-8)
    x_bar, bar_bar = pullback(V)
    hessians = ft.hessian(vector)(X)
    np.testing.assert_allclose(x_bar, np.einsum("i,ijk,k->j", bar, hessians, V), rtol=1e-11)
    np.testing.assert_allclose(bar_bar, ft.jacrev(vector)(X) @ V, rtol=1e-11)


def test_pullback_in_its_cotangent_is_linear() -> None:
    _, pullback = ft.vjp(vector, X)
    found = ft.jacrev(lambda bar: pullback(bar)[0])(np.ones(2))
    np.testing.assert_allclose(found, ft.jacrev(vector)(X).T, rtol=1e-12)


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5])
def test_grad_nested_to_any_depth(depth: int) -> None:
    f: Any = lambda x: np.exp(2.0 * x) + x**6
    for _ in range(depth):
        f = ft.grad(f)
    x = 0.3
    falling = np.prod([6.0 - k for k in range(depth)])
    np.testing.assert_allclose(
        f(x), 2.0**depth * np.exp(2 * x) + falling * x ** (6 - depth), rtol=1e-12
    )


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_jvp_nested_to_any_depth(depth: int) -> None:
    f: Any = np.sin
    for _ in range(depth):
        f = (lambda g: lambda x: ft.jvp(g, (x,), (1.0,))[1])(f)
    expected = [np.cos(0.3), -np.sin(0.3), -np.cos(0.3), np.sin(0.3)][depth - 1]
    np.testing.assert_allclose(f(0.3), expected, rtol=1e-12)


def test_triple_nesting_of_different_transforms() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.sin(x) * x**2)

    third = lambda x: 6 * np.cos(x) - 6 * x * np.sin(x) - x**2 * np.cos(x)
    second = lambda x: 2 * np.sin(x) + 4 * x * np.cos(x) - x**2 * np.sin(x)
    diagonal = ft.vmap(lambda x: ft.grad(lambda y: ft.jvp(ft.grad(f), (y,), (1.0,))[1])(x))(X)
    np.testing.assert_allclose(diagonal, third(X), rtol=1e-11)
    inner = ft.grad(lambda x: np.sum(ft.vmap(lambda y: ft.jvp(f, (y,), (1.0,))[1])(x)))(X)
    np.testing.assert_allclose(inner, second(X), rtol=1e-11)


def test_closure_over_outer_values() -> None:
    def outer(x: Any) -> Any:
        def inner(y: Any) -> Any:
            return np.sum(y**2 * x) * np.sum(x)

        return np.sum(ft.grad(inner)(x * 2.0))

    def by_hand(x: Any) -> Any:
        return np.sum(2.0 * (2.0 * x) * x) * np.sum(x)

    np.testing.assert_allclose(outer(X), by_hand(X), rtol=1e-13)
    np.testing.assert_allclose(ft.grad(outer)(X), jacobian_by_differences(by_hand, X), rtol=1e-8)


def test_closure_over_values_of_two_outer_levels() -> None:
    def f(x: Any) -> Any:
        def g(y: Any) -> Any:
            def h(z: Any) -> Any:
                return x * y * z**2

            return ft.grad(h)(y + x)

        return ft.grad(g)(x)

    # h' = 2xyz at z = y + x: g(y) = 2xy(y + x); g' = 4xy + 2x^2 at y = x: f(x) = 6 x^2.
    np.testing.assert_allclose(f(1.5), 6 * 1.5**2, rtol=1e-14)
    np.testing.assert_allclose(ft.grad(f)(1.5), 12 * 1.5, rtol=1e-14)
    np.testing.assert_allclose(ft.grad(ft.grad(f))(1.5), 12.0, rtol=1e-14)


def test_inner_transform_of_outer_values_only() -> None:
    gradient = ft.grad(lambda x: x * ft.grad(lambda y: y**3)(2.0))(5.0)
    assert gradient == 12.0


def test_stop_gradient_cuts_one_level_each() -> None:
    f = lambda x: x * ft.stop_gradient(x**2)
    assert ft.grad(f)(3.0) == 9.0
    assert ft.grad(ft.grad(f))(3.0) == 0.0


def test_value_inside_nested_grad_is_plain() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        seen.append(ft.value(x))
        return x**3

    assert ft.grad(ft.grad(f))(2.0) == 12.0
    assert seen == [2.0]
    assert not isinstance(seen[0], type(None)) and isinstance(
        seen[0], np.float64 | np.ndarray | float
    )


def test_trace_of_grad_and_evaluate_under_grad() -> None:
    program = ft.trace(ft.grad(lambda x: np.sum(x**3)))(X).check()
    np.testing.assert_allclose(ft.evaluate(program, X), 3 * X**2, rtol=1e-14)
    again = ft.jacrev(lambda x: ft.evaluate(program, x))(X)
    np.testing.assert_allclose(again, np.diag(6 * X), rtol=1e-14)
    mapped = ft.vmap(lambda x: ft.evaluate(program, x))(np.stack([X, V]))
    np.testing.assert_allclose(mapped, 3 * np.stack([X, V]) ** 2, rtol=1e-14)


def test_same_function_at_two_levels_at_once() -> None:
    f = lambda x: np.sin(x) * x
    both = lambda x: f(x) * ft.grad(f)(x)
    d = lambda x: np.cos(x) * x + np.sin(x)
    dd = lambda x: 2 * np.cos(x) - x * np.sin(x)
    np.testing.assert_allclose(ft.grad(both)(0.7), d(0.7) ** 2 + f(0.7) * dd(0.7), rtol=1e-13)
