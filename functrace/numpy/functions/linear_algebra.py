"""``numpy.linalg`` on traced values: solvers, least squares, norms.

Factorizations are in functrace/numpy/functions/factorizations.py. Signatures and results are
NumPy's, including named tuples.

Layer: 3.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from functrace.errors import ConcretizationError, ShapeError, UnsupportedFunctionError
from functrace.ir.aval import aval_of, shape_of
from functrace.numpy.arrays.masked import NeedsConcreteValues
from functrace.numpy.functions.factorizations import inexact, matrices, svd, svdvals
from functrace.numpy.protocol.foreign_operands import refuse_wrapping
from functrace.numpy.protocol.operands import (
    NOT_GIVEN,
    Arrayed,
    Axis,
    Operand,
    arrayed,
    axis_tuple,
    exact_axis,
    flattened,
    known,
    normalize_axes,
    operand,
)
from functrace.numpy.protocol.tables import FUNCTIONS, implements
from functrace.ops import elementwise as ew
from functrace.ops import linalg
from functrace.ops import lstsq as least_squares
from functrace.ops.contraction import matmul, matmul_p
from functrace.ops.indexing import index_static
from functrace.ops.matrices import real_dtype
from functrace.ops.reductions import kept_shape, reduce_any, reduce_sum
from functrace.ops.shaping import broadcast_to, convert, permute, reshape
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Tracer
from functrace.tracing.values import has_value

SlogdetResult = type(np.linalg.slogdet(np.eye(1)))


@implements(np.linalg.solve)
def solve(a: Operand, b: Operand) -> Any:
    """As ``numpy.linalg.solve``: ``b`` is one vector if it has one axis, else a stack of
    matrices.
    """
    refuse_wrapping(a, b, "numpy.linalg.solve")
    a, b = matrices("solve", a, square=True), inexact("solve", arrayed(b))
    dtype = np.result_type(a.dtype, b.dtype)
    a, b = convert(a, dtype), convert(b, dtype)
    if b.ndim == 0:
        raise ShapeError(
            "numpy.linalg.solve needs right-hand sides, got a scalar",
            fix="pass a vector or matrices",
        )
    if b.ndim > 1:
        return linalg.solve(a, b)
    x = linalg.solve(a, reshape(b, (*b.shape, 1)))
    return reshape(x, x.shape[:-1])


@implements(np.linalg.inv)
def inv(a: Operand) -> Any:
    """As ``numpy.linalg.inv``."""
    return linalg.inv(matrices("inv", a, square=True))


@implements(np.linalg.det)
def det(a: Operand) -> Any:
    """As ``numpy.linalg.det``; the gradient is correct for singular matrices, too."""
    return linalg.det(matrices("det", a, square=True))


@implements(np.linalg.slogdet)
def slogdet(a: Operand) -> Any:
    """As ``numpy.linalg.slogdet``."""
    return SlogdetResult(*bind(linalg.slogdet_p, (matrices("slogdet", a, square=True),)))


@implements(np.linalg.pinv)
def pinv(
    a: Operand,
    rcond: Operand | None = None,
    hermitian: bool = False,
    *,
    rtol: Operand | None = NOT_GIVEN,
) -> Any:
    """As ``numpy.linalg.pinv``; the derivative is valid where the rank is constant."""
    given = arrayed(a)
    if given.ndim >= 2 and 0 in given.shape[-2:]:
        return np.empty((*given.shape[:-2], given.shape[-1], given.shape[-2]), given.dtype)
    a = matrices("pinv", a)
    if rtol is not NOT_GIVEN:
        if rcond is not None:
            raise ShapeError(
                "numpy.linalg.pinv: rtol and rcond cannot both be set", fix="pass one of them"
            )
        rcond = max(a.shape[-2:]) * float(np.finfo(a.dtype).eps) if rtol is None else rtol
    limit = None if rcond is None else operand(rcond)
    if limit is not None:
        try:
            fits = np.broadcast_shapes(shape_of(limit), a.shape[:-2]) == a.shape[:-2]
        except ValueError:
            fits = False
        if not fits:
            raise ShapeError(
                f"numpy.linalg.pinv: rcond of shape {shape_of(limit)} does not fit {aval_of(a)}",
                fix="pass one per matrix",
            )
    return least_squares.pinv(a, limit, hermitian=bool(hermitian))


@implements(np.linalg.lstsq)
def lstsq(a: Operand, b: Operand, rcond: float | None = None) -> tuple[Any, Any, Any, Any]:
    """As ``numpy.linalg.lstsq``; the derivative is valid where the rank is constant.

    The number of residuals depends on the rank. For abstract values and a matrix with more rows
    than columns, any use of them raises `ConcretizationError`; the other results are unaffected.
    """
    refuse_wrapping(a, b, "numpy.linalg.lstsq")
    b = arrayed(b)
    if len(shape_of(arrayed(a))) != 2 or b.ndim not in (1, 2):
        raise ShapeError(
            "numpy.linalg.lstsq needs a matrix and one or two axes of right-hand sides, got "
            f"{aval_of(arrayed(a))} and "
            f"{aval_of(b)}",
            fix="map over stacks with functrace.vmap",
        )
    a, right = matrices("lstsq", a), inexact("lstsq", b)
    dtype = np.result_type(a.dtype, right.dtype)
    a, right = convert(a, dtype), convert(right, dtype)
    limit = float(np.finfo(np.float64).eps) * max(a.shape) if rcond is None else float(rcond)
    x, rest, rank, values = fitted(a, right, limit)
    return x, residuals(rest, rank, a.shape[1], dtype), rank, values


def fitted(a: Arrayed, b: Arrayed, rcond: float) -> tuple[Any, Any, Any, Any]:
    """Solve a least-squares problem: return solution, squared residuals, rank, singular values.

    The residuals are ``None`` without more equations than unknowns.
    """
    columns = reshape(b, (*b.shape, 1)) if b.ndim == 1 else b
    x, rank = least_squares.lstsq(a, columns, rcond)
    rest = None
    if a.shape[0] > a.shape[1]:
        left: Any = ew.sub(columns, matmul(a, x))
        squares = (
            ew.square(left)
            if left.dtype.kind != "c"
            else ew.add(ew.square(left.real), ew.square(left.imag))
        )
        rest = reduce_sum(squares, (0,))
    return (reshape(x, x.shape[:-1]) if b.ndim == 1 else x), rest, rank, svdvals(a)


def residuals(rest: Arrayed | None, rank: Arrayed, n: int, dtype: np.dtype[Any]) -> Any:
    """Return NumPy's residuals: empty if there are none, or if the rank is not full."""
    if rest is not None:
        if has_value(rank) and int(known(rank)) == n:
            return rest
        if not has_value(rank):
            return NeedsConcreteValues(
                "the residuals of numpy.linalg.lstsq",
                ConcretizationError(
                    "the number of residuals of numpy.linalg.lstsq depends on the rank, which is "
                    "not known here",
                    fix="compute them: np.sum(np.abs(b - a @ x) ** 2, axis=0)",
                ),
            )
    return np.empty(0, real_dtype(dtype))


# -- numpy.linalg: compositions --------------------------------------------------------------------


@implements(np.linalg.matrix_power)
def matrix_power(a: Operand, n: SupportsIndex) -> Any:
    """As ``numpy.linalg.matrix_power``, by repeated squaring."""
    a, n = arrayed(a), operator.index(n)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ShapeError(
            f"matrix_power needs square matrices, got {aval_of(a)}", fix="pass shape (..., n, n)"
        )
    if n == 0:
        return broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape)
    if n < 0:
        a, n = inv(a), -n
    result = None
    while n:
        if n & 1:
            result = a if result is None else bind(matmul_p, (result, a))
        n >>= 1
        if n:
            a = bind(matmul_p, (a, a))
    return result


@implements(np.linalg.tensorinv)
def tensorinv(a: Operand, ind: int = 2) -> Any:
    """As ``numpy.linalg.tensorinv``: the inverse for ``tensordot`` over ``ind`` axes."""
    a = arrayed(a)
    if ind <= 0:
        raise ShapeError(
            f"tensorinv needs a positive ind, got {ind}",
            fix="pass ind=2, or the number of leading axes",
        )
    leading, trailing = a.shape[:ind], a.shape[ind:]
    result = inv(reshape(a, (math.prod(leading), math.prod(trailing))))
    return reshape(result, (*trailing, *leading))


@implements(np.linalg.tensorsolve)
def tensorsolve(a: Operand, b: Operand, axes: Sequence[int] | None = None) -> Any:
    """As ``numpy.linalg.tensorsolve``: solve ``tensordot(a, x, x.ndim) = b``."""
    refuse_wrapping(a, b, "numpy.linalg.tensorsolve")
    a, b = arrayed(a), arrayed(b)
    if axes is not None:
        last = tuple(k % a.ndim for k in axes)
        a = permute(a, (*(k for k in range(a.ndim) if k not in last), *last))
    shape = a.shape[b.ndim - a.ndim :]  # as in NumPy, even for equal numbers of axes
    if a.size != math.prod(shape) ** 2 or b.size != math.prod(shape):
        raise ShapeError(
            f"tensorsolve: {aval_of(a)} is not square for the right-hand side {aval_of(b)}",
            fix="prod(a.shape[b.ndim:]) must equal prod(a.shape[:b.ndim])",
        )
    return reshape(solve(reshape(a, (b.size, math.prod(shape))), flattened(b)), shape)


# -- norms -----------------------------------------------------------------------------------------


@implements(np.linalg.norm, scalars=True)
def norm(
    x: Operand, ord: float | str | None = None, axis: Axis = None, keepdims: bool = False
) -> Any:
    """As ``numpy.linalg.norm``; the derivative of every norm at 0 is 0."""
    x = arrayed(x)
    if x.dtype.kind not in "fc":
        x = convert(x, np.float64)
    if axis is None:
        if ord is None:
            axes = tuple(range(x.ndim))
            return _keep(linalg.euclidean_norm(x, axes), x.shape, axes, keepdims)
        axes = tuple(range(x.ndim))
    else:
        several: Any = exact_axis(axis) if isinstance(axis, tuple) else (axis,)
        axes = axis_tuple(several, x.ndim)
    if len(axes) == 1:
        result = _vector_norm(x, ord, axes[0])
    elif len(axes) == 2:
        result = _matrix_norm(x, ord, *axes)
    else:
        raise ShapeError(
            f"numpy.linalg.norm with ord={ord!r} is defined along one or two axes, not {len(axes)}",
            fix="pass axis=",
        )
    return _keep(result, x.shape, axes, keepdims)


def _keep(result: Arrayed, shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> Any:
    return reshape(result, kept_shape(shape, axes)) if keepdims else result


def _unknown_order(ord: float | str | None, what: str) -> ShapeError:
    return ShapeError(
        f"numpy.linalg.norm: ord={ord!r} is not defined for {what}",
        fix="vectors take None and any number; matrices None, 'fro', 'nuc', 1, -1, 2, -2, inf, "
        "-inf",
    )


def _vector_norm(x: Arrayed, ord: float | str | None, axis: int) -> Any:
    if isinstance(ord, str):
        raise _unknown_order(ord, "vectors")
    if isinstance(ord, Tracer):
        raise UnsupportedFunctionError(
            "numpy.linalg.norm needs a plain ord", fix="write the sum of powers yourself"
        )
    if ord is None or ord == 2:
        return linalg.euclidean_norm(x, (axis,))
    size = ew.absolute(x)
    if ord == np.inf:
        return _largest(size, axis)
    if ord == -np.inf:
        return FUNCTIONS[np.min](size, axis=axis)
    if ord == 0:
        return reduce_sum(convert(ew.not_equal(x, 0), size.dtype), (axis,))
    if ord == 1:
        return reduce_sum(size, (axis,))
    total = reduce_sum(ew.power(size, float(ord)), (axis,))
    # total ** (1 / ord) has an infinite slope at 0; for zero vectors, norm and derivative are 0.
    zero = ew.equal(total, 0)
    if ord < 0:
        return ew.power(total, 1.0 / float(ord))
    return ew.where(zero, 0.0, ew.power(ew.where(zero, 1.0, total), 1.0 / float(ord)))


def _matrix_norm(x: Arrayed, ord: float | str | None, row: int, column: int) -> Any:
    if row == column:
        raise ShapeError(
            "numpy.linalg.norm: the two axes of a matrix norm must differ", fix="pass two axes"
        )
    if ord in (None, "fro", "f"):
        return linalg.euclidean_norm(x, tuple(sorted((row, column))))
    if ord in (2, -2, "nuc"):
        rest = tuple(k for k in range(x.ndim) if k not in (row, column))
        values = svdvals(permute(x, (*rest, row, column)))
        if ord == "nuc":
            return reduce_sum(values, (values.ndim - 1,))
        return _largest(values, -1) if ord == 2 else FUNCTIONS[np.min](values, axis=-1)
    if ord not in (1, -1, np.inf, -np.inf):
        raise _unknown_order(ord, "matrices")
    along, across = (row, column) if abs(ord) == 1 else (column, row)
    sums = reduce_sum(ew.absolute(x), (along,))
    axis = across - (across > along)
    return _largest(sums, axis) if ord > 0 else FUNCTIONS[np.min](sums, axis=axis)


def _largest(sizes: Arrayed, axis: int) -> Any:
    """Return the maximum along an axis; 0 if the axis is empty."""
    if not shape_of(sizes)[axis]:
        return reduce_sum(sizes, (axis % len(shape_of(sizes)),))
    return FUNCTIONS[np.max](sizes, axis=axis)


@implements(np.linalg.vector_norm, scalars=True)
def vector_norm(
    x: Operand, /, *, axis: Axis = None, keepdims: bool = False, ord: float | str | None = 2
) -> Any:
    """As ``numpy.linalg.vector_norm``: over any number of axes, as if flattened."""
    x = arrayed(x)
    if x.dtype.kind not in "fc":
        x = convert(x, np.float64)
    axes = normalize_axes(axis, x.ndim)
    if ord == 2:
        return _keep(linalg.euclidean_norm(x, axes), x.shape, axes, keepdims)
    rest = tuple(k for k in range(x.ndim) if k not in axes)
    kept = tuple(x.shape[k] for k in rest)
    flat = reshape(permute(x, (*axes, *rest)), (math.prod(x.shape[k] for k in axes), *kept))
    return _keep(_vector_norm(flat, ord, 0), x.shape, axes, keepdims)


@implements(np.linalg.matrix_norm)
def matrix_norm(x: Operand, /, *, keepdims: bool = False, ord: float | str | None = "fro") -> Any:
    """As ``numpy.linalg.matrix_norm``: over the last two axes."""
    return norm(x, axis=(-2, -1), keepdims=keepdims, ord=ord)


@implements(np.linalg.cond)
def cond(x: Operand, p: float | str | None = None) -> Any:
    """As ``numpy.linalg.cond``: infinite for singular matrices."""
    x = arrayed(x)
    if x.size == 0 and x.ndim >= 2 and 0 in x.shape[-2:]:
        raise ShapeError(
            f"cond is not defined on empty arrays, got {aval_of(x)}",
            fix="pass matrices with elements",
        )
    x = matrices("cond", x, square=p not in (None, 2, -2))
    if p in (None, 2, -2):
        values = svdvals(x)
        largest, smallest = (
            index_static(values, (Ellipsis, 0)),
            index_static(values, (Ellipsis, -1)),
        )
        result = _quotient(smallest, largest) if p == -2 else _quotient(largest, smallest)
    else:
        result = ew.mul(norm(x, p, (-2, -1)), norm(bind(linalg.inv_or_nan_p, (x,)), p, (-2, -1)))
    given = reduce_any(ew.isnan(x), (x.ndim - 2, x.ndim - 1))
    found = ew.where(ew.logical_and(ew.isnan(result), ew.logical_not(given)), math.inf, result)
    return found if shape_of(found) else index_static(found, ())  # `where` gives no NumPy scalar


def _quotient(x: Arrayed, y: Arrayed) -> Any:
    """Return x / y, without NumPy's warning where y is 0."""
    zero = ew.equal(y, 0)
    made = ew.where(
        zero, ew.where(ew.equal(x, 0), math.nan, math.inf), ew.div(x, ew.where(zero, 1.0, y))
    )
    return convert(made, x.dtype)


@implements(np.linalg.matrix_rank)
def matrix_rank(
    A: Operand, tol: Operand | None = None, hermitian: bool = False, *, rtol: Operand | None = None
) -> Any:
    """As ``numpy.linalg.matrix_rank``: integers, without derivative."""
    if rtol is not None and tol is not None:
        raise ShapeError("`tol` and `rtol` can't be both set.", fix="pass one of them")
    A = arrayed(A)
    if A.ndim < 2:
        return convert(reduce_any(ew.not_equal(A, 0), tuple(range(A.ndim))), np.intp)
    values = svd(A, compute_uv=False, hermitian=hermitian)
    if tol is None:
        largest = FUNCTIONS[np.max](values, axis=-1, keepdims=True, initial=0)
        relative = (
            max(A.shape[-2:]) * float(np.finfo(values.dtype).eps)
            if rtol is None
            else _per_matrix(rtol)
        )
        limit = ew.mul(largest, relative)
    else:
        limit = _per_matrix(tol)
    return FUNCTIONS[np.count_nonzero](ew.greater(values, limit), axis=-1)


def _per_matrix(x: Operand) -> Any:
    x = arrayed(x)
    return reshape(x, (*x.shape, 1))
