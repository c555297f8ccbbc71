"""``autograd.scipy``: functions of `functrace.scipy`, for plain and traced values.

Layer: 10.
"""

import importlib as _importlib
from typing import Any as _Any

__all__ = ["integrate", "linalg", "signal", "special", "stats"]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> _Any:
    """Import a module on first access."""
    if name in __all__:
        return _importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; functrace.scipy has more")


def __dir__() -> list[str]:
    """The modules."""
    return sorted(__all__)
