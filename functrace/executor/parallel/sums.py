"""Sums over all axes from partial sums, in NumPy's pairwise order: bitwise equal to NumPy's.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

SUMMED = ("f4", "f8", "c8", "c16")
"""Dtypes of sums over all axes that may join a group: NumPy adds these pairwise, see Note [Sums in
NumPy's order].
"""


def summed_bounds(size: int, most: int, is_complex: bool) -> list[int]:
    """Return the ends of parts of at most ``most`` elements, as NumPy's pairwise summation divides
    an array.

    Note [Sums in NumPy's order]
        NumPy's pairwise summation halves a contiguous array: the first half has ``n // 2`` numbers,
        rounded down to a multiple of 8; one loop adds parts of at most 128. So a sum over all axes
        is the sum of such parts, added in pairs: bitwise equal to NumPy's, for any blocks and
        threads. Real and imaginary parts count as one number each. `sums_are_in_pairs` tests the
        installed NumPy for this order, once.
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
    """Add the sums of the parts of `summed_bounds`."""
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


_probed: list[bool] = []


def sums_are_in_pairs() -> bool:
    """Return True if the installed NumPy adds as in Note [Sums in NumPy's order]."""
    if not _probed:
        _probed.append(all(_is_in_pairs(np.dtype(kind)) for kind in SUMMED))
    return _probed[0]


def _is_in_pairs(dtype: np.dtype[Any]) -> bool:
    size, most = 3001, 200
    is_complex = dtype.kind == "c"
    x = (np.sin(np.arange(size) * 1.7) * 10.0 ** (np.arange(size) % 7)).astype(dtype)
    ends = summed_bounds(size, most, is_complex)
    parts = [np.add.reduce(x[a:b]) for a, b in zip([0, *ends], ends, strict=False)]
    return bool(added_up(parts, size, is_complex, most) == np.add.reduce(x))
