"""``torch.backends.openmp``: absent; threads are functrace's own.

Layer: 9.
"""

from __future__ import annotations


def is_available() -> bool:
    """Return False."""
    return False
