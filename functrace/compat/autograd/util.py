"""``autograd.util``: replace elements of tuples.

Layer: 10.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from functrace.compat.kinds import Values

__all__ = ["subval", "subvals"]


def subvals(x: Iterable[Any], ivs: Iterable[tuple[int, Any]]) -> tuple[Any, ...]:
    """Return the elements of ``x`` with those at some positions replaced."""
    made = list(x)
    for place, value in ivs:
        made[place] = value
    return tuple(made)


def subval(x: Iterable[Any], i: int, v: Values) -> tuple[Any, ...]:
    """Return the elements of ``x`` with the one at ``i`` replaced."""
    return subvals(x, [(i, v)])
