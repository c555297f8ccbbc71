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

from functrace.numpy import (  # noqa: F401  # the files that hold rows, which stand in the tables now
    applying,
    arithmetic,
    creation,
    diagonals,
    elementwise,
    factorizations,
    fft,
    histograms,
    joining,
    linear_algebra,
    nan_reductions,
    padding,
    polynomials,
    products,
    quantiles,
    questions,
    reductions,
    repeating,
    running,
    samples,
    scimath,
    sets,
    shaping,
    sorting,
    taking,
    ufunc_reductions,
)
from functrace.numpy import methods as _methods
from functrace.numpy import namespace as _namespace
from functrace.numpy.lifting import lift as lift
from functrace.numpy.tables import FUNCTIONS as FUNCTIONS

_methods.set_methods()


# -- the namespace: keep this part last ---------------------------------------------------------------


if _t.TYPE_CHECKING:  # NumPy's own types, misspelt names included
    from numpy import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]
else:

    def __getattr__(name: str) -> _Any:
        found = _namespace.lookup(_np, name, __name__)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({name for name in dir(_np) if not name.startswith("_")} | {"FUNCTIONS", "lift"})


# Files of this room that are named like something of NumPy's (array.py) must not hide it.
for _name in [key for key, value in globals().items() if isinstance(value, _ModuleType) and key in dir(_np)]:
    globals()[_name] = _namespace.lookup(_np, _name, __name__)
