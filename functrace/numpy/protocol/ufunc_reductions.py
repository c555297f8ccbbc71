"""Ufunc methods without an equivalent NumPy function: ``np.logaddexp.reduce`` ….

Layer: 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, SupportsIndex

import numpy as np

from functrace.errors import DtypeError
from functrace.ir.primitive import Primitive
from functrace.numpy.arrays.assignment import start_of
from functrace.numpy.functions.nan_reductions import nanmax, nanmin
from functrace.numpy.functions.reductions import finished, is_given, where_only
from functrace.numpy.protocol.operands import (
    NOT_GIVEN,
    Arrayed,
    Axis,
    DtypeLike,
    Flag,
    Operand,
    arrayed,
    cast_to,
    exact_axis,
    normalize_axes,
    one_axis,
)
from functrace.numpy.protocol.tables import ufunc_method
from functrace.ops import cumulative
from functrace.ops import elementwise as ew
from functrace.ops import reductions as ops
from functrace.ops.shaping import broadcast_to, convert, reshape
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value


def _log_sum(ufunc: np.ufunc, scale: float) -> Callable[..., Any]:
    def reduce(
        a: Operand,
        axis: Axis = 0,
        dtype: DtypeLike = None,
        keepdims: Flag = False,
        initial: Operand | None = NOT_GIVEN,
        where: Value = True,
    ) -> Any:
        a = where_only(_looped(ufunc, arrayed(a), dtype), where, -math.inf)
        axes = normalize_axes(exact_axis(axis), a.ndim)
        if ops.count(a.shape, axes) == 0:
            result: Any = broadcast_to(
                np.asarray(-math.inf, a.dtype)[()], ops.dropped_shape(a.shape, axes)
            )
        else:
            result = ops.logsumexp(a if scale == 1 else ew.mul(a, scale), axes)
            result = result if scale == 1 else ew.div(result, scale)
        if is_given(initial):
            result = bind(ew.UFUNCS[ufunc], (result, start_of(initial, result.dtype)))
        return finished(result, a.shape, axes, keepdims, None, f"{ufunc.__name__}.reduce")

    return reduce


def _skipping(nan_extreme: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(
        a: Operand,
        axis: Axis = 0,
        dtype: DtypeLike = None,
        keepdims: Flag = False,
        initial: Operand | None = NOT_GIVEN,
        where: Value = True,
    ) -> Any:
        return nan_extreme(cast_to(arrayed(a), dtype), axis, None, keepdims, initial, where)

    return reduce


@ufunc_method(np.hypot, "reduce")
def _hypot_reduce(
    a: Operand,
    axis: Axis = 0,
    dtype: DtypeLike = None,
    keepdims: Flag = False,
    initial: Operand | None = 0.0,
    where: Value = True,
) -> Any:
    a = where_only(_looped(np.hypot, arrayed(a), dtype), where, 0)
    axes = normalize_axes(exact_axis(axis), a.ndim)
    size = ew.absolute(a)
    start = start_of(initial if is_given(initial) else 0.0, a.dtype)
    if ops.count(a.shape, axes) == 0 or not axes:
        result = (
            broadcast_to(start, ops.dropped_shape(a.shape, axes)) if axes else ew.hypot(a, start)
        )
        return finished(result, a.shape, axes, keepdims, None, "hypot.reduce")
    scale = ops.expand_reduced(
        bind(ops.reduce_max_p, (size,), (axes,)), a.shape, axes
    )  # so that no square overflows
    scale = ew.stop_gradient(
        ew.where(ew.logical_and(ew.isfinite(scale), ew.greater(scale, 0)), scale, 1)
    )
    total = ew.sqrt_of_square(bind(ops.reduce_sum_p, (ew.square(ew.div(a, scale)),), (axes,)))
    result = ew.mul(total, reshape(scale, total.shape))
    infinite = bind(ops.reduce_any_p, (ew.isinf(a),), (axes,))
    result = ew.hypot(ew.where(infinite, math.inf, result), start)
    return finished(result, a.shape, axes, keepdims, None, "hypot.reduce")


def _looped(ufunc: np.ufunc, a: Arrayed, dtype: DtypeLike) -> Any:
    """Return the operand in the working dtype of a ufunc's reduction."""
    wanted = a.dtype if dtype is None else np.dtype(dtype)
    try:
        chosen = ufunc.resolve_dtypes((wanted, wanted, None))[-1]
    except TypeError:
        chosen = None
    if chosen is None or (dtype is not None and chosen != wanted):
        raise DtypeError(f"{ufunc.__name__} has no loop for {wanted}", fix="pass real floats")
    return convert(a, chosen)


def _accumulate(primitive: Primitive) -> Callable[..., Any]:
    def accumulate(a: Operand, axis: SupportsIndex = 0, dtype: DtypeLike = None) -> Any:
        a = cast_to(arrayed(a), dtype)
        return bind(primitive, (a,), (one_axis(exact_axis(axis), a.ndim),))

    return accumulate


ufunc_method(np.logaddexp, "reduce")(_log_sum(np.logaddexp, 1.0))


ufunc_method(np.logaddexp2, "reduce")(_log_sum(np.logaddexp2, math.log(2)))


ufunc_method(np.fmax, "reduce")(_skipping(nanmax))


ufunc_method(np.fmin, "reduce")(_skipping(nanmin))


ufunc_method(np.maximum, "accumulate")(_accumulate(cumulative.cummax_p))


ufunc_method(np.minimum, "accumulate")(_accumulate(cumulative.cummin_p))
