"""Sums over everything in parts, added up as NumPy adds: bit for bit its sums, whatever the parts are.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

SUMMED = ("f4", "f8", "c8", "c16")
"""Dtypes of which a sum over everything joins: NumPy adds them in pairs, see Note [Sums in NumPy's order]."""


def summed_bounds(size: int, most: int, is_complex: bool) -> list[int]:
    """Return where parts of at most ``most`` elements end, as NumPy divides what it adds.

    Note [Sums in NumPy's order]
        NumPy adds the numbers of a contiguous array in pairs of halves: the first half has ``n // 2`` numbers, less what is
        over a multiple of 8; parts of at most 128 are added in one loop. So a sum over everything is the sum of such parts,
        added up in pairs: bit for bit NumPy's, whatever the blocks and the threads are. Real and imaginary parts count
        as numbers each. That it is so is asked of the NumPy at hand, once (`sums_are_in_pairs`).
    """
    bounds: list[int] = []
    each = 2 if is_complex else 1

    def divide(start: int, count: int) -> None:
        if count <= max(most, 128):
            bounds.append(start + count)
            return
        half = count * each // 2
        half = (half - half % 8) // each
        divide(start, half)
        divide(start + half, count - half)

    divide(0, size)
    return bounds


def added_up(parts: Sequence[Any], size: int, is_complex: bool, most: int) -> Any:
    """Add up the sums of the parts of `summed_bounds`."""
    found = iter(parts)
    each = 2 if is_complex else 1

    def add(count: int) -> Any:
        if count <= max(most, 128):
            return next(found)
        half = count * each // 2
        half = (half - half % 8) // each
        left = add(half)
        return left + add(count - half)

    return add(size)


_asked: list[bool] = []


def sums_are_in_pairs() -> bool:
    """Whether the NumPy at hand adds as Note [Sums in NumPy's order] says."""
    if not _asked:
        _asked.append(all(_is_in_pairs(np.dtype(kind)) for kind in SUMMED))
    return _asked[0]


def _is_in_pairs(dtype: np.dtype[Any]) -> bool:
    size, most = 3001, 200
    is_complex = dtype.kind == "c"
    x = (np.sin(np.arange(size) * 1.7) * 10.0 ** (np.arange(size) % 7)).astype(dtype)
    ends = summed_bounds(size, most, is_complex)
    parts = [np.add.reduce(x[a:b]) for a, b in zip([0, *ends], ends, strict=False)]
    return bool(added_up(parts, size, is_complex, most) == np.add.reduce(x))
