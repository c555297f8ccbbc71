"""Convolution of stacks of images with filters, as neural networks define it: a correlation.

Three bilinear primitives, of which each is the transpose of the others: ``correlate`` makes the
output from input and filters, ``correlate_input`` the input from output and filters (the transposed
convolution), ``correlate_filters`` the filters from input and output. Arrays are x (N, C, *sizes),
w (O, C / groups, *kernel) and y (N, O, *counts).

Each is a product of matrices: the filters, and the *columns*, which are copies of all windows of
the input (im2col). Columns are made for one tile of the batch at a time, which fits into the cache;
tiles are shared by the threads of `functrace.threads`.

Note [Merged axes]
    With steps of 1, windows next to each other read memory that is next to each other. So the last
    axes of a padded image are treated as one long axis: a column is then one contiguous copy, 5x
    faster than one copy per row. That computes windows across the ends of rows, too, which are left
    out of the output, and zero in a cotangent. Where 0 times an element would not be 0 (infinities),
    no axes are merged.

Layer: 2.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from functrace.errors import ShapeError
from functrace.ir.aval import ShapeDtype, shape_of
from functrace.ir.primitive import (
    WRITTEN_AS,
    Flags,
    Operand,
    Primitive,
    Tangents,
    Values,
    is_linear,
)
from functrace.ops import plain_windows
from functrace.ops.blas import one_thread
from functrace.ops.elementwise import plus, result_dtype
from functrace.ops.shaping import broadcast_to, moveaxis, reshape
from functrace.threads import THREADS, Take
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.typing import Array

Shape = tuple[int, ...]
Params = tuple[Shape, Shape, Shape, int]
"""Steps from window to window, zeros around the images, steps inside of a window, groups."""

TILE = 3 << 18
"""Bytes of columns that are made at a time, unless one window row is larger."""
LARGEST = 48 << 20
"""Bytes of columns beyond which the groups of one image are computed one after the other."""
_SUMS = 16 << 20
"""Bytes of filters' sums that several threads may hold."""
_FEWEST = 24
"""Fewer tiles are made by one thread. A tile takes some 0.1 ms, in a dozen calls of NumPy, and
threads wait for the GIL between these: with two threads, 32 tiles took 0.6 of the time of one
thread, 16 tiles 1.0 to 1.2, 6 tiles 1.2.
"""
_WASTE = 1.4
"""Largest ratio of computed to wanted windows for which axes are merged."""


class Geometry(NamedTuple):
    """Positions of the windows of one tile of images; steps count elements of a channel's image.

    Args:
        padded: sizes of the padded image.
        kernel: sizes of a window.
        counts: numbers of windows along the axes.
        rows: sizes of the computed columns: ``counts``, with merged axes as one.
        kernel_steps: steps inside of a window.
        row_steps: steps from window to window, along ``rows``.
        count_steps: steps along ``counts`` in an array of ``rows``.
    """

    padded: Shape
    kernel: Shape
    counts: Shape
    rows: Shape
    kernel_steps: Shape
    row_steps: Shape
    count_steps: Shape

    def windows(self, image: Array) -> Array:
        """Return the view (C, *kernel, n, *rows) of all windows of images (C, n, *padded)."""
        channel, each = image.strides[:2]
        size = image.itemsize
        strides = (
            channel,
            *[k * size for k in self.kernel_steps],
            each,
            *[k * size for k in self.row_steps],
        )
        shape = (image.shape[0], *self.kernel, image.shape[1], *self.rows)
        return np.lib.stride_tricks.as_strided(image, shape, strides)

    def wanted(self, columns: Array) -> Array:
        """Return the view (C, n, *counts) of an array (C, n, *rows) in C order."""
        strides = (*columns.strides[:2], *[k * columns.itemsize for k in self.count_steps])
        return np.lib.stride_tricks.as_strided(columns, (*columns.shape[:2], *self.counts), strides)


def _steps(sizes: Shape) -> Shape:
    return tuple([math.prod(sizes[k + 1 :]) for k in range(len(sizes))])


@functools.lru_cache(maxsize=512)
def _geometry(
    padded: Shape, kernel: Shape, stride: Shape, dilation: Shape, merges: bool
) -> Geometry:
    counts = count_windows(padded, kernel, stride, (0,) * len(kernel), dilation)
    steps = _steps(padded)
    merged = 1
    for m in range(2, len(kernel) + 1) if merges and set(stride) == {1} else ():
        last = sum((n - 1) * step for n, step in zip(counts[-m:], steps[-m:], strict=True)) + 1
        if last <= _WASTE * math.prod(counts[-m:]):
            merged = m
    if merged > 1:
        length = sum((n - 1) * s for n, s in zip(counts[-merged:], steps[-merged:], strict=True))
        rows = (*counts[:-merged], length + 1)
        row_steps = (*steps[:-merged], 1)
        before = tuple([k * rows[-1] for k in _steps(counts[:-merged])])
        count_steps = (*before, *steps[-merged:])
    else:
        rows, count_steps = counts, _steps(counts)
        row_steps = tuple([a * b for a, b in zip(stride, steps, strict=True)])
    kernel_steps = tuple([a * b for a, b in zip(dilation, steps, strict=True)])
    return Geometry(padded, kernel, counts, rows, kernel_steps, row_steps, count_steps)


def count_windows(
    sizes: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> Shape:
    """Return the number of windows along each axis of images."""
    return tuple([
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True)
    ])  # fmt: skip


def windows_of(x: Array, kernel: Shape, stride: Shape, dilation: Shape) -> Array:
    """Return the view (N, C, *kernel, *counts) of all windows of images (N, C, *sizes)."""
    counts = count_windows(x.shape[2:], kernel, stride, (0,) * len(kernel), dilation)
    steps = x.strides[2:]
    inside = [d * s for d, s in zip(dilation, steps, strict=True)]
    along = [a * s for a, s in zip(stride, steps, strict=True)]
    return np.lib.stride_tricks.as_strided(
        x, (*x.shape[:2], *kernel, *counts), (*x.strides[:2], *inside, *along)
    )


class _Tile(NamedTuple):
    """Part of the work: some groups, images, and rows of windows (along the first axis)."""

    groups: slice
    images: slice
    windows: slice
    number: int
    """Number of images."""
    rows: slice
    """Rows of the image inside of the padded tile."""
    source: slice
    """The same rows of the unpadded image."""
    geometry: Geometry


class _Scratch:
    """Memory of one thread, for one tile after the other: fresh memory costs page faults."""

    def __init__(self) -> None:
        self._arrays: dict[str, tuple[Array, object]] = {}

    def array(self, name: str, shape: Shape, dtype: np.dtype[Any]) -> Array:
        """Return an array with any elements."""
        return self._array(name, shape, dtype, None)[0]

    def zeros(self, name: str, shape: Shape, dtype: np.dtype[Any], written: object) -> Array:
        """Return an array that is zero outside of the place where the caller writes.

        Args:
            name: the array's use.
            shape: its shape.
            dtype: its dtype.
            written: says where; for the same place as the last time, no element is set to zero.
        """
        found, is_known = self._array(name, shape, dtype, written)
        if not is_known:
            found[...] = 0
        return found

    def _array(
        self, name: str, shape: Shape, dtype: np.dtype[Any], written: object
    ) -> tuple[Array, bool]:
        found, before = self._arrays.get(name, (None, None))
        if found is None or found.shape != shape:
            found, before = np.empty(shape, dtype), None
        self._arrays[name] = found, written
        return found, before is not None and before == written


class _Work:
    """The tiles of one convolution, and the copies between images and tiles.

    Args:
        sizes: sizes of the input's images.
        number: number of images.
        channels: input channels of a group.
        merges: True if axes may be merged.
    """

    def __init__(
        self,
        number: int,
        channels: int,
        sizes: Shape,
        kernel: Shape,
        params: Params,
        itemsize: int,
        merges: bool,
    ) -> None:
        self.stride, self.padding, self.dilation, self.groups = params
        self.number, self.channels, self.sizes, self.kernel = number, channels, sizes, kernel
        self.counts = count_windows(sizes, kernel, self.stride, self.padding, self.dilation)
        self.merges = merges
        self.row_bytes = (
            channels * math.prod(kernel) * math.prod(self.counts[1:]) * itemsize * self.groups
        )

    def __iter__(self) -> Iterator[_Tile]:
        """Yield the tiles."""
        first = self.counts[0]
        if not (self.number and first and self.groups):
            return
        at_once, row = self.groups, max(1, self.row_bytes)
        if row * min(first, 8) > LARGEST:
            at_once = max(1, self.groups * LARGEST // (row * min(first, 8)))
            row = row * at_once // self.groups
        height = min(first, max(1, TILE // row))
        if height < first:
            height = min(first, max(height, 4))
        images = max(1, TILE // (row * first)) if height == first else 1
        for g in range(0, self.groups, at_once):
            groups = slice(g, min(g + at_once, self.groups))
            for n in range(0, self.number, images):
                some = slice(n, min(n + images, self.number))
                for a in range(0, first, height):
                    yield self._tile(groups, some, a, min(a + height, first))

    def _tile(self, groups: slice, images: slice, a: int, b: int) -> _Tile:
        begin = a * self.stride[0] - self.padding[0]
        length = (b - a - 1) * self.stride[0] + self.dilation[0] * (self.kernel[0] - 1) + 1
        padded = (
            length,
            *[n + 2 * p for n, p in zip(self.sizes[1:], self.padding[1:], strict=True)],
        )
        geometry = _geometry(padded, self.kernel, self.stride, self.dilation, self.merges)
        low, high = max(begin, 0), max(min(begin + length, self.sizes[0]), 0)
        high = max(high, low)
        rows, source = slice(low - begin, high - begin), slice(low, high)
        return _Tile(
            groups, images, slice(a, b), images.stop - images.start, rows, source, geometry
        )

    def inside(self, tile: _Tile) -> tuple[slice, ...]:
        """Return the index of the unpadded images in a tile (C, n, *padded)."""
        rest = [slice(p, p + n) for p, n in zip(self.padding[1:], self.sizes[1:], strict=True)]
        return (slice(None), slice(None), tile.rows, *rest)

    def channel_slice(self, tile: _Tile, of_group: int) -> slice:
        """Return the channels of a tile's groups."""
        return slice(tile.groups.start * of_group, tile.groups.stop * of_group)

    def image(self, tile: _Tile, x: Array, scratch: _Scratch) -> Array:
        """Return the padded images (C, n, *padded) of a tile."""
        part = x[tile.images, self.channel_slice(tile, self.channels), tile.source].swapaxes(0, 1)
        padded = tile.geometry.padded
        if part.shape[2:] == padded:
            return np.ascontiguousarray(part)
        inside = self.inside(tile)
        found = scratch.zeros("image", (*part.shape[:2], *padded), x.dtype, inside)
        found[inside] = part
        return found

    def columns(self, tile: _Tile, x: Array, scratch: _Scratch) -> Array:
        """Return the columns (g, C / g * K, n * rows) of a tile, until those of the next are made."""
        image, geometry = self.image(tile, x, scratch), tile.geometry
        count = tile.groups.stop - tile.groups.start
        if set(self.kernel) == {1} and set(self.stride) == {1}:
            columns = image
        else:
            shape = (image.shape[0], *self.kernel, tile.number, *geometry.rows)
            columns = scratch.array("columns", shape, x.dtype)
            np.copyto(columns, geometry.windows(image))
        width = self.channels * math.prod(self.kernel)
        return columns.reshape(count, width, tile.number * math.prod(geometry.rows))

    def spread(self, tile: _Tile, y: Array, of_group: int, scratch: _Scratch) -> Array:
        """Return a tile of the output as (g, O / g, n * rows): 0 for windows that are not wanted."""
        geometry, count = tile.geometry, tile.groups.stop - tile.groups.start
        part = y[tile.images, self.channel_slice(tile, of_group), tile.windows].swapaxes(0, 1)
        if geometry.rows == geometry.counts:
            found = np.ascontiguousarray(part)
        else:
            shape = (count * of_group, tile.number, *geometry.rows)
            found = scratch.zeros("output", shape, y.dtype, geometry)
            geometry.wanted(found)[...] = part
        return found.reshape(count, of_group, tile.number * math.prod(geometry.rows))


def _is_finite(x: Array) -> bool:
    """Return True if no element is infinite or nan; a sum that overflows counts as infinite."""
    with np.errstate(all="ignore"):
        return bool(np.isfinite(x.sum()))


def _product(x: Array, y: Array, scratch: _Scratch) -> Array:
    """Return the products of two stacks of matrices, until the next product of the same thread."""
    shape = (*x.shape[:2], y.shape[2])
    return np.matmul(x, y, scratch.array("product", shape, x.dtype))


def _in_threads(compute: Callable[[int, _Scratch], object], count: int, tiles: int) -> None:
    """Call ``compute(n, scratch)`` for n below a count, in several threads if there are many tiles;
    BLAS uses no threads of its own.
    """
    limit = one_thread()

    def work(take: Take) -> None:
        scratch = _Scratch()
        while (n := take()) < count:
            compute(n, scratch)

    with nullcontext() if limit is None else limit:
        many = limit is not None and count > 1 and tiles >= _FEWEST and THREADS.count > 1
        if not (many and THREADS.share_without_warnings(work, count)):
            work(itertools.count().__next__)


# -- the three products ----------------------------------------------------------------------------


def _check(name: str, x: ShapeDtype, w: ShapeDtype, groups: int, *params: Shape) -> None:
    axes = {x.ndim - 2, w.ndim - 2, *map(len, params)}
    if len(axes) > 1 or x.ndim < 3 or x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
        raise ShapeError(
            f"{name} cannot combine {x} and {w} in {groups} groups",
            fix="pass an input (N, C, ...) and filters (O, C / groups, ...)",
        )


def _correlate_eval(x: Array, w: Array, *params: Any) -> Any:
    groups, (out, channels, *kernel) = params[3], w.shape
    dtype, of_group = np.result_type(x, w), out // groups
    # Merged axes have windows that continue in the next row: infinities may meet there and warn.
    merges = math.prod(kernel) == 1 or _is_finite(x)
    work = _Work(x.shape[0], channels, x.shape[2:], tuple(kernel), params, dtype.itemsize, merges)
    x, w = x.astype(dtype, copy=False), w.astype(dtype, copy=False)
    shape = (x.shape[0], out, *work.counts)
    if not (math.prod(shape) and w.size):
        return np.zeros(shape, dtype)
    y = np.empty(shape, dtype)
    filters = w.reshape(groups, of_group, channels * math.prod(kernel))
    tiles = list(work)

    def compute(n: int, scratch: _Scratch) -> None:
        tile = tiles[n]
        product = _product(filters[tile.groups], work.columns(tile, x, scratch), scratch)
        made = tile.geometry.wanted(product.reshape(-1, tile.number, *tile.geometry.rows))
        place = (tile.images, work.channel_slice(tile, of_group), tile.windows)
        y[place] = made.swapaxes(0, 1)

    _in_threads(compute, len(tiles), len(tiles))
    return y


def _correlate_input_eval(y: Array, w: Array, *rest: Any) -> Any:
    *_, sizes = rest
    params: Params = rest[:4]
    groups, (out, channels, *kernel) = params[3], w.shape
    dtype, of_group = np.result_type(y, w), out // groups
    y, w = y.astype(dtype, copy=False), w.astype(dtype, copy=False)
    if not (y.size and w.size and math.prod(sizes)):
        return np.zeros((y.shape[0], groups * channels, *sizes), dtype)
    stride, padding, dilation, _ = params
    reach = [d * (k - 1) - p for k, p, d in zip(kernel, padding, dilation, strict=True)]
    if set(stride) == {1} and min(reach) >= 0 and of_group <= 2 * channels:
        # The same by gathering instead of scattering, with reversed filters.
        turned = w.reshape(groups, of_group, channels, *kernel).swapaxes(1, 2)
        turned = np.flip(turned, tuple(range(3, turned.ndim)))
        turned = turned.reshape(groups * channels, of_group, *kernel)
        return _correlate_eval(y, turned, stride, tuple(reach), dilation, groups)
    work = _Work(y.shape[0], channels, sizes, tuple(kernel), params, dtype.itemsize, _is_finite(w))
    x = np.zeros((y.shape[0], groups * channels, *sizes), dtype)
    filters = w.reshape(groups, of_group, channels * math.prod(kernel)).swapaxes(1, 2)
    # Windows of the same images overlap.
    parts = [list(tiles) for _, tiles in itertools.groupby(work, lambda tile: tile.images.start)]

    def add(tile: _Tile, scratch: _Scratch) -> None:
        geometry = tile.geometry
        spread = work.spread(tile, y, of_group, scratch)
        columns = _product(filters[tile.groups], spread, scratch)
        shape = (-1, *kernel, tile.number, *geometry.rows)
        place = (tile.images, work.channel_slice(tile, channels), tile.source)
        if set(kernel) == {1} and set(work.stride) == {1}:
            image = columns.reshape(-1, tile.number, *geometry.padded)
        else:
            columns = columns.reshape(shape)
            image = scratch.array("image", (columns.shape[0], tile.number, *geometry.padded), dtype)
            image[...] = 0
            windows = geometry.windows(image)
            for k in np.ndindex(*kernel):
                windows[:, *k] += columns[:, *k]
        x[place] += image[work.inside(tile)].swapaxes(0, 1)

    def compute(n: int, scratch: _Scratch) -> None:
        first = parts[n][0]
        x[first.images, work.channel_slice(first, channels)] = 0  # it may be the second time
        for tile in parts[n]:
            add(tile, scratch)

    _in_threads(compute, len(parts), sum(map(len, parts)))
    return x


def _correlate_filters_eval(x: Array, y: Array, *rest: Any) -> Any:
    *_, kernel = rest
    params: Params = rest[:4]
    groups = params[3]
    out, channels = y.shape[1], x.shape[1] // groups
    dtype, of_group = np.result_type(x, y), out // groups
    x, y = x.astype(dtype, copy=False), y.astype(dtype, copy=False)
    work = _Work(x.shape[0], channels, x.shape[2:], kernel, params, dtype.itemsize, _is_finite(x))
    # In this order, BLAS takes 0.7 of the time that the transposed product takes.
    shape = (groups, channels * math.prod(kernel), of_group)
    tiles = list(work) if x.size and y.size and math.prod(shape) else []
    # The number of parts depends on shapes alone: so do the bits.
    count = min(len(tiles), max(1, min(16, _SUMS // max(1, math.prod(shape) * dtype.itemsize))))
    sums: list[Any] = [None] * count

    def compute(n: int, scratch: _Scratch) -> None:
        w = np.zeros(shape, dtype)
        for tile in tiles[len(tiles) * n // count : len(tiles) * (n + 1) // count]:
            spread = work.spread(tile, y, of_group, scratch).swapaxes(1, 2)
            w[tile.groups] += _product(work.columns(tile, x, scratch), spread, scratch)
        sums[n] = w

    _in_threads(compute, count, len(tiles))
    w = functools.reduce(np.add, sums) if sums else np.zeros(shape, dtype)
    return np.ascontiguousarray(w.swapaxes(1, 2)).reshape(out, channels, *kernel)


# Generated source has no tiles.
vars(_correlate_eval)[WRITTEN_AS] = plain_windows.correlate
vars(_correlate_input_eval)[WRITTEN_AS] = plain_windows.correlate_input
vars(_correlate_filters_eval)[WRITTEN_AS] = plain_windows.correlate_filters


def _correlate_aval(
    x: ShapeDtype, w: ShapeDtype, stride: Shape, padding: Shape, dilation: Shape, groups: int
) -> ShapeDtype:
    _check("correlate", x, w, groups, stride, padding, dilation)
    counts = count_windows(x.shape[2:], w.shape[2:], stride, padding, dilation)
    if min(counts) < 1:
        raise ShapeError(
            f"correlate needs an input at least as large as a window, got {x} for {w}",
            fix="pad the input, or pass smaller filters",
        )
    return ShapeDtype((x.shape[0], w.shape[0], *counts), result_dtype(x, w))


def _correlate_input_aval(
    y: ShapeDtype,
    w: ShapeDtype,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    sizes: Shape,
) -> ShapeDtype:
    x = ShapeDtype((y.shape[0], w.shape[1] * groups, *sizes), result_dtype(y, w))
    _check("correlate_input", x, w, groups, stride, padding, dilation)
    counts = count_windows(x.shape[2:], w.shape[2:], stride, padding, dilation)
    if y.shape[1:] != (w.shape[0], *counts):
        raise ShapeError(
            f"correlate_input: {y} is not the output for images of sizes {sizes} and {w}",
            fix="pass the sizes of the input",
        )
    return x


def _correlate_filters_aval(
    x: ShapeDtype,
    y: ShapeDtype,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    kernel: Shape,
) -> ShapeDtype:
    w = ShapeDtype((y.shape[1], x.shape[1] // groups, *kernel), result_dtype(x, y))
    _check("correlate_filters", x, w, groups, stride, padding, dilation)
    counts = count_windows(x.shape[2:], kernel, stride, padding, dilation)
    if (y.shape[0], *y.shape[2:]) != (x.shape[0], *counts):
        raise ShapeError(
            f"correlate_filters: {y} is not the output for {x} and windows of sizes {kernel}",
            fix="pass the sizes of a filter",
        )
    return w


def _bilinear(product: Any) -> Any:
    """Return the jvp rule of a product."""

    def jvp(primals: Values, _outputs: Values, tangents: Tangents, *params: Any) -> Any:
        (a, b), (da, db) = primals, tangents
        return plus(
            None if da is None else product(da, b, *params),
            None if db is None else product(a, db, *params),
        )

    return jvp


def _correlate_transpose(ct: Array, x: Operand, w: Operand, *rest: Any) -> Any:
    params: Params = rest[:4]
    if is_linear(x):
        return correlate_input(ct, w, *params, x.shape[2:]), None
    return None, correlate_filters(x, ct, *params, w.shape[2:])


def _correlate_input_transpose(ct: Array, y: Operand, w: Operand, *rest: Any) -> Any:
    params: Params = rest[:4]
    if is_linear(y):
        return correlate(ct, w, *params), None
    return None, correlate_filters(ct, y, *params, w.shape[2:])


def _correlate_filters_transpose(ct: Array, x: Operand, y: Operand, *rest: Any) -> Any:
    params: Params = rest[:4]
    if is_linear(x):
        return correlate_input(y, ct, *params, x.shape[2:]), None
    return None, correlate(x, ct, *params)


# -- batches ---------------------------------------------------------------------------------------


def _into_images(x: Value) -> Any:
    """Merge the batch axis into that of the images: (B, N, ...) to (B * N, ...)."""
    b, n, *rest = shape_of(x)
    return reshape(x, (b * n, *rest))


def _into_channels(x: Value) -> Any:
    """Merge the batch axis into that of the channels: (B, N, C, ...) to (N, B * C, ...)."""
    b, n, c, *rest = shape_of(x)
    return reshape(moveaxis(x, 0, 1), (n, b * c, *rest))


def _from_channels(y: Value, b: int) -> Any:
    n, c, *rest = shape_of(y)
    return moveaxis(reshape(y, (n, b, c // b, *rest)), 1, 0)


def _all_batched(operands: Values, flags: Flags) -> tuple[Any, Any, int]:
    b = next(shape_of(x)[0] for x, flag in zip(operands, flags, strict=True) if flag)
    first, second = [
        x if flag else broadcast_to(x, (b, *shape_of(x)))
        for x, flag in zip(operands, flags, strict=True)
    ]
    return first, second, b


def _of_filters(product: Any) -> Any:
    """Return the batch rule of a product of images and filters."""

    def batch(operands: Values, flags: Flags, *params: Any) -> Any:
        stride, padding, dilation, groups, *sizes = params
        x, w = operands
        if not flags[1]:
            b, n = shape_of(x)[:2]
            y = product(_into_images(x), w, *params)
            return reshape(y, (b, n, *shape_of(y)[1:]))
        if product is correlate and not flags[0] and groups == 1:
            y = product(x, _into_images(w), *params)
            return _from_channels(y, shape_of(w)[0])
        x, w, b = _all_batched(operands, flags)
        y = product(
            _into_channels(x), _into_images(w), stride, padding, dilation, groups * b, *sizes
        )
        return _from_channels(y, b)

    return batch


def _filters_batch(operands: Values, flags: Flags, *params: Any) -> Any:
    stride, padding, dilation, groups, kernel = params
    x, y = operands
    if groups == 1 and not flags[0]:
        b, _, out = shape_of(y)[:3]
        w = correlate_filters(x, _into_channels(y), *params)
        return reshape(w, (b, out, *shape_of(w)[1:]))
    x, y, b = _all_batched(operands, flags)
    w = correlate_filters(
        _into_channels(x), _into_channels(y), stride, padding, dilation, groups * b, kernel
    )
    return reshape(w, (b, shape_of(w)[0] // b, *shape_of(w)[1:]))


def _flops(
    inputs: tuple[ShapeDtype, ...], outputs: tuple[ShapeDtype, ...], params: Mapping[str, Any]
) -> int:
    """A multiplication and an addition per window and element of a filter."""
    if "sizes" in params:
        return 2 * inputs[0].size * math.prod(inputs[1].shape[1:])
    if "kernel" in params:
        return 2 * inputs[1].size * math.prod(outputs[0].shape[1:])
    return 2 * outputs[0].size * math.prod(inputs[1].shape[1:])


_PARAMS = ("stride", "padding", "dilation", "groups")


def correlate(
    x: Value, w: Value, stride: Shape, padding: Shape, dilation: Shape, groups: int
) -> Any:
    """Return the products of filters and the windows of images.

    Args:
        x: images (N, C, *sizes).
        w: filters (O, C / groups, *kernel).
        stride: steps from window to window.
        padding: zeros before and after each axis.
        dilation: steps inside of a window.
        groups: the channels are split into so many parts, each with its own filters.
    """
    return bind(correlate_p, (x, w), (stride, padding, dilation, groups))


def correlate_input(
    y: Value,
    w: Value,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    sizes: Shape,
) -> Any:
    """Return the transposed convolution of (N, O, *counts), with images of the given sizes."""
    return bind(correlate_input_p, (y, w), (stride, padding, dilation, groups, sizes))


def correlate_filters(
    x: Value,
    y: Value,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    kernel: Shape,
) -> Any:
    """Return the cotangent of the filters, whose windows have the sizes ``kernel``."""
    return bind(correlate_filters_p, (x, y), (stride, padding, dilation, groups, kernel))


correlate_p = Primitive(
    "correlate",
    eval=_correlate_eval,
    aval=_correlate_aval,
    jvp=_bilinear(correlate),
    transpose=_correlate_transpose,
    batch=_of_filters(correlate),
    params=_PARAMS,
    flops=_flops,
)
correlate_input_p = Primitive(
    "correlate_input",
    eval=_correlate_input_eval,
    aval=_correlate_input_aval,
    jvp=_bilinear(correlate_input),
    transpose=_correlate_input_transpose,
    batch=_of_filters(correlate_input),
    params=(*_PARAMS, "sizes"),
    flops=_flops,
)
correlate_filters_p = Primitive(
    "correlate_filters",
    eval=_correlate_filters_eval,
    aval=_correlate_filters_aval,
    jvp=_bilinear(correlate_filters),
    transpose=_correlate_filters_transpose,
    batch=_filters_batch,
    params=(*_PARAMS, "kernel"),
    flops=_flops,
)
