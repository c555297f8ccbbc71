"""Compatibility with other libraries: their names, and functrace as their backend.

`functrace.compat.autograd` has HIPS autograd's names; the other modules register functrace as a
backend of autoray (cotengra, quimb), POT and tensorly. Modules are imported on first access.

Layer: 10.
"""

import importlib as _importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functrace.compat import autograd, autoray, pot, tensorly

__all__ = ["autograd", "autoray", "pot", "tensorly"]


def __getattr__(name: str) -> Any:
    """Import a module on first access."""
    if name in __all__:
        return _importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The modules."""
    return sorted(__all__)
