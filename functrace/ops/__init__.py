"""First-order primitives, each with all its rules in one place.

``PRIMITIVES`` is the table by name, which `Program.parse` and `Program.from_json` read. The special
functions of SciPy (`functrace.ops.special`) are loaded when one is first looked up: nothing else of
functrace imports SciPy by itself.

Layer: 2.
"""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast, final

from functrace.ir.primitive import Primitive, add_primitives
from functrace.lazy import LazyTable

if TYPE_CHECKING:
    import numpy as np


@final
class Primitives(LazyTable[str, Primitive]):
    """Primitives by name; the first missing name loads the primitives of SciPy's functions."""

    def __missing__(self, name: str) -> Primitive:
        if self.fill():
            return self[name]
        if "erf" in self or find_spec("scipy") is None:
            raise KeyError(name)
        special = importlib.import_module(f"{__name__}.special")
        self.update({**special.TABLE, **special.BY_SHAPES, **special.SLOPES, **special.TAILS})
        return self[name]


def _collect() -> None:
    """Add the primitives of all modules in this package to the table."""
    import pkgutil

    for module in pkgutil.iter_modules(__path__):
        if module.ispkg:
            continue
        for value in vars(importlib.import_module(f"{__name__}.{module.name}")).values():
            if isinstance(value, Primitive):
                table = cast("type[dict[str, Primitive]]", dict)
                other = table.setdefault(PRIMITIVES, value.name, value)
                assert other is value, f"two primitives are called {value.name}"


PRIMITIVES: Primitives = Primitives(_collect)
"""Every primitive by name."""

add_primitives(PRIMITIVES)


def of_scipy(ufunc: np.ufunc) -> Primitive | None:
    """Return the primitive of a SciPy ufunc; ``None`` if it is another ufunc, or has none."""
    if "scipy.special" not in sys.modules:
        return None
    table = importlib.import_module(f"{__name__}.special").TABLE
    return next((row for row in table.values() if row.eval is ufunc), None)
