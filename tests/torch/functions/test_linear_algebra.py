"""torch.linalg and the older functions of matrices: NumPy's values, laws of factorizations, and
derivatives against differences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace.torch as torch
from functrace.torch import linalg
from functrace.torch.autograd import gradcheck, gradgradcheck

RNG = np.random.default_rng(0)
A = RNG.normal(size=(3, 3)) + 3 * np.eye(3)
STACK = RNG.normal(size=(2, 3, 3)) + 3 * np.eye(3)
TALL = RNG.normal(size=(4, 3))
SYMMETRIC = A @ A.T
RIGHT = RNG.normal(size=(3, 2))


def leaf(array: Any) -> Any:
    return torch.tensor(array, dtype=torch.float64, requires_grad=True)


VALUES: list[tuple[str, Callable[..., Any], Callable[..., Any], list[Any]]] = [
    ("det", linalg.det, np.linalg.det, [STACK]),
    ("inv", linalg.inv, np.linalg.inv, [STACK]),
    ("solve", linalg.solve, np.linalg.solve, [A, RIGHT]),
    ("svdvals", linalg.svdvals, lambda x: np.linalg.svd(x, compute_uv=False), [TALL]),
    ("eigvalsh", lambda x: linalg.eigvalsh((x + x.mT) / 2), np.linalg.eigvalsh, [SYMMETRIC]),
    ("cholesky", lambda x: linalg.cholesky((x + x.mT) / 2), np.linalg.cholesky, [SYMMETRIC]),
    ("pinv", linalg.pinv, np.linalg.pinv, [TALL]),
    ("norm", linalg.norm, np.linalg.norm, [TALL]),
    ("nuclear", lambda x: linalg.norm(x, "nuc"), lambda x: np.linalg.norm(x, "nuc"), [TALL]),
    ("rows", lambda x: linalg.norm(x, 1), lambda x: np.linalg.norm(x, 1), [TALL]),
    ("spectral", lambda x: linalg.norm(x, -2), lambda x: np.linalg.norm(x, -2), [TALL]),
    ("cond", linalg.cond, np.linalg.cond, [A]),
    ("power", lambda x: linalg.matrix_power(x, -3), lambda x: np.linalg.matrix_power(x, -3), [A]),
    ("multi", lambda *x: linalg.multi_dot(x), lambda *x: np.linalg.multi_dot(x), [TALL, A, RIGHT]),
    ("cross", linalg.cross, np.cross, [A, SYMMETRIC]),
    ("kron", torch.kron, np.kron, [A, RIGHT]),
    ("tensordot", torch.tensordot, np.tensordot, [A, SYMMETRIC]),
    ("inner", torch.inner, np.inner, [A, TALL]),
    ("cov", torch.cov, np.cov, [TALL]),
    ("corrcoef", torch.corrcoef, np.corrcoef, [TALL]),
    ("lstsq", lambda a, b: linalg.lstsq(a, b).solution, lambda a, b: np.linalg.lstsq(a, b)[0],
     [TALL, TALL[:, :2]]),
    ("tensorinv", lambda x: linalg.tensorinv(x, 1), lambda x: np.linalg.tensorinv(x, 1), [A]),
    ("vander", linalg.vander, lambda x: np.vander(x, increasing=True), [A[0]]),
]  # fmt: skip


@pytest.mark.parametrize(("function", "wanted", "arrays"), [v[1:] for v in VALUES],
                         ids=[v[0] for v in VALUES])  # fmt: skip
def test_values_are_numpys_and_derivatives_those_of_differences(
    function: Callable[..., Any], wanted: Callable[..., Any], arrays: list[Any]
) -> None:
    found = function(*[torch.from_numpy(a) for a in arrays])
    np.testing.assert_allclose(found.numpy(), wanted(*arrays), rtol=1e-9, atol=1e-10)
    tensors = [leaf(a) for a in arrays]
    assert gradcheck(function, tensors)
    assert gradgradcheck(function, tensors)


def test_factorizations_multiply_to_the_matrix() -> None:
    x = torch.from_numpy(STACK)
    q, r = linalg.qr(x)
    np.testing.assert_allclose((q @ r).numpy(), STACK, atol=1e-12)
    u, s, vh = linalg.svd(torch.from_numpy(TALL))
    assert u.shape == (4, 4) and vh.shape == (3, 3)
    np.testing.assert_allclose((u[:, :3] * s @ vh).numpy(), TALL, atol=1e-12)
    values, vectors = linalg.eigh(torch.from_numpy(SYMMETRIC))
    np.testing.assert_allclose((vectors * values @ vectors.mT).numpy(), SYMMETRIC, atol=1e-10)
    values, vectors = linalg.eig(torch.from_numpy(A))
    np.testing.assert_allclose((torch.from_numpy(A) + 0j) @ vectors, vectors * values, atol=1e-10)


def test_lu_and_ldl() -> None:
    pytest.importorskip("scipy")
    x = torch.from_numpy(STACK)
    p, lower, upper = linalg.lu(x)
    np.testing.assert_allclose((p @ lower @ upper).numpy(), STACK, atol=1e-12)
    factors, pivots = linalg.lu_factor(x)
    b = torch.from_numpy(RIGHT)
    for left, adjoint in ((True, False), (True, True), (False, False), (False, True)):
        right = b if left else b.mT
        found = linalg.lu_solve(factors, pivots, right, left=left, adjoint=adjoint)
        matrix = x.mT if adjoint else x
        product = matrix @ found if left else found @ matrix
        np.testing.assert_allclose(
            product.numpy(), np.broadcast_to(right, product.shape), atol=1e-10
        )
    factors, pivots = linalg.ldl_factor(torch.from_numpy(SYMMETRIC))
    found = linalg.ldl_solve(factors, pivots, b)
    np.testing.assert_allclose(SYMMETRIC @ found.numpy(), RIGHT, atol=1e-10)
    assert gradcheck(lambda x: linalg.matrix_exp(x), [leaf(A / 4)])


def test_triangular_systems_and_reflectors() -> None:
    assert gradcheck(lambda a, b: linalg.solve_triangular(a, b, upper=True), [leaf(A), leaf(RIGHT)])
    lower = np.tril(A)
    found = torch.cholesky_solve(torch.from_numpy(RIGHT), torch.from_numpy(lower))
    np.testing.assert_allclose(found.numpy(), np.linalg.solve(lower @ lower.T, RIGHT), atol=1e-10)
    h, tau = torch.geqrf(torch.from_numpy(TALL))
    q = linalg.householder_product(h, tau)
    np.testing.assert_allclose(q.numpy(), np.linalg.qr(TALL)[0], atol=1e-12)
    other = torch.from_numpy(TALL)
    np.testing.assert_allclose(
        torch.ormqr(h, tau, other, transpose=True)[:3].numpy(), q.mT @ other, atol=1e-12
    )


def test_singular_matrices_are_refused_or_reported() -> None:
    stack = torch.stack([torch.eye(2), torch.ones(2, 2)])
    with pytest.raises(linalg.LinAlgError, match=r"\(Batch element 1\): The diagonal element 2"):
        linalg.inv(stack)
    with pytest.raises(linalg.LinAlgError, match="the input matrix is singular"):
        linalg.solve(stack[1], torch.ones(2))
    with pytest.raises(linalg.LinAlgError, match="leading minor of order 2"):
        linalg.cholesky(torch.tensor([[1.0, 2.0], [2.0, 1.0]]))
    assert linalg.inv_ex(stack).info.tolist() == [0, 2]
    assert linalg.cholesky_ex(-stack).info.tolist() == [1, 1]
    assert linalg.solve_ex(stack, torch.ones(2, 2)).info.tolist() == [0, 2]
    assert issubclass(linalg.LinAlgError, RuntimeError)


def test_results_have_names_and_can_be_written() -> None:
    x = torch.from_numpy(A)
    found = linalg.slogdet(x)
    assert found.logabsdet is found[1] and "logabsdet=" in repr(found)
    assert type(found) is vars(torch.return_types)["linalg_slogdet"]
    out = torch.empty(0, dtype=torch.float64)
    assert linalg.inv(x, out=out) is out
    np.testing.assert_allclose(out.numpy(), np.linalg.inv(A))


def test_vmap_and_grad_of_linear_algebra() -> None:
    x = torch.from_numpy(STACK)
    found = torch.vmap(linalg.det)(x)
    np.testing.assert_allclose(found.numpy(), np.linalg.det(STACK))
    slope = torch.func.grad(lambda a: linalg.slogdet(a)[1])(x[0])
    np.testing.assert_allclose(slope.numpy(), np.linalg.inv(STACK[0]).T, atol=1e-12)
