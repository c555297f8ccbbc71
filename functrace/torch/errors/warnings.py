"""Warnings that PyTorch gives once in a process, unless ``torch.set_warn_always(True)`` was called.

Layer: 9.
"""

from __future__ import annotations

import sys
import warnings

_always = [False]
_given: set[str] = set()


def set_warn_always(b: bool, /) -> None:
    """Give those warnings every time, not only the first time."""
    _always[0] = bool(b)


def is_warn_always_enabled() -> bool:
    """Return True if those warnings are given every time."""
    return _always[0]


def warn_once(text: str) -> None:
    """Warn at the user's line, unless this was done before."""
    kind = text.partition("\n")[0]
    if _always[0] or kind not in _given:
        _given.add(kind)
        warn(text)


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the user's line."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        "functrace.torch"
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)
