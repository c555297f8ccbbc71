"""First-order primitives, each with all its rules in one place.

``PRIMITIVES`` is the table by name, which `Program.parse` and `Program.from_json` read.

Floor: 2.
"""

from __future__ import annotations

import importlib
import pkgutil

from functrace.ir.primitive import Primitive


def _collect() -> dict[str, Primitive]:
    """Every primitive of every file in this room, by name."""
    table: dict[str, Primitive] = {}
    for module in pkgutil.iter_modules(__path__):
        for value in vars(importlib.import_module(f"{__name__}.{module.name}")).values():
            if isinstance(value, Primitive):
                other = table.setdefault(value.name, value)
                assert other is value, f"two primitives are called {value.name}"
    return table


PRIMITIVES: dict[str, Primitive] = _collect()
"""Every primitive by name."""
