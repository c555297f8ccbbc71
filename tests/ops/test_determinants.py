"""Derivatives of determinants, to third order, against minors and differences: regular, singular,
tiny and huge matrices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft
from tests.cases.linear_algebra import draw
from tests.oracles import differences


def cofactors(x: Any) -> Any:
    """Signed minors, each by NumPy's determinant of one dimension less."""
    out = np.ones_like(x)
    n = x.shape[-1]
    for *k, i, j in np.ndindex(x.shape):
        if n > 1:
            minor = np.delete(np.delete(x[tuple(k)], i, 0), j, 1)
            out[(*k, i, j)] = (-1) ** (i + j) * np.linalg.det(minor)
    return out


def stacks(n: int, dtype: Any) -> list[Any]:
    """A stack of regular matrices, and one with a singular, an ill-conditioned and a zero matrix in
    it.
    """
    regular = draw(4, n, n, dtype=dtype)
    mixed = regular.copy()
    if n > 1:
        mixed[0, 0] = mixed[0, 1]
        mixed[1, 0] = mixed[1, 1] * (1 + 1e-12)
    mixed[2] = 0
    return [regular, mixed]


def weighted(x: Any) -> Any:
    return np.sum(np.array([0.3, -1.2, 0.7, 2.0]) * np.linalg.det(x))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
def test_the_gradient_is_the_cofactors(n: int, dtype: Any) -> None:
    tolerance = 1e3 * float(np.finfo(dtype).eps)
    for x in stacks(n, dtype):
        expected = np.array([0.3, -1.2, 0.7, 2.0])[:, None, None] * cofactors(x)
        holomorphic = np.dtype(dtype).kind == "c"
        for transform in (lambda f: f, ft.jit):
            found = transform(ft.grad(weighted, holomorphic=holomorphic))(x)
            assert found.dtype == dtype
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_second_and_third_derivatives_are_those_of_the_minors(n: int) -> None:
    regular, mixed = stacks(n, float)
    first, second = draw(4, n, n, seed=1), draw(4, n, n, seed=2)

    def once(x: Any) -> Any:
        return np.sum(first * ft.grad(weighted)(x))

    def twice(x: Any) -> Any:
        return np.sum(second * ft.grad(once)(x))

    for x in (regular, mixed):
        for direction in (first, second, x):
            along = np.sum(ft.grad(once)(x) * direction)
            np.testing.assert_allclose(
                along, differences(once, (x,), (direction,))[0], rtol=1e-8, atol=1e-8
            )
    x = (
        mixed if n <= 3 else regular
    )  # (higher derivatives of larger matrices need regular ones: see `det`)
    for direction in (first, second, x):
        along = np.sum(ft.grad(twice)(x) * direction)
        np.testing.assert_allclose(
            along, differences(twice, (x,), (direction,))[0], rtol=1e-7, atol=1e-7
        )
    forward, reverse = (
        ft.jacfwd(ft.jacfwd(ft.jacfwd(weighted)))(x),
        ft.jacrev(ft.jacrev(ft.jacrev(weighted)))(x),
    )
    np.testing.assert_allclose(forward, reverse, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_vmap_of_a_hessian_is_a_loop(n: int) -> None:
    for x in stacks(n, float):
        for transform in (
            ft.hessian,
            lambda f: ft.jacfwd(ft.jacfwd(f)),
            lambda f: ft.jacrev(ft.jacrev(f)),
        ):
            of_one = transform(np.linalg.det)
            expected = np.stack([of_one(matrix) for matrix in x])
            for found in (ft.vmap(of_one)(x), ft.jit(ft.vmap(of_one))(x)):
                np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("scale", [1e-160, 1e-90, 1.0, 1e90, 1e160])
def test_slogdet_of_tiny_and_huge_matrices_has_its_derivative(n: int, scale: float) -> None:
    x = draw(5, n, n) + 2 * np.eye(n)
    found = ft.grad(lambda x: np.sum(np.linalg.slogdet(x).logabsdet))(x * scale)
    np.testing.assert_allclose(found * scale, np.swapaxes(np.linalg.inv(x), -1, -2), rtol=1e-12)


def test_large_matrices_with_singular_ones_among_them() -> None:
    x = draw(3, 40, 40)
    x[1, 0] = x[1, 1]
    u, s, vh = np.linalg.svd(x[1])
    only = np.prod(s[:-1]) * np.linalg.det(u) * np.linalg.det(vh) * np.outer(u[:, -1], vh[-1])
    found = ft.grad(lambda x: np.sum(np.linalg.det(x)))(x)
    np.testing.assert_allclose(found[1], only, rtol=1e-9, atol=1e-9 * np.abs(only).max())
    for k in (0, 2):
        expected = np.linalg.det(x[k]) * np.linalg.inv(x[k]).T
        np.testing.assert_allclose(
            found[k], expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max()
        )


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_rows_and_columns_of_unlike_size_keep_their_digits(dtype: Any) -> None:
    x, t = (draw(6, 6, seed=seed, dtype=dtype) for seed in (4, 5))
    rows = 2.0 ** np.array([150, -140, 90, -30, 0, 120])[:, None]
    columns = 2.0 ** np.array([-100, 20, 0, 60, -50, 80])
    for last in (0, 1):  # a regular matrix, and a singular one
        if last:
            x[5] = x[0] + 2 * x[3]
        factor = rows.prod() * columns.prod() / (rows * columns)
        gradient = ft.grad(lambda x: np.real(np.linalg.det(x)))
        plain, changed = ft.jvp(gradient, (x,), (t,))
        scaled, change = ft.jvp(gradient, (x * rows * columns,), (t * rows * columns,))
        np.testing.assert_allclose(scaled / factor, plain, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(change / factor, changed, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("n", [2, 4, 5])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_matrix_that_is_not_finite_leaves_its_neighbours_alone(n: int, bad: float) -> None:
    rng = np.random.default_rng(n)
    x, t = rng.normal(size=(2, 3, n, n))
    x[1, 0, 1] = bad
    gradient = ft.grad(lambda x: np.sum(np.linalg.det(x)))
    with np.errstate(all="ignore"):
        plain, change = ft.jvp(gradient, (x,), (t,))
        for k in (0, 2):
            one, other = ft.jvp(ft.grad(np.linalg.det), (x[k],), (t[k],))
            np.testing.assert_allclose(plain[k], one, rtol=1e-9)
            np.testing.assert_allclose(change[k], other, rtol=1e-9)
        assert not np.isfinite(plain[1]).all()


def test_singular_matrices_of_great_size_have_cofactors() -> None:
    x = np.zeros((4, 4))
    x[0, 0] = 1e300
    np.testing.assert_array_equal(ft.grad(np.linalg.det)(x), np.zeros((4, 4)))
    np.testing.assert_array_equal(ft.grad(np.linalg.det)(np.zeros((0, 0))), np.zeros((0, 0)))
