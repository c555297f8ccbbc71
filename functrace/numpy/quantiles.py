"""Order statistics: medians, quantiles and percentiles, with NaN left out or not; differentiable in data and ``q``.

Floor: 6.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.errors import DtypeError, ShapeError, TracedIndexError, UnsupportedFunctionError
from functrace.ir.aval import aval_of, shape_of
from functrace.numpy.nan_reductions import nanmean
from functrace.numpy.operands import NOT_GIVEN, Arrayed, Axis, Flag, Operand, Out, arrayed, normalize_axes, stored
from functrace.numpy.reductions import finished, mean
from functrace.numpy.tables import FUNCTIONS, implements
from functrace.ops import elementwise as ew
from functrace.ops import reductions as ops
from functrace.ops import sorting
from functrace.ops.checks import require
from functrace.ops.indexing import index_static
from functrace.ops.shaping import broadcast_to, convert, reshape
from functrace.tracing.recording import LITERALS, Tracer

_CONTINUOUS = {
    "linear": (1.0, 1.0), "weibull": (0.0, 0.0), "hazen": (0.5, 0.5), "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8), "interpolated_inverted_cdf": (0.0, 1.0),
}  # fmt: skip


_ELEMENTS = frozenset({"lower", "higher", "nearest"})
"""Methods whose quantiles are elements, in their dtype; so are those of integer orders by the method "linear"."""


def _place(n: int | Arrayed, q: Arrayed, method: str) -> Any:
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
    a: Arrayed, q: Arrayed, axis: Axis, method: str, keepdims: Flag, *, weak: bool, skips_nan: bool, is_element: bool
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
        raise TracedIndexError(f"quantile: no elements along axis {axis} of {aval_of(a)}", fix="leave empty arrays out")
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

    def read(places: Arrayed) -> Any:
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


def _refuse_weights(weights: object) -> None:
    if weights is not None:
        raise UnsupportedFunctionError(
            "weights= of quantiles has no implementation on traced values", fix="repeat the elements with np.repeat instead"
        )


def _quantile_function(name: str, scale: float, *, skips_nan: bool) -> Callable[..., Any]:
    def function(
        a: Operand,
        q: Operand,
        axis: Axis = None,
        out: Out = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: Flag = False,
        *,
        weights: Operand | None = None,
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


quantile = implements(np.quantile, scalars=True)(_quantile_function("quantile", 1, skips_nan=False))


percentile = implements(np.percentile, scalars=True)(_quantile_function("percentile", 100, skips_nan=False))


nanquantile = implements(np.nanquantile, scalars=True)(_quantile_function("nanquantile", 1, skips_nan=True))


nanpercentile = implements(np.nanpercentile, scalars=True)(_quantile_function("nanpercentile", 100, skips_nan=True))


@implements(np.median, scalars=True)
def median(a: Operand, axis: Axis = None, out: Out = None, overwrite_input: bool = False, keepdims: Flag = False) -> Any:
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


@implements(np.nanmedian, scalars=True)
def nanmedian(a: Operand, axis: Axis = None, out: Out = None, overwrite_input: bool = False, keepdims: Flag = False) -> Any:
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
