"""Sparse matrices go through transforms: functions of them, and functions that return them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import DtypeError, TreeError, UnsupportedFunctionError

scipy_sparse = pytest.importorskip("scipy.sparse")
sparse = ft.scipy.sparse

X = np.linspace(0.4, 1.7, 8)
BATCH = np.stack([X, X**2, -X])


def residual(x: Any) -> Any:
    return x[1:] * np.exp(x[:-1])


def energy(x: Any) -> Any:
    return np.sum(x[1:] * x[:-1] ** 2)


DERIVATIVES: dict[str, tuple[Any, Any]] = {
    "jacobian": (ft.sparse_jacobian(residual), ft.jacfwd(residual)),
    "reverse": (ft.sparse_jacobian(residual, mode="reverse"), ft.jacfwd(residual)),
    "hessian": (ft.sparse_hessian(energy), ft.hessian(energy)),
}


@pytest.mark.parametrize("backend", ["numpy", "native", "xla"])
@pytest.mark.parametrize("name", DERIVATIVES)
def test_jit_returns_what_the_function_returns(name: str, backend: Any) -> None:
    pytest.importorskip({"native": "llvmlite", "xla": "jax"}.get(backend, "numpy"))
    f, dense = DERIVATIVES[name]
    jitted = ft.jit(f, backend=backend)
    for x in (X, X + 1.0):
        found = jitted(x)
        assert type(found) is scipy_sparse.csr_array
        assert found.indices.dtype == f(x).indices.dtype
        np.testing.assert_allclose(found.toarray(), dense(x), rtol=1e-13)
    nested = ft.jit(lambda x: {"a": [f(x)], "b": np.sum(x)}, backend=backend)(X)
    np.testing.assert_allclose(nested["a"][0].toarray(), dense(X), rtol=1e-13)


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"])
def test_formats(format: Any) -> None:
    f = ft.sparse_jacobian(residual, format=format)
    for found in (f(X), ft.jit(f)(X), ft.jit(lambda x: ft.jit(f)(x))(X)):
        assert type(found) is type(getattr(scipy_sparse, f"{format}_array")((2, 2)))
        np.testing.assert_allclose(found.toarray(), ft.jacfwd(residual)(X), rtol=1e-13)


@pytest.mark.parametrize("name", DERIVATIVES)
def test_batches_have_elements(name: str) -> None:
    f, dense = DERIVATIVES[name]
    expected = np.stack([dense(x) for x in BATCH])
    for g in (ft.vmap(f), ft.jit(ft.vmap(f)), ft.vmap(ft.jit(f))):
        batch = g(BATCH)
        assert type(batch) is sparse.SparseElements
        assert batch.data.shape == (3, f(X).nnz)
        for row, matrix in zip(batch.data, expected, strict=True):
            found = batch.with_data(row)
            assert type(found) is scipy_sparse.csr_array
            np.testing.assert_allclose(found.toarray(), matrix, rtol=1e-13)
    products = ft.vmap(lambda a, x: a @ x)(ft.vmap(f)(BATCH), BATCH)
    np.testing.assert_allclose(products, np.einsum("bij,bj->bi", expected, BATCH), rtol=1e-12)
    totals = ft.vmap(lambda a: np.sum(a.toarray() ** 2))(ft.vmap(f)(BATCH))
    np.testing.assert_allclose(totals, np.sum(expected**2, axis=(1, 2)), rtol=1e-12)


def test_other_transforms() -> None:
    f, dense = DERIVATIVES["jacobian"]
    matrix, tangent = ft.jvp(f, (X,), (np.ones(8),))
    slope = (dense(X + 1e-6) - dense(X - 1e-6)) / 2e-6
    np.testing.assert_allclose(matrix.toarray(), dense(X), rtol=1e-13)
    np.testing.assert_allclose(tangent.toarray(), slope, rtol=1e-8, atol=1e-8)
    found = ft.jacfwd(f)(X)
    assert found.data.shape == (14, 8)
    np.testing.assert_allclose(
        sum([found.with_data(column).toarray() for column in found.data.T]), slope, atol=1e-8
    )
    _, steps = ft.jit(lambda xs: ft.scan(lambda c, x: (c + 1.0, f(x)), 0.0, xs))(BATCH)
    np.testing.assert_allclose(steps.with_data(steps.data[1]).toarray(), dense(X**2), rtol=1e-13)
    chosen = ft.jit(lambda x: ft.cond(x[0] > 0, f, lambda x: f(2.0 * x), x))(X)
    np.testing.assert_allclose(chosen.toarray(), dense(X), rtol=1e-13)
    transposed = ft.jit(lambda x: f(x).T)(X)
    assert type(transposed) is scipy_sparse.csc_array
    np.testing.assert_allclose(transposed.toarray(), dense(X).T, rtol=1e-13)
    gradient = ft.grad(lambda x: np.sum(ft.jit(f)(x) @ x))(X)
    expected = ft.grad(lambda x: np.sum(dense(x) @ x))(X)
    np.testing.assert_allclose(gradient, expected, rtol=1e-12)


def test_matrices_of_traced_elements() -> None:
    positions = np.array([1, 0, 0]), np.array([0, 2, 2])  # the second element occurs twice

    def made(data: Any) -> Any:
        return sparse.coo_array((data, positions), shape=(2, 3))

    data = np.array([1.0, 2.0, 3.0])
    found = ft.jit(made)(data)
    np.testing.assert_array_equal(found.toarray(), [[0.0, 0.0, 5.0], [1.0, 0.0, 0.0]])
    old = ft.jit(lambda d: sparse.csr_matrix((d, positions), shape=(2, 3)))(data)
    assert isinstance(old, scipy_sparse.csr_matrix)


def test_what_elements_of_a_batch_refuse() -> None:
    batch = ft.vmap(DERIVATIVES["jacobian"][0])(BATCH)
    for wrong in (
        lambda: batch @ X,
        lambda: X @ batch,
        lambda: batch[0],
        lambda: np.asarray(batch),
        lambda: batch.toarray(),
        lambda: 2.0 * batch,
        lambda: np.sin(batch),
    ):
        with pytest.raises(UnsupportedFunctionError, match=r"A\.with_data"):
            wrong()


def test_plain_matrices_are_no_results_of_jit() -> None:
    plain = scipy_sparse.csr_array(np.eye(3))
    with pytest.raises(DtypeError, match=r"A\.data"):
        ft.jit(lambda x: plain)(X)


def test_float16() -> None:
    x = X.astype(np.float16)
    f, dense = DERIVATIVES["jacobian"]
    for found in (f(x), ft.jit(f)(x)):
        assert type(found) is sparse.Sparse
        assert found.toarray().dtype == np.float16
        np.testing.assert_allclose(found.toarray(), dense(x), rtol=2e-3)
        np.testing.assert_allclose(found @ x, dense(x) @ x, rtol=4e-3)


@pytest.mark.parametrize("mode", ["forward", "reverse", "both", "auto"])
@pytest.mark.parametrize(
    ("given", "result"),
    [
        ((np.float32, np.float32), np.float32),
        ((np.float32, np.float64), np.float64),
        ((np.float64, np.float32), np.float64),
    ],
)
def test_dtypes_do_not_depend_on_the_mode(given: Any, result: Any, mode: Any) -> None:
    x, y = X.astype(given[0]), X.astype(given[1])

    def f(x: Any, y: Any) -> Any:
        return {"a": x * y[0], "b": y[1:] * x[0]}

    jacobian = ft.sparse_jacobian(f, (0, 1), mode=mode)
    for found in (jacobian(x, y), ft.jit(jacobian)(x, y)):
        assert found.dtype == result
        exact = ft.sparse_jacobian(f, (0, 1))(X, X).toarray()
        np.testing.assert_allclose(found.toarray(), exact, rtol=1e-6)
    wider = ft.sparse_jacobian(lambda x: x.astype(np.float64) ** 2, mode=mode)(X.astype(np.float32))
    assert wider.dtype == np.float64


# -- loops -----------------------------------------------------------------------------------------


def newton_like(f: Any) -> Any:
    def body(x: Any, t: Any) -> Any:
        matrix = f(x)
        return x - 0.01 * (t + 1.0) * (matrix.T @ (matrix @ x)), matrix

    return body


@pytest.mark.parametrize("name", DERIVATIVES)
@pytest.mark.parametrize("reverse", [False, True])
def test_scans_stack_sparse_results_with_and_without_jit(name: str, reverse: bool) -> None:
    f, dense = DERIVATIVES[name]
    run = lambda x: ft.scan(newton_like(f), x, np.arange(3.0), reverse=reverse)
    x, expected = X, []
    for t in [2.0, 1.0, 0.0] if reverse else [0.0, 1.0, 2.0]:
        expected.append(dense(x))
        x = x - 0.01 * (t + 1.0) * (expected[-1].T @ (expected[-1] @ x))
    for found in (run, ft.jit(run)):
        last, stacked = found(X)
        np.testing.assert_allclose(last, x, rtol=1e-12)
        for t, matrix in enumerate(expected[::-1] if reverse else expected):
            one = stacked.with_data(stacked.data[t])
            np.testing.assert_allclose(one.toarray(), matrix, rtol=1e-12)
    with ft.disable_jit():
        last, stacked = run(X)
        assert stacked.data.shape[0] == 3
        np.testing.assert_allclose(last, x, rtol=1e-12)


@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
def test_carries_hold_sparse_matrices_with_and_without_jit(format: Any) -> None:
    f = ft.sparse_jacobian(residual, format=format)

    def body(k: Any, carry: Any) -> Any:
        x, matrix = carry
        return x + 0.1 * (matrix.T @ (matrix @ x)), f(x * 1.1)

    x, matrix = X, ft.jacfwd(residual)(X)
    for _ in range(3):
        x, matrix = x + 0.1 * (matrix.T @ (matrix @ x)), ft.jacfwd(residual)(x * 1.1)
    loops = [
        lambda x: ft.fori_loop(0, 3, body, (x, f(x))),
        lambda x: ft.while_loop(
            lambda s: s[0] < 3, lambda s: (s[0] + 1, body(s[0], s[1])), (0, (x, f(x)))
        )[1],
        lambda x: ft.scan(lambda s, k: (body(k, s), None), (x, f(x)), np.arange(3))[0],
    ]
    for loop in loops:
        for run in (loop, ft.jit(loop)):
            last, found = run(X)
            assert type(found) is type(f(X))
            np.testing.assert_allclose(last, x, rtol=1e-12)
            np.testing.assert_allclose(found.toarray(), matrix, rtol=1e-12)


def test_steps_with_matrices_of_different_patterns_raise() -> None:
    def body(x: Any, t: Any) -> Any:
        return x, scipy_sparse.csr_array(np.diag([1.0, 0.0, t]))

    with pytest.raises(TreeError, match="another one as") as caught:
        ft.scan(body, X, np.arange(2.0))
    assert "same structure" in str(caught.value)
    with pytest.raises(TreeError, match="carry"):
        ft.fori_loop(
            0, 2, lambda k, A: scipy_sparse.csr_array(np.eye(3)[:, ::-1]), scipy_sparse.eye_array(3)
        )


def test_matrices_that_do_not_depend_on_traced_values_are_results_of_steps() -> None:
    plain = scipy_sparse.csr_array(np.diag([1.0, 2.0]))
    run = lambda x: ft.scan(lambda c, _: (c * 2.0, plain), x, np.arange(3))[1].data
    np.testing.assert_array_equal(ft.jit(run)(2.0), run(2.0))
    np.testing.assert_array_equal(run(2.0), np.tile([1.0, 2.0], (3, 1)))


def test_gradients_through_scans_of_sparse_results() -> None:
    f = DERIVATIVES["jacobian"][0]

    def loss(x: Any) -> Any:
        last, stacked = ft.scan(newton_like(f), x, np.arange(3.0))
        return np.sum(stacked.data**2) + np.sum(last)

    along = np.cos(X)
    slope = (loss(X + 1e-6 * along) - loss(X - 1e-6 * along)) / 2e-6
    for gradient in (ft.grad(loss), ft.jit(ft.grad(loss))):
        np.testing.assert_allclose(gradient(X) @ along, slope, rtol=1e-6)
