"""Convolutions and maxima of windows in a few lines of NumPy, as generated source spells them.

The ``eval`` rules of these primitives (convolution.py, windows.py) work tile by tile in the cache,
with classes for the tiles. Source that a person reads, and that runs without functrace, shows what
is computed instead: all windows at once, and one product of matrices. Sums are in another order, so
the last digit of a result may differ.

Layer: 2.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrace.typing import Array

Shape = tuple[int, ...]
_Slices = tuple[slice, ...]


def _columns(
    x: Array, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, groups: int
) -> Array:
    """Return the windows of images (N, C, *sizes) as rows (groups, N * windows, C / groups * K)."""
    axes = len(kernel)
    padded = np.pad(x, ((0, 0), (0, 0), *[(p, p) for p in padding]))
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation)]
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, tuple(range(2, x.ndim)))
    every: _Slices = tuple([slice(None, None, step) for step in (1, 1, *stride, *dilation)])
    windows = windows[every]  # (N, C, *counts, *kernel)
    n, channels, *rest = windows.shape
    windows = windows.reshape(n, groups, channels // groups, *rest)
    order = (1, 0, *range(3, 3 + axes), 2, *range(3 + axes, windows.ndim))
    count = n * math.prod(rest[:axes])
    return windows.transpose(order).reshape(groups, count, channels // groups * math.prod(kernel))


def correlate(
    x: Array, w: Array, stride: Shape, padding: Shape, dilation: Shape, groups: int
) -> Any:
    """Return the products of filters and windows; see `functrace.ops.convolution.correlate`."""
    dtype = np.result_type(x, w)
    out, channels, *kernel = w.shape
    counts = [
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, s, p, d in zip(x.shape[2:], kernel, stride, padding, dilation)
    ]
    columns = _columns(x.astype(dtype), tuple(kernel), stride, padding, dilation, groups)
    filters = w.astype(dtype).reshape(groups, out // groups, channels * math.prod(kernel))
    y = columns @ filters.swapaxes(1, 2)  # (groups, N * windows, O / groups)
    y = y.reshape(groups, x.shape[0], math.prod(counts), out // groups)
    return y.transpose(1, 0, 3, 2).reshape(x.shape[0], out, *counts)


def correlate_filters(
    x: Array,
    y: Array,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    kernel: Shape,
) -> Any:
    """Return the cotangent of filters; see `functrace.ops.convolution.correlate_filters`."""
    dtype = np.result_type(x, y)
    n, out = y.shape[:2]
    shape = (out, x.shape[1] // groups, *kernel)
    if x.size == 0 or y.size == 0:
        return np.zeros(shape, dtype)
    columns = _columns(x.astype(dtype), kernel, stride, padding, dilation, groups)
    rows = y.astype(dtype).reshape(n, groups, out // groups, math.prod(y.shape[2:]))
    rows = rows.transpose(1, 2, 0, 3).reshape(groups, out // groups, n * math.prod(y.shape[2:]))
    return (rows @ columns).reshape(shape)


def correlate_input(
    y: Array,
    w: Array,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    sizes: Shape,
) -> Any:
    """Return the transposed convolution; see `functrace.ops.convolution.correlate_input`."""
    dtype = np.result_type(y, w)
    n, out, *counts = y.shape
    channels, kernel = w.shape[1], w.shape[2:]
    if y.size == 0 or w.size == 0:
        return np.zeros((n, groups * channels, *sizes), dtype)
    padded = [size + 2 * p for size, p in zip(sizes, padding)]
    x = np.zeros((n, groups * channels, *padded), dtype)
    rows = y.astype(dtype).reshape(n, groups, out // groups, math.prod(counts)).swapaxes(2, 3)
    filters = w.astype(dtype).reshape(groups, out // groups, channels, *kernel)
    for place in np.ndindex(*kernel):  # add what each element of a filter gives to its pixels
        part = rows @ filters[(slice(None), slice(None), slice(None), *place)]
        begin = [k * d for k, d in zip(place, dilation)]
        steps: _Slices = tuple([
            slice(b, b + (count - 1) * s + 1, s) for b, count, s in zip(begin, counts, stride)
        ])  # fmt: skip
        x[(slice(None), slice(None), *steps)] += part.swapaxes(2, 3).reshape(
            n, groups * channels, *counts
        )
    inside: _Slices = tuple([slice(p, p + size) for size, p in zip(sizes, padding)])
    return np.ascontiguousarray(x[(slice(None), slice(None), *inside)])


def spans_of(size: int, count: int) -> tuple[Array, Array]:
    """Return begin and end of ``count`` spans that cover ``size`` elements, as adaptive pooling."""
    k: Array = np.arange(count)
    return k * size // count, -((-(k + 1) * size) // count)


def places_of(size: int, window: Shape) -> tuple[Array, int, int, Array, Array]:
    """Return, of windows along one axis, the begin of each, the step between taps, their number in
    the largest window, and the first and the last position of each that is inside of the array.
    """
    if len(window) == 1:  # spans that cover the axis
        begin, end = spans_of(size, window[0])
        return begin, 1, int((end - begin).max(initial=1)), begin, end - 1
    kernel, stride, padding, dilation, count = window
    begin = np.arange(count) * stride - padding
    low = begin + np.maximum(-(begin // dilation), 0) * dilation
    last = begin + (kernel - 1) * dilation
    high = np.minimum(last, begin + (size - 1 - begin) // dilation * dilation)
    return begin, dilation, kernel, low, high


def max_windows(x: Array, windows: tuple[Shape, ...]) -> tuple[Array, Array]:
    """Return maxima of windows, and their positions; see `functrace.ops.windows.max_windows`."""
    axes = len(windows)
    before, sizes = x.shape[: x.ndim - axes], x.shape[x.ndim - axes :]
    counts: list[int] = []
    flat: Any = np.zeros((), np.int64)
    for axis, (size, window) in enumerate(zip(sizes, windows)):
        begin, step, taps, low, high = places_of(size, window)
        position = np.clip(begin[:, None] + step * np.arange(taps), low[:, None], high[:, None])
        after = flat.reshape(*counts, 1, *flat.shape[axis:], 1) * size
        flat = after + position.reshape(len(begin), *(1,) * axis, taps)
        counts.append(len(begin))
    flat = flat.reshape(*counts, math.prod(flat.shape[axes:]))  # of the elements of each window
    values: Any = x.reshape(*before, math.prod(sizes))[..., flat]
    best = values.argmax(-1)[..., None]
    unordered: Any = values != values
    if unordered.any():  # the last nan of a window
        last: Any = values.shape[-1] - 1 - unordered[..., ::-1].argmax(-1)[..., None]
        best += (last - best) * unordered.any(-1, keepdims=True)
    flat = np.broadcast_to(flat, values.shape)
    return (
        np.take_along_axis(values, best, -1)[..., 0],
        np.take_along_axis(flat, best, -1)[..., 0].astype(np.int64),
    )
