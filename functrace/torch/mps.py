"""``torch.mps`` on a machine without a GPU of Apple.

Layer: 9.
"""

from __future__ import annotations

from typing import NoReturn

__all__ = [
    "current_allocated_memory",
    "device_count",
    "empty_cache",
    "is_available",
    "manual_seed",
    "seed",
    "synchronize",
]


def is_available() -> bool:
    """Return False."""
    return False


def device_count() -> int:
    """Return 0."""
    return 0


def manual_seed(seed: int) -> None:
    """Do nothing: there is no generator on a device."""


def seed() -> None:
    """Do nothing: there is no generator on a device."""


def synchronize() -> NoReturn:
    """Raise: there is no device."""
    raise RuntimeError("Cannot execute deviceSynchronize() without MPS backend.")


def empty_cache() -> NoReturn:
    """Raise: there is no device."""
    raise RuntimeError("Cannot execute emptyCache() without MPS backend.")


def current_allocated_memory() -> NoReturn:
    """Raise: there is no device."""
    raise RuntimeError("Cannot execute getCurrentAllocatedMemory() without MPS backend.")
