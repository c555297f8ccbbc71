"""Reductions, means and variances, on top of `functrace.ops.reductions`.

NaN-ignoring reductions are in nan_reductions.py, order statistics in quantiles.py, cumulative
functions in running.py.

Layer: 3.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeGuard, cast

import numpy as np

from functrace.errors import DtypeError, ShapeError, UnsupportedFunctionError
from functrace.ir.aval import aval_of, shape_of
from functrace.ir.primitive import Primitive
from functrace.numpy.arrays.assignment import start_of
from functrace.numpy.arrays.masked import mask_of
from functrace.numpy.arrays.traced_array import TracedArray, record_one
from functrace.numpy.protocol.operands import (
    NOT_GIVEN,
    Arrayed,
    Axis,
    DtypeLike,
    Flag,
    Operand,
    Out,
    arrayed,
    axis_tuple,
    cast_to,
    exact_axis,
    normalize_axes,
    stacked,
    stored,
)
from functrace.numpy.protocol.tables import FUNCTIONS, implements
from functrace.ops import elementwise as ew
from functrace.ops import reductions as ops
from functrace.ops.checks import require
from functrace.ops.shaping import broadcast_to, convert, reshape
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Tracer, Value

_new = object.__new__


_getframe = sys._getframe


_ALL = tuple(tuple(range(n)) for n in range(65))


# -- common helpers --------------------------------------------------------------------------------


def finished(
    result: Arrayed, shape: tuple[int, ...], axes: ops.Axes, keepdims: Flag, out: Out, name: str
) -> Any:
    """Restore the reduced axes for ``keepdims``, and write to a traced ``out``."""
    if keepdims is not False and keepdims is not NOT_GIVEN and keepdims:
        result = ops.expand_reduced(result, shape, axes)
    return stored(result, out, name)


def _axes_of(axis: Axis, ndim: int) -> ops.Axes:
    """Return the axes of a ufunc reduction, for which a 0-d array has an axis 0, as in NumPy."""
    return (
        ()
        if ndim == 0 and type(axis) is int and axis in (0, -1)
        else normalize_axes(exact_axis(axis), ndim)
    )


def is_given(value: object) -> TypeGuard[Operand]:
    """Return True if ``initial=`` or the like was given a value."""
    return value is not NOT_GIVEN and value is not None


def where_only(x: Arrayed, where: Value, fill: Value) -> Arrayed:
    """Return ``x`` where the mask is true, elsewhere a neutral number."""
    where = mask_of(where, "a reduction")
    if where is True:
        return x
    result = ew.where(where, x, fill)
    if shape_of(result) != shape_of(x):
        raise ShapeError(
            f"where= of shape {shape_of(where)} does not fit {aval_of(x)}",
            fix="broadcast the array first",
        )
    return result


def _check_identity(initial: Operand | None, a: Arrayed, axes: ops.Axes, where: Value) -> None:
    """Check that a reduction without identity (``initial=None``) has an element to start from."""
    if initial is None and (
        (where is not True and where is not NOT_GIVEN) or ops.count(a.shape, axes) == 0
    ):
        raise ShapeError(
            "a reduction without identity needs elements, and no where=",
            fix="leave out initial=None",
        )


def _kept(x: Arrayed) -> Arrayed:
    """Return a copy: the reduction over no axes."""
    return ew.positive(x) if x.dtype.kind != "b" else ew.bitwise_or(x, x)


# -- sums and products -----------------------------------------------------------------------------


@implements(np.sum, method="sum", reduce=np.add)
def sum(
    a: Operand,
    axis: Axis = None,
    dtype: DtypeLike = None,
    out: Out = None,
    keepdims: Flag = False,
    initial: Operand | None = NOT_GIVEN,
    where: Value = True,
) -> Any:
    """As ``numpy.sum``."""
    plain = (
        axis is None
        and dtype is None
        and out is None
        and keepdims is False
        and initial is NOT_GIVEN
        and where is True
    )
    if plain and type(a) is TracedArray:
        return record_one(ops.reduce_sum_p, a, (_ALL[len(a.aval.shape)],))
    a = where_only(cast_to(arrayed(a), dtype), where, 0)
    axes = _axes_of(axis, a.ndim)
    _check_identity(initial, a, axes, where)
    result = cast_to(bind(ops.reduce_sum_p, (a,), (axes,)), dtype)
    if is_given(initial):
        start = start_of(initial, result.dtype)
        result = (
            ew.add(result, start) if ops.count(a.shape, axes) else broadcast_to(start, result.shape)
        )  # -0.0 stays
    return finished(result, a.shape, axes, keepdims, out, "sum")


@implements(np.prod, method="prod", reduce=np.multiply)
def prod(
    a: Operand,
    axis: Axis = None,
    dtype: DtypeLike = None,
    out: Out = None,
    keepdims: Flag = False,
    initial: Operand | None = NOT_GIVEN,
    where: Value = True,
) -> Any:
    """As ``numpy.prod``; the derivative is exact for zero factors."""
    a = where_only(cast_to(arrayed(a), dtype), where, 1)
    axes = _axes_of(axis, a.ndim)
    _check_identity(initial, a, axes, where)
    result = cast_to(ops.reduce_prod(a, axes), dtype)
    if is_given(initial):
        result = ew.mul(result, start_of(initial, result.dtype))
    return finished(result, a.shape, axes, keepdims, out, "prod")


def _extreme(name: str, reduce: Primitive, combine: Callable[..., Any]) -> Callable[..., Any]:
    def extreme(
        a: Operand,
        axis: Axis = None,
        out: Out = None,
        keepdims: Flag = False,
        initial: Operand | None = NOT_GIVEN,
        where: Value = True,
    ) -> Any:
        a = arrayed(a)
        if where is not True and where is not NOT_GIVEN:
            if not is_given(initial):
                raise ShapeError(
                    f"{name} with where= needs initial=",
                    fix="pass initial=-np.inf (or np.inf for a minimum)",
                )
            a = where_only(a, where, start_of(initial, a.dtype))
        axes = _axes_of(axis, a.ndim)
        if is_given(initial) and ops.count(a.shape, axes) == 0:
            result = broadcast_to(start_of(initial, a.dtype), ops.dropped_shape(a.shape, axes))
        else:
            result = record_one(reduce, a, (axes,)) if axes else _kept(a)
            if is_given(initial):
                result = combine(result, start_of(initial, result.dtype))
        return finished(result, a.shape, axes, keepdims, out, name)

    extreme.__name__ = name
    extreme.__doc__ = f"As ``numpy.{name}``; ties share the derivative evenly."
    return extreme


max = implements(np.max, np.amax, method="max", reduce=np.maximum)(
    _extreme("max", ops.reduce_max_p, ew.maximum)
)


min = implements(np.min, np.amin, method="min", reduce=np.minimum)(
    _extreme("min", ops.reduce_min_p, ew.minimum)
)


@implements(np.ptp)
def ptp(a: Operand, axis: Axis = None, out: Out = None, keepdims: Flag = False) -> Any:
    """As ``numpy.ptp``."""
    result = ew.sub(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))
    return stored(result, out, "ptp")


# -- truth, positions, counts ----------------------------------------------------------------------


def _truth(name: str, primitive: Primitive, neutral: bool) -> Callable[..., Any]:
    def truth(
        a: Operand,
        axis: Axis = None,
        out: Out = None,
        keepdims: Flag = False,
        *,
        where: Value = True,
    ) -> Any:
        a = arrayed(a)
        if where is not True and where is not NOT_GIVEN:
            a = where_only(ew.not_equal(a, 0), where, neutral)
        axes = _axes_of(axis, a.ndim)
        return finished(record_one(primitive, a, (axes,)), a.shape, axes, keepdims, out, name)

    truth.__name__ = name
    truth.__doc__ = f"As ``numpy.{name}``."
    return truth


any_ = implements(np.any, method="any", reduce=np.logical_or)(
    _truth("any", ops.reduce_any_p, False)
)


all_ = implements(np.all, method="all", reduce=np.logical_and)(
    _truth("all", ops.reduce_all_p, True)
)


def _position(name: str, primitive: Primitive) -> Callable[..., Any]:
    def position(a: Operand, axis: Axis = None, out: Out = None, *, keepdims: Flag = False) -> Any:
        a = arrayed(a)
        if isinstance(axis, tuple):
            raise DtypeError(
                f"{name} takes one axis, not {axis!r}",
                fix="reshape the array, so that the axes are one",
            )
        shape, axes = a.shape, _axes_of(axis, a.ndim)
        axis = axis if shape else None
        if axis is None:
            a = reshape(a, (a.size,))
        result = bind(primitive, (a,), (0 if axis is None else axes[0],))
        return finished(result, shape, axes, keepdims, out, name)

    position.__name__ = name
    position.__doc__ = f"As ``numpy.{name}``: integers, without derivative."
    return position


argmax = implements(np.argmax, method="argmax")(_position("argmax", ops.argmax_p))


argmin = implements(np.argmin, method="argmin")(_position("argmin", ops.argmin_p))


@implements(np.count_nonzero)
def count_nonzero(a: Operand, axis: Axis = None, *, keepdims: Flag = False) -> Any:
    """As ``numpy.count_nonzero``."""
    return sum(ew.not_equal(arrayed(a), 0), axis, keepdims=keepdims)


# -- mean and spread -------------------------------------------------------------------------------


def count_of(a: Arrayed, axes: ops.Axes, where: Value) -> Any:
    """Return the number of elements per result; under ``where`` an array with reduced axes kept."""
    if where is True or where is NOT_GIVEN:
        return ops.count(a.shape, axes)
    found = stacked(cast("Operand", where))
    if (
        found.dtype != np.bool_
        if isinstance(found, Tracer)
        else not np.isin(np.asarray(found, object), (0, 1)).all()
    ):
        raise DtypeError(
            "the count of a mean or a variance: where= must be bools (NumPy sums other numbers)",
            fix="compare, where=(mask != 0)",
        )
    where = mask_of(found, "a reduction")
    mask = broadcast_to(where, a.shape)
    return ops.expand_reduced(
        ops.reduce_sum(mask, axes) if axes else convert(mask, np.intp), a.shape, axes
    )


def _working(a: Arrayed, dtype: DtypeLike) -> tuple[Any, Any]:
    """Return the operand in the working dtype of a mean, and the result dtype if it differs."""
    if dtype is not None:
        return convert(a, dtype), dtype
    if a.dtype.kind in "biu":
        return convert(a, np.float64), None
    return (convert(a, np.float32), np.float16) if a.dtype == np.float16 else (a, None)


@implements(np.mean, method="mean")
def mean(
    a: Operand,
    axis: Axis = None,
    dtype: DtypeLike = None,
    out: Out = None,
    keepdims: Flag = False,
    *,
    where: Value = True,
) -> Any:
    """As ``numpy.mean``."""
    plain = axis is None and dtype is None and out is None and keepdims is False and where is True
    if plain and type(a) is TracedArray and a.aval.dtype.char in "fdFD":
        return record_one(ops.reduce_sum_p, a, (_ALL[len(a.aval.shape)],)) / a.aval.size
    a = arrayed(a)
    axes = normalize_axes(exact_axis(axis), a.ndim)
    x, result_dtype = _working(a, dtype)
    result = cast_to(_mean(x, axes, where), result_dtype)
    return finished(dropped(result, a.shape, axes), a.shape, axes, keepdims, out, "mean")


def dropped(x: Arrayed, shape: tuple[int, ...], axes: ops.Axes) -> Any:
    """Remove the reduced axes, if kept with size 1."""
    return reshape(x, ops.dropped_shape(shape, axes))


def _mean(x: Arrayed, axes: ops.Axes, where: Value) -> Any:
    """Return the mean, with the reduced axes kept if there is a mask."""
    n = count_of(x, axes, where)
    total = record_one(ops.reduce_sum_p, where_only(x, where, 0), (axes,))
    if isinstance(n, int):
        return _divided(total, n)
    return convert(ew.div(ops.expand_reduced(total, x.shape, axes), n), total.dtype)


def _divided(total: Arrayed, n: float | Arrayed) -> Any:
    """Divide a sum by a count; float16 in float64, as NumPy, because it may not hold the count."""
    if total.dtype == np.float16:
        return convert(ew.div(convert(total, np.float64), n), np.float16)
    return ew.div(total, n)


@implements(np.var, method="var")
def var(
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
    """As ``numpy.var``."""
    result, shape, axes = variance_of(a, axis, dtype, ddof, where, mean, correction)
    return finished(result, shape, axes, keepdims, out, "var")


def variance_of(
    a: Operand,
    axis: Axis,
    dtype: DtypeLike,
    ddof: float | Arrayed,
    where: Value,
    given_mean: Value,
    correction: float | Arrayed,
) -> tuple[Any, tuple[int, ...], ops.Axes]:
    """Return a variance, the shape of the array, and the reduced axes, for `finished`."""
    a = arrayed(a)
    if correction is not NOT_GIVEN:
        if ddof != 0:
            raise UnsupportedFunctionError(
                "ddof and correction cannot both be given", fix="pass correction only"
            )
        ddof = correction
    if shape_of(ddof) or isinstance(ddof, complex | np.complexfloating):
        raise DtypeError(f"ddof must be a real number, not {ddof!r}", fix="pass 0 or 1")
    if type(ddof) is int:
        np.int64(ddof)  # raise as NumPy for integers out of range
    axes = normalize_axes(exact_axis(axis), a.ndim)
    if dtype is not None and np.dtype(dtype).kind != ("c" if a.dtype.kind == "c" else "f"):
        raise DtypeError(
            f"the variance of {a.dtype} in dtype={np.dtype(dtype)} has no implementation on traced "
            "values",
            fix="pass a float dtype (a complex one for complex numbers), and convert the result",
        )
    # NumPy squares float16 in float16, though it takes their means in float32.
    x, result_dtype = (a, None) if dtype is None and a.dtype == np.float16 else _working(a, dtype)
    n = count_of(x, axes, where)
    center = (
        ops.expand_reduced(_mean(x, axes, where), a.shape, axes)
        if given_mean is NOT_GIVEN
        else given_mean
    )
    squares = where_only(ops.squared_deviation(x, center), where, 0)
    total = record_one(ops.reduce_sum_p, squares, (axes,))
    if isinstance(n, int):
        free: Any = 0 if n <= ddof else n - ddof  # NaN stays NaN
        result = convert(_divided(total, free), total.dtype)
    else:
        result = convert(
            ew.div(total, dropped(ew.maximum(ew.sub(n, ddof), 0), a.shape, axes)), total.dtype
        )
    if result_dtype is not None:
        result = convert(result, np.dtype(result_dtype).type(0).real.dtype)
    return result, a.shape, axes


@implements(np.std, method="std")
def std(
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
    """As ``numpy.std``; the derivative for equal numbers is 0."""
    result, shape, axes = variance_of(a, axis, dtype, ddof, where, mean, correction)
    return finished(ew.sqrt_of_square(result), shape, axes, keepdims, out, "std")


@implements(np.average)
def average(
    a: Operand,
    axis: Axis = None,
    weights: Operand | None = None,
    returned: bool = False,
    *,
    keepdims: Flag = False,
) -> Any:
    """As ``numpy.average``."""
    a = arrayed(a)
    axes = normalize_axes(axis, a.ndim)
    if weights is None:
        result = mean(a, axes, keepdims=keepdims)
        scale: Any = np.asarray(ops.count(a.shape, axes), result.dtype)[()]
    else:
        w = arrayed(weights)
        if w.shape != a.shape:
            if axis is None:
                raise ShapeError(
                    f"average: weights of shape {w.shape} for an array of shape {a.shape} need an "
                    "axis",
                    fix="pass axis=",
                )
            order = axis_tuple(axis, a.ndim)
            if w.shape != tuple(a.shape[k] for k in order):
                raise ShapeError(
                    f"average: weights of shape {w.shape} do not fit axis {axis} of {a.shape}",
                    fix="give one weight per element along the axis",
                )
            w = FUNCTIONS[np.transpose](w, tuple(int(k) for k in np.argsort(order)))
            w = reshape(w, tuple(n if k in axes else 1 for k, n in enumerate(a.shape)))
        dtype = np.result_type(a.dtype, w.dtype, *([np.float64] if a.dtype.kind in "biu" else []))
        spread = broadcast_to(convert(w, dtype), a.shape)
        scale = sum(spread, axes, keepdims=keepdims)
        scale = require(
            scale,
            ew.not_equal(scale, 0),
            "ZeroDivisionError",
            "Weights sum to zero, can't be normalized",
        )
        result = ew.div(sum(ew.mul(a, spread), axes, keepdims=keepdims), scale)
    if not returned:
        return result
    return result, broadcast_to(scale, result.shape)
