"""The names of other libraries, for code that is written for them.

`functrace.compat.autograd` has HIPS autograd's names; the other modules give functrace as a backend to libraries that have
such: autoray (cotengra, quimb), POT, tensorly. Nothing here is imported before it is asked for.

Layer: 10.
"""

import importlib as _importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functrace.compat import autograd, autoray, pot, tensorly

__all__ = ["autograd", "autoray", "pot", "tensorly"]


def __getattr__(name: str) -> Any:
    """Import a module when it is first asked for."""
    if name in __all__:
        return _importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The modules."""
    return sorted(__all__)
