"""Lowerings of `functrace.ops.windows`: gathers along an axis, by positions that are static.

Layer: 7.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from functrace.ops import PRIMITIVES
from functrace.ops.convolution import Shape, count_windows
from functrace.ops.windows import MATRICES, How, Window, places_of_windows
from functrace.xla.lowering import Operation, Value, register
from functrace.xla.rows.indexing import last_writes


def added(shape: Sequence[int], key: tuple[Any, ...], x: Value) -> Any:
    """Return zeros to which values are added at some places; of bools, "or", as NumPy's sums."""
    if x.dtype == np.bool_:
        return added(shape, key, x.astype(np.int32)) != 0
    return jnp.zeros(tuple(shape), x.dtype).at[key].add(x)


def _entries(how: How, backwards: bool) -> tuple[Any, Any, Any]:
    """Return the columns of the entries of each row of a matrix, with the same number per row; the
    entries, None if all are 1; and where there are some, None if everywhere.
    """
    name, *rest = how
    rows, columns, weights = MATRICES[str(name)](*rest)
    if backwards:
        order = np.argsort(columns, kind="stable")
        rows, columns = columns[order], rows[order]
        weights = None if weights is None else weights[order]
    count = int(how[1] if backwards else how[2])
    lengths = np.bincount(rows, minlength=count)
    place = rows, np.arange(len(rows)) - (np.cumsum(lengths) - lengths)[rows]
    shape = count, int(lengths.max(initial=0))
    by_row, is_entry = np.zeros(shape, np.int64), np.zeros(shape, bool)
    by_row[place], is_entry[place] = columns, True
    factors = None if weights is None else np.zeros(shape)
    if factors is not None:
        factors[place] = weights
    return by_row, factors, None if is_entry.all() else is_entry


@register(PRIMITIVES["map_axis"])
def _map_axis(op: Operation, x: Value, axis: int, how: How, backwards: bool) -> Any:
    columns, weights, is_entry = _entries(how, backwards)
    if not columns.size or not np.size(x):
        return jnp.zeros(op.shape, op.dtype)
    x, after = jnp.asarray(x), (1,) * (np.ndim(x) - axis - 1)
    if columns.shape[1] == 1 and is_entry is None and weights is None:
        return jnp.take(x, columns[:, 0], axis)
    terms = jnp.take(x, columns, axis)
    if weights is not None:
        factor = weights.astype(x.dtype if x.dtype.kind in "fc" else np.float64)
        terms = terms * factor.reshape(*columns.shape, *after)
    if is_entry is not None:  # (0 times infinity is no 0)
        terms = jnp.where(is_entry.reshape(*columns.shape, *after), terms, 0)
    if x.dtype.kind == "b":
        return jnp.any(terms != 0, axis + 1)
    return jnp.sum(terms.astype(x.dtype), axis + 1, dtype=x.dtype)


# -- maxima ----------------------------------------------------------------------------------------


@register(PRIMITIVES["max_windows"])
def _max_windows(op: Operation, x: Value, windows: tuple[Window, ...]) -> Any:
    """Axis by axis, the last one first: ties go to the first element in C order, of nan the last
    one counts.
    """
    best, flat, rest = jnp.asarray(x), None, 1
    first = best.ndim - len(windows)
    for axis in range(best.ndim - 1, first - 1, -1):
        size = np.shape(x)[axis]
        positions = places_of_windows(size, windows[axis - first])  # (windows, taps)
        values, taps = jnp.take(best, positions, axis), axis + 1
        chosen = jnp.argmax(values, taps, keepdims=True)
        if values.dtype.kind == "f":
            is_nan = jnp.isnan(values)
            last = positions.shape[1] - 1 - jnp.argmax(jnp.flip(is_nan, taps), taps, keepdims=True)
            chosen = jnp.where(jnp.any(is_nan, taps, keepdims=True), last, chosen)
        column = (*positions.shape, *(1,) * (best.ndim - axis - 1))
        place = jnp.broadcast_to((positions * rest).reshape(column), values.shape)
        if flat is not None:
            place = place + jnp.take(flat, positions, axis)
        flat = jnp.squeeze(jnp.take_along_axis(place, chosen, taps), taps)
        best = jnp.squeeze(jnp.take_along_axis(values, chosen, taps), taps)
        rest *= size
    return best, flat


def _lines(op: Operation, positions: Value, sizes: Shape) -> Any:
    """Return positions in images as (images, positions); checks that they are in range."""
    size, positions = math.prod(sizes), jnp.asarray(positions)
    op.require(
        (positions >= 0) & (positions < size),
        IndexError,
        f"an index is out of bounds for images with {size} elements",
    )
    count = math.prod(positions.shape[: positions.ndim - len(sizes)])
    each = math.prod(positions.shape[positions.ndim - len(sizes) :])
    return positions.reshape(count, each)


@register(PRIMITIVES["take_flat"])
def _take_flat(op: Operation, x: Value, positions: Value, axes: int, _permutation: bool) -> Any:
    sizes = np.shape(x)[np.ndim(x) - axes :]
    at = _lines(op, positions, sizes)
    lines = jnp.reshape(x, (at.shape[0], math.prod(sizes)))
    return jnp.take_along_axis(lines, at, 1).reshape(op.shape)


@register(PRIMITIVES["put_flat"])
def _put_flat(op: Operation, x: Value, positions: Value, sizes: Shape, permutation: bool) -> Any:
    """Add; or write, of repeated positions the last, as NumPy does."""
    at, size = _lines(op, positions, sizes), math.prod(sizes)
    count = at.shape[0]
    at = (at + jnp.arange(count)[:, None] * size).ravel()
    x = jnp.ravel(x)
    if not permutation:
        return added((count * size,), (at,), x).reshape(op.shape)
    at = jnp.where(last_writes(at, count * size), at, count * size)
    return jnp.zeros(count * size, x.dtype).at[at].set(x, mode="drop").reshape(op.shape)


# -- columns ---------------------------------------------------------------------------------------


def _taps(counts: Shape, kernel: Shape, stride: Shape, dilation: Shape) -> tuple[Any, ...]:
    """Return an index of (*kernel, *counts) into padded images."""
    axes, found = len(kernel), []
    for k, (n, m, s, d) in enumerate(zip(counts, kernel, stride, dilation, strict=True)):
        positions = np.arange(m)[:, None] * d + np.arange(n) * s
        shape = [1] * (2 * axes)
        shape[k], shape[axes + k] = m, n
        found.append(positions.reshape(shape))
    return (slice(None), slice(None), *found)


@register(PRIMITIVES["im2col"])
def _im2col(
    op: Operation, x: Value, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> Any:
    counts = count_windows(np.shape(x)[2:], kernel, stride, padding, dilation)
    if not math.prod(op.shape):
        return jnp.zeros(op.shape, op.dtype)
    padded = jnp.pad(x, [(0, 0), (0, 0), *[(p, p) for p in padding]])
    return padded[_taps(counts, kernel, stride, dilation)].reshape(op.shape)


@register(PRIMITIVES["col2im"])
def _col2im(
    op: Operation,
    x: Value,
    sizes: Shape,
    kernel: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
) -> Any:
    counts = count_windows(sizes, kernel, stride, padding, dilation)
    padded = [*op.shape[:2], *[n + 2 * p for n, p in zip(sizes, padding, strict=True)]]
    columns = jnp.reshape(x, (*op.shape[:2], *kernel, *counts))
    found = added(padded, _taps(counts, kernel, stride, dilation), columns)
    inside = [slice(p, p + n) for p, n in zip(padding, sizes, strict=True)]
    return found[:, :, *inside]
