"""Differential tests against HIPS autograd: gradients, Jacobians, Hessians, and its convention for
complex arguments.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import functrace as ft
from tests.peers.functions import HOLOMORPHIC, REAL_OF_COMPLEX, SCALAR, X, Z, vector

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
autograd = pytest.importorskip("autograd")
anp = pytest.importorskip("autograd.numpy")

TOL = {"rtol": 1e-9, "atol": 1e-10}
scalar = pytest.mark.parametrize("f", SCALAR.values(), ids=SCALAR)
V = np.array([0.2, -0.5, 0.9])


@scalar
def test_value_and_grad(f: Any) -> None:
    value, gradient = ft.value_and_grad(partial(f, np))(X)
    expected_value, expected = autograd.value_and_grad(partial(f, anp))(X)
    np.testing.assert_allclose(value, expected_value, **TOL)
    np.testing.assert_allclose(gradient, expected, **TOL)


@scalar
def test_hessian(f: Any) -> None:
    found = ft.hessian(partial(f, np))(X)
    np.testing.assert_allclose(found, autograd.hessian(partial(f, anp))(X), rtol=1e-8, atol=1e-8)


@scalar
def test_grad_of_function_that_calls_grad(f: Any) -> None:
    found = ft.grad(lambda x: np.sum(ft.grad(partial(f, np))(x) * V))(X)
    expected = autograd.grad(lambda x: anp.sum(autograd.grad(partial(f, anp))(x) * V))(X)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


def test_jacobian() -> None:
    np.testing.assert_allclose(
        ft.jacrev(partial(vector, np))(X), autograd.jacobian(partial(vector, anp))(X), **TOL
    )


def test_elementwise_grad() -> None:
    found = ft.elementwise_grad(lambda x: np.tanh(x) * x)(X)
    np.testing.assert_allclose(
        found, autograd.elementwise_grad(lambda x: anp.tanh(x) * x)(X), **TOL
    )


@pytest.mark.parametrize("f", HOLOMORPHIC.values(), ids=HOLOMORPHIC)
def test_holomorphic_grad(f: Any) -> None:
    found = ft.grad(partial(f, np), holomorphic=True)(Z)
    np.testing.assert_allclose(found, autograd.holomorphic_grad(partial(f, anp))(Z), **TOL)


@pytest.mark.parametrize("f", REAL_OF_COMPLEX.values(), ids=REAL_OF_COMPLEX)
def test_gradient_of_real_function_of_complex_arguments(f: Any) -> None:
    # autograd's convention is ours (and JAX's): the gradient of |z|^2 is 2 conj(z).
    np.testing.assert_allclose(ft.grad(partial(f, np))(Z), autograd.grad(partial(f, anp))(Z), **TOL)
