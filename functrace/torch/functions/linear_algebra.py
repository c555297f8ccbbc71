"""The rows of linear algebra: ``torch.linalg``, and the older functions of ``torch``.

Factorizations and their derivatives are those of `functrace.ops`: NumPy's LAPACK. LU and LDL
factors, and the matrix exponential, are SciPy's, which is imported when they are called.

Layer: 9.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from functrace.ops import elementwise as ew
from functrace.ops import linalg as core
from functrace.ops.cholesky import cholesky as core_cholesky
from functrace.ops.contraction import matmul as core_matmul
from functrace.ops.contraction import swap_last
from functrace.ops.indexing import index_static
from functrace.ops.joining import concatenate
from functrace.ops.matrices import adjoint as core_adjoint
from functrace.ops.shaping import broadcast_to, convert
from functrace.ops.shaping import reshape as core_reshape
from functrace.ops.triangular import solve_triangular as core_solve_triangular
from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.promotion import check_broadcast
from functrace.torch.dispatch.results import put_out
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.errors import algebra
from functrace.torch.errors.algebra import LinAlgError
from functrace.torch.errors.warnings import warn_once
from functrace.torch.functions import elementwise as f
from functrace.torch.functions import picking, products, reductions, shaping, statistics
from functrace.torch.functions.arithmetic import nan_to_num
from functrace.torch.functions.elementwise import dtype_of, shape_of
from functrace.torch.functions.named_results import named_result
from functrace.torch.tensors.dtypes import DTYPES, DtypeLike, is_half
from functrace.torch.tensors.tensor import Operand, Tensor, Value, fresh, wrap
from functrace.tracing import Tracer, bind
from functrace.typing import Array

ROWS = FunctionTable()
BOTH_FORMS = "linalg function method"
_ALL = (None, None, None)

# -- checks ----------------------------------------------------------------------------------------


def check_matrix(name: str, x: Operand, argument: str = "A") -> tuple[int, ...]:
    """Return the shape of a stack of matrices.

    Raises:
        RuntimeError: for fewer than two dimensions.
    """
    f.tensors_only(name.removeprefix("linalg.").replace("torch.", ""), **{argument: x})
    shape = shape_of(x)
    if len(shape) < 2:
        raise RuntimeError(algebra.matrix_dimensions(name, argument))
    return shape


def check_square(name: str, x: Operand, argument: str = "A") -> tuple[int, ...]:
    """Return the shape of a stack of square matrices.

    Raises:
        RuntimeError: for any other shape.
    """
    shape = check_matrix(name, x, argument)
    if shape[-1] != shape[-2]:
        raise RuntimeError(algebra.not_square(name, argument, shape))
    return shape


def check_floats(name: str, x: Operand, kernel: str = "", *, half: bool = False) -> None:
    """Check that elements are floats or complex numbers, and none of half precision.

    Raises:
        RuntimeError: for integers.
        NotImplementedError: for half precision, with the name of PyTorch's kernel.
    """
    kind = dtype_of(x)
    printed = DTYPES[kind].printed
    if kind.kind not in "fcV":
        raise RuntimeError(algebra.floats_expected(name, printed))
    if is_half(kind) and not half:
        if kernel:
            raise NotImplementedError(errors.no_kernel(kernel).format(printed))
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {printed}")


def _only_kinds(x: Operand, kernel: str) -> None:
    kind = dtype_of(x)
    if kind.kind not in "fcV" or is_half(kind):
        raise NotImplementedError(errors.no_kernel(kernel).format(DTYPES[kind].printed))


def _array_of(x: Operand) -> Any:
    return x._array if isinstance(x, Tensor) else x


def _needs_gradient(*operands: Operand) -> bool:
    return bool(MODES.recording) and any(
        (isinstance(x, Tensor) and x.requires_grad) or isinstance(_array_of(x), Tracer)
        for x in operands
    )


def _zero_pivots(x: Array) -> Array:
    """Return, for each matrix, the position of the first pivot that is 0, counted from 1; 0 if
    there is none.
    """
    work = np.array(x, copy=True)
    *stack, n, _ = work.shape
    work = work.reshape(-1, n, n)
    found = np.zeros(len(work), np.int32)
    rows = np.arange(len(work))
    for k in range(n):
        best = k + np.argmax(np.abs(work[:, k:, k]), axis=1)
        held = work[rows, best].copy()
        work[rows, best] = work[:, k]
        work[:, k] = held
        pivot = work[:, k, k]
        found = np.where((found == 0) & (pivot == 0), np.int32(k + 1), found)
        safe = np.where(pivot == 0, 1, pivot)
        factor = work[:, k + 1 :, k] / safe[:, None]
        work[:, k + 1 :, k:] -= factor[:, :, None] * work[:, None, k, k:]
    return found.reshape(stack).astype(np.int32)


def _bad_minors(x: Array) -> Array:
    """Return, for each matrix, the order of the first leading minor that is not positive definite;
    0 if all are.
    """
    *stack, n, _ = x.shape
    flat = x.reshape(-1, n, n)
    found = np.zeros(len(flat), np.int32)
    for k, matrix in enumerate(flat):
        low, high = 0, n  # the minors up to `low` are positive definite
        while low < high:
            middle = (low + high + 1) // 2
            try:
                np.linalg.cholesky(matrix[:middle, :middle])
                low = middle
            except np.linalg.LinAlgError:
                high = middle - 1
        found[k] = 0 if low == n else low + 1
    return found.reshape(stack)


def _first_bad(info: Array) -> tuple[str, int]:
    """Return "(Batch element k): " for the first matrix that failed, and its information."""
    if not info.ndim:
        return "", int(info)
    places = np.flatnonzero(info)
    place = int(places[0]) if len(places) else 0
    return f"(Batch element {place}): ", int(info.reshape(-1)[place])


# -- inverses and solutions ------------------------------------------------------------------------

INV = Op(
    "LinalgInvExBackward0", core.inv, (("inverse", -1),), keeps=("inverse",), called="linalg_inv"
)
INV_OR_NAN = Op(
    "LinalgInvExBackward0",
    lambda x: bind(core.inv_or_nan_p, (x,)),
    (("inverse", -1),),
    keeps=("inverse",),
    called="linalg_inv",
)


@ROWS.function("linalg", out=True)
def inv(A: Operand) -> Value:
    """Return the inverse of square matrices.

    Args:
        A: shape (..., n, n).

    Raises:
        LinAlgError: if a matrix is singular.
    """
    return _inverse("linalg.inv", A)


def _inverse(name: str, A: Operand) -> Value:
    check_square("linalg.inv", A)
    check_floats("linalg.inv", A)
    try:
        return apply(INV, (A,))
    except np.linalg.LinAlgError:
        raise LinAlgError(_singular(name, A)) from None


def _singular(name: str, A: Operand) -> str:
    where, pivot = _first_bad(_zero_pivots(_array_of(A)))
    return algebra.singular(name, where, pivot)


@ROWS.function("function method", out=True)
def inverse(input: Operand) -> Value:
    """Return the inverse of square matrices; see `inv`."""
    return _inverse("linalg.inv", input)


_InvEx = named_result("linalg_inv_ex", "inverse info")


@ROWS.function("linalg", out=True)
def inv_ex(A: Operand, *, check_errors: bool = False) -> Any:
    """Return the inverse of square matrices, and 0 or the position of a zero pivot for each.

    Args:
        A: shape (..., n, n).
        check_errors: True to raise for singular matrices, whose inverse is nan otherwise.
    """
    check_square("linalg.inv", A)
    check_floats("linalg.inv", A)
    array = _array_of(A)
    info = np.zeros(array.shape[:-2], np.int32)
    try:
        found = apply(INV, (A,))
    except np.linalg.LinAlgError:
        if check_errors:
            raise LinAlgError(_singular("linalg.inv_ex", A)) from None
        found, info = apply(INV_OR_NAN, (A,)), _zero_pivots(array)
    return _InvEx(found, fresh(np.asarray(info)))


def _solved(a: Array, b: Array, left: bool, is_vector: bool) -> Any:
    """Solve ``a x = b``, or ``x a = b``."""
    right = core_reshape(b, (*b.shape, 1)) if is_vector else b
    if not left:
        a, right = swap_last(a), right if is_vector else swap_last(right)
    a, right = _in_stacks(a, right)
    found = core.solve(a, right)
    if is_vector:
        return core_reshape(found, found.shape[:-1])
    return found if left else swap_last(found)


def _in_stacks(a: Any, b: Any) -> Any:
    """Broadcast the stacks of two operands."""
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return tuple(
        x if x.shape[:-2] == stack else broadcast_to(x, (*stack, *x.shape[-2:])) for x in (a, b)
    )


SOLVE = Op(
    "LinalgSolveExBackward0",
    _solved,
    (("A", 0), ("result", -1), ("B", 1)),
    keeps=("A", "result"),
    details=lambda specs, params: {"left": params[0]},
    called="linalg_solve",
)


def _check_solve(name: str, A: Operand, B: Operand, left: bool) -> bool:
    """Check the operands of a system; returns True if B is a vector, or vectors."""
    a = check_square(name, A)
    f.tensors_only("linalg_solve", A=A, B=B)
    check_floats(name, A, "lu_cpu")
    kinds = dtype_of(A), dtype_of(B)
    if kinds[0] != kinds[1]:
        raise RuntimeError(algebra.system_dtypes(name, *(DTYPES[k].printed for k in kinds)))
    b: Any = shape_of(B)
    is_vector = len(b) == 1 or (len(a) - 1 == len(b) and b == a[:-1])
    rows = b[-1] if is_vector or not left else b[-2]
    if rows != a[-1] or (is_vector and not left and a[-1] != 1):
        shown = (*b, 1) if is_vector else b
        raise RuntimeError(algebra.system_shapes(name, a, shown, left=left))
    stack = b[:-1] if is_vector else b[:-2]
    check_broadcast(a[:-2], stack)
    return is_vector


def _solution(name: str, A: Operand, B: Operand, left: bool) -> Value:
    is_vector = _check_solve("linalg.solve", A, B, left)
    try:
        return apply(SOLVE, (A, B), (left, is_vector))
    except np.linalg.LinAlgError:
        where, _ = _first_bad(_zero_pivots(_array_of(A)))
        raise LinAlgError(
            f"{name}: {where}The solver failed because the input matrix is singular."
        ) from None


@ROWS.function("linalg", out=True)
def solve(A: Operand, B: Operand, *, left: bool = True) -> Value:
    """Return the solution of ``A X = B``, or of ``X A = B``.

    Args:
        A: shape (..., n, n).
        B: shape (..., n, k), (..., n) or (n,).
        left: False to solve ``X A = B``.

    Raises:
        LinAlgError: if a matrix is singular.
    """
    return _solution("torch.linalg.solve", A, B, left)


_SolveEx = named_result("linalg_solve_ex", "result info")


@ROWS.function("linalg", out=True)
def solve_ex(A: Operand, B: Operand, *, left: bool = True, check_errors: bool = False) -> Any:
    """Return the solution of ``A X = B``, and 0 or the position of a zero pivot for each matrix.

    Args:
        A: shape (..., n, n).
        B: shape (..., n, k), (..., n) or (n,).
        left: False to solve ``X A = B``.
        check_errors: True to raise for singular matrices, whose solution is nan otherwise.
    """
    is_vector = _check_solve("linalg.solve", A, B, left)
    info = np.zeros(shape_of(A)[:-2], np.int32)
    try:
        found = apply(SOLVE, (A, B), (left, is_vector))
    except np.linalg.LinAlgError:
        info = _zero_pivots(_array_of(A))
        if check_errors:
            where, _ = _first_bad(info)
            raise LinAlgError(
                f"torch.linalg.solve_ex: {where}The solver failed because the input matrix is "
                "singular."
            ) from None
        inverse = apply(INV_OR_NAN, (A,))
        given: Any = shaping.unsqueeze(B, -1) if is_vector else B
        found = products.matmul(inverse, given) if left else products.matmul(given, inverse)
        found = shaping.squeeze(found, -1) if is_vector else found
    return _SolveEx(found, fresh(np.asarray(info)))


def _solved_triangular(a: Array, b: Array, upper: bool, left: bool, unit: bool) -> Any:
    if not left:
        a, b, upper = swap_last(a), swap_last(b), not upper
    a, b = _in_stacks(a, b)
    if not unit and isinstance(a, np.ndarray) and not np.diagonal(a, 0, -2, -1).all():
        found = _solved_singular(a, b, upper)
    else:
        found = core_solve_triangular(a, b, lower=not upper, unit=unit)
    return found if left else swap_last(found)


def _solved_singular(a: Array, b: Array, upper: bool) -> Array:
    """Solve by substitution where the diagonal has zeros: infinite or nan, as in PyTorch."""
    n = a.shape[-1]
    found = np.array(b, copy=True)
    with np.errstate(all="ignore"):
        for k in reversed(range(n)) if upper else range(n):
            found[..., k, :] /= a[..., k, k, None]
            rest = slice(0, k) if upper else slice(k + 1, n)
            found[..., rest, :] -= a[..., rest, k, None] * found[..., k, None, :]
    return found


SOLVE_TRIANGULAR = Op(
    "LinalgSolveTriangularBackward0",
    _solved_triangular,
    (("self", 0), ("result", -1), ("B", 1)),
    keeps=("self", "result"),
    details=lambda specs, params: dict(
        zip(("upper", "left", "unitriangular"), params, strict=True)
    ),
)


@ROWS.function("linalg", out=True)
def solve_triangular(
    A: Operand, B: Operand, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Value:
    """Return the solution of ``A X = B`` (or ``X A = B``) for triangular matrices.

    Args:
        A: shape (..., n, n); only one triangle is read.
        B: shape (..., n, k).
        upper: True for the upper triangle.
        left: False to solve ``X A = B``.
        unitriangular: True for a diagonal of ones, which is not read.
    """
    a = check_square("linalg.solve_triangular", A)
    b = check_matrix("linalg.solve_triangular", B, "B")
    if dtype_of(A) != dtype_of(B):
        names = [DTYPES[dtype_of(x)].printed for x in (A, B)]
        raise RuntimeError(algebra.system_dtypes("linalg.solve_triangular", *names))
    if a[-1] != (b[-2] if left else b[-1]):
        raise RuntimeError(algebra.system_shapes("linalg.solve_triangular", a, b, left=left))
    check_broadcast(a[:-2], b[:-2])
    _only_kinds(A, "triangular_solve_cpu")
    return apply(SOLVE_TRIANGULAR, (A, B), (bool(upper), bool(left), bool(unitriangular)))


OLDER_TRIANGULAR = replace(
    SOLVE_TRIANGULAR, node="TriangularSolveBackward0", called="linalg_solve_triangular"
)
_TriangularSolve = named_result("triangular_solve", "solution cloned_coefficient")


@ROWS.function(out=True)
def triangular_solve(
    input: Operand,
    A: Operand,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> Any:
    """Return the solution of ``A X = input`` for triangular matrices, and a copy of ``A``; the
    older form of `solve_triangular`.
    """
    warn_once(algebra.TRIANGULAR_SOLVE)
    a = check_square("triangular_solve", A)
    b = check_matrix("triangular_solve", input, "b")
    if a[-1] != b[-2]:
        raise RuntimeError(algebra.incompatible("triangular_solve", a, b))
    turned: Any = shaping.transpose(A, -2, -1) if transpose else A
    found = apply(
        OLDER_TRIANGULAR, (turned, input), (bool(upper) != bool(transpose), True, unitriangular)
    )
    return _TriangularSolve(found, f.clone(A))


# -- determinants ----------------------------------------------------------------------------------

DET = Op("LinalgDetBackward0", core.det, (("A", 0), ("result", -1)), keeps=("A", "result"))
SLOGDET = Op(
    "LinalgSlogdetBackward0",
    lambda x: bind(core.slogdet_p, (x,)),
    (("A", 0), ("sign", -1), ("logabsdet", -2)),
    keeps=("A", "sign"),
)


@ROWS.function(BOTH_FORMS, out=True)
def det(A: Operand) -> Value:
    """Return the determinants of square matrices.

    Args:
        A: shape (..., n, n).
    """
    check_square("linalg.det", A)
    check_floats("linalg.det", A, "lu_cpu")
    return apply(DET, (A,))


_LinalgSlogdet = named_result("linalg_slogdet", "sign logabsdet")
_Slogdet = named_result("slogdet", "sign logabsdet")


def _signs_and_logarithms(A: Operand) -> Any:
    check_square("linalg.slogdet", A)
    check_floats("linalg.slogdet", A)
    return apply(SLOGDET, (A,))


@ROWS.function("linalg", out=True, name="slogdet")
def linalg_slogdet(A: Operand) -> Any:
    """Return the signs of the determinants, and the logarithms of their absolute values.

    Args:
        A: shape (..., n, n).
    """
    return _LinalgSlogdet(*_signs_and_logarithms(A))


@ROWS.function(out=True)
def slogdet(input: Operand) -> Any:
    """Return the signs of the determinants, and the logarithms of their absolute values."""
    return _Slogdet(*_signs_and_logarithms(input))


@ROWS.function()
def logdet(input: Operand) -> Value:
    """Return the logarithms of the determinants; nan where one is negative."""
    check_square("logdet", input)
    check_floats("logdet", input)
    sign, logarithm = _signs_and_logarithms(input)
    if dtype_of(input).kind == "c":
        return f.add(f.log(sign), logarithm)
    return f.where(sign == -1, math.nan, logarithm)


# -- Cholesky --------------------------------------------------------------------------------------


def _cholesky(x: Array, upper: bool) -> Any:
    return core_adjoint(core_cholesky(core_adjoint(x))) if upper else core_cholesky(x)


CHOLESKY_EX = Op(
    "LinalgCholeskyExBackward0",
    _cholesky,
    (("L", -1), ("A", 0)),
    keeps=("L",),
    details=lambda specs, params: {"upper": params[0]},
    called="linalg_cholesky",
)
CHOLESKY = Op(
    "CholeskyBackward0",
    _cholesky,
    (("result", -1), ("A", 0)),
    keeps=("result",),
    details=lambda specs, params: {"upper": params[0]},
)


def _lower(A: Operand, upper: bool) -> Array:
    array = _array_of(A)
    return np.swapaxes(array, -1, -2).conj() if upper else array


def _factor(op: Op, name: str, A: Operand, upper: bool) -> Value:
    checked = "cholesky" if name == "cholesky" else "linalg.cholesky"
    check_square(checked, A)
    check_floats(checked, A, "cholesky_cpu")
    try:
        return apply(op, (A,), (bool(upper),))
    except np.linalg.LinAlgError:
        where, order = _first_bad(_bad_minors(_lower(A, upper)))
        raise LinAlgError(algebra.not_positive_definite(name, where, order)) from None


@ROWS.function("linalg", out=True, name="cholesky")
def linalg_cholesky(A: Operand, *, upper: bool = False) -> Value:
    """Return the lower triangular ``L`` with ``A = L @ L.mH``, or the upper one.

    Args:
        A: symmetric positive definite, shape (..., n, n); only one triangle is read.
        upper: True for the upper triangular factor.

    Raises:
        LinAlgError: if a matrix is not positive definite.
    """
    return _factor(CHOLESKY_EX, "linalg.cholesky", A, upper)


@ROWS.function(out=True)
def cholesky(input: Operand, upper: bool = False) -> Value:
    """Return the triangular factor of a positive definite matrix; the older form of
    `linalg.cholesky`.
    """
    return _factor(CHOLESKY, "cholesky", input, upper)


_CholeskyEx = named_result("linalg_cholesky_ex", "L info")


@ROWS.function("linalg", out=True)
def cholesky_ex(A: Operand, *, upper: bool = False, check_errors: bool = False) -> Any:
    """Return the triangular factor, and 0 or the order of the first minor that is not positive
    definite, for each matrix.

    Args:
        A: shape (..., n, n); only one triangle is read.
        upper: True for the upper triangular factor.
        check_errors: True to raise for a matrix that is not positive definite, whose factor is nan
            otherwise.
    """
    check_square("linalg.cholesky", A)
    check_floats("linalg.cholesky", A, "cholesky_cpu")
    info = np.zeros(shape_of(A)[:-2], np.int32)
    try:
        found = apply(CHOLESKY_EX, (A,), (bool(upper),))
    except np.linalg.LinAlgError:
        info = _bad_minors(_lower(A, upper))
        if check_errors:
            where, order = _first_bad(info)
            raise LinAlgError(
                algebra.not_positive_definite("linalg.cholesky_ex", where, order)
            ) from None
        bad = wrap(np.broadcast_to((info > 0)[..., None, None], shape_of(A)).copy())
        safe = f.where(bad, wrap(np.eye(shape_of(A)[-1], dtype=dtype_of(A))), A)
        found = f.where(bad, math.nan, apply(CHOLESKY_EX, (safe,), (bool(upper),)))
    return _CholeskyEx(found, fresh(np.asarray(info)))


def _cholesky_solved(b: Array, factor: Array, upper: bool) -> Any:
    factor, b = _in_stacks(factor, b)
    lower = core_adjoint(factor) if upper else factor
    inner = core_solve_triangular(lower, b, lower=True)
    return core_solve_triangular(core_adjoint(lower), inner, lower=False)


CHOLESKY_SOLVE = Op(
    "CholeskySolveBackward0",
    _cholesky_solved,
    (("input2", 1), ("result", -1), ("self", 0)),
    keeps=("input2", "result", "self"),
    details=lambda specs, params: {"upper": params[0]},
)
CHOLESKY_INVERSE = Op(
    "CholeskyInverseBackward0",
    lambda x, upper: _cholesky_solved(np.eye(x.shape[-1], dtype=x.dtype), x, upper),
    (("result", -1), ("self", 0)),
    keeps=("result", "self"),
    details=lambda specs, params: {"upper": params[0]},
)


@ROWS.function(out=True)
def cholesky_solve(input: Operand, L: Operand, upper: bool = False) -> Value:
    """Return the solution of ``A X = input``, from the triangular factor of ``A``.

    Args:
        input: shape (..., n, k).
        L: shape (..., n, n).
        upper: True if the factor is upper triangular.
    """
    b, a = check_matrix("cholesky_solve", input, "b"), check_matrix("cholesky_solve", L, "u")
    if a[-1] != a[-2]:
        raise RuntimeError(algebra.not_square("cholesky_solve", "A", a))
    if b[-2] != a[-1]:
        raise RuntimeError(algebra.incompatible("cholesky_solve", a, b))
    _only_kinds(input, "cholesky_solve_cpu")
    return apply(CHOLESKY_SOLVE, (input, L), (bool(upper),))


@ROWS.function(out=True)
def cholesky_inverse(L: Operand, upper: bool = False) -> Value:
    """Return the inverse of a positive definite matrix, from its triangular factor.

    Args:
        L: shape (..., n, n).
        upper: True if the factor is upper triangular.
    """
    check_square("cholesky_inverse", L)
    _only_kinds(L, "cholesky_inverse_out_cpu")
    return apply(CHOLESKY_INVERSE, (L,), (bool(upper),))


# -- QR --------------------------------------------------------------------------------------------


def _qr(x: Array, mode: str) -> Any:
    from functrace.ops import qr as core_qr

    return core_qr.qr_complete(x) if mode == "complete" else core_qr.qr(x)


def _triangle(x: Array, mode: str) -> Any:
    return _qr(x, "reduced")[1]


def _mode(specs: Sequence[Any], params: tuple[Any, ...]) -> dict[str, Any]:
    return {"mode": params[0]}


QR = Op("LinalgQrBackward0", _qr, (("Q", -1), ("R", -2), ("A", 0)), keeps=("Q", "R"), details=_mode)
QR_TRIANGLE = Op(
    "LinalgQrBackward0",
    _triangle,
    (("R", -1), ("A", 0)),
    details=_mode,
    called="linalg_qr_triangle",
)
_LinalgQr = named_result("linalg_qr", "Q R")
_Qr = named_result("qr", "Q R")


def _factors(A: Operand, mode: str) -> tuple[Any, Any]:
    check_matrix("linalg.qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(algebra.qr_mode(mode))
    check_floats("linalg.qr", A, "geqrf_cpu")
    if mode == "r":
        return fresh(np.zeros(0, dtype_of(A))), apply(QR_TRIANGLE, (A,), (mode,))
    return apply(QR, (A,), (mode,))


@ROWS.function("linalg", out=True, name="qr")
def linalg_qr(A: Operand, mode: str = "reduced") -> Any:
    """Return the orthogonal and the upper triangular factor of matrices.

    Args:
        A: shape (..., m, n).
        mode: ``"reduced"``; ``"complete"`` for a square ``Q``; ``"r"`` for ``R`` alone, with an
            empty ``Q``.
    """
    return _LinalgQr(*_factors(A, mode))


@ROWS.function(out=True)
def qr(input: Operand, some: bool = True) -> Any:
    """Return the orthogonal and the upper triangular factor; the older form of `linalg.qr`."""
    warn_once(algebra.QR)
    return _Qr(*_factors(input, "reduced" if some else "complete"))


def _reflectors(x: Array, tau: Array) -> tuple[Any, Any]:
    """Return V and T with ``I - V T V^H`` the product of all reflectors."""
    m = x.shape[-2]
    count = tau.shape[-1]
    below = np.tri(m, count, -1, dtype=bool)
    v = ew.where(below, index_static(x, (Ellipsis, _ALL, (0, count, 1))), 0.0)
    v = ew.add(v, np.eye(m, count, dtype=x.dtype))
    inner = core_matmul(core_adjoint(v), v)
    upper = ew.where(np.tri(count, count, -1, dtype=bool).T, inner, 0.0)
    column = core_reshape(tau, (*tau.shape, 1))
    identity = np.eye(count, dtype=x.dtype)
    system = ew.add(ew.mul(column, upper), identity)
    return v, core_solve_triangular(system, ew.mul(column, identity), lower=False, unit=True)


def _reflected(x: Array, tau: Array) -> Any:
    m, n = x.shape[-2:]
    v, t = _reflectors(x, tau)
    wide = index_static(core_adjoint(v), (Ellipsis, _ALL, (0, n, 1)))
    return ew.sub(np.eye(m, n, dtype=x.dtype), core_matmul(core_matmul(v, t), wide))


HOUSEHOLDER = Op(
    "LinalgHouseholderProductBackward0",
    _reflected,
    (("input", 0), ("tau", 1), ("result", -1)),
    keeps=("input", "tau", "result"),
)


@ROWS.function("linalg", out=True)
def householder_product(input: Operand, tau: Operand) -> Value:
    """Return the first columns of the product of Householder reflectors.

    Args:
        input: the vectors below its diagonal, shape (..., m, n).
        tau: their factors, shape (..., k).
    """
    name = "torch.linalg.householder_product"
    shape = shape_of(input)
    f.tensors_only("linalg_householder_product", input=input, tau=tau)
    if len(shape) < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if shape[-2] < shape[-1]:
        raise RuntimeError(
            f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]"
        )
    if shape[-1] < shape_of(tau)[-1]:
        raise RuntimeError(
            f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]"
        )
    if dtype_of(input) != dtype_of(tau):
        names = [DTYPES[dtype_of(x)].name for x in (tau, input)]
        raise RuntimeError(f"{name}: tau dtype {names[0]} does not match input dtype {names[1]}")
    return apply(HOUSEHOLDER, (input, tau))


ROWS.function(name="orgqr", out=True)(householder_product)


def _multiplied(x: Array, tau: Array, other: Array, left: bool, transpose: bool) -> Any:
    v, t = _reflectors(x, tau)
    if transpose:
        t = core_adjoint(t)
    turned = core_adjoint(v)
    if left:
        return ew.sub(other, core_matmul(v, core_matmul(t, core_matmul(turned, other))))
    return ew.sub(other, core_matmul(core_matmul(core_matmul(other, v), t), turned))


ORMQR = Op(
    "OrmqrBackward0",
    _multiplied,
    (("self", 0), ("input2", 1), ("input3", 2), ("result", -1)),
    keeps=("self", "input2", "input3", "result"),
    details=lambda specs, params: {"left": params[0], "transpose": params[1]},
)


@ROWS.function(out=True)
def ormqr(
    input: Operand, tau: Operand, other: Operand, left: bool = True, transpose: bool = False
) -> Value:
    """Return the product of Householder reflectors and a matrix.

    Args:
        input: the vectors below its diagonal, shape (..., m, k).
        tau: their factors, shape (..., k).
        other: the matrix, shape (..., m, n), or (..., n, m) if not ``left``.
        left: False to multiply from the right.
        transpose: True for the transposed product.
    """
    axis = -2 if left else -1
    if shape_of(other)[axis] != shape_of(input)[-2]:
        raise RuntimeError(f"torch.ormqr: other.shape[{axis}] must be equal to input.shape[-2]")
    return apply(ORMQR, (input, tau, other), (bool(left), bool(transpose)))


def _geqrf(x: Array) -> Any:
    from functrace.ops import qr as core_qr

    return core_qr.qr_raw(x)


GEQRF = Op("GeqrfBackward0", _geqrf, (("self", 0), ("a", -1), ("tau", -2)))
_Geqrf = named_result("geqrf", "a tau")


@ROWS.function(out=True)
def geqrf(input: Operand) -> Any:
    """Return ``R`` with the Householder vectors below it, and their factors.

    Args:
        input: shape (..., m, n).
    """
    check_matrix("torch.geqrf", input, "input")
    _only_kinds(input, "geqrf_cpu")
    return _Geqrf(*apply(GEQRF, (input,)))


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
    rest_u = index_static(held[0], (Ellipsis, _ALL, (k, None, None)))
    rest_v = index_static(held[2], (Ellipsis, (k, None, None), _ALL))
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
    if _needs_gradient(A):
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
    _only_kinds(A, "linalg_eigh_cpu")
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
    if _needs_gradient(A):
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
    _only_kinds(A, "linalg_eig_out_cpu")
    array = _array_of(A)
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
            rtol = np.where(_array_of(atol) > 0, 0.0, default)
        else:
            rtol = 0.0 if has_atol else default
    low, cut = (0.0 if value is None else np.asarray(_array_of(value)) for value in (atol, rtol))
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
    if isinstance(_array_of(A), Tracer) and atol is None and rtol is None:
        return apply(PINV, (A,), (bool(hermitian),))
    low, cut = _tolerances(A, atol, rtol)
    if np.any(low):
        held: Any = A.detach() if isinstance(A, Tensor) else A
        top = _array_of(singular_values(held))[..., 0]
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
        values = np.abs(_array_of(eigvalsh(held)))
    else:
        values = _array_of(singular_values(held))
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
    _only_kinds(A, "torch.linalg.lstsq_cpu")
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
    ranks = _array_of(rank)
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


# -- LU --------------------------------------------------------------------------------------------


def _lu_of(x: Array) -> Any:
    from functrace.ops.matrix_functions import lu as core_lu

    factors, pivots, order = core_lu(x)
    return factors, ew.add(pivots, np.int32(1)), order


def _lu_parts(x: Array) -> Any:
    from functrace.ops import matrix_functions as core_functions

    factors, _, order = core_functions.lu(x)
    lower, upper = core_functions.lu_parts(factors)
    matrix = core_functions.permutation_matrix(order, core_functions.real_dtype(x))
    return convert(swap_last(matrix), x.dtype), lower, upper


LU_FACTOR = Op(
    "LinalgLuFactorExBackward0",
    _lu_of,
    (("LU", -1), ("pivots", -2), ("permutation", -3), ("A", 0)),
    keeps=("LU", "pivots"),
)
LU = Op("LinalgLuBackward0", _lu_parts, (("P", -1), ("L", -2), ("U", -3), ("A", 0)), constants=(0,))
_LinalgLu = named_result("linalg_lu", "P L U")
_LuFactor = named_result("linalg_lu_factor", "LU pivots")
_LuFactorEx = named_result("linalg_lu_factor_ex", "LU pivots info")


def _check_lu(name: str, A: Operand, pivot: bool) -> None:
    f.tensors_only(name.rpartition(".")[2], A=A)
    if len(shape_of(A)) < 2:
        raise RuntimeError(algebra.lu_dimensions(name, shape_of(A)))
    _only_kinds(A, "lu_cpu")
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")


@ROWS.function("linalg", out=True)
def lu(A: Operand, *, pivot: bool = True) -> Any:
    """Return matrices P, L and U with ``A = P @ L @ U``.

    Args:
        A: shape (..., m, n).
    """
    _check_lu("linalg.lu", A, pivot)
    return _LinalgLu(*apply(LU, (A,)))


def _lu_info(factors: Operand) -> Array:
    zero = np.diagonal(_array_of(factors), 0, -2, -1) == 0
    first = np.argmax(zero, -1) + 1 if zero.shape[-1] else np.zeros(zero.shape[:-1], int)
    return np.where(zero.any(-1), first, 0).astype(np.int32)


@ROWS.function("linalg", out=True)
def lu_factor_ex(A: Operand, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """Return both factors in one matrix, LAPACK's pivots (counted from 1), and 0 or the position
    of a zero pivot for each matrix.

    Args:
        A: shape (..., m, n).
    """
    return _factor_ex("torch.lu_factor_ex", A, pivot, check_errors)


def _factor_ex(name: str, A: Operand, pivot: bool, check_errors: bool) -> Any:
    _check_lu(name, A, pivot)
    factors, pivots, _ = apply(LU_FACTOR, (A,))
    if isinstance(_array_of(factors), Tracer):
        zero = np.equal(np.diagonal(_array_of(factors), 0, -2, -1), 0)
        first = np.where(np.any(zero, -1), np.argmax(zero, -1) + 1, 0)
        return _LuFactorEx(factors, pivots, fresh(convert(first, np.int32)))
    info = _lu_info(factors)
    if check_errors and info.any():
        where, place = _first_bad(info)
        raise RuntimeError(
            algebra.zero_pivot(name.replace("torch.", "torch.linalg."), where, place)
        )
    return _LuFactorEx(factors, pivots, fresh(np.asarray(info)))


@ROWS.function("linalg", out=True)
def lu_factor(A: Operand, *, pivot: bool = True) -> Any:
    """Return both factors in one matrix, and LAPACK's pivots, counted from 1.

    Args:
        A: shape (..., m, n).

    Raises:
        RuntimeError: if a pivot is 0.
    """
    return _LuFactor(*_factor_ex("torch.lu_factor", A, pivot, True)[:2])


@ROWS.function(name="lu")
def lu_of(A: Operand, pivot: bool = True, get_infos: bool = False) -> Any:
    """Return both factors in one matrix, and LAPACK's pivots; the older form of
    `linalg.lu_factor`.
    """
    warn_once(algebra.LU)
    found = _factor_ex("torch.lu_factor", A, pivot, not get_infos)
    return tuple(found) if get_infos else tuple(found[:2])


def _unpacked(factors: Array, pivots: Array) -> Any:
    from functrace.ops import matrix_functions as core_functions

    lower, upper = core_functions.lu_parts(factors)
    order = bind(core_functions.permutation_p, (ew.sub(pivots, np.int32(1)),), (factors.shape[-2],))
    matrix = core_functions.permutation_matrix(order, core_functions.real_dtype(factors))
    return convert(swap_last(matrix), factors.dtype), lower, upper


LU_UNPACK = Op(
    "LuUnpackBackward0",
    _unpacked,
    (("LU_data", 0), ("LU_pivots", 1)),
    edges=(0,),
    constants=(0,),
)
_LuUnpack = named_result("lu_unpack", "P L U")


@ROWS.function("function", out=True)
def lu_unpack(
    LU_data: Operand, LU_pivots: Operand, unpack_data: bool = True, unpack_pivots: bool = True
) -> Any:
    """Return matrices P, L and U from the results of `lu_factor`.

    Args:
        LU_data: shape (..., m, n).
        LU_pivots: int32, shape (..., min(m, n)).
        unpack_data: False for empty L and U.
        unpack_pivots: False for an empty P.
    """
    if dtype_of(LU_pivots) != np.int32:
        raise RuntimeError(algebra.UNPACK_PIVOTS)
    found = apply(LU_UNPACK, (LU_data, LU_pivots))
    none = fresh(np.zeros(0, dtype_of(LU_data)))
    return _LuUnpack(
        found[0] if unpack_pivots else none,
        *(found[1:] if unpack_data else (none, none)),
    )


def _lu_solved(factors: Array, pivots: Array, b: Array, left: bool, is_adjoint: bool) -> Any:
    matrix, lower, upper = _unpacked(factors, pivots)
    right = b if left else core_adjoint(b)
    stack = np.broadcast_shapes(lower.shape[:-2], right.shape[:-2])
    matrix, lower, upper, b = (
        x if x.shape[:-2] == stack else broadcast_to(x, (*stack, *x.shape[-2:]))
        for x in (matrix, lower, upper, right)
    )
    if is_adjoint == left:  # (P L U)^H x = b
        inner = core_solve_triangular(core_adjoint(upper), b, lower=True)
        inner = core_solve_triangular(core_adjoint(lower), inner, lower=False, unit=True)
        found = core_matmul(matrix, inner)
    else:
        inner = core_matmul(swap_last(matrix), b)
        inner = core_solve_triangular(lower, inner, lower=True, unit=True)
        found = core_solve_triangular(upper, inner, lower=False)
    return found if left else core_adjoint(found)


LU_SOLVE = Op(
    "LinalgLuSolveBackward0",
    _lu_solved,
    (("LU", 0), ("pivots", 1), ("result", -1), ("B", 2)),
    edges=(0, 2),
    keeps=("LU", "pivots", "result"),
    details=lambda specs, params: {"left": params[0], "adjoint": params[1]},
)


@ROWS.function("linalg", out=True, name="lu_solve")
def linalg_lu_solve(
    LU: Operand, pivots: Operand, B: Operand, *, left: bool = True, adjoint: bool = False
) -> Value:
    """Return the solution of ``A X = B``, from the results of `lu_factor`.

    Args:
        LU: shape (..., n, n).
        pivots: int32, shape (..., n).
        B: shape (..., n, k).
        left: False to solve ``X A = B``.
        adjoint: True to solve with the conjugate transpose of ``A``.
    """
    name = "linalg.lu_solve"
    a = check_square(name, LU, "LU")
    b = check_matrix(name, B, "B")
    if dtype_of(pivots) != np.int32:
        raise RuntimeError(f"{name}: pivots should be a Tensor of scalar type torch.int32")
    if dtype_of(LU) != dtype_of(B):
        names = [DTYPES[dtype_of(x)].printed for x in (LU, B)]
        raise RuntimeError(algebra.system_dtypes(name, *names).replace("A and B", "LU and B"))
    if a[-1] != (b[-2] if left else b[-1]):
        raise RuntimeError(algebra.system_shapes(name, a, b, left=left))
    return apply(LU_SOLVE, (LU, pivots, B), (bool(left), bool(adjoint)))


@ROWS.function(out=True)
def lu_solve(b: Operand, LU_data: Operand, LU_pivots: Operand) -> Value:
    """Return the solution of ``A x = b``, from the results of `lu_factor`."""
    warn_once(algebra.LU_SOLVE)
    return linalg_lu_solve(LU_data, LU_pivots, b)


# -- LDL -------------------------------------------------------------------------------------------


def _lapack(name: str, dtype: np.dtype[Any]) -> Any:
    import scipy.linalg

    return scipy.linalg.get_lapack_funcs((name,), dtype=dtype)[0]


def _factored_symmetric(x: Array, hermitian: bool) -> tuple[Array, Array, Array]:
    factor = _lapack("hetrf" if hermitian and x.dtype.kind == "c" else "sytrf", x.dtype)
    made = np.zeros_like(x)
    pivots, info = np.zeros(x.shape[:-1], np.int32), np.zeros(x.shape[:-2], np.int32)
    for k in np.ndindex(x.shape[:-2]):
        found, order, state = factor(x[k], lower=1)
        made[k], pivots[k], info[k] = np.tril(found), _counted(order), state
    return made, pivots, info


def _counted(order: Array) -> Array:
    """Return LAPACK's pivots counted from 1, which SciPy counts from 0: -k for blocks stays."""
    return np.where(order >= 0, order + 1, order).astype(np.int32) if (order == 0).any() else order


_LdlFactor = named_result("linalg_ldl_factor", "LD pivots")
_LdlFactorEx = named_result("linalg_ldl_factor_ex", "LD pivots info")


@ROWS.function("linalg", out=True)
def ldl_factor_ex(A: Operand, *, hermitian: bool = False, check_errors: bool = False) -> Any:
    """Return the factors of symmetric matrices in LAPACK's form, its pivots, and 0 or the position
    of a zero pivot for each matrix. There is no derivative.

    Args:
        A: shape (..., n, n).
        hermitian: True for Hermitian instead of symmetric complex matrices.
    """
    name = "torch.linalg.ldl_factor_ex"
    check_square(name, A)
    if dtype_of(A).kind not in "fcV":
        check_floats(name, A)
    _only_kinds(A, "ldl_factor_kernel_cpu")
    held = _array_of(A)
    factors, pivots, info = _factored_symmetric(held, hermitian)
    if check_errors and info.any():
        where, place = _first_bad(info)
        raise LinAlgError(algebra.ldl_singular(where, place))
    return _LdlFactorEx(fresh(factors), fresh(pivots), fresh(np.asarray(info)))


@ROWS.function("linalg", out=True)
def ldl_factor(A: Operand, *, hermitian: bool = False) -> Any:
    """Return the factors of symmetric matrices in LAPACK's form, and its pivots; see
    `ldl_factor_ex`.
    """
    return _LdlFactor(*ldl_factor_ex(A, hermitian=hermitian, check_errors=True)[:2])


@ROWS.function("linalg", out=True)
def ldl_solve(LD: Operand, pivots: Operand, B: Operand, *, hermitian: bool = False) -> Value:
    """Return the solution of ``A X = B``, from the results of `ldl_factor`. There is no derivative.

    Args:
        LD: shape (..., n, n).
        pivots: int32, shape (..., n).
        B: shape (..., n, k).
    """
    a = check_square("torch.linalg.ldl_solve", LD, "LD")
    b = check_matrix("torch.linalg.ldl_solve", B, "B")
    if a[-1] != b[-2]:
        raise RuntimeError(algebra.system_shapes("torch.linalg.ldl_solve", a, b, left=True))
    kind = dtype_of(LD)
    solve_factored = _lapack("hetrs" if hermitian and kind.kind == "c" else "sytrs", kind)
    factors, order, right = (_array_of(x) for x in (LD, pivots, B))
    stack = np.broadcast_shapes(factors.shape[:-2], right.shape[:-2])
    factors = np.broadcast_to(factors, (*stack, *a[-2:]))
    order = np.broadcast_to(order, (*stack, a[-1]))
    right = np.broadcast_to(right, (*stack, *b[-2:]))
    made = np.empty_like(right, order="C")
    for k in np.ndindex(stack):
        made[k] = solve_factored(factors[k], order[k], right[k], lower=1)[0]
    return fresh(made)


# -- functions of matrices -------------------------------------------------------------------------


def _exponential(x: Array) -> Any:
    from functrace.ops.matrix_functions import matrix_function

    if x.dtype == np.float16:
        return convert(matrix_function(convert(x, np.float32), "expm"), x.dtype)
    return matrix_function(x, "expm")


MATRIX_EXP = Op("LinalgMatrixExpBackward0", _exponential, (("self", 0),), keeps=("self",))


@ROWS.function(BOTH_FORMS)
def matrix_exp(input: Operand) -> Value:
    """Return the exponential of square matrices.

    Args:
        input: shape (..., n, n).
    """
    check_square("linalg.matrix_exp", input)
    check_floats("linalg.matrix_exp", input, half=True)
    return apply(MATRIX_EXP, (input,))


@ROWS.function(BOTH_FORMS, out=True)
def matrix_power(input: Operand, n: int) -> Value:
    """Return an integer power of square matrices; of the inverses, if it is negative.

    Args:
        input: shape (..., m, m).
        n: the power.
    """
    shape = check_square("linalg.matrix_power", input)
    power = f.whole("linalg_matrix_power", "n", n, 1)
    if power == 0:
        identity = np.broadcast_to(np.eye(shape[-1], dtype=dtype_of(input)), shape)
        return f.clone(input).copy_(wrap(identity.copy()))
    if power == 1:
        return f.clone(input)
    base: Any = _inverse("linalg.inv", input) if power < 0 else input
    power = abs(power)
    if power == 3:
        return products.matmul(products.matmul(base, base), base)
    result: Any = None
    square: Any = None
    while power:
        square = base if square is None else products.matmul(square, square)
        if power & 1:
            result = square if result is None else products.matmul(result, square)
        power >>= 1
    return result


@ROWS.function("linalg", out=True)
def multi_dot(tensors: Sequence[Operand]) -> Value:
    """Return the product of several matrices, in the order with the fewest operations.

    Args:
        tensors: at least two; matrices, and possibly a vector at either end.
    """
    count = len(tensors)
    if count < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {count}")
    shapes = [shape_of(x) for x in tensors]
    for k, shape in enumerate(shapes):
        if k in (0, count - 1):
            if len(shape) not in (1, 2):
                which = "first" if k == 0 else "last"
                raise RuntimeError(
                    f"multi_dot(): the {which} tensor must be 1D or 2D but got {len(shape)}D"
                )
        elif len(shape) != 2:
            raise RuntimeError(f"multi_dot(): tensor {k} must be 2D but got {len(shape)}D")
        if dtype_of(tensors[k]) != dtype_of(tensors[0]):
            names = [algebra.C_NAMES.get(dtype_of(x).name, "") for x in (tensors[0], tensors[k])]
            raise RuntimeError(algebra.multi_dot_dtypes(k, *names))
    given: list[Any] = list(tensors)
    if len(shapes[0]) == 1:
        given[0] = shaping.unsqueeze(given[0], 0)
    if len(shapes[-1]) == 1:
        given[-1] = shaping.unsqueeze(given[-1], -1)
    sizes = [shape_of(x) for x in given]
    for k, (a, b) in enumerate(itertools.pairwise(sizes)):
        if a[1] != b[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {k} and {k + 1} with shapes {list(shapes[k])} and "
                f"{list(shapes[k + 1])} cannot be multiplied"
            )
    found = _chained(given, _best_splits([s[0] for s in sizes] + [sizes[-1][1]]), 0, count - 1)
    wanted = (
        *((sizes[0][0],) if len(shapes[0]) == 2 else ()),
        *((sizes[-1][1],) if len(shapes[-1]) == 2 else ()),
    )
    return shaping.view(found, wanted)


def _best_splits(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """Return where to split each part of a chain of matrices, by dynamic programming."""
    n = len(sizes) - 1
    cost = {(k, k): 0 for k in range(n)}
    splits: dict[tuple[int, int], int] = {}
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            best = min(
                range(i, j),
                key=lambda k: cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1],
            )
            cost[i, j] = (
                cost[i, best] + cost[best + 1, j] + sizes[i] * sizes[best + 1] * sizes[j + 1]
            )
            splits[i, j] = best
    return splits


def _chained(
    tensors: Sequence[Any], splits: dict[tuple[int, int], int], first: int, last: int
) -> Any:
    if first == last:
        return tensors[first]
    middle = splits[first, last]
    return products.mm(
        _chained(tensors, splits, first, middle), _chained(tensors, splits, middle + 1, last)
    )


@ROWS.function("function")
def chain_matmul(*matrices: Operand, out: Tensor | None = None) -> Value:
    """Return the product of several matrices; the older form of `linalg.multi_dot`."""
    warn_once(algebra.CHAIN_MATMUL)
    if len(matrices) == 1:
        return f.clone(matrices[0])
    if out is not None:
        return put_out(out, "chain_matmul", matrices, lambda: multi_dot(matrices))
    return multi_dot(matrices)


@ROWS.function()
def adjoint(input: Operand) -> Value:
    """Return the conjugate transpose of matrices, a view."""
    shape = shape_of(input)
    if len(shape) == 1:
        raise RuntimeError(errors.only_matrices("adjoint()", 1))
    if not shape:
        return f.conj(input)
    return f.conj(shaping.transpose(input, -2, -1))


@ROWS.function("property", name="mH")
def conjugate_transposed(self: Tensor) -> Value:
    """The conjugate transpose of matrices, a view."""
    if self._array.ndim < 2:
        if not self._array.ndim:
            warn_once("Tensor.mH is deprecated on 0-D tensors. Consider using x.conj().")
            return adjoint(self)
        raise RuntimeError(errors.only_matrices("mH", self._array.ndim))
    return adjoint(self)


# -- norms -----------------------------------------------------------------------------------------


@ROWS.function("linalg", out=True)
def vector_norm(
    x: Operand,
    ord: float = 2,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: DtypeLike | None = None,
) -> Value:
    """Return the norm of vectors: ``sum(abs(x)**ord)**(1/ord)``, of all elements or along
    dimensions.

    Args:
        ord: the order; infinite for the largest element, 0 for the number of nonzero ones.
    """
    f.tensors_only("linalg_vector_norm", input=x)
    check_floats("linalg.vector_norm", x, half=True)
    if isinstance(ord, str) or ord is None:
        raise TypeError(errors.must_be("linalg_vector_norm", "ord", 1, "Number", "str"))
    given = x if dtype is None else f.to(x, dtype)
    shape = shape_of(given)
    axes = f.dimensions(dim, len(shape))
    if (ord < 0 or ord == math.inf) and any(shape[k] == 0 for k in axes):
        raise RuntimeError(algebra.norm_of_nothing(ord, None if dim is None else axes))
    shown = None if dim is None else axes
    return apply(statistics.NORM, (given,), (float(ord), axes, bool(keepdim), shown))


def _two_dims(dim: Any, ndim: int) -> tuple[int, int]:
    if not isinstance(dim, (tuple, list)):
        raise TypeError(errors.invalid_combination("linalg_matrix_norm", (dim,)))
    if len(dim) != 2:
        raise RuntimeError(
            f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(map(str, dim))}"
        )
    a, b = (f.dimension(k, ndim) for k in dim)
    if a == b:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    return a, b


@ROWS.function("linalg", out=True)
def matrix_norm(
    A: Operand,
    ord: float | str = "fro",
    dim: Any = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: DtypeLike | None = None,
) -> Value:
    """Return the norm of matrices.

    Args:
        A: shape (..., m, n).
        ord: ``"fro"``, ``"nuc"`` (the sum of singular values), 2 or -2 (the largest or smallest
            singular value), 1 or -1 (of sums of columns), inf or -inf (of sums of rows).
        dim: the dimensions of rows and columns.
    """
    shape = check_matrix("linalg.matrix_norm", A)
    check_floats("linalg.matrix_norm", A, half=True)
    a, b = _two_dims(dim, len(shape))
    if ord == "fro":
        return vector_norm(A, 2, [a, b], keepdim, dtype=dtype)
    given = A if dtype is None else f.to(A, dtype)
    if ord == "nuc" or (not isinstance(ord, str) and abs(ord) == 2):
        turned = picking.movedim(given, (a, b), (-2, -1))
        values = singular_values(turned)
        if ord == "nuc":
            found = reductions.sum(values, -1, keepdim)
        else:
            found = _extreme(values, -1, keepdim, largest=ord > 0)  # type: ignore[operator]
        if keepdim:
            found = picking.movedim(shaping.unsqueeze(found, -1), (-2, -1), (a, b))
        return found
    if isinstance(ord, str) or abs(ord) not in (1, math.inf):
        shown = ord if isinstance(ord, str) else f"{ord:g}"
        raise RuntimeError(f"linalg.matrix_norm: Order {shown} not supported.")
    rows, columns = (a, b) if abs(ord) == 1 else (b, a)
    if rows < columns and not keepdim:
        columns -= 1
    sums = vector_norm(given, 1, rows, keepdim)
    return _extreme(sums, columns, keepdim, largest=ord > 0)


def _extreme(values: Any, dim: int, keepdim: bool, *, largest: bool) -> Value:
    return (values.amax if largest else values.amin)(dim, keepdim)


@ROWS.function("linalg", out=True, name="norm")
def linalg_norm(
    A: Operand,
    ord: float | str | None = None,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: DtypeLike | None = None,
) -> Value:
    """Return the norm of vectors (of one dimension, or all elements) or matrices (two dimensions).

    Args:
        ord: see `vector_norm` and `matrix_norm`; the Euclidean norm by default.
    """
    f.tensors_only("linalg_norm", input=A)
    ndim = len(shape_of(A))
    if isinstance(ord, str):
        axes = (-2, -1) if dim is None else dim
        if dim is not None and (not isinstance(dim, (tuple, list)) or len(dim) != 2):
            raise RuntimeError(algebra.norm_dims(len(dim) if isinstance(dim, (tuple, list)) else 1))
        return matrix_norm(A, ord, axes, keepdim, dtype=dtype)
    if ord is not None and dim is None and ndim not in (1, 2):
        raise RuntimeError(algebra.NORM_DIMENSIONS)
    if ord is not None and isinstance(dim, (tuple, list)) and len(dim) not in (1, 2):
        raise RuntimeError(algebra.norm_dims_given(dim))
    two = (isinstance(dim, (tuple, list)) and len(dim) == 2) or (dim is None and ndim == 2)
    if ord is not None and two:
        return matrix_norm(A, ord, (0, 1) if dim is None else dim, keepdim, dtype=dtype)
    return vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


@ROWS.function("linalg", out=True)
def cond(A: Operand, p: float | str | None = None) -> Value:
    """Return the condition numbers of matrices: ``norm(A) * norm(inv(A))``.

    Args:
        A: shape (..., m, n); square unless ``p`` is None, 2 or -2.
        p: order of the norm; 2 by default.
    """
    f.tensors_only("linalg_cond", input=A)
    if len(shape_of(A)) < 2:
        raise RuntimeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    if isinstance(p, str) and p not in ("fro", "nuc"):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    if p is None or (not isinstance(p, str) and abs(p) == 2):
        values: Any = singular_values(A)
        first, last = values[..., :1], values[..., -1:]
        return shaping.squeeze(f.div(last, first) if p == -2 else f.div(first, last), -1)
    shown = p if isinstance(p, str) else f"{p:g}"
    check_square(f"linalg.cond(ord={shown})", A)
    found = matrix_norm(A, p)
    if isinstance(_array_of(A), Tracer):
        other: Any = matrix_norm(apply(INV_OR_NAN, (A,)), p)
    else:
        inverse, info = inv_ex(A)
        other = matrix_norm(inverse, p)
        if info._array.any():
            other = f.where(info > 0, math.inf, other)
    return nan_to_num(f.mul(found, other), math.inf, math.inf, -math.inf)


# -- products --------------------------------------------------------------------------------------


def _crossed(x: Array, y: Array, dim: int) -> Any:
    """``x × y`` from shifted copies: coordinates (1, 2, 0) and (2, 0, 1)."""
    turned = [[_turned(v, dim, shift) for shift in (1, 2)] for v in (x, y)]
    return ew.sub(ew.mul(turned[0][0], turned[1][1]), ew.mul(turned[0][1], turned[1][0]))


def _turned(x: Array, dim: int, shift: int) -> Any:
    def part(a: int | None, b: int | None) -> Any:
        return index_static(x, (*(_ALL,) * dim, (a, b, None), ...))

    return concatenate((part(shift, None), part(None, shift)), dim)


CROSS = Op(
    "LinalgCrossBackward0",
    _crossed,
    (("self", 0), ("other", 1)),
    keeps=("self", "other"),
    details=lambda specs, params: {"dim": params[0]},
)


def _cross_product(input: Operand, other: Operand, dim: int) -> Value:
    a, b = shape_of(input), shape_of(other)
    if len(a) != len(b):
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    axis = f.dimension(dim, len(a))
    if a[axis] != 3 or b[axis] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {a[axis]} and {b[axis]}"
        )
    check_broadcast(a, b)
    full = np.broadcast_shapes(a, b)
    given = [x if shape_of(x) == full else shaping.expand(x, full) for x in (input, other)]
    kinds = dtype_of(input), dtype_of(other)
    if kinds[0].kind == "b":
        raise NotImplementedError(errors.no_kernel("cross").format("Bool"))
    if kinds[0] != kinds[1]:
        raise RuntimeError(errors.scalar_types(*(DTYPES[kind].printed for kind in kinds)))
    return apply(CROSS, tuple(given), (axis,))


@ROWS.function("linalg", out=True, name="cross")
def linalg_cross(input: Operand, other: Operand, *, dim: int = -1) -> Value:
    """Return the cross products of vectors with 3 coordinates along a dimension."""
    f.tensors_only("linalg_cross", input=input, other=other)
    return _cross_product(input, other, dim)


@ROWS.function(out=True)
def cross(input: Operand, other: Operand, dim: int | None = None) -> Value:
    """Return the cross products of vectors with 3 coordinates along a dimension: by default, the
    first one of size 3.
    """
    f.tensors_only("cross", input=input, other=other)
    if dim is None:
        warn_once(algebra.CROSS)
        dim = next((k for k, n in enumerate(shape_of(input)) if n == 3), -1)
        if dim < 0:
            raise RuntimeError("no dimension of size 3 in input")
    return _cross_product(input, other, dim)


@ROWS.function("linalg", out=True)
def vecdot(x: Operand, y: Operand, *, dim: int = -1) -> Value:
    """Return the products of vectors along a dimension: ``sum(conj(x) * y)``."""
    f.tensors_only("linalg_vecdot", x=x, y=y)
    check_floats("linalg.vecdot", x, half=True)
    if dtype_of(x) != dtype_of(y):
        names = [DTYPES[dtype_of(v)].printed for v in (x, y)]
        raise RuntimeError(
            f"linalg.vecdot: Expected x and y to have the same dtype, but found x of type "
            f"{names[0]} and y of type {names[1]} instead"
        )
    return reductions.sum(f.mul(f.conj(x), y), dim)


ROWS.function("linalg", name="matmul", out=True)(products.matmul)


@ROWS.function("linalg", name="diagonal")
def linalg_diagonal(A: Operand, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Value:
    """Return a view of a diagonal of two dimensions, as the last dimension."""
    return picking.diagonal(A, offset, dim1, dim2)


@ROWS.function("linalg", name="vander")
def linalg_vander(x: Operand, *, N: int | None = None) -> Value:
    """Return the powers 0 to ``N - 1`` of each element, along a new last dimension."""
    f.tensors_only("linalg_vander", x=x)
    if dtype_of(x).kind == "b" or is_half(dtype_of(x)):
        raise RuntimeError(
            "linalg.vander supports floating point, complex, and integer tensors, but got "
            f"{DTYPES[dtype_of(x)].printed}"
        )
    shape = shape_of(x)
    count = (shape[-1] if shape else 1) if N is None else N
    if count <= 1:
        raise RuntimeError("N must be greater than 1.")
    given: Any = f.to(x, np.dtype(np.int64)) if dtype_of(x).kind in "bui" else x
    wide = shaping.expand(shaping.unsqueeze(given, -1), (*shape, count - 1))
    ones = fresh(np.ones((*shape, 1), dtype_of(given)))
    return shaping.cat([ones, wide.cumprod(-1)], -1)


@ROWS.function("linalg", out=True)
def tensorinv(A: Operand, ind: int = 2) -> Value:
    """Return the inverse of a tensor with respect to `tensordot` over ``ind`` dimensions."""
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    shape = shape_of(A)
    first, last = shape[:ind], shape[ind:]
    if math.prod(first) != math.prod(last):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            f"prod(self.shape[:ind]), but got {math.prod(last)} != {math.prod(first)}"
        )
    flat = shaping.reshape(A, (math.prod(first), math.prod(last)))
    return shaping.reshape(_inverse("linalg.inv", flat), (*last, *first))


@ROWS.function("linalg", out=True)
def tensorsolve(A: Operand, B: Operand, dims: Sequence[int] | None = None) -> Value:
    """Return the tensor X with ``tensordot(A, X, X.ndim) == B``.

    Args:
        dims: dimensions of ``A`` that are moved to its end first.
    """
    given: Any = A
    if dims is not None:
        ndim = len(shape_of(A))
        given = picking.movedim(A, tuple(dims), tuple(range(ndim - len(dims), ndim)))
    b = shape_of(B)
    shape = shape_of(given)
    first, last = shape[: len(b)], shape[len(b) :]
    if math.prod(b) != math.prod(last):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {math.prod(last)} != {math.prod(b)}"
        )
    flat = shaping.reshape(given, (math.prod(last), math.prod(first)))
    return shaping.reshape(
        _solution("torch.linalg.solve", flat, shaping.reshape(B, (-1,)), True), last
    )


# -- functions that PyTorch has removed ------------------------------------------------------------


def _removed(name: str, forms: str) -> None:
    message = algebra.removed(name)

    def function(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(message)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Raise: PyTorch has removed ``{name}``."
    ROWS.function(forms, name=name)(function)


for _name in ("lstsq", "solve", "eig", "symeig"):
    _removed(_name, "function method")
_removed("matrix_rank", "function")
