"""``torch.accelerator``: there is none.

Layer: 9.
"""

from __future__ import annotations

from functrace.torch import errors

__all__ = [
    "current_accelerator",
    "current_device_index",
    "device_count",
    "is_available",
    "synchronize",
]


def is_available() -> bool:
    """Return False."""
    return False


def device_count() -> int:
    """Return 0."""
    return 0


def current_accelerator(check_available: bool = False) -> None:
    """Return None."""
    return


def current_device_index() -> int:
    """Raise: there is no device."""
    raise RuntimeError(errors.NO_ACCELERATOR)


def synchronize(device: object = None) -> None:
    """Raise: there is no device."""
    raise RuntimeError(errors.NO_ACCELERATOR)
