"""``torch.cpu``: the one device.

Layer: 9.
"""

from __future__ import annotations

from functrace.torch.cpu import amp

__all__ = [
    "amp",
    "current_device",
    "current_stream",
    "device_count",
    "is_available",
    "is_initialized",
    "set_device",
    "synchronize",
]


class Stream:
    """The order of operations: that of the program."""


_STREAM = Stream()


def is_available() -> bool:
    """Return True."""
    return True


def is_initialized() -> bool:
    """Return True."""
    return True


def device_count() -> int:
    """Return 1."""
    return 1


def current_device() -> str:
    """Return ``"cpu"``."""
    return "cpu"


def set_device(device: object) -> None:
    """Do nothing."""


def synchronize(device: object = None) -> None:
    """Do nothing: every operation is complete when it returns."""


def current_stream(device: object = None) -> Stream:
    """Return the one stream."""
    return _STREAM
