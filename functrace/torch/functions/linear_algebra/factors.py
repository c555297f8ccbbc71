"""Rows: the factors of Cholesky, QR, LU and LDL, and what solves by them.

Factors of LU and LDL are SciPy's, which is imported when they are called.

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.ops import elementwise as ew
from functrace.ops.cholesky import cholesky as core_cholesky
from functrace.ops.contraction import matmul as core_matmul
from functrace.ops.contraction import swap_last
from functrace.ops.indexing import index_static
from functrace.ops.matrices import adjoint as core_adjoint
from functrace.ops.shaping import broadcast_to, convert
from functrace.ops.shaping import reshape as core_reshape
from functrace.ops.triangular import solve_triangular as core_solve_triangular
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.errors import algebra
from functrace.torch.errors.algebra import LinAlgError
from functrace.torch.errors.warnings import warn_once
from functrace.torch.functions import elementwise as f
from functrace.torch.functions.elementwise import dtype_of, shape_of
from functrace.torch.functions.linear_algebra.checks import (
    ROWS,
    WHOLE_AXIS,
    array_of,
    bad_minors,
    check_floats,
    check_kind,
    check_matrix,
    check_square,
    first_bad,
    info_of,
    show_check,
)
from functrace.torch.functions.linear_algebra.solving import in_stacks
from functrace.torch.functions.named_results import named_result
from functrace.torch.tensors.dtypes import DTYPES
from functrace.torch.tensors.tensor import Operand, Value, fresh, wrap
from functrace.tracing import Tracer, bind
from functrace.typing import Array

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
    array = array_of(A)
    return np.swapaxes(array, -1, -2).conj() if upper else array


def _factor(op: Op, name: str, A: Operand, upper: bool) -> Value:
    checked = "cholesky" if name == "cholesky" else "linalg.cholesky"
    check_square(checked, A)
    check_floats(checked, A, "cholesky_cpu")
    try:
        found = apply(op, (A,), (bool(upper),))
    except np.linalg.LinAlgError:
        where, order = first_bad(bad_minors(_lower(A, upper)))
        raise LinAlgError(algebra.not_positive_definite(name, where, order)) from None
    if op is CHOLESKY_EX:
        show_check(name, A, found, lambda x: bad_minors(_lower(x, upper)))
    return found


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
    try:
        found = apply(CHOLESKY_EX, (A,), (bool(upper),))
        info = info_of(A, found, lambda x: bad_minors(_lower(x, upper)))
    except np.linalg.LinAlgError:
        info = bad_minors(_lower(A, upper))
        if check_errors:
            where, order = first_bad(info)
            raise LinAlgError(
                algebra.not_positive_definite("linalg.cholesky_ex", where, order)
            ) from None
        bad = wrap(np.broadcast_to((info > 0)[..., None, None], shape_of(A)).copy())
        safe = f.where(bad, wrap(np.eye(shape_of(A)[-1], dtype=dtype_of(A))), A)
        found = f.where(bad, math.nan, apply(CHOLESKY_EX, (safe,), (bool(upper),)))
    return _CholeskyEx(found, fresh(np.asarray(info)))


def _cholesky_solved(b: Array, factor: Array, upper: bool) -> Any:
    factor, b = in_stacks(factor, b)
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
    check_kind(input, "cholesky_solve_cpu")
    return apply(CHOLESKY_SOLVE, (input, L), (bool(upper),))


@ROWS.function(out=True)
def cholesky_inverse(L: Operand, upper: bool = False) -> Value:
    """Return the inverse of a positive definite matrix, from its triangular factor.

    Args:
        L: shape (..., n, n).
        upper: True if the factor is upper triangular.
    """
    check_square("cholesky_inverse", L)
    check_kind(L, "cholesky_inverse_out_cpu")
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
    v = ew.where(below, index_static(x, (Ellipsis, WHOLE_AXIS, (0, count, 1))), 0.0)
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
    wide = index_static(core_adjoint(v), (Ellipsis, WHOLE_AXIS, (0, n, 1)))
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
    check_kind(input, "geqrf_cpu")
    return _Geqrf(*apply(GEQRF, (input,)))


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
    check_kind(A, "lu_cpu")
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
    zero = np.diagonal(array_of(factors), 0, -2, -1) == 0
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
    if isinstance(array_of(factors), Tracer):
        zero = np.equal(np.diagonal(array_of(factors), 0, -2, -1), 0)
        first = np.where(np.any(zero, -1), np.argmax(zero, -1) + 1, 0)
        return _LuFactorEx(factors, pivots, fresh(convert(first, np.int32)))
    info = _lu_info(factors)
    if check_errors and info.any():
        where, place = first_bad(info)
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
    LU, pivots, info = _factor_ex("torch.lu_factor", A, pivot, True)
    show_check("torch.linalg.lu_factor", A, LU, lambda _: array_of(info))
    return _LuFactor(LU, pivots)


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
    check_kind(A, "ldl_factor_kernel_cpu")
    if MODES.dispatch is not None:
        options = {"hermitian": hermitian, "check_errors": check_errors}
        given = {key: True for key, value in options.items() if value}
        made = MODES.dispatch.make(
            "linalg_ldl_factor_ex", (A,), given, lambda: ldl_factor_ex(A, **options)
        )
        return _LdlFactorEx(*made)
    factors, pivots, info = _factored_symmetric(array_of(A), hermitian)
    if check_errors and info.any():
        where, place = first_bad(info)
        raise LinAlgError(algebra.ldl_singular(where, place))
    return _LdlFactorEx(fresh(factors), fresh(pivots), fresh(np.asarray(info)))


@ROWS.function("linalg", out=True)
def ldl_factor(A: Operand, *, hermitian: bool = False) -> Any:
    """Return the factors of symmetric matrices in LAPACK's form, and its pivots; see
    `ldl_factor_ex`.
    """
    LD, pivots, info = ldl_factor_ex(A, hermitian=hermitian, check_errors=MODES.dispatch is None)
    show_check("torch.linalg.ldl_factor", A, A, lambda _: array_of(info))
    if array_of(info).any():
        where, place = first_bad(array_of(info))
        raise LinAlgError(algebra.ldl_singular(where, place))
    return _LdlFactor(LD, pivots)


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
    if MODES.dispatch is not None:
        given = {"hermitian": True} if hermitian else {}
        return MODES.dispatch.make(
            "linalg_ldl_solve", (LD, pivots, B), given, lambda: ldl_solve(LD, pivots, B, **given)
        )
    kind = dtype_of(LD)
    solve_factored = _lapack("hetrs" if hermitian and kind.kind == "c" else "sytrs", kind)
    factors, order, right = (array_of(x) for x in (LD, pivots, B))
    stack = np.broadcast_shapes(factors.shape[:-2], right.shape[:-2])
    factors = np.broadcast_to(factors, (*stack, *a[-2:]))
    order = np.broadcast_to(order, (*stack, a[-1]))
    right = np.broadcast_to(right, (*stack, *b[-2:]))
    made = np.empty_like(right, order="C")
    for k in np.ndindex(stack):
        made[k] = solve_factored(factors[k], order[k], right[k], lower=1)[0]
    return fresh(made)
