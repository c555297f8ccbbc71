"""Rows: singular values, eigenvalues, pseudoinverses, ranks, least squares.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.ops import elementwise as ew
from functrace.ops import linalg as core
from functrace.ops.indexing import index_static
from functrace.ops.joining import concatenate
from functrace.ops.shaping import convert
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.promotion import check_broadcast
from functrace.torch.errors import algebra
from functrace.torch.errors.algebra import LinAlgError
from functrace.torch.functions import elementwise as f
from functrace.torch.functions import products, reductions, shaping
from functrace.torch.functions.elementwise import dtype_of, shape_of
from functrace.torch.functions.linear_algebra.checks import (
    ROWS,
    WHOLE_AXIS,
    array_of,
    check_floats,
    check_kind,
    check_matrix,
    check_square,
    needs_gradient,
)
from functrace.torch.functions.linear_algebra.powers import adjoint
from functrace.torch.functions.named_results import named_result
from functrace.torch.tensors.dtypes import DTYPES, is_half
from functrace.torch.tensors.tensor import Operand, Tensor, Value, fresh
from functrace.tracing import Tracer, bind
from functrace.typing import Array

# -- singular values -------------------------------------------------------------------------------


def _svd(x: Array, full: bool) -> Any:
    return bind(core.svd_p, (x,), (full,))


def _svd_completed(x: Array, full: bool) -> Any:
    """The full decomposition as PyTorch differentiates it: the vectors that complete the bases are
    constants.
    """
    u, s, vh = _svd(x, False)
    held = _svd(ew.stop_gradient(x), True)
    k = s.shape[-1]
    rest_u = index_static(held[0], (Ellipsis, WHOLE_AXIS, (k, None, None)))
    rest_v = index_static(held[2], (Ellipsis, (k, None, None), WHOLE_AXIS))
    rank = len(x.shape)
    return concatenate((u, rest_u), rank - 1), s, concatenate((vh, rest_v), rank - 2)


def _svd_full(x: Array, full: bool) -> Any:
    return _svd_completed(x, full) if isinstance(x, Tracer) else _svd(x, full)


def _svd_details(specs: Sequence[Any], params: tuple[Any, ...]) -> dict[str, Any]:
    return {"full_matrices": params[0]}


_SVD_FIELDS = (("U", -1), ("S", -2), ("Vh", -3))
SVD = Op(
    "LinalgSvdBackward0",
    _svd,
    (*_SVD_FIELDS, ("A", 0)),
    keeps=("U", "S", "Vh"),
    details=_svd_details,
)
SVD_FULL = Op(
    "LinalgSvdBackward0",
    _svd_full,
    (*_SVD_FIELDS, ("A", 0)),
    keeps=("U", "S", "Vh"),
    details=_svd_details,
)
SVDVALS = Op(
    "LinalgSvdBackward0",
    lambda x: bind(core.svdvals_p, (x,)),
    (("A", 0), ("S", -1)),
    called="linalg_svdvals",
)
_LinalgSvd = named_result("linalg_svd", "U S Vh")
_Svd = named_result("svd", "U S V")


def _decomposed(A: Operand, full: bool) -> Any:
    shape = check_matrix("linalg.svd", A)
    check_floats("linalg.svd", A, "linalg_svd_cpu")
    if 0 in shape:
        return _nothing_decomposed(A, shape, full)
    try:
        return apply(SVD_FULL if full and shape[-1] != shape[-2] else SVD, (A,), (bool(full),))
    except np.linalg.LinAlgError:
        raise LinAlgError(algebra.SVD_NOT_FINITE) from None


def _nothing_decomposed(A: Operand, shape: tuple[int, ...], full: bool) -> tuple[Any, Any, Any]:
    kind = dtype_of(A)
    m, n = shape[-2:]
    k = min(m, n)
    rows, columns = (m, n) if full else (k, k)
    stack = shape[:-2]
    return (
        fresh(np.broadcast_to(np.eye(m, rows, dtype=kind), (*stack, m, rows)).copy()),
        fresh(np.zeros((*stack, k), kind.type(0).real.dtype)),
        fresh(np.broadcast_to(np.eye(columns, n, dtype=kind), (*stack, columns, n)).copy()),
    )


@ROWS.function("linalg", out=True, name="svd")
def linalg_svd(A: Operand, full_matrices: bool = True, *, driver: str | None = None) -> Any:
    """Return the singular value decomposition ``A = U @ diag(S) @ Vh``.

    Args:
        A: shape (..., m, n).
        full_matrices: False for the first ``min(m, n)`` vectors only.

    Raises:
        LinAlgError: if it does not converge.
    """
    if driver is not None:
        raise RuntimeError(algebra.SVD_DRIVER)
    return _LinalgSvd(*_decomposed(A, full_matrices))


@ROWS.function("linalg", out=True)
def svdvals(A: Operand, *, driver: str | None = None) -> Value:
    """Return the singular values of matrices, in descending order.

    Args:
        A: shape (..., m, n).
    """
    if driver is not None:
        raise RuntimeError(algebra.SVD_DRIVER)
    return singular_values(A)


def singular_values(A: Operand) -> Value:
    """Return the singular values of matrices."""
    shape = check_matrix("linalg.svd", A)
    check_floats("linalg.svd", A, "linalg_svd_cpu")
    if 0 in shape:
        return _nothing_decomposed(A, shape, False)[1]
    if needs_gradient(A):
        return _decomposed(A, False)[1]
    try:
        return apply(SVDVALS, (A,))
    except np.linalg.LinAlgError:
        raise LinAlgError(algebra.SVD_NOT_FINITE) from None


@ROWS.function(out=True)
def svd(input: Operand, some: bool = True, compute_uv: bool = True) -> Any:
    """Return the singular value decomposition ``input = U @ diag(S) @ V.mH``; the older form of
    `linalg.svd`.
    """
    shape = check_matrix("linalg.svd", input)
    if not compute_uv:
        kind = dtype_of(input)
        empty = [fresh(np.zeros((*shape[:-2], n, n), kind)) for n in shape[-2:]]
        return _Svd(empty[0], singular_values(input), empty[1])
    u, s, vh = _decomposed(input, not some)
    return _Svd(u, s, adjoint(vh))


# -- eigenvalues -----------------------------------------------------------------------------------


def _eigh(x: Array, uplo: str) -> Any:
    return bind(core.eigh_p, (x,), (uplo,))


EIGH = Op(
    "LinalgEighBackward0",
    _eigh,
    (("eigenvalues", -1), ("eigenvectors", -2), ("A", 0)),
    keeps=("eigenvalues", "eigenvectors"),
)
EIGVALSH = Op(
    "LinalgEighBackward0",
    lambda x, uplo: bind(core.eigvalsh_p, (x,), (uplo,)),
    (("A", 0),),
    called="linalg_eigvalsh",
)
_LinalgEigh = named_result("linalg_eigh", "eigenvalues eigenvectors")


def _check_symmetric(A: Operand, uplo: str) -> str:
    check_square("linalg.eigh", A)
    if not isinstance(uplo, str) or uplo.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {uplo}")
    check_kind(A, "linalg_eigh_cpu")
    return uplo.upper()


@ROWS.function("linalg", out=True)
def eigh(A: Operand, UPLO: str = "L") -> Any:
    """Return the eigenvalues of symmetric matrices, in ascending order, and their eigenvectors.

    Args:
        A: shape (..., n, n).
        UPLO: the triangle that is read, ``"L"`` or ``"U"``.
    """
    return _LinalgEigh(*apply(EIGH, (A,), (_check_symmetric(A, UPLO),)))


@ROWS.function("linalg", out=True)
def eigvalsh(A: Operand, UPLO: str = "L") -> Value:
    """Return the eigenvalues of symmetric matrices, in ascending order.

    Args:
        A: shape (..., n, n).
        UPLO: the triangle that is read, ``"L"`` or ``"U"``.
    """
    triangle = _check_symmetric(A, UPLO)
    if needs_gradient(A):
        return apply(EIGH, (A,), (triangle,))[0]
    return apply(EIGVALSH, (A,), (triangle,))


def _eig(x: Array) -> Any:
    from functrace.ops.eigen import eig as core_eig

    return core_eig(x)


EIG = Op(
    "LinalgEigBackward0",
    _eig,
    (("eigenvalues", -1), ("eigenvectors", -2), ("A", 0)),
    keeps=("eigenvalues", "eigenvectors"),
)
_LinalgEig = named_result("linalg_eig", "eigenvalues eigenvectors")


def _eigen(name: str, A: Operand) -> Any:
    check_square(name, A)
    kind = dtype_of(A)
    if kind.kind not in "fcV":
        raise RuntimeError(f"Unknown Complex ScalarType for {DTYPES[kind].printed}")
    check_kind(A, "linalg_eig_out_cpu")
    array = array_of(A)
    if isinstance(array, np.ndarray) and not np.isfinite(array).all():
        raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")
    return apply(EIG, (A,))


@ROWS.function("linalg", out=True)
def eig(A: Operand) -> Any:
    """Return the eigenvalues of square matrices and their eigenvectors, which are complex.

    Args:
        A: shape (..., n, n).
    """
    return _LinalgEig(*_eigen("linalg.eig", A))


@ROWS.function("linalg", out=True)
def eigvals(A: Operand) -> Value:
    """Return the eigenvalues of square matrices, which are complex.

    Args:
        A: shape (..., n, n).
    """
    return _eigen("linalg.eigvals", A)[0]


# -- pseudoinverses, ranks and least squares -------------------------------------------------------


def _pinv(x: Array, *rest: Any) -> Any:
    from functrace.ops.lstsq import pinv_p

    *cut, hermitian = rest
    return bind(pinv_p, (x, *cut), (hermitian, False))


PINV = Op(
    "LinalgPinvBackward0",
    _pinv,
    (("result", -1), ("self", 0), ("rcond", 1)),
    edges=(0,),
    keeps=("result", "self"),
    derived=lambda x, *rest: _pinv(x, *rest[:-1], False),
)


def _tolerances(A: Operand, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """Return absolute and relative tolerances of singular values, as arrays or numbers."""
    kind = dtype_of(A)
    if rtol is None:
        has_atol = atol is not None and (
            isinstance(atol, Tensor) or (isinstance(atol, (int, float)) and atol > 0)
        )
        default = max(shape_of(A)[-2:]) * float(np.finfo(kind).eps)
        if has_atol and isinstance(atol, Tensor):
            rtol = np.where(array_of(atol) > 0, 0.0, default)
        else:
            rtol = 0.0 if has_atol else default
    low, cut = (0.0 if value is None else np.asarray(array_of(value)) for value in (atol, rtol))
    return low, cut


@ROWS.function("linalg", out=True, name="pinv")
def linalg_pinv(
    A: Operand,
    *,
    atol: Any = None,
    rtol: Any = None,
    hermitian: bool = False,
    rcond: Any = None,
) -> Value:
    """Return the pseudoinverses of matrices.

    Args:
        A: shape (..., m, n).
        atol: singular values up to this count as 0.
        rtol: singular values up to this times the largest one count as 0.
        hermitian: True if matrices are symmetric.
    """
    return _pseudoinverse(A, atol, rtol if rcond is None else rcond, hermitian)


def _pseudoinverse(A: Operand, atol: Any, rtol: Any, hermitian: bool) -> Value:
    f.tensors_only("linalg_pinv", A=A)
    shape, kind = shape_of(A), dtype_of(A)
    if len(shape) < 2 or kind.kind not in "fcV" or is_half(kind):
        raise RuntimeError(algebra.pinv_operand(DTYPES[kind].printed, shape))
    if hermitian:
        check_square("linalg.eigh", A)
    if 0 in shape:
        return fresh(np.zeros((*shape[:-2], shape[-1], shape[-2]), kind))
    if isinstance(array_of(A), Tracer) and atol is None and rtol is None:
        return apply(PINV, (A,), (bool(hermitian),))
    low, cut = _tolerances(A, atol, rtol)
    if np.any(low):
        held: Any = A.detach() if isinstance(A, Tensor) else A
        top = array_of(singular_values(held))[..., 0]
        ratio = ew.div(low, ew.where(ew.greater(top, 0), top, np.inf))
        cut = ew.maximum(ratio, cut)
    real = kind.type(0).real.dtype
    given = fresh(convert(cut, real) if isinstance(cut, Tracer) else np.asarray(cut, real))
    return apply(PINV, (A, given), (bool(hermitian),))


@ROWS.function()
def pinverse(input: Operand, rcond: float = 1e-15) -> Value:
    """Return the pseudoinverses of matrices; the older form of `linalg.pinv`."""
    return _pseudoinverse(input, None, rcond, False)


@ROWS.function("linalg", out=True, name="matrix_rank")
def linalg_matrix_rank(
    A: Operand,
    *,
    atol: Any = None,
    rtol: Any = None,
    hermitian: bool = False,
    tol: Any = None,
) -> Value:
    """Return the number of singular values above the tolerance, for each matrix.

    Args:
        A: shape (..., m, n).
        atol, rtol: see `pinv`.
        hermitian: True if matrices are symmetric.
    """
    f.tensors_only("linalg_matrix_rank", input=A)
    shape = shape_of(A)
    if len(shape) < 2:
        raise RuntimeError(algebra.matrix_dimensions("torch.linalg.matrix_rank", "input"))
    kind = dtype_of(A)
    if kind.kind not in "fcV" or is_half(kind):
        raise RuntimeError("This function doesn't handle types other than float and double")
    if tol is not None:
        atol, rtol = tol, 0.0
    held = A.detach() if isinstance(A, Tensor) else A
    if hermitian:
        values = np.abs(array_of(eigvalsh(held)))
    else:
        values = array_of(singular_values(held))
    low, relative = _tolerances(A, atol, rtol)
    if not values.shape[-1]:
        return fresh(np.zeros(shape[:-2], np.int64))
    bound = np.maximum(low, relative * values.max(-1))
    return fresh(np.asarray((values > bound[..., None]).sum(-1)))


def _least_squares(a: Array, b: Array, rcond: float) -> Any:
    from functrace.ops.lstsq import lstsq as core_lstsq

    found, rank = core_lstsq(a, b, rcond)
    return found, convert(rank, np.int64)


LSTSQ = Op(
    "LinalgLstsqBackward0",
    _least_squares,
    (("self", 0), ("b", 1), ("solution", -1)),
    keeps=("self", "b", "solution"),
)
_LinalgLstsq = named_result("linalg_lstsq", "solution residuals rank singular_values")
_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


@ROWS.function("linalg", out=True, name="lstsq")
def linalg_lstsq(
    A: Operand, B: Operand, rcond: float | None = None, *, driver: str | None = None
) -> Any:
    """Return the least squares solutions of ``A X = B``: solution, residuals, rank, singular
    values.

    Args:
        A: shape (..., m, n).
        B: shape (..., m, k), or (..., m).
        rcond: singular values up to this times the largest one count as 0.
        driver: which of the last three results are computed, as LAPACK's drivers do: ``"gels"``,
            ``"gelsy"`` (the default), ``"gelsd"``, ``"gelss"``.
    """
    name = "torch.linalg.lstsq"
    a = shape_of(A)
    f.tensors_only("linalg_lstsq", input=A, other=B)
    b = shape_of(B)
    if len(a) < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if not b:
        raise RuntimeError(f"{name}: other must have at least 1 dimension.")
    if dtype_of(A) != dtype_of(B):
        raise RuntimeError(algebra.lstsq_dtypes(*(DTYPES[dtype_of(x)].printed for x in (A, B))))
    if driver is not None and driver not in _DRIVERS:
        raise RuntimeError(f"{name}: parameter `driver` should be one of ({', '.join(_DRIVERS)})")
    check_kind(A, "torch.linalg.lstsq_cpu")
    is_vector = len(b) == 1 or (len(a) - 1 == len(b) and b == a[:-1])
    given: Any = shaping.unsqueeze(B, -1) if is_vector else B
    if a[-2] != shape_of(given)[-2]:
        axis = "-1" if is_vector else "-2"
        raise RuntimeError(f"{name}: input.size(-2) should match other.size({axis})")
    check_broadcast(a[:-2], shape_of(given)[:-2])
    cut = max(a[-2:]) * float(np.finfo(dtype_of(A)).eps) if rcond is None else float(rcond)
    solution, rank = apply(LSTSQ, (A, given), (cut,))
    chosen = driver or "gelsy"
    kind = dtype_of(A)
    none = fresh(np.zeros(0, kind))
    residuals = none
    ranks = array_of(rank)
    is_full = isinstance(ranks, Tracer) or np.all(ranks == a[-1])
    if chosen != "gelsy" and a[-2] > a[-1] and is_full:
        rest = f.sub(products.matmul(A, solution), given)
        size: Any = f.abs(rest) if kind.kind == "c" else rest
        residuals = reductions.sum(f.mul(size, size), -2)
    values = none
    if chosen in ("gelsd", "gelss"):
        values = singular_values(A.detach() if isinstance(A, Tensor) else A)
    found = shaping.squeeze(solution, -1) if is_vector else solution
    shown = fresh(np.zeros(0, np.int64)) if chosen == "gels" else rank
    return _LinalgLstsq(found, residuals, shown, values)
