# Written by `python -m tests.torch.stubs` from the rows: the functions of `torch.linalg`.

import builtins
from collections.abc import Sequence
from typing import Any

from functrace.torch.errors.algebra import LinAlgError as LinAlgError
from functrace.torch.tensors.dtypes import DtypeLike
from functrace.torch.tensors.tensor import Operand, Value

__all__ = [
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]

def cholesky(A: Operand, *, upper: builtins.bool = False, out: Any = None) -> Value:
    """Return the lower triangular ``L`` with ``A = L @ L.mH``, or the upper one."""

def cholesky_ex(A: Operand, *, upper: builtins.bool = False, check_errors: builtins.bool = False, out: Any = None) -> Any:
    """Return the triangular factor, and 0 or the order of the first minor that is not positive definite, for each matrix."""

def cond(A: Operand, p: builtins.float | builtins.str | None = None, *, out: Any = None) -> Value:
    """Return the condition numbers of matrices: ``norm(A) * norm(inv(A))``."""

def cross(input: Operand, other: Operand, *, dim: builtins.int = -1, out: Any = None) -> Value:
    """Return the cross products of vectors with 3 coordinates along a dimension."""

def det(A: Operand, *, out: Any = None) -> Value:
    """Return the determinants of square matrices."""

def diagonal(A: Operand, *, offset: builtins.int = 0, dim1: builtins.int = -2, dim2: builtins.int = -1) -> Value:
    """Return a view of a diagonal of two dimensions, as the last dimension."""

def eig(A: Operand, *, out: Any = None) -> Any:
    """Return the eigenvalues of square matrices and their eigenvectors, which are complex."""

def eigh(A: Operand, UPLO: builtins.str = "L", *, out: Any = None) -> Any:
    """Return the eigenvalues of symmetric matrices, in ascending order, and their eigenvectors."""

def eigvals(A: Operand, *, out: Any = None) -> Value:
    """Return the eigenvalues of square matrices, which are complex."""

def eigvalsh(A: Operand, UPLO: builtins.str = "L", *, out: Any = None) -> Value:
    """Return the eigenvalues of symmetric matrices, in ascending order."""

def householder_product(input: Operand, tau: Operand, *, out: Any = None) -> Value:
    """Return the first columns of the product of Householder reflectors."""

def inv(A: Operand, *, out: Any = None) -> Value:
    """Return the inverse of square matrices."""

def inv_ex(A: Operand, *, check_errors: builtins.bool = False, out: Any = None) -> Any:
    """Return the inverse of square matrices, and 0 or the position of a zero pivot for each."""

def ldl_factor(A: Operand, *, hermitian: builtins.bool = False, out: Any = None) -> Any:
    """Return the factors of symmetric matrices in LAPACK's form, and its pivots; see `ldl_factor_ex`."""

def ldl_factor_ex(
    A: Operand, *, hermitian: builtins.bool = False, check_errors: builtins.bool = False, out: Any = None
) -> Any:
    """Return the factors of symmetric matrices in LAPACK's form, its pivots, and 0 or the position of a zero pivot for each matrix. There is no derivative."""

def ldl_solve(LD: Operand, pivots: Operand, B: Operand, *, hermitian: builtins.bool = False, out: Any = None) -> Value:
    """Return the solution of ``A X = B``, from the results of `ldl_factor`. There is no derivative."""

def lstsq(
    A: Operand, B: Operand, rcond: builtins.float | None = None, *, driver: builtins.str | None = None, out: Any = None
) -> Any:
    """Return the least squares solutions of ``A X = B``: solution, residuals, rank, singular values."""

def lu(A: Operand, *, pivot: builtins.bool = True, out: Any = None) -> Any:
    """Return matrices P, L and U with ``A = P @ L @ U``."""

def lu_factor(A: Operand, *, pivot: builtins.bool = True, out: Any = None) -> Any:
    """Return both factors in one matrix, and LAPACK's pivots, counted from 1."""

def lu_factor_ex(A: Operand, *, pivot: builtins.bool = True, check_errors: builtins.bool = False, out: Any = None) -> Any:
    """Return both factors in one matrix, LAPACK's pivots (counted from 1), and 0 or the position of a zero pivot for each matrix."""

def lu_solve(
    LU: Operand, pivots: Operand, B: Operand, *, left: builtins.bool = True, adjoint: builtins.bool = False, out: Any = None
) -> Value:
    """Return the solution of ``A X = B``, from the results of `lu_factor`."""

def matmul(input: Operand, other: Operand, *, out: Any = None) -> Value:
    """Return the product of matrices, vectors, or stacks of matrices, composed as in PyTorch."""

def matrix_exp(input: Operand) -> Value:
    """Return the exponential of square matrices."""

def matrix_norm(
    A: Operand,
    ord: builtins.float | builtins.str = "fro",
    dim: Any = (-2, -1),
    keepdim: builtins.bool = False,
    *,
    dtype: DtypeLike | None = None,
    out: Any = None,
) -> Value:
    """Return the norm of matrices."""

def matrix_power(input: Operand, n: builtins.int, *, out: Any = None) -> Value:
    """Return an integer power of square matrices; of the inverses, if it is negative."""

def matrix_rank(
    A: Operand, *, atol: Any = None, rtol: Any = None, hermitian: builtins.bool = False, tol: Any = None, out: Any = None
) -> Value:
    """Return the number of singular values above the tolerance, for each matrix."""

def multi_dot(tensors: Sequence[Operand], *, out: Any = None) -> Value:
    """Return the product of several matrices, in the order with the fewest operations."""

def norm(
    A: Operand,
    ord: builtins.float | builtins.str | None = None,
    dim: Any = None,
    keepdim: builtins.bool = False,
    *,
    dtype: DtypeLike | None = None,
    out: Any = None,
) -> Value:
    """Return the norm of vectors (of one dimension, or all elements) or matrices (two dimensions)."""

def pinv(
    A: Operand, *, atol: Any = None, rtol: Any = None, hermitian: builtins.bool = False, rcond: Any = None, out: Any = None
) -> Value:
    """Return the pseudoinverses of matrices."""

def qr(A: Operand, mode: builtins.str = "reduced", *, out: Any = None) -> Any:
    """Return the orthogonal and the upper triangular factor of matrices."""

def slogdet(A: Operand, *, out: Any = None) -> Any:
    """Return the signs of the determinants, and the logarithms of their absolute values."""

def solve(A: Operand, B: Operand, *, left: builtins.bool = True, out: Any = None) -> Value:
    """Return the solution of ``A X = B``, or of ``X A = B``."""

def solve_ex(
    A: Operand, B: Operand, *, left: builtins.bool = True, check_errors: builtins.bool = False, out: Any = None
) -> Any:
    """Return the solution of ``A X = B``, and 0 or the position of a zero pivot for each matrix."""

def solve_triangular(
    A: Operand,
    B: Operand,
    *,
    upper: builtins.bool,
    left: builtins.bool = True,
    unitriangular: builtins.bool = False,
    out: Any = None,
) -> Value:
    """Return the solution of ``A X = B`` (or ``X A = B``) for triangular matrices."""

def svd(A: Operand, full_matrices: builtins.bool = True, *, driver: builtins.str | None = None, out: Any = None) -> Any:
    """Return the singular value decomposition ``A = U @ diag(S) @ Vh``."""

def svdvals(A: Operand, *, driver: builtins.str | None = None, out: Any = None) -> Value:
    """Return the singular values of matrices, in descending order."""

def tensorinv(A: Operand, ind: builtins.int = 2, *, out: Any = None) -> Value:
    """Return the inverse of a tensor with respect to `tensordot` over ``ind`` dimensions."""

def tensorsolve(A: Operand, B: Operand, dims: Sequence[builtins.int] | None = None, *, out: Any = None) -> Value:
    """Return the tensor X with ``tensordot(A, X, X.ndim) == B``."""

def vander(x: Operand, *, N: builtins.int | None = None) -> Value:
    """Return the powers 0 to ``N - 1`` of each element, along a new last dimension."""

def vecdot(x: Operand, y: Operand, *, dim: builtins.int = -1, out: Any = None) -> Value:
    """Return the products of vectors along a dimension: ``sum(conj(x) * y)``."""

def vector_norm(
    x: Operand,
    ord: builtins.float = 2,
    dim: Any = None,
    keepdim: builtins.bool = False,
    *,
    dtype: DtypeLike | None = None,
    out: Any = None,
) -> Value:
    """Return the norm of vectors: ``sum(abs(x)**ord)**(1/ord)``, of all elements or along dimensions."""
