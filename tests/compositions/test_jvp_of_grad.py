"""jvp of grad: forward over reverse, the Hessian-vector product."""

from __future__ import annotations

from typing import Any

import numpy as np

import functrace as ft
from tests.compositions.functions import V, X, jacobian_by_differences, scalar


@scalar
def test_jvp_of_grad_equals_differences(f: Any) -> None:
    gradient, product = ft.jvp(ft.grad(f), (X,), (V,))
    np.testing.assert_allclose(gradient, jacobian_by_differences(f, X), rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(
        product, jacobian_by_differences(ft.grad(f), X) @ V, rtol=1e-7, atol=1e-7
    )


@scalar
def test_hvp_is_jvp_of_grad(f: Any) -> None:
    found = ft.hvp(f, (X,), (V,))
    np.testing.assert_allclose(found, ft.jvp(ft.grad(f), (X,), (V,))[1], rtol=1e-12)


@scalar
def test_jvp_of_value_and_grad(f: Any) -> None:
    (value, gradient), (slope, product) = ft.jvp(ft.value_and_grad(f), (X,), (V,))
    np.testing.assert_allclose(value, f(X), rtol=1e-12)
    np.testing.assert_allclose(slope, gradient @ V, rtol=1e-12)
    np.testing.assert_allclose(product, ft.hvp(f, (X,), (V,)), rtol=1e-12)


@scalar
def test_linearize_of_grad(f: Any) -> None:
    gradient, product = ft.linearize(ft.grad(f), X)
    np.testing.assert_allclose(gradient, ft.grad(f)(X), rtol=1e-12)
    for v in np.eye(3):
        np.testing.assert_allclose(product(v), ft.hvp(f, (X,), (v,)), rtol=1e-11, atol=1e-12)
