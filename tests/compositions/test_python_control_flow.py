"""Python's own ``if``, ``while``, ``for`` on traced values, under every transform that knows
values, and nested.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft


def newton_sqrt(a: Any) -> Any:
    """Square root by Newton's method, until the error is small: ``while`` on a traced value."""
    x, err = a * 1.0, 1.0
    while err > 1e-13:
        new = 0.5 * (x + a / x)
        err = np.abs(new - x)
        x = new
    return x


def branch(x: Any) -> Any:
    if x[0] > 0:
        return np.sum(x**3)
    elif x[1] > 0 and not x[2] > 0:
        return np.sum(np.sin(x))
    return np.prod(x)


BRANCHES = [
    (np.array([1.0, 2.0, 3.0]), lambda x: 3 * x**2, lambda x: np.diag(6 * x)),
    (np.array([-1.0, 2.0, -3.0]), np.cos, lambda x: np.diag(-np.sin(x))),
    (
        np.array([-1.0, -2.0, -3.0]),
        lambda x: np.prod(x) / x,
        lambda x: np.prod(x) * (1 - np.eye(3)) / np.outer(x, x),
    ),
]


@pytest.mark.parametrize("a", [0.5, 2.0, 10.0])
def test_while_under_grad(a: float) -> None:
    for _ in range(3):
        np.testing.assert_allclose(ft.grad(newton_sqrt)(a), 0.5 / np.sqrt(a), rtol=1e-12)


@pytest.mark.parametrize("a", [0.5, 2.0, 10.0])
def test_while_under_nested_grad_and_jvp(a: float) -> None:
    np.testing.assert_allclose(ft.grad(ft.grad(newton_sqrt))(a), -0.25 * a**-1.5, rtol=1e-9)
    np.testing.assert_allclose(
        ft.grad(ft.grad(ft.grad(newton_sqrt)))(a), 0.375 * a**-2.5, rtol=1e-7
    )
    value, slope = ft.jvp(newton_sqrt, (a,), (2.0,))
    np.testing.assert_allclose([value, slope], [np.sqrt(a), 1.0 / np.sqrt(a)], rtol=1e-12)
    np.testing.assert_allclose(
        ft.jvp(ft.grad(newton_sqrt), (a,), (1.0,))[1], -0.25 * a**-1.5, rtol=1e-9
    )


@pytest.mark.parametrize("x, first, second", BRANCHES, ids=["first", "second", "third"])
def test_if_under_grad(x: Any, first: Any, second: Any) -> None:
    np.testing.assert_allclose(ft.grad(branch)(x), first(x), rtol=1e-14)
    np.testing.assert_allclose(ft.jacrev(branch)(x), first(x), rtol=1e-14)


@pytest.mark.parametrize("x, first, second", BRANCHES, ids=["first", "second", "third"])
def test_if_under_nested_grad(x: Any, first: Any, second: Any) -> None:
    v = np.array([0.5, -1.0, 2.0])
    found = ft.grad(lambda x: np.sum(ft.grad(branch)(x) * v))(x)
    np.testing.assert_allclose(found, second(x) @ v, rtol=1e-13)
    np.testing.assert_allclose(ft.hvp(branch, (x,), (v,)), second(x) @ v, rtol=1e-13)


def test_branches_alternate_from_call_to_call() -> None:
    gradient = ft.grad(branch)
    for _ in range(4):
        for x, first, _ in BRANCHES:
            np.testing.assert_allclose(gradient(x), first(x), rtol=1e-14)


def test_loop_bound_and_float_constant_change_from_call_to_call() -> None:
    def power(x: Any, n: int, scale: float) -> Any:
        y = 1.0
        for _ in range(n):
            y = y * x * scale
        return y

    for n in (1, 3, 2, 3, 1):
        for scale in (1.0, 0.5, 2.0, -1.0, 0.0):
            expected = n * 1.5 ** (n - 1) * scale**n
            np.testing.assert_allclose(ft.grad(power)(1.5, n, scale), expected, rtol=1e-14)


def test_exponent_changes_from_call_to_call() -> None:
    for n in (2, 3, 2.0, 0.5, -1, 0, 1, 3.5, 2, 7):
        found = ft.grad(lambda x: x**n)(1.7)
        np.testing.assert_allclose(found, n * 1.7 ** (n - 1), rtol=1e-13)
        np.testing.assert_allclose(
            ft.grad(ft.grad(lambda x: x**n))(1.7), n * (n - 1) * 1.7 ** (n - 2), rtol=1e-13
        )


def test_signed_zero_and_nan_constants_are_different_constants() -> None:
    for c in (0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 0.0, -0.0):
        c = float(c)
        value, _ = ft.value_and_grad(lambda x: np.arctan2(x * 0.0 + c, -1.0) if c == 0 else x * c)(
            1.0
        )
        expected = np.arctan2(np.float64(1.0) * 0.0 + c, -1.0) if c == 0 else c
        np.testing.assert_array_equal(value, expected)


def test_traced_integer_as_bound_and_index() -> None:
    def f(x: Any) -> Any:
        k = np.argmax(x)
        total = x[k]
        for i in range(int(k)):
            total = total + x[i] ** 2
        return total

    x = np.array([1.0, 2.0, 5.0, 3.0])
    np.testing.assert_array_equal(ft.grad(f)(x), [2.0, 4.0, 1.0, 0.0])
    np.testing.assert_array_equal(
        ft.grad(f)(x[::-1]), [0.0, 1.0, 0.0, 0.0] + 2 * np.array([3.0, 0.0, 0.0, 0.0])
    )


def test_break_and_boolean_index() -> None:
    def f(x: Any) -> Any:
        total = 0.0
        for value in x:
            if value < 0:
                break
            total = total + value**2
        return total + np.sum(x[x > 1.0])

    x = np.array([1.0, 2.0, -1.0, 3.0])
    np.testing.assert_array_equal(ft.grad(f)(x), [2.0, 5.0, 0.0, 1.0])


def test_format_and_print_show_values() -> None:
    seen: list[str] = []

    def f(x: Any) -> Any:
        seen.append(f"{x:.2f} {x!r}")
        return x * x

    ft.grad(f)(1.25)
    assert seen[0].startswith("1.25 ")
    assert "1.25" in seen[0].split(" ", 1)[1]
