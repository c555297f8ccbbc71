"""Reductions, running sums and products, and statistics: NumPy's signatures over `functrace.ops.reductions`.

Floor: 6.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.errors import AxisError, DtypeError, ShapeError, TracedIndexError, UnsupportedFunctionError
from functrace.ir.aval import aval_of, shape_of
from functrace.ir.primitive import Primitive
from functrace.numpy.array import TracedArray, record_one
from functrace.numpy.assigning import start_of
from functrace.numpy.operands import (
    NOT_GIVEN,
    along,
    arrayed,
    axis_tuple,
    cast_to,
    exact_axis,
    lined_up,
    normalize_axes,
    one_axis,
    stored,
)
from functrace.numpy.tables import FUNCTIONS, implements, ufunc_method
from functrace.ops import cumulative, sorting
from functrace.ops import elementwise as ew
from functrace.ops import reductions as ops
from functrace.ops.checks import require
from functrace.ops.indexing import index_static
from functrace.ops.joining import concatenate
from functrace.ops.shaping import broadcast_to, convert, reshape
from functrace.tracing.recording import LITERALS, Tracer, as_array, bind

_new = object.__new__
_getframe = sys._getframe
_ALL = tuple(tuple(range(n)) for n in range(65))


# -- what they have in common --------------------------------------------------------------------------------


def finished(result: Any, shape: tuple[int, ...], axes: ops.Axes, keepdims: Any, out: Any, name: str) -> Any:
    """Put the reduced axes back if asked to, and write to a traced ``out``."""
    if keepdims is not False and keepdims is not NOT_GIVEN and keepdims:
        result = ops.expand_reduced(result, shape, axes)
    return stored(result, out, name)


def _axes_of(axis: Any, ndim: int) -> ops.Axes:
    """Return the axes of a reduction that is a ufunc's: a 0-d array has an axis 0 for these, as for NumPy's."""
    return () if ndim == 0 and type(axis) is int and axis in (0, -1) else normalize_axes(exact_axis(axis), ndim)


def _given(value: Any) -> bool:
    return value is not NOT_GIVEN and value is not None


def _masked(x: Any, where: Any, fill: Any) -> Any:
    """``x`` where the mask holds, elsewhere a number that changes nothing."""
    if where is True or where is NOT_GIVEN:
        return x
    result = ew.where(where, x, fill)
    if shape_of(result) != shape_of(x):
        raise ShapeError(f"where= of shape {shape_of(where)} does not fit {aval_of(x)}", fix="broadcast the array first")
    return result


def _check_identity(initial: Any, a: Any, axes: ops.Axes, where: Any) -> None:
    """Check that ``initial=None``, which says that a reduction has no identity, leaves it an element to start from."""
    if initial is None and ((where is not True and where is not NOT_GIVEN) or ops.count(a.shape, axes) == 0):
        raise ShapeError("a reduction without identity needs elements, and no where=", fix="leave out initial=None")


def _kept(x: Any) -> Any:
    """A reduction over no axes: a copy."""
    return ew.positive(x) if x.dtype.kind != "b" else x


# -- sums and products --------------------------------------------------------------------------------------


@implements(np.sum, method="sum", reduce=np.add)
def sum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NOT_GIVEN,
    where: Any = True,
) -> Any:
    """As ``numpy.sum``."""
    plain = axis is None and dtype is None and out is None and keepdims is False and initial is NOT_GIVEN and where is True
    if plain and type(a) is TracedArray:
        return record_one(ops.reduce_sum_p, a, (_ALL[len(a.aval.shape)],))
    a = _masked(cast_to(arrayed(a), dtype), where, 0)
    axes = _axes_of(axis, a.ndim)
    _check_identity(initial, a, axes, where)
    result = cast_to(bind(ops.reduce_sum_p, (a,), (axes,)), dtype)
    if _given(initial):
        start = start_of(initial, result.dtype)
        result = ew.add(result, start) if ops.count(a.shape, axes) else broadcast_to(start, result.shape)  # -0.0 stays
    return finished(result, a.shape, axes, keepdims, out, "sum")


@implements(np.prod, method="prod", reduce=np.multiply)
def prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NOT_GIVEN,
    where: Any = True,
) -> Any:
    """As ``numpy.prod``; the derivative is exact where factors are zero."""
    a = _masked(cast_to(arrayed(a), dtype), where, 1)
    axes = _axes_of(axis, a.ndim)
    _check_identity(initial, a, axes, where)
    result = cast_to(ops.reduce_prod(a, axes), dtype)
    if _given(initial):
        result = ew.mul(result, start_of(initial, result.dtype))
    return finished(result, a.shape, axes, keepdims, out, "prod")


def _extreme(name: str, reduce: Primitive, combine: Callable[..., Any]) -> Callable[..., Any]:
    def extreme(
        a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = NOT_GIVEN, where: Any = True
    ) -> Any:
        a = arrayed(a)
        if where is not True and where is not NOT_GIVEN:
            if not _given(initial):
                raise ShapeError(f"{name} with where= needs initial=", fix="pass initial=-np.inf (or np.inf for a minimum)")
            a = _masked(a, where, start_of(initial, a.dtype))
        axes = _axes_of(axis, a.ndim)
        if _given(initial) and ops.count(a.shape, axes) == 0:
            result = broadcast_to(start_of(initial, a.dtype), ops.dropped_shape(a.shape, axes))
        else:
            result = record_one(reduce, a, (axes,)) if axes else _kept(a)
            if _given(initial):
                result = combine(result, start_of(initial, result.dtype))
        return finished(result, a.shape, axes, keepdims, out, name)

    extreme.__name__ = name
    extreme.__doc__ = f"As ``numpy.{name}``; ties share the derivative evenly."
    return extreme


max = implements(np.max, np.amax, method="max", reduce=np.maximum)(_extreme("max", ops.reduce_max_p, ew.maximum))
min = implements(np.min, np.amin, method="min", reduce=np.minimum)(_extreme("min", ops.reduce_min_p, ew.minimum))


@implements(np.ptp)
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    """As ``numpy.ptp``."""
    result = ew.sub(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))
    return stored(result, out, "ptp")


# -- truth, positions, counts --------------------------------------------------------------------------------


def _truth(name: str, primitive: Primitive, neutral: bool) -> Callable[..., Any]:
    def truth(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
        a = arrayed(a)
        if where is not True and where is not NOT_GIVEN:
            a = _masked(ew.not_equal(a, 0), where, neutral)
        axes = _axes_of(axis, a.ndim)
        return finished(record_one(primitive, a, (axes,)), a.shape, axes, keepdims, out, name)

    truth.__name__ = name
    truth.__doc__ = f"As ``numpy.{name}``."
    return truth


any_ = implements(np.any, method="any", reduce=np.logical_or)(_truth("any", ops.reduce_any_p, False))
all_ = implements(np.all, method="all", reduce=np.logical_and)(_truth("all", ops.reduce_all_p, True))


def _position(name: str, primitive: Primitive) -> Callable[..., Any]:
    def position(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        a = arrayed(a)
        if isinstance(axis, tuple):
            raise DtypeError(f"{name} takes one axis, not {axis!r}", fix="reshape the array, so that the axes are one")
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
def count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    """As ``numpy.count_nonzero``."""
    return sum(ew.not_equal(arrayed(a), 0), axis, keepdims=keepdims)


# -- mean and spread -----------------------------------------------------------------------------------------


def _count(a: Any, axes: ops.Axes, where: Any) -> Any:
    """How many elements go into each result: a number, or an array with the reduced axes kept under ``where``."""
    if where is True or where is NOT_GIVEN:
        return ops.count(a.shape, axes)
    mask = where if isinstance(where, Tracer) else as_array(where).astype(bool)
    mask = broadcast_to(mask, a.shape)
    return ops.expand_reduced(ops.reduce_sum(mask, axes) if axes else convert(mask, np.intp), a.shape, axes)


def _working(a: Any, dtype: Any) -> tuple[Any, Any]:
    """The operand in the dtype that a mean is taken in, and the dtype of the result (``None``: as it comes)."""
    if dtype is not None:
        return convert(a, dtype), dtype
    if a.dtype.kind in "biu":
        return convert(a, np.float64), None
    return (convert(a, np.float32), np.float16) if a.dtype == np.float16 else (a, None)


@implements(np.mean, method="mean")
def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
    """As ``numpy.mean``."""
    plain = axis is None and dtype is None and out is None and keepdims is False and where is True
    if plain and type(a) is TracedArray and a.aval.dtype.char in "fdFD":
        return record_one(ops.reduce_sum_p, a, (_ALL[len(a.aval.shape)],)) / a.aval.size
    a = arrayed(a)
    axes = normalize_axes(exact_axis(axis), a.ndim)
    x, result_dtype = _working(a, dtype)
    result = cast_to(_mean(x, axes, where), result_dtype)
    return finished(_dropped(result, a.shape, axes), a.shape, axes, keepdims, out, "mean")


def _dropped(x: Any, shape: tuple[int, ...], axes: ops.Axes) -> Any:
    return reshape(x, ops.dropped_shape(shape, axes))


def _mean(x: Any, axes: ops.Axes, where: Any) -> Any:
    """The mean, with the reduced axes kept if there is a mask."""
    n = _count(x, axes, where)
    total = record_one(ops.reduce_sum_p, _masked(x, where, 0), (axes,))
    if isinstance(n, int):
        return ew.div(total, n)
    return convert(ew.div(ops.expand_reduced(total, x.shape, axes), n), total.dtype)


@implements(np.var, method="var")
def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = NOT_GIVEN,
    correction: Any = NOT_GIVEN,
) -> Any:
    """As ``numpy.var``."""
    result, shape, axes = _variance(a, axis, dtype, ddof, where, mean, correction)
    return finished(result, shape, axes, keepdims, out, "var")


def _variance(
    a: Any, axis: Any, dtype: Any, ddof: Any, where: Any, given_mean: Any, correction: Any
) -> tuple[Any, tuple[int, ...], ops.Axes]:
    a = arrayed(a)
    if correction is not NOT_GIVEN:
        if ddof != 0:
            raise UnsupportedFunctionError("ddof and correction cannot both be given", fix="pass correction only")
        ddof = correction
    if shape_of(ddof) or isinstance(ddof, complex | np.complexfloating):
        raise DtypeError(f"ddof must be a real number, not {ddof!r}", fix="pass 0 or 1")
    if type(ddof) is int:
        np.int64(ddof)  # raises as NumPy does for integers that do not fit
    axes = normalize_axes(exact_axis(axis), a.ndim)
    if dtype is not None and np.dtype(dtype).kind != ("c" if a.dtype.kind == "c" else "f"):
        raise DtypeError(
            f"the variance of {a.dtype} in dtype={np.dtype(dtype)} has no implementation on traced values",
            fix="pass a float dtype (a complex one for complex numbers), and convert the result",
        )
    x, result_dtype = _working(a, dtype)
    n = _count(x, axes, where)
    center = ops.expand_reduced(_mean(x, axes, where), a.shape, axes) if given_mean is NOT_GIVEN else given_mean
    squares = _masked(ops.squared_deviation(x, center), where, 0)
    total = record_one(ops.reduce_sum_p, squares, (axes,))
    if isinstance(n, int):
        free: Any = 0 if n <= ddof else n - ddof  # NaN stays NaN
        result = convert(ew.div(total, free), total.dtype)
    else:
        result = convert(ew.div(total, _dropped(ew.maximum(ew.sub(n, ddof), 0), a.shape, axes)), total.dtype)
    if result_dtype is not None:
        result = convert(result, np.dtype(result_dtype).type(0).real.dtype)
    return result, a.shape, axes


@implements(np.std, method="std")
def std(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = NOT_GIVEN,
    correction: Any = NOT_GIVEN,
) -> Any:
    """As ``numpy.std``; the derivative at equal numbers is 0."""
    result, shape, axes = _variance(a, axis, dtype, ddof, where, mean, correction)
    return finished(ew.sqrt_of_square(result), shape, axes, keepdims, out, "std")


@implements(np.average)
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False) -> Any:
    """As ``numpy.average``."""
    a = arrayed(a)
    axes = normalize_axes(axis, a.ndim)
    if weights is None:
        result = mean(a, axes, keepdims=keepdims)
        scale: Any = np.asarray(ops.count(a.shape, axes), result.dtype)[()]
    else:
        weights = arrayed(weights)
        if weights.shape != a.shape:
            if axis is None:
                raise ShapeError(
                    f"average: weights of shape {weights.shape} for an array of shape {a.shape} need an axis",
                    fix="pass axis=",
                )
            order = axis_tuple(axis, a.ndim)
            if weights.shape != tuple(a.shape[k] for k in order):
                raise ShapeError(
                    f"average: weights of shape {weights.shape} do not fit axis {axis} of {a.shape}",
                    fix="give one weight per element along the axis",
                )
            weights = FUNCTIONS[np.transpose](weights, tuple(int(k) for k in np.argsort(order)))
            weights = reshape(weights, tuple(n if k in axes else 1 for k, n in enumerate(a.shape)))
        dtype = np.result_type(a.dtype, weights.dtype, *([np.float64] if a.dtype.kind in "biu" else []))
        spread = broadcast_to(convert(weights, dtype), a.shape)
        scale = sum(spread, axes, keepdims=keepdims)
        scale = require(scale, ew.not_equal(scale, 0), "ZeroDivisionError", "Weights sum to zero, can't be normalized")
        result = ew.div(sum(ew.mul(a, spread), axes, keepdims=keepdims), scale)
    if not returned:
        return result
    return result, broadcast_to(scale, result.shape)


# -- NaN left out ---------------------------------------------------------------------------------------------


def _without_nan(a: Any, fill: Any) -> tuple[Any, Any]:
    """The array with NaN replaced, and the mask of the numbers; ``True`` where the dtype has no NaN."""
    a = arrayed(a)
    if a.dtype.kind not in "fc":
        return a, True
    missing = ew.isnan(a)
    return ew.where(missing, fill, a), ew.logical_not(missing)


def _and(mask: Any, where: Any) -> Any:
    if where is True or where is NOT_GIVEN:
        return mask
    return where if mask is True else ew.logical_and(mask, where)


@implements(np.nansum)
def nansum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NOT_GIVEN,
    where: Any = True,
) -> Any:
    """As ``numpy.nansum``."""
    return sum(_without_nan(a, 0.0)[0], axis, dtype, out, keepdims, initial, where)


@implements(np.nanprod)
def nanprod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NOT_GIVEN,
    where: Any = True,
) -> Any:
    """As ``numpy.nanprod``."""
    return prod(_without_nan(a, 1.0)[0], axis, dtype, out, keepdims, initial, where)


def _nan_extreme(name: str, extreme: Callable[..., Any], worst: float) -> Callable[..., Any]:
    def nan_extreme(
        a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = NOT_GIVEN, where: Any = True
    ) -> Any:
        filled, mask = _without_nan(a, worst)
        if _given(initial) and not isinstance(initial, Tracer) and initial != initial:
            initial = worst
        result = extreme(filled, axis, None, keepdims, initial, where)
        if mask is not True and not _given(initial):
            result = ew.where(any_(mask, axis, None, keepdims), result, math.nan)
        return stored(result, out, name)

    nan_extreme.__name__ = name
    nan_extreme.__doc__ = f"As ``numpy.{name}``; NaN where there is no number."
    return nan_extreme


nanmax = implements(np.nanmax)(_nan_extreme("nanmax", max, -math.inf))
nanmin = implements(np.nanmin)(_nan_extreme("nanmin", min, math.inf))


@implements(np.nanmean)
def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
) -> Any:
    """As ``numpy.nanmean``."""
    if dtype is not None and arrayed(a).dtype.kind in "fc" and np.dtype(dtype).kind not in "fc":
        raise DtypeError("If a is inexact, then dtype must be inexact", fix="convert the result")
    filled, mask = _without_nan(a, 0.0)
    return mean(filled, axis, dtype, out, keepdims, where=_and(mask, where))


@implements(np.nanvar)
def nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = NOT_GIVEN,
    correction: Any = NOT_GIVEN,
) -> Any:
    """As ``numpy.nanvar``; NaN where there are not more than ``ddof`` numbers."""
    result = _nan_variance(a, axis, dtype, ddof, keepdims, where, mean, correction)
    return stored(result, out, "nanvar")


@implements(np.nanstd)
def nanstd(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = NOT_GIVEN,
    correction: Any = NOT_GIVEN,
) -> Any:
    """As ``numpy.nanstd``; the derivative at equal numbers is 0."""
    result = ew.sqrt_of_square(_nan_variance(a, axis, dtype, ddof, keepdims, where, mean, correction))
    return stored(result, out, "nanstd")


def _nan_variance(
    a: Any, axis: Any, dtype: Any, ddof: Any, keepdims: Any, where: Any, given_mean: Any, correction: Any
) -> Any:
    filled, mask = _without_nan(a, 0.0)
    mask = _and(mask, where)
    result, shape, axes = _variance(filled, axis, dtype, ddof, mask, given_mean, correction)
    if mask is not True:
        enough = ew.greater(
            _dropped(_count(filled, axes, mask), shape, axes), ddof if correction is NOT_GIVEN else correction
        )
        result = ew.where(enough, result, math.nan)
    return finished(result, shape, axes, keepdims, None, "nanvar")


def _nan_position(name: str, position: Callable[..., Any], worst: float) -> Callable[..., Any]:
    def nan_position(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
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


# -- quantiles ---------------------------------------------------------------------------------------------------

_CONTINUOUS = {
    "linear": (1.0, 1.0), "weibull": (0.0, 0.0), "hazen": (0.5, 0.5), "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8), "interpolated_inverted_cdf": (0.0, 1.0),
}  # fmt: skip


_ELEMENTS = frozenset({"lower", "higher", "nearest"})
"""Methods whose quantiles are elements, in their dtype; so are those of integer orders by the method "linear"."""


def _place(n: Any, q: Any, method: str) -> Any:
    """Where the quantile stands among ``n`` sorted numbers, as a real position (Hyndman and Fan 1996)."""
    if method in _CONTINUOUS:
        alpha, beta = _CONTINUOUS[method]
        if method == "linear":
            return ew.mul(ew.sub(n, 1), q)
        return ew.add(ew.mul(n, q), alpha + ew.mul(q, 1 - alpha - beta) - 1)
    at = ew.mul(ew.sub(n, 1), q)
    if method == "lower":
        return ew.floor(at)
    if method == "higher":
        return ew.ceil(at)
    if method == "nearest":
        return ew.rint(at)
    if method == "midpoint":
        return ew.mul(ew.add(ew.floor(at), ew.ceil(at)), 0.5)
    raise UnsupportedFunctionError(
        f"the quantile method {method!r} has no implementation on traced values",
        fix="use one of " + ", ".join([*_CONTINUOUS, "lower", "higher", "nearest", "midpoint"]),
    )


def _quantile(
    a: Any, q: Any, axis: Any, method: str, keepdims: Any, *, weak: bool, skips_nan: bool, is_element: bool
) -> Any:
    a = arrayed(a)
    if a.dtype.kind in "bc":
        raise DtypeError(f"quantiles of {a.dtype} are not defined", fix="take the real part, or convert with .astype(int)")
    if not isinstance(q, Tracer) and not np.all((q >= 0) & (q <= 1)):
        raise ShapeError("quantiles must be between 0 and 1 (percentiles between 0 and 100)", fix="rescale q")
    within = ew.logical_and(ew.greater_equal(q, 0), ew.less_equal(q, 1))
    q = require(q, within, "ValueError", "Quantiles must be in the range [0, 1]") if isinstance(q, Tracer) else q
    axes = normalize_axes(axis, a.ndim)
    floating = a if a.dtype.kind == "f" else convert(a, np.float64)
    x = ops.merge_reduced(floating, axes)
    n, rank = x.shape[-1], x.ndim
    q_shape = shape_of(q)
    reduced = ops.kept_shape(a.shape, axes) if keepdims is not NOT_GIVEN and keepdims else ops.dropped_shape(a.shape, axes)
    if skips_nan and 0 in a.shape:
        return nanmean(a, axis, keepdims=keepdims)  # as NumPy: whatever the shape of q
    if n == 0:
        raise TracedIndexError(f"quantile: no elements along axis {axis} of {a.aval}", fix="leave empty arrays out")
    x = sorting.sort(x, rank - 1)
    missing = ew.isnan(x)
    count: Any = n
    if skips_nan:
        count = ops.expand_reduced(ops.reduce_sum(ew.logical_not(missing), (rank - 1,)), x.shape, (rank - 1,))
    flat = reshape(q, (math.prod(q_shape),))
    at = _place(count, flat, method)
    if not isinstance(at, Tracer):
        at = np.asarray(at)
    last = ew.maximum(count - 1, 0)
    below = ew.floor(at)
    is_outside = ew.logical_or(ew.less(at, 0), ew.greater_equal(at, last))
    low = convert(ew.minimum(ew.maximum(below, 0), last), np.intp)
    high = ew.where(is_outside, low, ew.minimum(ew.add(low, 1), last))
    fraction = ew.where(is_outside, 0.0, ew.sub(at, below))
    fraction = convert(fraction, floating.dtype) if weak or q.dtype.kind != "f" else fraction

    def read(places: Any) -> Any:
        missing_axes = rank - len(shape_of(places))
        places = reshape(places, (1,) * missing_axes + shape_of(places))
        return sorting.take_along_axis(x, broadcast_to(places, (*x.shape[:-1], shape_of(places)[-1])), rank - 1)

    result = read(low)
    if not is_element:
        # From the nearer end, as NumPy does, so that it is exact at both; nan between infinities, also where they are equal.
        left, right = result, read(high)
        step = ew.sub(right, left)
        result = ew.where(
            ew.greater_equal(fraction, 0.5),
            ew.sub(right, ew.mul(step, ew.sub(1, fraction))),
            ew.add(left, ew.mul(step, fraction)),
        )
    if not skips_nan:
        result = ew.where(index_static(missing, (Ellipsis, (n - 1, n, None))), math.nan, result)
    result = FUNCTIONS[np.moveaxis](result, -1, 0)
    return reshape(result, (*q_shape, *reduced))


def _refuse_weights(weights: Any) -> None:
    if weights is not None:
        raise UnsupportedFunctionError(
            "weights= of quantiles has no implementation on traced values", fix="repeat the elements with np.repeat instead"
        )


def _quantile_function(name: str, scale: float, *, skips_nan: bool) -> Callable[..., Any]:
    def function(
        a: Any,
        q: Any,
        axis: Any = None,
        out: Any = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: Any = False,
        *,
        weights: Any = None,
    ) -> Any:
        _refuse_weights(weights)
        weak = type(q) in LITERALS or (isinstance(q, Tracer) and not q.aval.shape)
        q = arrayed(q)
        if q.dtype.kind == "b":
            raise DtypeError(f"{name}: q must be a number, not a bool", fix="pass 0.0 or 1.0")
        given = q.dtype
        a, q = arrayed(a), ew.div(q, scale) if scale != 1 else q
        is_element = method in _ELEMENTS or (method == "linear" and q.dtype.kind in "iu")
        result = _quantile(a, q, axis, method, keepdims, weak=weak, skips_nan=skips_nan, is_element=is_element)
        if is_element:
            result = convert(result, a.dtype)
        elif not weak and not (skips_nan and 0 in a.shape):
            result = convert(result, np.result_type(a.dtype, given if given.kind == "f" else np.float64))
        return stored(result, out, name)

    function.__name__ = name
    function.__doc__ = f"As ``numpy.{name}``; differentiable in the data, and in ``q`` with continuous methods."
    return function


quantile = implements(np.quantile)(_quantile_function("quantile", 1, skips_nan=False))
percentile = implements(np.percentile)(_quantile_function("percentile", 100, skips_nan=False))
nanquantile = implements(np.nanquantile)(_quantile_function("nanquantile", 1, skips_nan=True))
nanpercentile = implements(np.nanpercentile)(_quantile_function("nanpercentile", 100, skips_nan=True))


@implements(np.median)
def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False) -> Any:
    """As ``numpy.median``; of an even count the two in the middle share the derivative."""
    a = arrayed(a)
    axes = normalize_axes(axis, a.ndim)
    x = ops.merge_reduced(a, axes)
    n = x.shape[-1]
    if n == 0:
        return mean(a, axis, None, out, keepdims)
    x = sorting.sort(x, x.ndim - 1)
    middle = index_static(x, (Ellipsis, ((n - 1) // 2, n // 2 + 1, None)))
    result = mean(middle, -1)
    if a.dtype.kind in "fc":
        last = index_static(x, (Ellipsis, n - 1))
        result = ew.where(ew.isnan(last), math.nan, result)
    return finished(result, a.shape, axes, keepdims, out, "median")


@implements(np.nanmedian)
def nanmedian(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False) -> Any:
    """As ``numpy.nanmedian``; of an even count the two in the middle share the derivative."""
    a = arrayed(a)
    if a.dtype.kind not in "fc" or 0 in a.shape:
        return median(a, axis, out, overwrite_input, keepdims)
    axes = normalize_axes(axis, a.ndim)
    x = ops.merge_reduced(a, axes)
    x = sorting.sort(x, x.ndim - 1)
    last = (x.ndim - 1,)
    count = ops.expand_reduced(ops.reduce_sum(ew.logical_not(ew.isnan(x)), last), x.shape, last)
    high = convert(ew.floor_divide(count, 2), np.intp)
    low = ew.maximum(ew.floor_divide(ew.sub(count, 1), 2), 0)
    low, high = [sorting.take_along_axis(x, k, x.ndim - 1) for k in (low, high)]
    middle = ew.where(ew.equal(ew.remainder(count, 2), 1), low, ew.div(ew.add(low, high), 2))
    middle = ew.where(ew.equal(count, 0), math.nan, middle)
    return finished(reshape(middle, x.shape[:-1]), a.shape, axes, keepdims, out, "nanmedian")


# -- along an axis -------------------------------------------------------------------------------------------------


@implements(np.cumsum, method="cumsum", accumulate=np.add)
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """As ``numpy.cumsum``."""
    a, axis = lined_up(cast_to(arrayed(a), dtype), exact_axis(axis))
    result = cast_to(cumulative.cumsum(a, axis), dtype)
    return stored(result, out, "cumsum")


@implements(np.cumprod, method="cumprod", accumulate=np.multiply)
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """As ``numpy.cumprod``; the derivative is exact where factors are zero."""
    a, axis = lined_up(cast_to(arrayed(a), dtype), exact_axis(axis))
    result = cast_to(cumulative.cumprod(a, axis), dtype)
    return stored(result, out, "cumprod")


@implements(np.nancumsum)
def nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """As ``numpy.nancumsum``."""
    return cumsum(_without_nan(a, 0.0)[0], axis, dtype, out)


@implements(np.nancumprod)
def nancumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """As ``numpy.nancumprod``."""
    return cumprod(_without_nan(a, 1.0)[0], axis, dtype, out)


def _with_initial(name: str, running: Callable[..., Any], neutral: int) -> Callable[..., Any]:
    def function(x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False) -> Any:
        x = arrayed(x)
        if axis is None:
            if x.ndim != 1:
                raise AxisError(f"{name} of an array with {x.ndim} axes needs axis=", fix="pass axis=")
            axis = 0
        axis = one_axis(axis, x.ndim)
        result = running(x, axis, dtype)
        if include_initial:
            start = np.full((*x.shape[:axis], 1, *x.shape[axis + 1 :]), neutral, result.dtype)
            result = concatenate([start, result], axis)
        return stored(result, out, name)

    function.__name__ = name
    function.__doc__ = f"As ``numpy.{name}``."
    return function


cumulative_sum = implements(np.cumulative_sum)(_with_initial("cumulative_sum", cumsum, 0))
cumulative_prod = implements(np.cumulative_prod)(_with_initial("cumulative_prod", cumprod, 1))


@implements(np.diff)
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = NOT_GIVEN, append: Any = NOT_GIVEN) -> Any:
    """As ``numpy.diff``."""
    if n < 0:
        raise ShapeError(f"diff: the order must not be negative, got {n}", fix="pass n >= 0")
    a = arrayed(a)
    if a.ndim == 0:
        raise ShapeError("diff needs at least one axis", fix="pass an array with one axis or more")
    axis = one_axis(axis, a.ndim)
    if n == 0:
        return a  # not a copy, as in NumPy
    parts = [a]
    if prepend is not NOT_GIVEN:
        parts.insert(0, _edge(prepend, a, axis))
    if append is not NOT_GIVEN:
        parts.append(_edge(append, a, axis))
    if len(parts) > 1:
        a = FUNCTIONS[np.concatenate](parts, axis)
    difference = ew.not_equal if a.dtype.kind == "b" else ew.sub
    for _ in range(n):
        a = difference(index_static(a, along(axis, (1, None, None))), index_static(a, along(axis, (None, -1, None))))
    return a


def _edge(part: Any, a: Any, axis: int) -> Any:
    part = arrayed(part)
    return broadcast_to(part, (*a.shape[:axis], 1, *a.shape[axis + 1 :])) if part.ndim == 0 else part


@implements(np.trapezoid)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """As ``numpy.trapezoid``."""
    y = arrayed(y)
    axis = one_axis(axis, y.ndim)
    if x is None:
        step = dx
    else:
        x = arrayed(x)
        step = diff(x, axis=-1 if x.ndim == 1 else axis)
        if x.ndim == 1:
            step = reshape(step, (step.shape[0],) + (1,) * (y.ndim - axis - 1))
    ends = ew.add(index_static(y, along(axis, (1, None, None))), index_static(y, along(axis, (None, -1, None))))
    return sum(ew.div(ew.mul(step, ends), 2.0), axis)


# -- methods of ufuncs ------------------------------------------------------------------------------------------------


def _log_sum(ufunc: np.ufunc, scale: float) -> Callable[..., Any]:
    def reduce(
        a: Any, axis: Any = 0, dtype: Any = None, keepdims: Any = False, initial: Any = NOT_GIVEN, where: Any = True
    ) -> Any:
        a = _masked(_looped(ufunc, arrayed(a), dtype), where, -math.inf)
        axes = normalize_axes(exact_axis(axis), a.ndim)
        if ops.count(a.shape, axes) == 0:
            result: Any = broadcast_to(np.asarray(-math.inf, a.dtype)[()], ops.dropped_shape(a.shape, axes))
        else:
            result = ops.logsumexp(a if scale == 1 else ew.mul(a, scale), axes)
            result = result if scale == 1 else ew.div(result, scale)
        if _given(initial):
            result = bind(ew.UFUNCS[ufunc], (result, start_of(initial, result.dtype)))
        return finished(result, a.shape, axes, keepdims, None, f"{ufunc.__name__}.reduce")

    return reduce


def _skipping(nan_extreme: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(
        a: Any, axis: Any = 0, dtype: Any = None, keepdims: Any = False, initial: Any = NOT_GIVEN, where: Any = True
    ) -> Any:
        return nan_extreme(cast_to(arrayed(a), dtype), axis, None, keepdims, initial, where)

    return reduce


@ufunc_method(np.hypot, "reduce")
def _hypot_reduce(
    a: Any, axis: Any = 0, dtype: Any = None, keepdims: Any = False, initial: Any = 0.0, where: Any = True
) -> Any:
    a = _masked(_looped(np.hypot, arrayed(a), dtype), where, 0)
    axes = normalize_axes(exact_axis(axis), a.ndim)
    size = ew.absolute(a)
    start = start_of(initial if _given(initial) else 0.0, a.dtype)
    if ops.count(a.shape, axes) == 0 or not axes:
        result = broadcast_to(start, ops.dropped_shape(a.shape, axes)) if axes else ew.hypot(a, start)
        return finished(result, a.shape, axes, keepdims, None, "hypot.reduce")
    scale = ops.expand_reduced(bind(ops.reduce_max_p, (size,), (axes,)), a.shape, axes)  # so that no square overflows
    scale = ew.stop_gradient(ew.where(ew.logical_and(ew.isfinite(scale), ew.greater(scale, 0)), scale, 1))
    total = ew.sqrt_of_square(bind(ops.reduce_sum_p, (ew.square(ew.div(a, scale)),), (axes,)))
    result = ew.mul(total, reshape(scale, total.shape))
    infinite = bind(ops.reduce_any_p, (ew.isinf(a),), (axes,))
    result = ew.hypot(ew.where(infinite, math.inf, result), start)
    return finished(result, a.shape, axes, keepdims, None, "hypot.reduce")


def _looped(ufunc: np.ufunc, a: Any, dtype: Any) -> Any:
    """The operand in the dtype in which a ufunc reduces it."""
    wanted = a.dtype if dtype is None else np.dtype(dtype)
    try:
        chosen = ufunc.resolve_dtypes((wanted, wanted, None))[-1]
    except TypeError:
        chosen = None
    if chosen is None or (dtype is not None and chosen != wanted):
        raise DtypeError(f"{ufunc.__name__} has no loop for {wanted}", fix="pass real floats")
    return convert(a, chosen)


def _accumulate(primitive: Primitive) -> Callable[..., Any]:
    def accumulate(a: Any, axis: Any = 0, dtype: Any = None) -> Any:
        a = cast_to(arrayed(a), dtype)
        return bind(primitive, (a,), (one_axis(exact_axis(axis), a.ndim),))

    return accumulate


ufunc_method(np.logaddexp, "reduce")(_log_sum(np.logaddexp, 1.0))
ufunc_method(np.logaddexp2, "reduce")(_log_sum(np.logaddexp2, math.log(2)))
ufunc_method(np.fmax, "reduce")(_skipping(nanmax))
ufunc_method(np.fmin, "reduce")(_skipping(nanmin))
ufunc_method(np.maximum, "accumulate")(_accumulate(cumulative.cummax_p))
ufunc_method(np.minimum, "accumulate")(_accumulate(cumulative.cummin_p))
