"""Rows: inverses, solutions of systems, determinants.

Layer: 9.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrace.ops import elementwise as ew
from functrace.ops import linalg as core
from functrace.ops.contraction import swap_last
from functrace.ops.shaping import broadcast_to
from functrace.ops.shaping import reshape as core_reshape
from functrace.ops.triangular import solve_triangular as core_solve_triangular
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.promotion import check_broadcast
from functrace.torch.errors import algebra
from functrace.torch.errors.algebra import LinAlgError
from functrace.torch.errors.warnings import warn_once
from functrace.torch.functions import elementwise as f
from functrace.torch.functions import products, shaping
from functrace.torch.functions.elementwise import dtype_of, shape_of
from functrace.torch.functions.linear_algebra.checks import (
    BOTH_FORMS,
    ROWS,
    array_of,
    check_floats,
    check_kind,
    check_matrix,
    check_square,
    first_bad,
    info_of,
    show_check,
    zero_pivots,
)
from functrace.torch.functions.named_results import named_result
from functrace.torch.tensors.dtypes import DTYPES
from functrace.torch.tensors.tensor import Operand, Value, fresh
from functrace.tracing import bind
from functrace.typing import Array

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
    return inverse_of("linalg.inv", A)


def inverse_of(name: str, A: Operand) -> Value:
    """Return the inverse of square matrices; ``name`` is the function in messages."""
    check_square("linalg.inv", A)
    check_floats("linalg.inv", A)
    try:
        found = apply(INV, (A,))
    except np.linalg.LinAlgError:
        raise LinAlgError(_singular(name, A)) from None
    show_check(name, A, found, zero_pivots)
    return found


def _singular(name: str, A: Operand) -> str:
    where, pivot = first_bad(zero_pivots(array_of(A)))
    return algebra.singular(name, where, pivot)


@ROWS.function("function method", out=True)
def inverse(input: Operand) -> Value:
    """Return the inverse of square matrices; see `inv`."""
    return inverse_of("linalg.inv", input)


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
    array = array_of(A)
    try:
        found = apply(INV, (A,))
        info = info_of(A, found, zero_pivots)
    except np.linalg.LinAlgError:
        if check_errors:
            raise LinAlgError(_singular("linalg.inv_ex", A)) from None
        found, info = apply(INV_OR_NAN, (A,)), zero_pivots(array)
    return _InvEx(found, fresh(np.asarray(info)))


def _solved(a: Array, b: Array, left: bool, is_vector: bool) -> Any:
    """Solve ``a x = b``, or ``x a = b``."""
    right = core_reshape(b, (*b.shape, 1)) if is_vector else b
    if not left:
        a, right = swap_last(a), right if is_vector else swap_last(right)
    a, right = in_stacks(a, right)
    found = core.solve(a, right)
    if is_vector:
        return core_reshape(found, found.shape[:-1])
    return found if left else swap_last(found)


def in_stacks(a: Any, b: Any) -> Any:
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


def solution_of(name: str, A: Operand, B: Operand, left: bool) -> Value:
    """Return the solution of systems; ``name`` is the function in messages."""
    is_vector = _check_solve("linalg.solve", A, B, left)
    try:
        found = apply(SOLVE, (A, B), (left, is_vector))
    except np.linalg.LinAlgError:
        where, _ = first_bad(zero_pivots(array_of(A)))
        raise LinAlgError(algebra.solver_failed(name, where)) from None
    show_check(name, A, found, zero_pivots)
    return found


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
    return solution_of("torch.linalg.solve", A, B, left)


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
    try:
        found = apply(SOLVE, (A, B), (left, is_vector))
        info = info_of(A, found, zero_pivots)
    except np.linalg.LinAlgError:
        info = zero_pivots(array_of(A))
        if check_errors:
            where, _ = first_bad(info)
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
    a, b = in_stacks(a, b)
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
    check_kind(A, "triangular_solve_cpu")
    return apply(SOLVE_TRIANGULAR, (A, B), (bool(upper), bool(left), bool(unitriangular)))


def _solved_older(b: Array, a: Array, upper: bool, transpose: bool, unit: bool) -> Any:
    a, b = in_stacks(a, b)
    turned = swap_last(a) if transpose else a
    return _solved_triangular(turned, b, upper != transpose, True, unit), ew.positive(a)


OLDER_TRIANGULAR = Op(
    "TriangularSolveBackward0",
    _solved_older,
    (("A", 1), ("self", 0), ("solution", -1)),
    keeps=("A", "self", "solution"),
    details=lambda specs, params: dict(
        zip(("upper", "transpose", "unitriangular"), params, strict=True)
    ),
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
    params = (bool(upper), bool(transpose), bool(unitriangular))
    return _TriangularSolve(*apply(OLDER_TRIANGULAR, (input, A), params))


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
