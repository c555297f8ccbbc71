"""``torch.profiler.itt``: ranges for VTune, without effect.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]


def is_available() -> bool:
    """Return False."""
    return False


def range_push(msg: str) -> None:
    """Do nothing."""


def range_pop() -> None:
    """Do nothing."""


def mark(msg: str) -> None:
    """Do nothing."""


@contextmanager
def range(msg: str, *args: object, **kwargs: object) -> Iterator[None]:
    """Do nothing."""
    yield
