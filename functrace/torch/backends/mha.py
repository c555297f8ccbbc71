"""``torch.backends.mha``: the fast path of attention, which has no effect.

Layer: 9.
"""

from __future__ import annotations

_enabled = [True]


def get_fastpath_enabled() -> bool:
    """Return the switch."""
    return _enabled[0]


def set_fastpath_enabled(value: bool) -> None:
    """Set the switch; it has no effect."""
    _enabled[0] = value
