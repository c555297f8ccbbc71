"""The NumPy layer: NumPy's functions on traced values, and a namespace for those who want one.

``import functrace.numpy as fnp`` gives every public NumPy function under its own name. On traced values it does what
``np.…`` does; besides, it takes lists of traced values (``fnp.mean([x, x + 2])``), and ``fnp.array``, ``fnp.full``,
``fnp.arange`` accept traced contents, which NumPy's own cannot hand over.

Floor: 6.
"""

import typing as _t
from types import ModuleType as _ModuleType
from typing import Any as _Any

import numpy as _np

from functrace.numpy import namespace as _namespace
from functrace.numpy.creation import LIKE as _LIKE_ROWS
from functrace.numpy.creation import TABLE as _CREATION
from functrace.numpy.elementwise import TABLE as _ELEMENTWISE
from functrace.numpy.linear_algebra import TABLE as _LINEAR_ALGEBRA
from functrace.numpy.reductions import TABLE as _REDUCTIONS
from functrace.numpy.shaping import TABLE as _SHAPING
from functrace.numpy.sorting import TABLE as _SORTING
from functrace.numpy.tables import FUNCTIONS, LIKE
from functrace.numpy.taking import TABLE as _INDEXING

FUNCTIONS.update(_SHAPING)
FUNCTIONS.update(_INDEXING)
FUNCTIONS.update(_CREATION)
FUNCTIONS.update(_LINEAR_ALGEBRA)
FUNCTIONS.update(_ELEMENTWISE)
FUNCTIONS.update(_REDUCTIONS)
FUNCTIONS.update(_SORTING)
LIKE.update(_LIKE_ROWS)


# -- the namespace: keep this part last ---------------------------------------------------------------


if _t.TYPE_CHECKING:  # NumPy's own types, misspelt names included
    from numpy import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]
else:

    def __getattr__(name: str) -> _Any:
        found = _namespace.lookup(_np, name, __name__)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({name for name in dir(_np) if not name.startswith("_")} | {"FUNCTIONS"})


# Files of this room that are named like something of NumPy's (array.py) must not hide it.
for _name in [key for key, value in globals().items() if isinstance(value, _ModuleType) and key in dir(_np)]:
    globals()[_name] = _namespace.lookup(_np, _name, __name__)
