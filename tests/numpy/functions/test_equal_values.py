"""Eigenvalues and singular values that are equal: what is defined there is right, and nothing else
is a number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft
from tests.cases.linear_algebra import draw
from tests.oracles import differences

Q = np.linalg.qr(draw(4, 4))[0]
NEARLY = Q @ np.diag([1.0, 1.0, 1.0, 3.0]) @ Q.T
"""Three eigenvalues that are equal but for rounding."""
WEIGHTS = draw(4, 4, seed=1)


def symmetric(x: Any) -> Any:
    return (x + x.T) / 2


def by_eigenvalues(x: Any) -> Any:
    values, _ = np.linalg.eigh(symmetric(x))
    return np.sum(np.exp(values))


def by_singular_values(x: Any) -> Any:
    return np.sum(np.linalg.svd(x)[1] ** 3)


def by_general_eigenvalues(x: Any) -> Any:
    return np.sum(np.real(np.linalg.eig(x + 0j)[0] ** 3))


@pytest.mark.parametrize("f", [by_eigenvalues, by_singular_values, by_general_eigenvalues])
@pytest.mark.parametrize("x", [NEARLY, np.diag([1.0, 1.0, 1.0, 3.0])], ids=["nearly", "exactly"])
def test_symmetric_functions_of_equal_eigenvalues_are_differentiable(f: Any, x: Any) -> None:
    direction = draw(4, 4, seed=2)
    (expected,) = differences(f, [x], [direction])
    np.testing.assert_allclose(np.sum(ft.grad(f)(x) * direction), expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(ft.jvp(f, (x,), (direction,))[1], expected, rtol=1e-6, atol=1e-7)


def power_by_eigh(x: Any) -> Any:
    values, vectors = np.linalg.eigh(symmetric(x))
    return np.sum(WEIGHTS * ((vectors * values**2) @ vectors.T))


def power_by_svd(x: Any) -> Any:
    u, s, vh = np.linalg.svd(x)
    return np.sum(WEIGHTS * ((u * s**2) @ vh))


def power_by_eig(x: Any) -> Any:
    values, vectors = np.linalg.eig(x + 0j)
    return np.sum(WEIGHTS * np.real(np.linalg.solve(vectors.T, (vectors * values**2).T)))


def logarithm_by_eigh(x: Any) -> Any:
    values, vectors = np.linalg.eigh(symmetric(x))
    return ((vectors * np.log(values)) @ vectors.T)[0, 1]


@pytest.mark.parametrize("f", [power_by_eigh, power_by_svd, power_by_eig, logarithm_by_eigh])
@pytest.mark.parametrize("x", [NEARLY, np.eye(4)], ids=["nearly", "exactly"])
def test_vectors_of_equal_values_have_no_derivative(f: Any, x: Any) -> None:
    assert np.isnan(ft.grad(f)(x)).any()
    assert np.isnan(ft.jvp(f, (x,), (draw(4, 4, seed=2),))[1])


@pytest.mark.parametrize("full", [False, True])
def test_vectors_of_singular_values_of_zero_have_no_derivative(full: bool) -> None:
    x = draw(3)
    gradient = ft.grad(
        lambda x: np.sum(np.linalg.svd(x[:, None] * x, full_matrices=full)[0][:, 1:] ** 3)
    )(x)
    assert np.isnan(gradient).any()


def test_a_tangent_of_another_vector_is_right() -> None:
    def last(x: Any) -> Any:
        vector = np.linalg.eigh(symmetric(x))[1][:, 3]
        return np.sum(WEIGHTS * vector[:, None] * vector)

    direction = draw(4, 4, seed=2)
    (expected,) = differences(last, [NEARLY], [direction])
    np.testing.assert_allclose(
        ft.jvp(last, (NEARLY,), (direction,))[1], expected, rtol=1e-6, atol=1e-7
    )
