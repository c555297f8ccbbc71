"""Modules that forward the names of another module, or of an object.

Layer: 10.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def names_of(where: str, module: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module that forwards another module's names.

    Args:
        where: the dotted name of the other module, or of an object in it, imported when a name is
            first read.
        module: the module's own name.
    """

    def read(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        try:
            return getattr(_found(where), name)
        except AttributeError:
            raise AttributeError(
                f"module {module!r} has no attribute {name!r}: neither has {where}"
            ) from None

    return read


def _found(where: str) -> Any:
    try:
        return importlib.import_module(where)
    except ModuleNotFoundError:
        outer, _, name = where.rpartition(".")
        return getattr(importlib.import_module(outer), name)
