"""Sizes of layers: one number, or one per axis.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

Sizes: TypeAlias = int | Sequence[int]
"""A number for all axes, or one per axis."""


def per_axis(value: Any, n: int) -> Any:
    """Return a number for each of several axes; several numbers as a tuple."""
    if isinstance(value, Iterable):
        return tuple(value)
    return (value,) * n


def reversed_twice(value: Sequence[int]) -> tuple[int, ...]:
    """Return padding as ``functional.pad`` takes it: last axis first, both sides of each."""
    return tuple(x for x in reversed(value) for _ in range(2))
