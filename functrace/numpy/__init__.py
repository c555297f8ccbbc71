"""NumPy layer: NumPy's functions on traced values, and a namespace with all of them.

``import functrace.numpy as fnp`` gives every public NumPy function under its own name. On traced
values ``fnp.…`` equals ``np.…``; in addition it takes lists of traced values
(``fnp.mean([x, x + 2])``), and ``fnp.array``, ``fnp.full``, ``fnp.arange`` accept traced contents,
which NumPy does not dispatch.

Layer: 3.
"""

import typing as _t
from types import ModuleType as _ModuleType
from typing import Any as _Any

import numpy as _np

from functrace.numpy.arrays import arithmetic, properties  # noqa: F401  # importing a file adds its rows to the tables
from functrace.numpy.arrays import methods as _methods
from functrace.numpy.functions import (  # noqa: F401  # (tables.RARE lists files imported on use)
    creation,
    diagonals,
    elementwise,
    joining,
    products,
    reductions,
    repeating,
    running,
    shaping,
    sorting,
    taking,
)
from functrace.numpy.protocol.tables import FUNCTIONS as FUNCTIONS

_methods.set_methods()


# -- the namespace: keep this part last ------------------------------------------------------------


if _t.TYPE_CHECKING:  # NumPy's own types, misspelt names included
    from numpy import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]

    from functrace.numpy.protocol.lifting import lift as lift
else:

    def __getattr__(name: str) -> _Any:
        if name == "lift":
            from functrace.numpy.protocol.lifting import lift as found
        else:
            from functrace.numpy.protocol.namespace import lookup

            found = lookup(_np, name, __name__)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({name for name in dir(_np) if not name.startswith("_")} | {"FUNCTIONS", "lift"})


# Submodules must not shadow NumPy attributes of the same name; all of them are imported by now.
_numpys = set(dir(_np))
for _name in [
    key for key, value in globals().items() if isinstance(value, _ModuleType) and key in _numpys
]:
    del globals()[_name]
