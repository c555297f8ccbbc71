"""In-place NumPy on traced values, under grad, vmap, trace, nested: NumPy's meaning; the caller's
arrays do not change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from tests.compositions.functions import BATCH, X, jacobian_by_differences


def shifted(x: Any) -> Any:
    y = np.zeros_like(x)
    y[1:] = x[:-1]
    y *= 2
    return y


def masked(x: Any) -> Any:
    y = np.sin(x)
    y[np.array([True, False, True])] *= 3.0
    y[[0, 1]] += x[[1, 2]]
    return y


def through_views(x: Any) -> Any:
    y = x * 1.0
    tail = y[1:]
    tail[::-1][0] = y[0] ** 2
    tail += 1.0
    y[0] = tail[0] * tail[1]
    return y


def reshaped(x: Any) -> Any:
    y = np.stack([x, x * 2.0])
    column = y.T[1]
    column *= column
    y.reshape(-1)[0] = y[1, 1]
    return y


def augmented(x: Any) -> Any:
    y = x.copy()
    alias = y
    y += x
    y -= 0.5 * x
    y /= 2.0
    y **= 2
    return alias * y


def out_of_traced(x: Any) -> Any:
    y = np.zeros_like(x)
    np.multiply(x, 3.0, out=y)
    np.add.at(y, [0, 0], x[1])
    return y


def accumulated(x: Any) -> Any:
    y = np.zeros_like(x)
    for k in range(3):
        y[k] = x[k] + (y[k - 1] if k else 0.0)
        y[: k + 1] *= np.cos(x[k])
    return y


def out_where(x: Any) -> Any:
    return np.add(x, 1.0, where=x > 0, out=x * 3.0)


def split_and_iterated(x: Any) -> Any:
    y = np.outer(x, x)
    first, second, _ = np.split(y, 3)
    first *= 2.0
    second += first
    for row in y:
        row *= row[0]
    return y


def swapped(x: Any) -> Any:
    y = x * 1.0
    y[[0, 1]] = y[[1, 0]]
    y[1:] += y[:-1]
    y[1], y[2] = y[2], y[1]
    np.copyto(y[:1], x[2:] ** 2)
    return y


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    f.__name__: f
    for f in (
        shifted, masked, through_views, reshaped, augmented, out_of_traced, accumulated, out_where,
        split_and_iterated,
        swapped,
    )
}  # fmt: skip
each = pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)


@each
def test_in_place_value_and_caller_unchanged(f: Any) -> None:
    x = X.copy()
    found, _ = ft.vjp(f, x)
    np.testing.assert_allclose(found, f(X.copy()), rtol=1e-14)
    np.testing.assert_array_equal(x, X)


@each
def test_in_place_under_grad(f: Any) -> None:
    weights = np.cos(np.arange(np.size(f(X.copy()))).reshape(np.shape(f(X.copy()))) + 1.0)
    loss = lambda x: np.sum(f(x) * weights)
    expected = jacobian_by_differences(loss, X)
    np.testing.assert_allclose(ft.grad(loss)(X), expected, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(ft.jacfwd(loss)(X), expected, rtol=1e-8, atol=1e-9)


@each
def test_in_place_under_nested_grad(f: Any) -> None:
    loss = lambda x: np.sum(np.sin(f(x)))
    np.testing.assert_allclose(
        ft.hessian(loss)(X), jacobian_by_differences(ft.grad(loss), X), rtol=1e-7, atol=1e-7
    )


@each
def test_in_place_under_vmap(f: Any) -> None:
    batch = BATCH.copy()
    np.testing.assert_allclose(
        ft.vmap(f)(batch), np.stack([f(x.copy()) for x in BATCH]), rtol=1e-14
    )
    np.testing.assert_array_equal(batch, BATCH)


@each
def test_in_place_under_trace(f: Any) -> None:
    program = ft.trace(f)(X).check()
    np.testing.assert_allclose(ft.evaluate(program, X), f(X.copy()), rtol=1e-14)


@each
def test_in_place_under_vmap_of_grad(f: Any) -> None:
    loss = lambda x: np.sum(f(x) ** 2)
    np.testing.assert_allclose(
        ft.vmap(ft.grad(loss))(BATCH),
        np.stack([ft.grad(loss)(x) for x in BATCH]),
        rtol=1e-12,
        atol=1e-13,
    )


def test_in_place_on_the_argument_itself_leaves_the_caller_alone() -> None:
    def f(x: Any) -> Any:
        x *= 2.0
        x[0] = 7.0
        return np.sum(x**2)

    x = X.copy()
    np.testing.assert_allclose(ft.grad(f)(x), [0.0, *(8.0 * X[1:])], rtol=1e-14)
    np.testing.assert_array_equal(x, X)


def test_in_place_with_an_inner_value_lifts_the_outer_array() -> None:
    def outer(x: Any) -> Any:
        def inner(y: Any) -> Any:
            z = np.zeros_like(x)
            z[0] = y * x[1]
            return np.sum(z * x)

        return ft.grad(inner)(2.0) * x[2]

    np.testing.assert_allclose(
        ft.grad(outer)(X), [X[1] * X[2], X[0] * X[2], X[0] * X[1]], rtol=1e-14
    )


def test_at_updates_return_new_arrays() -> None:
    def f(x: Any) -> Any:
        y = x.at[0].set(2.0).at[1:].add(x[:2]).at[2].multiply(3.0)
        return np.sum(y * np.array([1.0, 2.0, 3.0])) + x[0]

    expected = jacobian_by_differences(
        lambda x: 2.0 + 2.0 * (x[1] + x[0]) + 9.0 * (x[2] + x[1]) + x[0], X
    )
    np.testing.assert_allclose(ft.grad(f)(X), expected, rtol=1e-8)


def test_gradient_results_are_fresh_arrays() -> None:
    gradient = ft.grad(lambda x: np.sum(x * X))
    first = gradient(np.ones(3))
    first[:] = 0.0
    np.testing.assert_array_equal(gradient(np.ones(3)), X)
    kept = X.copy()
    both = ft.grad(lambda x, y: np.sum(x) + np.sum(y), argnums=(0, 1))(X, X)
    both[0][:] = 5.0
    np.testing.assert_array_equal(both[1], np.ones(3))
    np.testing.assert_array_equal(X, kept)
