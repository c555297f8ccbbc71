"""grad of jvp: reverse over forward."""

from __future__ import annotations

from typing import Any

import numpy as np

import functrace as ft
from tests.compositions.functions import V, X, jacobian_by_differences, scalar


@scalar
def test_grad_of_jvp_is_hessian_product(f: Any) -> None:
    slope = lambda x: ft.jvp(f, (x,), (V,))[1]
    np.testing.assert_allclose(
        ft.grad(slope)(X), jacobian_by_differences(ft.grad(f), X) @ V, rtol=1e-7, atol=1e-7
    )


@scalar
def test_grad_of_jvp_in_its_tangent_is_the_gradient(f: Any) -> None:
    slope = lambda v: ft.jvp(f, (X,), (v,))[1]
    np.testing.assert_allclose(ft.grad(slope)(V), ft.grad(f)(X), rtol=1e-11)


@scalar
def test_grad_through_linearize(f: Any) -> None:
    def loss(x: Any) -> Any:
        _, f_jvp = ft.linearize(f, x)
        return f_jvp(V)

    np.testing.assert_allclose(ft.grad(loss)(X), ft.hvp(f, (X,), (V,)), rtol=1e-11)


@scalar
def test_jvp_of_jvp(f: Any) -> None:
    slope = lambda x: ft.jvp(f, (x,), (V,))[1]
    _, curvature = ft.jvp(slope, (X,), (V,))
    np.testing.assert_allclose(curvature, V @ ft.hessian(f)(X) @ V, rtol=1e-10)
