"""Reductions that ignore NaN: they replace it by a neutral number, or mask it.

Layer: 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.errors import DtypeError
from functrace.ir.aval import shape_of
from functrace.numpy.arrays.masked import mask_of
from functrace.numpy.functions.reductions import (
    any_,
    argmax,
    argmin,
    count_of,
    dropped,
    finished,
    is_given,
    max,
    mean,
    min,
    prod,
    sum,
    variance_of,
)
from functrace.numpy.functions.running import cumprod, cumsum
from functrace.numpy.protocol.operands import (
    NOT_GIVEN,
    Arrayed,
    Axis,
    DtypeLike,
    Flag,
    OneAxis,
    Operand,
    Out,
    arrayed,
    stored,
)
from functrace.numpy.protocol.tables import FUNCTIONS, implements
from functrace.ops import elementwise as ew
from functrace.ops.checks import require
from functrace.tracing.tracer import Tracer, Value
from functrace.typing import Scalar


def _without_nan(a: Operand, fill: Scalar) -> tuple[Arrayed, Arrayed | bool]:
    """Return the array with NaN replaced, and the mask of numbers; ``True`` if it has no NaN."""
    a = arrayed(a)
    if a.dtype.kind not in "fc":
        return a, True
    missing = ew.isnan(a)
    return ew.where(missing, fill, a), ew.logical_not(missing)


def _and(mask: Value, where: Value) -> Any:
    where = mask_of(where, "a reduction")
    if where is True:
        return mask
    return where if mask is True else ew.logical_and(mask, where)


@implements(np.nansum)
def nansum(
    a: Operand,
    axis: Axis = None,
    dtype: DtypeLike = None,
    out: Out = None,
    keepdims: Flag = False,
    initial: Operand | None = NOT_GIVEN,
    where: Value = True,
) -> Any:
    """As ``numpy.nansum``."""
    return sum(_without_nan(a, 0.0)[0], axis, dtype, out, keepdims, initial, where)


@implements(np.nanprod)
def nanprod(
    a: Operand,
    axis: Axis = None,
    dtype: DtypeLike = None,
    out: Out = None,
    keepdims: Flag = False,
    initial: Operand | None = NOT_GIVEN,
    where: Value = True,
) -> Any:
    """As ``numpy.nanprod``."""
    return prod(_without_nan(a, 1.0)[0], axis, dtype, out, keepdims, initial, where)


def _nan_extreme(name: str, extreme: Callable[..., Any], worst: float) -> Callable[..., Any]:
    def nan_extreme(
        a: Operand,
        axis: Axis = None,
        out: Out = None,
        keepdims: Flag = False,
        initial: Operand | None = NOT_GIVEN,
        where: Value = True,
    ) -> Any:
        filled, mask = _without_nan(a, worst)
        if is_given(initial) and not isinstance(initial, Tracer) and initial != initial:
            initial = worst
        result = extreme(filled, axis, None, keepdims, initial, where)
        if mask is not True and not is_given(initial):
            result = ew.where(any_(mask, axis, None, keepdims), result, math.nan)
        return stored(result, out, name)

    nan_extreme.__name__ = name
    nan_extreme.__doc__ = f"As ``numpy.{name}``; NaN where there is no number."
    return nan_extreme


nanmax = implements(np.nanmax, scalars=True)(_nan_extreme("nanmax", max, -math.inf))


nanmin = implements(np.nanmin, scalars=True)(_nan_extreme("nanmin", min, math.inf))


@implements(np.nanmean, scalars=True)
def nanmean(
    a: Operand,
    axis: Axis = None,
    dtype: DtypeLike = None,
    out: Out = None,
    keepdims: Flag = False,
    *,
    where: Value = True,
) -> Any:
    """As ``numpy.nanmean``."""
    if dtype is not None and arrayed(a).dtype.kind in "fc" and np.dtype(dtype).kind not in "fc":
        raise DtypeError("If a is inexact, then dtype must be inexact", fix="convert the result")
    filled, mask = _without_nan(a, 0.0)
    axis = _of_no_axes(filled, axis)
    return mean(filled, axis, dtype, out, keepdims, where=_and(mask, where))


def _of_no_axes(a: Arrayed, axis: Axis) -> Axis:
    """Return the axis, or ``None`` for a 0-d float array: NumPy sums it along a missing axis."""
    return None if not shape_of(a) and a.dtype.kind in "fc" and axis in (0, -1) else axis


@implements(np.nanvar, scalars=True)
def nanvar(
    a: Operand,
    axis: Axis = None,
    dtype: DtypeLike = None,
    out: Out = None,
    ddof: float | Arrayed = 0,
    keepdims: Flag = False,
    *,
    where: Value = True,
    mean: Value = NOT_GIVEN,
    correction: float | Arrayed = NOT_GIVEN,
) -> Any:
    """As ``numpy.nanvar``; NaN where at most ``ddof`` numbers are not NaN."""
    result = _nan_variance(a, axis, dtype, ddof, keepdims, where, mean, correction)
    return stored(result, out, "nanvar")


@implements(np.nanstd, scalars=True)
def nanstd(
    a: Operand,
    axis: Axis = None,
    dtype: DtypeLike = None,
    out: Out = None,
    ddof: float | Arrayed = 0,
    keepdims: Flag = False,
    *,
    where: Value = True,
    mean: Value = NOT_GIVEN,
    correction: float | Arrayed = NOT_GIVEN,
) -> Any:
    """As ``numpy.nanstd``; the derivative for equal numbers is 0."""
    result = ew.sqrt_of_square(
        _nan_variance(a, axis, dtype, ddof, keepdims, where, mean, correction)
    )
    return stored(result, out, "nanstd")


def _nan_variance(
    a: Operand,
    axis: Axis,
    dtype: DtypeLike,
    ddof: float | Arrayed,
    keepdims: Flag,
    where: Value,
    given_mean: Value,
    correction: float | Arrayed,
) -> Any:
    filled, mask = _without_nan(a, 0.0)
    axis = _of_no_axes(filled, axis)
    mask = _and(mask, where)
    result, shape, axes = variance_of(filled, axis, dtype, ddof, mask, given_mean, correction)
    if mask is not True:
        enough = ew.greater(
            dropped(count_of(filled, axes, mask), shape, axes),
            ddof if correction is NOT_GIVEN else correction,
        )
        result = ew.where(enough, result, math.nan)
    return finished(result, shape, axes, keepdims, None, "nanvar")


def _nan_position(name: str, position: Callable[..., Any], worst: float) -> Callable[..., Any]:
    def nan_position(
        a: Operand, axis: Axis = None, out: Out = None, *, keepdims: Flag = False
    ) -> Any:
        filled, numbers = _without_nan(a, worst)
        if numbers is not True:
            some = FUNCTIONS[np.any](numbers, axis)
            filled = require(filled, some, "ValueError", "All-NaN slice encountered")
        return position(filled, axis, out, keepdims=keepdims)

    nan_position.__name__ = name
    nan_position.__doc__ = f"As ``numpy.{name}``."
    return nan_position


nanargmax = implements(np.nanargmax)(_nan_position("nanargmax", argmax, -math.inf))


nanargmin = implements(np.nanargmin)(_nan_position("nanargmin", argmin, math.inf))


@implements(np.nancumsum)
def nancumsum(a: Operand, axis: OneAxis = None, dtype: DtypeLike = None, out: Out = None) -> Any:
    """As ``numpy.nancumsum``."""
    return cumsum(_without_nan(a, 0.0)[0], axis, dtype, out)


@implements(np.nancumprod)
def nancumprod(a: Operand, axis: OneAxis = None, dtype: DtypeLike = None, out: Out = None) -> Any:
    """As ``numpy.nancumprod``."""
    return cumprod(_without_nan(a, 1.0)[0], axis, dtype, out)
