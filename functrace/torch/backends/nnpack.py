"""``torch.backends.nnpack``: absent.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

enabled = True


def is_available() -> bool:
    """Return False."""
    return False


def set_flags(_enabled: bool) -> tuple[bool]:
    """Set the switch; returns the former one."""
    global enabled
    before, enabled = enabled, _enabled
    return (before,)


@contextmanager
def flags(enabled: bool = False) -> Iterator[None]:
    """Set the switch in a context."""
    (before,) = set_flags(enabled)
    try:
        yield
    finally:
        set_flags(before)
