"""LU factors, eigenvalues and composed sparse matrices, with traced elements and right-hand sides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

import functrace as ft
from functrace.errors import DtypeError, ShapeError, UnsupportedFunctionError
from functrace.scipy import sparse
from tests.oracles import differences

N = 7
rng = np.random.default_rng(2)
WHOLE = np.where(rng.random((N, N)) < 0.3, rng.normal(size=(N, N)), 0.0) + 5 * np.eye(N)
A = scipy.sparse.csc_array(WHOLE)
B, COLUMNS = rng.normal(size=N), rng.normal(size=(N, 2))


def of_data(data: Any, matrix: Any = A) -> Any:
    return sparse.csc_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)


@pytest.mark.parametrize("trans", ["N", "T", "H"])
def test_factors_solve_complex_systems(trans: str) -> None:
    for data in (A.data, A.data * (1 + 0.5j)):
        matrix = scipy.sparse.csc_array((data, A.indices, A.indptr), shape=A.shape)
        for b in (COLUMNS, COLUMNS * (1 + 2j)):
            whole = matrix.toarray()
            expected = np.linalg.solve({"N": whole, "T": whole.T, "H": np.conj(whole.T)}[trans], b)
            found = ft.jit(lambda data, b: sparse.linalg.splu(of_data(data)).solve(b, trans))(
                data, b
            )
            np.testing.assert_allclose(found, expected, rtol=1e-12)
            factors = sparse.linalg.splu(matrix)
            if data.dtype == float and b.dtype == complex:
                with pytest.raises(
                    DtypeError, match="do not solve for a right-hand side of complex128"
                ):
                    ft.jit(lambda b, f=factors: f.solve(b, trans))(b)
            else:
                np.testing.assert_allclose(
                    ft.jit(lambda b, f=factors: f.solve(b, trans))(b), expected, rtol=1e-12
                )


@pytest.mark.parametrize("trans", ["N", "T", "H"])
@pytest.mark.parametrize("b", [B, COLUMNS], ids=["vector", "columns"])
def test_factors_solve_for_traced_right_sides_and_elements(trans: str, b: Any) -> None:
    factors = sparse.linalg.splu(A)
    assert factors.nnz == scipy.sparse.linalg.splu(A).nnz
    dense = WHOLE if trans == "N" else WHOLE.T
    np.testing.assert_array_equal(
        factors.solve(b, trans), scipy.sparse.linalg.splu(A).solve(b, trans)
    )
    np.testing.assert_allclose(
        ft.jit(lambda b: factors.solve(b, trans))(b), np.linalg.solve(dense, b), rtol=1e-12
    )

    def both(data: Any, b: Any) -> Any:
        return np.sum(np.sin(sparse.linalg.splu(of_data(data)).solve(b, trans)))

    def dense_loss(a: Any, b: Any) -> Any:
        return np.sum(np.sin(np.linalg.solve(a if trans == "N" else a.T, b)))

    by_data, by_b = ft.grad(both, argnums=(0, 1))(A.data, b)
    by_a, expected = ft.grad(dense_loss, argnums=(0, 1))(WHOLE, b)
    np.testing.assert_allclose(by_b, expected, rtol=1e-11)
    np.testing.assert_allclose(by_data, by_a[A.tocoo().coords], rtol=1e-10, atol=1e-12)
    plain = lambda b: np.sum(np.sin(factors.solve(b, trans)))
    np.testing.assert_allclose(ft.grad(plain)(b), expected, rtol=1e-11)
    np.testing.assert_allclose(
        ft.vmap(ft.hessian(plain))(np.stack([b, 2 * b])),
        np.stack([ft.hessian(lambda b: dense_loss(WHOLE, b))(x) for x in (b, 2 * b)]),
        rtol=1e-9, atol=1e-12,
    )  # fmt: skip


def test_factorized_and_refusals() -> None:
    expected = np.linalg.solve(WHOLE, B)
    for matrix in (A, WHOLE, of_data(A.data)):
        np.testing.assert_allclose(
            ft.jit(sparse.linalg.factorized(matrix))(B), expected, rtol=1e-12
        )
    with pytest.raises(ShapeError, match="incompatible size"):
        ft.jit(sparse.linalg.splu(A).solve)(B[:3])
    with pytest.raises(UnsupportedFunctionError, match="no perm_r"):
        ft.jit(lambda data: sparse.linalg.splu(of_data(data)).perm_r)(A.data)
    with pytest.raises(ShapeError, match="trans must be"):
        sparse.linalg.splu(A).solve(B, "X")


S = scipy.sparse.csc_array(WHOLE + WHOLE.T)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "options", [{}, {"which": "SA"}, {"sigma": 0.3}], ids=["largest", "smallest", "inverted"]
)
def test_eigenvalues_and_vectors_are_those_of_the_dense_matrix(options: Any) -> None:
    row, column = S.tocoo().coords
    mirrored = np.array(
        [np.flatnonzero((row == c) & (column == r))[0] for r, c in zip(row, column, strict=True)]
    )
    start = np.ones(N)

    def both(data: Any) -> Any:
        data = (data + data[mirrored]) / 2
        w, v = sparse.linalg.eigsh(of_data(data, S), 3, v0=start, tol=1e-13, **options)
        order = np.argsort(ft.stop_gradient(w))
        w, v = w[order], v[:, order]
        return (
            np.sum(np.arange(1.0, 4.0) * w**2)
            + np.sum(v[:3] ** 2 * np.arange(1.0, 4.0))
            + np.sum(v[1] * v[2])
        )

    def values(data: Any) -> Any:
        data = (data + data[mirrored]) / 2
        return np.sum(
            sparse.linalg.eigsh(
                of_data(data, S), 3, v0=start, return_eigenvectors=False, tol=1e-13, **options
            )
            ** 3
        )

    direction = rng.normal(size=S.nnz)
    for loss in (both, values):
        expected = differences(loss, (S.data,), (direction,))[0]
        np.testing.assert_allclose(ft.jvp(loss, (S.data,), (direction,))[1], expected, rtol=1e-6)
        for transform in (lambda f: f, ft.jit):
            np.testing.assert_allclose(
                np.sum(transform(ft.grad(loss))(S.data) * direction), expected, rtol=1e-6
            )
        slope = lambda data, loss=loss: np.sum(ft.grad(loss)(data) * direction)
        second = differences(slope, (S.data,), (direction,))[0]
        np.testing.assert_allclose(np.sum(ft.grad(slope)(S.data) * direction), second, rtol=1e-5)
        np.testing.assert_allclose(ft.jvp(slope, (S.data,), (direction,))[1], second, rtol=1e-5)


def test_sums_of_values_that_are_equal_have_derivatives() -> None:
    twice = scipy.sparse.csc_array(np.diag([3.0, 3.0, 1.0, 0.5, 0.2, 0.1]))
    loss = lambda data: np.sum(
        sparse.linalg.eigsh(of_data(data, twice), 2, v0=np.arange(1.0, 7.0))[0]
    )
    np.testing.assert_allclose(ft.grad(loss)(twice.data), [1, 1, 0, 0, 0, 0], atol=1e-8)


def test_eigsh_refuses_unsupported_arguments() -> None:
    with pytest.raises(UnsupportedFunctionError, match="takes no M"):
        ft.jit(lambda data: sparse.linalg.eigsh(of_data(data, S), 2, S))(S.data)
    with pytest.raises(UnsupportedFunctionError, match="complex matrix"):
        ft.jit(lambda data: sparse.linalg.eigsh(of_data(data, S), 2))(S.data + 0j)


OTHER = scipy.sparse.csr_array(np.array([[1.0, 0.0, 2.0], [0.0, -1.0, 0.5]]))
COMPOSED: dict[str, tuple[Any, Any]] = {
    "kron": (lambda m, a, b: m.kron(a, b), lambda a, b: np.kron(a, b)),
    "vstack": (lambda m, a, b: m.vstack([b, b * 2.0]), lambda a, b: np.vstack([b, 2 * b])),
    "hstack": (lambda m, a, b: m.hstack([a, a * a]), lambda a, b: np.hstack([a, a * a])),
    "block_diag": (
        lambda m, a, b: m.block_diag([a, b]),
        lambda a, b: np.block([[a, np.zeros((N, 3))], [np.zeros((2, N)), b]]),
    ),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_matrices_are_composed_as_dense_ones(name: str) -> None:
    build, dense = COMPOSED[name]
    plain = build(sparse, A, OTHER)
    np.testing.assert_array_equal(plain.toarray(), dense(WHOLE, OTHER.toarray()))
    assert scipy.sparse.issparse(plain)

    def found(data: Any, more: Any) -> Any:
        b = sparse.csr_array((more, OTHER.indices, OTHER.indptr), shape=OTHER.shape)
        return np.sum(np.sin(build(sparse, of_data(data), b).toarray()))

    by_data, by_more = ft.grad(found, argnums=(0, 1))(A.data, OTHER.data)
    by_a, by_b = ft.grad(lambda a, b: np.sum(np.sin(dense(a, b))), argnums=(0, 1))(
        WHOLE, OTHER.toarray()
    )
    row, column = np.nonzero(WHOLE.T)
    np.testing.assert_allclose(by_data, by_a[column, row], rtol=1e-12)
    np.testing.assert_allclose(by_more, by_b[OTHER.tocoo().coords], rtol=1e-12)


def test_formats_of_traced_matrices_are_made_of_one_another() -> None:
    row, column = np.array([2, 0, 2, 0]), np.array([1, 0, 1, 2])

    def found(kind: str, data: Any) -> Any:
        coo = sparse.coo_array((data, (row, column)), shape=(3, 3))
        made = getattr(sparse, kind)(coo)
        assert isinstance(made, sparse.Sparse) and made.is_matrix == kind.endswith("matrix")
        return made.data if kind == "csr_array" else made.toarray()

    data = np.array([1.0, 2.0, 3.0, 4.0])
    theirs = scipy.sparse.coo_array((data, (row, column)), shape=(3, 3))
    np.testing.assert_array_equal(
        ft.jit(lambda d: found("csr_array", d))(data), scipy.sparse.csr_array(theirs).data
    )
    for kind in ("csr_array", "csc_array", "coo_array", "csr_matrix", "csc_matrix", "coo_matrix"):
        jacobian = ft.jacfwd(lambda d, kind=kind: np.sum(found(kind, d) ** 2))(data)
        np.testing.assert_array_equal(jacobian, 2 * theirs.toarray()[row, column])
    with pytest.raises(UnsupportedFunctionError, match="dia matrix cannot have traced elements"):
        ft.jit(lambda d: found("dia_array", d))(data)
