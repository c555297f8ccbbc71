"""``torch.xpu``: no such device.

Layer: 9.
"""

from __future__ import annotations

__all__ = [
    "device_count",
    "empty_cache",
    "is_available",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
]


def is_available() -> bool:
    """Return False."""
    return False


def is_initialized() -> bool:
    """Return False."""
    return False


def device_count() -> int:
    """Return 0."""
    return 0


def empty_cache() -> None:
    """Do nothing."""


def manual_seed(seed: int) -> None:
    """Do nothing: there is no generator on a device."""


def manual_seed_all(seed: int) -> None:
    """Do nothing: there is no generator on a device."""
