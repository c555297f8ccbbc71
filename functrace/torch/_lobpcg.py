"""``torch.lobpcg``: a few of the largest or smallest eigenvalues of a symmetric matrix.

PyTorch iterates, up to a tolerance. Here LAPACK computes all eigenvalues, and the wanted ones are
taken: they are exact, and the starting point and the options of the iteration have no effect. The
derivative is that of the wanted eigenpairs alone, so the others may coincide.

Layer: 9.
"""

from __future__ import annotations

from typing import Any

from functrace.errors import UnsupportedFunctionError
from functrace.torch import linalg
from functrace.torch import namespace as torch
from functrace.torch.autograd.function import Function
from functrace.torch.tensors.dtypes import float32, float64
from functrace.torch.tensors.tensor import Tensor

__all__ = ["lobpcg"]


class LOBPCGAutogradFunction(Function):
    """The wanted eigenpairs of a symmetric matrix, with their derivative."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, k: int, largest: bool) -> tuple[Tensor, Tensor]:
        """Return the eigenvalues and eigenvectors."""
        values, vectors = _wanted(A, k, largest=largest)
        ctx.save_for_backward(A, values, vectors)
        return values, vectors

    @staticmethod
    def backward(ctx: Any, of_values: Tensor, of_vectors: Tensor) -> tuple[Tensor, None, None]:
        """Return the gradient of the matrix.

        An eigenpair ``(d, u)`` moves by ``dd = u' dA u`` and ``du = -pinv(A - d) dA u``; the
        pseudo-inverse is a solution with ``A - d + u u'`` for what is orthogonal to ``u``.
        """
        A, values, vectors = ctx.saved_tensors
        u = vectors.mT.unsqueeze(-1)  # one column for each eigenpair
        d = values.unsqueeze(-1).unsqueeze(-1)
        identity = torch.eye(A.shape[-1], dtype=A.dtype)
        shifted = A.unsqueeze(-3) - d * identity + u @ u.mT
        given = of_vectors.mT.unsqueeze(-1)
        given = given - u @ (u.mT @ given)
        moved = of_values.unsqueeze(-1).unsqueeze(-1) * u - linalg.solve(shifted, given)
        return (moved @ u.mT).sum(-3), None, None


def _wanted(A: Tensor, k: int, *, largest: bool) -> tuple[Tensor, Tensor]:
    values, vectors = linalg.eigh(A)
    if largest:
        values, vectors = values.flip(-1), vectors.flip(-1)
    return values[..., :k].contiguous(), vectors[..., :k].contiguous()


def _generalized(A: Tensor, B: Tensor, k: int, *, largest: bool) -> tuple[Tensor, Tensor]:
    """Return the wanted solutions of ``A x = d B x``."""
    factor = linalg.cholesky(B)
    half = linalg.solve_triangular(factor, A, upper=False)
    both = linalg.solve_triangular(factor, half.mT, upper=False)
    values, vectors = _wanted((both + both.mT) / 2, k, largest=largest)
    return values, linalg.solve_triangular(factor.mT, vectors, upper=True)


def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: None = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Tensor, Tensor]:
    """Return a few of the largest or smallest eigenvalues of symmetric matrices, and eigenvectors.

    Args:
        A: the matrices, shape (..., m, m); their symmetric part is used.
        k: number of eigenvalues; by default the columns of ``X``, or 1.
        B: positive definite matrices of the problem ``A x = d B x``; by default the identity.
        X, n, iK, niter, tol, method, ortho_iparams, ortho_fparams, ortho_bparams: options of
            PyTorch's iteration, without effect on a result that is exact.
        largest: True (the default) for the largest, in descending order; False for the smallest,
            in ascending order.
        tracker: not supported, as there are no iterations.

    Returns:
        the eigenvalues, shape (..., k), and eigenvectors as columns, with ``x' B x = 1``.

    Raises:
        ValueError: if ``m < 3 k``; in the backward pass, if ``B`` was given.
        UnsupportedFunctionError: for other dtypes than float32 and float64, and a tracker.

    Example:
        >>> import functrace.torch as torch
        >>> values, _ = torch.lobpcg(torch.diag(torch.tensor([1.0, 5.0, 3.0, 2.0, 0.0, 4.0])), k=2)
        >>> values
        tensor([5., 4.])
    """
    if tracker is not None:
        raise UnsupportedFunctionError(
            "lobpcg has no iterations to track here: it computes all eigenvalues",
            fix="leave out tracker",
        )
    if A.dtype not in (float32, float64):
        raise UnsupportedFunctionError(
            f"lobpcg takes float32 and float64, not {A.dtype}", fix="convert A"
        )
    if A.dim() < 2 or A.shape[-1] != A.shape[-2]:
        raise AssertionError(f"A must be square, got shape {A.shape}")
    if B is not None and B.shape != A.shape:
        raise AssertionError(f"A and B shapes must match, got {A.shape} and {B.shape}")
    size = A.shape[-1]
    k = (1 if X is None else X.shape[-1]) if k is None else k
    n = (k if n is None else n) if X is None else X.shape[-1]
    if not 0 < k <= n <= size:
        raise ValueError(f"lobpcg needs 0 < k <= n <= {size}, got k={k} and n={n}")
    if size < 3 * n:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={size}) is smaller than "
            f"3 x the number of requested eigenpairs (={n})"
        )
    if X is not None and X.shape[-2:] != (size, n):
        raise AssertionError(f"X shape mismatch: got {X.shape}, expected {(size, n)}")
    symmetric = (A + A.mT) / 2
    if B is None:
        return LOBPCGAutogradFunction.apply(symmetric, k, largest is None or largest)
    return _Generalized.apply(symmetric, B, k, largest is None or largest)


class _Generalized(Function):
    """The wanted solutions of a generalized problem, which PyTorch does not differentiate."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, B: Tensor, k: int, largest: bool) -> tuple[Tensor, Tensor]:
        """Return the eigenvalues and eigenvectors."""
        return _generalized(A, B, k, largest=largest)

    @staticmethod
    def backward(ctx: Any, *_gradients: Tensor) -> Any:
        """Raise."""
        raise ValueError("lobpcg.backward does not support backward with B != I yet.")
