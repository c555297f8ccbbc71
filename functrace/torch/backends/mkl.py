"""``torch.backends.mkl``: absent.

Layer: 9.
"""

from __future__ import annotations

VERBOSE_OFF = 0
VERBOSE_ON = 1


def is_available() -> bool:
    """Return False."""
    return False
