"""Medians, quantiles and percentiles, with or without NaN; differentiable in the data and ``q``.

Layer: 3.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.errors import DtypeError, ShapeError, TracedIndexError, UnsupportedFunctionError
from functrace.ir.aval import aval_of, shape_of
from functrace.numpy.functions.nan_reductions import nanmean
from functrace.numpy.functions.reductions import finished, mean
from functrace.numpy.protocol.operands import (
    NOT_GIVEN,
    Arrayed,
    Axis,
    Flag,
    Operand,
    Out,
    arrayed,
    axis_tuple,
    normalize_axes,
    stored,
)
from functrace.numpy.protocol.tables import FUNCTIONS, implements
from functrace.ops import cumulative, sorting
from functrace.ops import elementwise as ew
from functrace.ops import reductions as ops
from functrace.ops.checks import require
from functrace.ops.indexing import index_static
from functrace.ops.shaping import broadcast_to, convert, permute, reshape
from functrace.tracing.tracer import LITERALS, Tracer

_CONTINUOUS = {
    "linear": (1.0, 1.0), "weibull": (0.0, 0.0), "hazen": (0.5, 0.5), "median_unbiased": (1 / 3,
    1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8), "interpolated_inverted_cdf": (0.0, 1.0),
}  # fmt: skip


_ELEMENTS = frozenset({"lower", "higher", "nearest", "inverted_cdf", "closest_observation"})
"""Methods that return elements, in their dtype; so does "linear" for integer ``q``."""


def _place(n: int | Arrayed, q: Arrayed, method: str) -> Any:
    """Return the real position of a quantile among ``n`` sorted numbers (Hyndman and Fan 1996)."""
    if method in _CONTINUOUS:
        alpha, beta = _CONTINUOUS[method]
        if method == "linear":
            return ew.mul(ew.sub(n, 1), q)
        return ew.add(ew.mul(n, q), alpha + ew.mul(q, 1 - alpha - beta) - 1)
    if method in ("inverted_cdf", "averaged_inverted_cdf", "closest_observation"):
        at = ew.sub(ew.mul(n, q), 1.5 if method == "closest_observation" else 1)
        below = ew.floor(at)
        is_whole = ew.equal(at, below)
        if method == "averaged_inverted_cdf":
            return ew.add(below, ew.where(is_whole, 0.5, 1.0))
        if method == "closest_observation":
            is_whole = ew.logical_and(is_whole, ew.equal(ew.remainder(below, 2), 1))
        return ew.maximum(ew.where(is_whole, below, ew.add(below, 1)), 0)
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
        fix="use one of "
        + ", ".join([*_CONTINUOUS, *sorted(_ELEMENTS), "averaged_inverted_cdf", "midpoint"]),
    )


def _quantile(
    a: Arrayed,
    q: Arrayed,
    axis: Axis,
    method: str,
    keepdims: Flag,
    *,
    weak: bool,
    skips_nan: bool,
    is_element: bool,
) -> Any:
    a = arrayed(a)
    if a.dtype.kind in "bc":
        raise DtypeError(
            f"quantiles of {a.dtype} are not defined",
            fix="take the real part, or convert with .astype(int)",
        )
    if not isinstance(q, Tracer) and not np.all((q >= 0) & (q <= 1)):
        raise ShapeError(
            "quantiles must be between 0 and 1 (percentiles between 0 and 100)", fix="rescale q"
        )
    within = ew.logical_and(ew.greater_equal(q, 0), ew.less_equal(q, 1))
    q = (
        require(q, within, "ValueError", "Quantiles must be in the range [0, 1]")
        if isinstance(q, Tracer)
        else q
    )
    axes = normalize_axes(axis, a.ndim)
    floating = a if a.dtype.kind == "f" else convert(a, np.float64)
    x = ops.merge_reduced(floating, axes)
    n, rank = x.shape[-1], x.ndim
    q_shape = shape_of(q)
    reduced = (
        ops.kept_shape(a.shape, axes)
        if keepdims is not NOT_GIVEN and keepdims
        else ops.dropped_shape(a.shape, axes)
    )
    if skips_nan and 0 in a.shape:
        return nanmean(a, axis, keepdims=keepdims)  # as NumPy, for any shape of q
    if n == 0:
        raise TracedIndexError(
            f"quantile: no elements along axis {axis} of {aval_of(a)}", fix="leave empty arrays out"
        )
    x = sorting.sort(x, rank - 1)
    missing = ew.isnan(x)
    count: Any = n
    if skips_nan:
        count = ops.expand_reduced(
            ops.reduce_sum(ew.logical_not(missing), (rank - 1,)), x.shape, (rank - 1,)
        )
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
        return sorting.take_along_axis(
            x, broadcast_to(places, (*x.shape[:-1], shape_of(places)[-1])), rank - 1
        )

    result = read(low)
    if not is_element:
        # From the nearer end, as NumPy: exact at both; NaN between infinities, even equal ones.
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


def _weighted(
    a: Arrayed, q: Arrayed, axis: Axis, weights: Operand, keepdims: Flag, *, skips_nan: bool
) -> Any:
    """Return weighted quantiles: the first element where the cumulative weight reaches ``q``."""
    axes = normalize_axes(axis, a.ndim)
    w = arrayed(weights)
    if w.shape != a.shape:
        if axis is None:
            raise DtypeError(
                "Axis must be specified when shapes of a and weights differ.", fix="pass axis="
            )
        given = axis_tuple(axis, a.ndim)
        if w.shape != tuple(a.shape[k] for k in given):
            raise ShapeError(
                "Shape of weights must be consistent with shape of a along specified axis.",
                fix="check the shapes",
            )
        w = permute(w, tuple(int(k) for k in np.argsort(given)))
        w = broadcast_to(
            reshape(w, tuple(n if k in axes else 1 for k, n in enumerate(a.shape))), a.shape
        )
    if a.dtype.kind in "bc":
        raise DtypeError(
            f"quantiles of {a.dtype} are not defined",
            fix="take the real part, or convert with .astype(int)",
        )
    everything = tuple(range(a.ndim))
    w = require(
        w,
        ops.reduce_all(ew.greater_equal(w, 0), everything),
        "ValueError",
        "Weights must be non-negative.",
    )
    within = ew.logical_and(ew.greater_equal(q, 0), ew.less_equal(q, 1))
    q = require(
        q,
        ops.reduce_all(within, tuple(range(len(shape_of(q))))),
        "ValueError",
        "Quantiles must be in the range [0, 1]",
    )
    x, w = ops.merge_reduced(a, axes), convert(ops.merge_reduced(w, axes), np.float64)
    last = x.ndim - 1
    missing = ew.isnan(x) if a.dtype.kind == "f" else broadcast_to(np.zeros((), bool), x.shape)
    w = ew.where(missing, 0.0, w) if skips_nan else w
    order = sorting.argsort(x, last)
    x, w = [sorting.take_along_axis(y, order, last, is_permutation=True) for y in (x, w)]
    reached = cumulative.cumsum(w, last)
    share = ew.div(reached, index_static(reached, (Ellipsis, (-1, None, None))))
    if not skips_nan:
        usable = ops.reduce_all(ew.logical_not(ew.isnan(share)), tuple(range(x.ndim)))
        share = require(share, usable, "ValueError", "Weights included NaN, inf or were all zero.")
    if q.dtype.kind == "f":
        share = convert(share, q.dtype)
    share = ew.where(ew.equal(share, 0), -1.0, share)
    n, flat = x.shape[-1], reshape(q, (math.prod(shape_of(q)),))
    below = ew.less(reshape(share, (*x.shape[:-1], 1, n)), reshape(flat, (flat.shape[0], 1)))
    place = ew.minimum(ops.reduce_sum(convert(below, np.intp), (x.ndim,)), n - 1)
    result = sorting.take_along_axis(x, place, last)
    whole = ops.reduce_all(missing, (last,)) if skips_nan else ops.reduce_any(missing, (last,))
    if a.dtype.kind == "f":
        result = ew.where(reshape(whole, (*whole.shape, 1)), math.nan, result)
    reduced = (
        ops.kept_shape(a.shape, axes)
        if keepdims is not NOT_GIVEN and keepdims
        else ops.dropped_shape(a.shape, axes)
    )
    return reshape(FUNCTIONS[np.moveaxis](result, -1, 0), (*shape_of(q), *reduced))


_NUMPYS: dict[str, Any] = {
    f.__name__: f for f in (np.quantile, np.percentile, np.nanquantile, np.nanpercentile)
}

with np.errstate(invalid="ignore"):
    _INTERPOLATES_NUMBERS = [
        name for name, f in _NUMPYS.items() if np.isnan(f(np.array([np.inf, 1.0]), 0))
    ]
"""Functions whose quantiles of floats are interpolated also where the order is the integer 0 or 1
(which may give nan).
"""

_PERCENTILES = ("percentile", "nanpercentile")
_DIVIDES_BY_DATA = [
    name for name in _PERCENTILES if _NUMPYS[name](np.array([0.0, 100.0]), np.float32(2.0)) == 2.0
]
"""Percentiles whose orders are divided by 100 in the dtype of the data, if that is a float, not in
their own: before 2.4.
"""


@functools.lru_cache(maxsize=512)
def _dtype_in_numpy(
    name: str, data: np.dtype[Any], order: type | np.dtype[Any], rank: int, method: str
) -> np.dtype[Any]:
    """Return the dtype of a quantile, by NumPy's own: its rules differ between 2.3, 2.4.0 and
    2.4.2.
    """
    q = np.zeros((1,) * rank, order) if isinstance(order, np.dtype) else order(0)
    return _NUMPYS[name](np.zeros(2, data), q, method=method).dtype


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
        kind = type(q)
        weak = kind in LITERALS or (isinstance(q, Tracer) and not q.aval.shape)
        q = arrayed(q)
        if q.dtype.kind == "b":
            raise DtypeError(f"{name}: q must be a number, not a bool", fix="pass 0.0 or 1.0")
        if len(shape_of(q)) > 2:
            raise ShapeError(
                "q must be a scalar or 1d", fix="pass a vector, and reshape what is returned"
            )
        given = q.dtype
        a = arrayed(a)
        by_data = name in _DIVIDES_BY_DATA and a.dtype.kind == "f" and not weak
        q = ew.div(q, a.dtype.type(scale) if by_data else scale) if scale != 1 else q
        if weights is not None:
            if method != "inverted_cdf":
                raise ShapeError(
                    f"Only method 'inverted_cdf' supports weights. Got: {method}.",
                    fix="pass method='inverted_cdf'",
                )
            return stored(_weighted(a, q, axis, weights, keepdims, skips_nan=skips_nan), out, name)
        interpolates = kind in LITERALS and a.dtype.kind == "f" and name in _INTERPOLATES_NUMBERS
        is_element = method in _ELEMENTS or (
            method == "linear" and q.dtype.kind in "iu" and not interpolates
        )
        result = _quantile(
            a, q, axis, method, keepdims, weak=weak, skips_nan=skips_nan, is_element=is_element
        )
        if skips_nan and 0 in a.shape:
            return stored(result, out, name)
        if not isinstance(q, Tracer):
            order = kind if kind in LITERALS or issubclass(kind, np.generic) else given
            result = convert(result, _dtype_in_numpy(name, a.dtype, order, q.ndim, method))
        elif is_element:
            result = convert(result, a.dtype)
        elif not weak:
            result = convert(
                result, np.result_type(a.dtype, given if given.kind == "f" else np.float64)
            )
        return stored(result, out, name)

    function.__name__ = name
    function.__doc__ = (
        f"As ``numpy.{name}``; differentiable in the data, and in ``q`` with continuous methods."
    )
    return function


quantile = implements(np.quantile, scalars=True)(_quantile_function("quantile", 1, skips_nan=False))


percentile = implements(np.percentile, scalars=True)(
    _quantile_function("percentile", 100, skips_nan=False)
)


nanquantile = implements(np.nanquantile, scalars=True)(
    _quantile_function("nanquantile", 1, skips_nan=True)
)


nanpercentile = implements(np.nanpercentile, scalars=True)(
    _quantile_function("nanpercentile", 100, skips_nan=True)
)


@implements(np.median, scalars=True)
def median(
    a: Operand,
    axis: Axis = None,
    out: Out = None,
    overwrite_input: bool = False,
    keepdims: Flag = False,
) -> Any:
    """As ``numpy.median``; for an even count the two middle elements share the derivative."""
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
def nanmedian(
    a: Operand,
    axis: Axis = None,
    out: Out = None,
    overwrite_input: bool = False,
    keepdims: Flag = False,
) -> Any:
    """As ``numpy.nanmedian``; for an even count the two middle elements share the derivative."""
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
