"""``scipy.interpolate`` for traced values: piecewise polynomials and splines through points, values
on grids.

For plain arguments the classes return SciPy's own objects, which then also take traced points. For
traced arguments they return objects with the same interface. Other names are SciPy's own.

Example:
    >>> import numpy as np, functrace as ft
    >>> from functrace.scipy import interpolate
    >>> x, y = np.arange(5.0), np.arange(5.0) ** 2
    >>> ft.grad(lambda at: interpolate.CubicSpline(x, y)(at))(1.5)
    np.float64(3.0)
    >>> ft.grad(lambda y: interpolate.RegularGridInterpolator((x,), y)([[1.25]])[0])(y)
    array([0.  , 0.75, 0.25, 0.  , 0.  ])

Layer: 9.
"""

# pyright: reportUnusedImport=false
# (what is imported here is exported; `__getattr__` adds SciPy's other names)
from __future__ import annotations

from typing import Any

import scipy.interpolate

from functrace.scipy.interpolate.grids import RegularGridInterpolator, interpn  # noqa: F401
from functrace.scipy.interpolate.lines import interp1d  # noqa: F401
from functrace.scipy.interpolate.pieces import (  # noqa: F401
    Akima1DInterpolator,
    CubicHermiteSpline,
    CubicSpline,
    PchipInterpolator,
    PPoly,
)
from functrace.scipy.interpolate.splines import BSpline, make_interp_spline  # noqa: F401


def __getattr__(name: str) -> Any:
    """Return SciPy's attribute of the same name."""
    return getattr(scipy.interpolate, name)


def __dir__() -> list[str]:
    """List SciPy's names."""
    return sorted({*globals(), *dir(scipy.interpolate)})
