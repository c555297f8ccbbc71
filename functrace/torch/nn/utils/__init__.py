"""``torch.nn.utils``: clipping, vectors of parameters, normalizations of weights, pruning, packed
sequences; each file is imported at first use.

Layer: 9.
"""

import importlib
from typing import Any

FILES: dict[str, str] = {
    "rnn": "",
}
"""The files of this package, and what is exported of each."""

_PLACES = {name: file for file, names in FILES.items() for name in names.split()}
__all__ = sorted(_PLACES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Import a function, or a file, on first access; a function goes before a file of its name."""
    if name in _PLACES:
        module = importlib.import_module(f"{__name__}.{_PLACES[name]}")
        found = globals()[name] = getattr(module, name)
        return found
    if name in FILES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The files and the functions."""
    return sorted({*FILES, *_PLACES})
