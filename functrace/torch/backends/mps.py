"""``torch.backends.mps``: no GPU of Apple.

Layer: 9.
"""

from __future__ import annotations


def is_built() -> bool:
    """Return False."""
    return False


def is_available() -> bool:
    """Return False."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Return False."""
    return False


def is_macos13_or_newer(minor: int = 0) -> bool:
    """Return False."""
    return False
