"""scipy.linalg on traced values: what has no derivative raises by name, and what SciPy says of
corners and options holds.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import functrace as ft
from functrace.errors import NotDifferentiableError, UnsupportedFunctionError
from functrace.scipy import linalg

A = np.random.default_rng(3).normal(size=(4, 4))


@pytest.mark.parametrize("name", ["null_space", "orth", "schur", "hessenberg", "ldl"])
def test_derivatives_of_factors_that_are_not_unique_raise(name: str) -> None:
    plain = getattr(linalg, name)(A)
    np.testing.assert_array_equal(
        ft.tree.leaves(plain)[0], ft.tree.leaves(getattr(scipy.linalg, name)(A))[0]
    )
    with pytest.raises(
        NotDifferentiableError, match=rf"scipy\.linalg\.{name} has no derivative here"
    ) as caught:
        ft.vjp(getattr(linalg, name), A)
    assert "test_linalg.py" in str(caught.value) and "fix: " in str(caught.value)


def test_options_whose_shapes_depend_on_values_raise() -> None:
    d, e = np.ones(4), np.ones(3)
    with pytest.raises(UnsupportedFunctionError, match="shape depends on values"):
        ft.vjp(lambda d: linalg.eigh_tridiagonal(d, e, select="v", select_range=(0, 1)), d)
    with pytest.raises(UnsupportedFunctionError, match="qr of traced values has no mode='raw'"):
        ft.vjp(lambda a: linalg.qr(a, mode="raw"), A)
    with pytest.raises(UnsupportedFunctionError, match="takes one matrix"):
        ft.vjp(lambda a: linalg.eig(a, A), A)


def test_other_names_are_scipys() -> None:
    assert linalg.hilbert is scipy.linalg.hilbert
    assert linalg.LinAlgError is scipy.linalg.LinAlgError


def test_pivoted_columns_are_reordered_by_programs_too() -> None:
    q, r, p = ft.jit(lambda a: linalg.qr(a, pivoting=True))(A)
    expected = scipy.linalg.qr(A, pivoting=True)
    np.testing.assert_array_equal(p, expected[2])
    np.testing.assert_allclose(q @ r, A[:, p], atol=1e-12)
    np.testing.assert_allclose(r, expected[1], atol=1e-12)


def test_banded_systems_are_solved_as_dense_ones() -> None:
    rng = np.random.default_rng(0)
    n = 7
    for below, above in ((0, 2), (2, 0), (3, 1), (8, 1)):
        ab = (
            rng.normal(size=(below + above + 1, n))
            + 5.0 * (np.arange(below + above + 1) == above)[:, None]
        )
        b = rng.normal(size=(n, 2))
        i, j = np.arange(n)[:, None], np.arange(n)
        row = above + i - j
        inside = (row >= 0) & (row <= below + above)
        whole = lambda ab, inside=inside, row=row: np.where(
            inside, ab[np.where(inside, row, 0), j], 0.0
        )
        loss = lambda ab, b, k=(below, above): np.sum(np.sin(linalg.solve_banded(k, ab, b)))
        dense = lambda ab, b, whole=whole: np.sum(np.sin(np.linalg.solve(whole(ab), b)))
        for one, other in zip(
            ft.grad(loss, argnums=(0, 1))(ab, b), ft.grad(dense, argnums=(0, 1))(ab, b), strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
