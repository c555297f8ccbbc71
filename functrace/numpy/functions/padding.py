"""``numpy.pad`` in all modes.

Layer: 3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex, cast

import numpy as np

from functrace.errors import DtypeError, ShapeError, UnsupportedFunctionError
from functrace.ir.aval import shape_of
from functrace.numpy.arrays.layout import UNKNOWN, order_like
from functrace.numpy.arrays.views import owned
from functrace.numpy.functions.creation import linspace
from functrace.numpy.functions.shaping import flip
from functrace.numpy.functions.taking import take
from functrace.numpy.protocol.operands import Arrayed, Operand, along, arrayed, one_axis
from functrace.numpy.protocol.tables import implements
from functrace.ops import joining, shaping
from functrace.ops.indexing import index_static
from functrace.ops.shaping import broadcast_to as broadcast
from functrace.ops.shaping import convert
from functrace.tracing.tracer import Tracer, Value, as_array

_PAD_OPTIONS: dict[str, tuple[str, ...]] = {
    "constant": ("constant_values",), "edge": (), "empty": (), "wrap": (),
    "linear_ramp": ("end_values",),
    "maximum": ("stat_length",), "mean": ("stat_length",), "median": ("stat_length",),
    "minimum": ("stat_length",),
    "reflect": ("reflect_type",), "symmetric": ("reflect_type",),
}  # fmt: skip


def _pairs(values: Operand, ndim: int, what: str) -> Arrayed:
    """Broadcast one value, one pair, or one pair per axis to shape ``(ndim, 2)``."""
    if isinstance(values, Tracer):
        return broadcast(values, (ndim, 2))
    try:
        return np.broadcast_to(as_array(values), (ndim, 2))
    except ValueError:
        raise ShapeError(
            f"pad: {what}={values!r} does not fit {ndim} axes", fix=f"give {ndim} pairs, or one"
        ) from None


@implements(np.pad)
def pad(
    array: Operand,
    pad_width: Operand | dict[SupportsIndex, Any],
    mode: str | Callable[..., None] = "constant",
    **kwargs: Any,
) -> Any:
    """As ``numpy.pad``, including user functions as ``mode``."""
    x = arrayed(array)
    by_function = callable(mode)
    options = () if by_function else _PAD_OPTIONS.get(mode)
    if options is None:
        raise UnsupportedFunctionError(
            f"pad: mode {mode!r} is not supported", fix=f"use one of {', '.join(_PAD_OPTIONS)}"
        )
    unknown = [name for name in kwargs if name not in options and not by_function]
    if unknown:
        raise ShapeError(
            f"unsupported keyword arguments for mode {mode!r}: {unknown}", fix="leave them out"
        )
    ndim = len(shape_of(x))
    if isinstance(pad_width, dict):
        widths: Any = [(0, 0)] * ndim
        for key, width in pad_width.items():
            widths[one_axis(key, ndim)] = (width, width) if isinstance(width, int) else tuple(width)
    else:
        widths = _pairs(pad_width, ndim, "pad_width")
        if widths.dtype.kind not in "iu":
            raise DtypeError(
                f"pad: pad_width must be of integral type, not {widths.dtype}", fix="pass ints"
            )
    given = order_like(x, "A") if isinstance(x, Tracer) else UNKNOWN
    ends = (
        _pairs(kwargs.get(options[0], 0), ndim, options[0])
        if options and options[0].endswith("_values")
        else None
    )
    for axis in range(ndim):
        low, high = int(widths[axis][0]), int(widths[axis][1])
        if low < 0 or high < 0:
            raise ShapeError(
                "index can't contain negative values: pad_width is a count",
                fix="cut with x[1:] instead",
            )
        if not low and not high:
            continue
        n = shape_of(x)[axis]
        if by_function:
            x = _pad_constant(x, axis, low, high, None)
            continue
        if mode in ("edge", "reflect", "symmetric", "wrap", *_STATISTICS) and n == 0:
            raise ShapeError(
                f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'",
                fix="use those",
            )
        if mode in ("constant", "empty"):
            x = _pad_constant(x, axis, low, high, None if ends is None else ends[axis])
        elif mode == "linear_ramp":
            assert ends is not None
            x = _pad_ramp(x, axis, low, high, ends[axis])
        elif mode in _STATISTICS:
            lengths = kwargs.get("stat_length")
            chosen = None if lengths is None else _pairs(lengths, ndim, "stat_length")[axis]
            x = _pad_statistic(x, axis, low, high, mode, chosen)
        elif kwargs.get("reflect_type", "even") == "odd":
            x = _pad_odd(x, axis, low, high, mode)
        else:
            x = take(x, np.pad(np.arange(n), (low, high), cast("Any", mode)), axis)
    return _filled_in(owned(x, given), widths, mode, kwargs) if by_function else owned(x, given)


def _filled_in(
    padded: Arrayed,
    widths: Sequence[Any] | Arrayed,
    function: Callable[..., None],
    options: dict[str, Any],
) -> Any:
    """Apply a user's padding function to every row along every axis."""
    for axis in range(padded.ndim):
        rows: Any = np.moveaxis(cast("Any", padded), axis, -1)
        for k in np.ndindex(*rows.shape[:-1]):
            function(rows[(*k, ...)], (int(widths[axis][0]), int(widths[axis][1])), axis, options)
    return padded


def _surround(x: Arrayed, axis: int, before: Arrayed, after: Arrayed) -> Arrayed:
    return joining.concatenate([part for part in (before, x, after) if shape_of(part)[axis]], axis)


def _pad_constant(x: Arrayed, axis: int, low: int, high: int, ends: Arrayed | None) -> Arrayed:
    shape = shape_of(x)
    first, last = (0, 0) if ends is None else (ends[0], ends[1])

    def side(value: Value, size: int) -> Any:
        sizes = (*shape[:axis], size, *shape[axis + 1 :])
        if isinstance(value, Tracer):
            return broadcast(convert(value, x.dtype), sizes)
        return shaping.filled(x, sizes, x.dtype, value)

    return _surround(x, axis, side(first, low), side(last, high))


def _pad_ramp(x: Arrayed, axis: int, low: int, high: int, ends: Arrayed) -> Arrayed:
    dtype = x.dtype
    edges = [index_static(x, along(axis, k)) for k in (0, -1)]
    before, after = (
        linspace(
            broadcast(arrayed(end), shape_of(edge)),
            edge,
            size,
            endpoint=False,
            dtype=dtype,
            axis=axis,
        )
        for end, edge, size in zip((ends[0], ends[1]), edges, (low, high), strict=True)
    )
    turned: Callable[..., Any] = flip if isinstance(after, Tracer) else np.flip
    return _surround(x, axis, before, turned(after, axis))


_STATISTICS: dict[str, Callable[..., Any]] = {
    "maximum": np.max,
    "minimum": np.min,
    "mean": np.mean,
    "median": np.median,
}


def _pad_statistic(
    x: Arrayed, axis: int, low: int, high: int, mode: str, lengths: Arrayed | None
) -> Arrayed:
    n, shape = shape_of(x)[axis], shape_of(x)
    first, last = (n, n) if lengths is None else (min(int(lengths[0]), n), min(int(lengths[1]), n))
    if mode in ("maximum", "minimum") and min(first, last) == 0:
        raise ShapeError(
            "stat_length of 0 yields no value for padding", fix="pass a positive stat_length"
        )

    def side(part: tuple[int, int, None], size: int) -> Any:
        value = _STATISTICS[mode](index_static(x, along(axis, part)), axis=axis, keepdims=True)
        if x.dtype.kind in "iu" and mode in ("mean", "median"):
            value = np.round(value)
        return broadcast(convert(value, x.dtype), (*shape[:axis], size, *shape[axis + 1 :]))

    return _surround(x, axis, side((0, first, None), low), side((n - last, n, None), high))


def _pad_odd(x: Any, axis: int, low: int, high: int, mode: Any) -> Arrayed:
    # Odd reflection is linear, so padding the identity with NumPy gives its weights.
    n = shape_of(x)[axis]
    weights = np.pad(np.eye(n, dtype=x.dtype), ((low, high), (0, 0)), mode, reflect_type="odd")
    x = np.moveaxis(x, axis, -1)
    parts = [_combined(x, weights[:low]), x, _combined(x, weights[low + n :])]  # x unchanged
    return np.moveaxis(np.concatenate(parts, -1), -1, axis)


def _combined(x: Arrayed, weights: np.ndarray[Any, Any]) -> Any:
    """Combine elements along the last axis; skip zero weights, whose elements may be infinite."""
    order = np.argsort(weights == 0, axis=1, kind="stable")  # nonzero weights first
    total: Any = np.zeros((), x.dtype)
    for k in range(max(1, int(np.max(np.count_nonzero(weights, axis=1), initial=0)))):
        places = order[:, k]
        factors = weights[np.arange(len(weights)), places]
        total = (
            total + np.where(factors != 0, np.take(x, places, -1), np.zeros((), x.dtype)) * factors
        )
    return total
