"""Scatter-add with repeated positions: `numpy.add.at`, bit for bit, but faster.

``np.add.at`` takes 1 ns per element for one array of flat positions, and 10 to 20 for rows and for
pairs of positions. So positions are flattened; long rows are added one after the other. Each
element is summed in the same order as in NumPy.

Layer: b (base).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrace.typing import Array

FEWEST = 2048
"""Number of elements from which flattening amortizes its 10 us."""

LONG = 256
"""Elements of a row that is added by itself: that takes 0.5 us, flat positions 2 ns per element."""

TOGETHER = 1 << 14
"""Elements of blocks that are added by one call: calls take 3 us."""

_WHOLE = slice(None)


def add_at(out: Array, index: tuple[Any, ...], x: Array) -> None:
    """Add ``x`` to ``out[index]``, once for every occurrence of a position.

    Args:
        out: in C order.
        index: a NumPy index.
        x: broadcasts to the shape of ``out[index]``.

    Raises:
        IndexError: if a position does not exist.

    Cost:
        about 3 ns per element of ``x`` if index arrays are adjacent and other axes whole; otherwise
        like NumPy.
    """
    found = (
        _turned(out, index, x)
        if x.size >= FEWEST and out.ndim > 1 and out.flags.c_contiguous
        else None
    )
    if found is None:
        np.add.at(out, index, x)
        return
    outer, rows, after = found
    both = rows.shape
    before, length = math.prod(outer), math.prod(after)
    line = out.reshape(before, -1, length)
    if length >= LONG and before == 1:
        sums, inner = line[0], x[(0,) * len(outer)]
        if inner.flags.c_contiguous:
            values: Any = inner.reshape(rows.size, length)
        else:  # `reshape` would copy all rows
            values = (inner[at].reshape(length) for at in np.ndindex(both))
        for k, row in zip(rows.reshape(-1).tolist(), values, strict=True):
            sums[k] += row
        return
    positions = rows.reshape(-1) * length
    if length > 1:
        positions = (positions[:, None] + np.arange(length)).reshape(-1)
    width = line.shape[1] * length
    several = min(before, TOGETHER // max(1, positions.size))
    is_fit = x.flags.c_contiguous or len(outer) == 1 or x.size < LONG * before
    if several > 1 and is_fit:  # short blocks: several at once, at positions of their own
        positions = (np.arange(several)[:, None] * width + positions).reshape(-1)
        x = x if len(outer) == 1 else x.reshape(before, -1)
        each, flat = positions.size // several, out.reshape(-1)
        for k in range(0, before, several):
            end = min(before, k + several)
            some = positions[: (end - k) * each]
            np.add.at(flat[k * width : end * width], some, x[k:end].reshape(-1))
        return
    if x.flags.c_contiguous or x.size < LONG * before:
        blocks: Any = x.reshape(before, -1)
    else:  # `reshape` would copy all blocks
        blocks = (x[at].reshape(-1) for at in np.ndindex(outer))
    for k, block in enumerate(blocks):
        np.add.at(line[k].reshape(-1), positions, block)


def _turned(
    out: Array, index: tuple[Any, ...], x: Array
) -> tuple[tuple[int, ...], Array, tuple[int, ...]] | None:
    """Return the axes before the indexed ones, the row numbers, in the shape of the index
    arrays, and the axes of a row.

    ``None`` unless the index is adjacent integer arrays and whole axes, or if ``x`` must be
    broadcast.
    """
    places = [k for k, part in enumerate(index) if isinstance(part, np.ndarray)]
    arrays = [index[k] for k in places]
    if not places or any(a.dtype.kind not in "iu" for a in arrays):
        return None
    first, count = places[0], len(places)
    others = [*index[:first], *index[first + count :]]
    if places[-1] - first + 1 != count or not all(
        type(part) is slice and part == _WHOLE for part in others
    ):
        return None
    sizes, after = out.shape[first : first + count], out.shape[first + count :]
    both = np.broadcast_shapes(*[a.shape for a in arrays])
    if x.shape != (*out.shape[:first], *both, *after):
        return None
    rows: Any = 0
    for a, size in zip(arrays, sizes, strict=True):
        if a.size and (a.min() < -size or a.max() >= size):
            return None  # NumPy raises
        named: Array = a.astype(np.intp)  # the positions' own dtype may not hold the size
        named = np.where(named < 0, named + size, named)
        rows = rows * size + named
    return out.shape[:first], np.broadcast_to(rows, both), after
