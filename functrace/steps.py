"""Work in steps: what is too long for one call, and can be spread over several.

Such work is a Python generator that yields between its steps and returns its result.

Floor: b (base).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


def no_steps(result: T) -> Generator[None, None, T]:
    """Return as steps what is there already."""
    yield from ()
    return result


def finished(steps: Generator[None, None, T]) -> T:
    """Carry all steps out at once; returns the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
