"""``scipy.optimize`` for traced values: solutions have implicit derivatives.

SciPy's solvers run on plain values, with functrace's derivatives if a method uses some and none are
given. Solutions are differentiated by the implicit function theorem: by extra arguments, limits,
and captured values of the functions.

Example:
    >>> import numpy as np, functrace as ft
    >>> from functrace.scipy import optimize
    >>> slope = ft.grad(lambda a: optimize.brentq(lambda x: x**3 - a, 0.0, 3.0))(8.0)
    >>> round(float(slope), 12), round(1 / 12, 12)
    (0.083333333333, 0.083333333333)

Layer: 9.
"""

from __future__ import annotations

from typing import Any

import scipy.optimize

from functrace.scipy.dispatch import scipys
from functrace.scipy.fitting import curve_fit, least_squares, leastsq, lsq_linear, nnls
from functrace.scipy.minimizing import minimize, minimize_scalar
from functrace.scipy.roots import (
    bisect,
    brenth,
    brentq,
    fixed_point,
    fsolve,
    newton,
    ridder,
    root,
    root_scalar,
    toms748,
)

__all__ = [
    "bisect", "brenth", "brentq", "curve_fit", "fixed_point", "fsolve", "least_squares", "leastsq",
    "lsq_linear",
    "minimize", "minimize_scalar", "newton", "nnls", "ridder", "root", "root_scalar", "toms748",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Return SciPy's attribute of the same name."""
    return scipys(scipy.optimize, name)


def __dir__() -> list[str]:
    """List SciPy's names."""
    return sorted({*globals(), *dir(scipy.optimize)})
