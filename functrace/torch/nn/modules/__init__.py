"""``torch.nn.modules``: `Module`, and the layers, a file per kind; each is imported at first use.

Layer: 9.
"""

import importlib
from typing import Any

from functrace.torch.nn.modules import _functions as _functions

FILES: dict[str, str] = {}
"""The files of this package, and the classes of each."""

_PLACES = {name: file for file, names in FILES.items() for name in names.split()}
__all__ = sorted(_PLACES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Import a class, or a file, on first access."""
    if name in FILES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _PLACES:
        module = importlib.import_module(f"{__name__}.{_PLACES[name]}")
        return globals().setdefault(name, getattr(module, name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The files and the classes."""
    return sorted([*FILES, *_PLACES])
