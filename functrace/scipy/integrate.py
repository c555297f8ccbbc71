"""``scipy.integrate`` for traced values: differential equations, with a choice of gradients, and
integrals.

Example:
    >>> import numpy as np, functrace as ft
    >>> from functrace.scipy import integrate
    >>> def end(rate):
    ...     return integrate.solve_ivp(lambda t, y: -rate * y, (0.0, 1.0), [1.0], rtol=1e-9, atol=1e-9).y[0, -1]
    >>> round(float(ft.grad(end)(0.5)), 8), round(-float(np.exp(-0.5)), 8)
    (-0.60653066, -0.60653066)

Layer: 9.
"""

from __future__ import annotations

from typing import Any

import scipy.integrate

from functrace.scipy.boundary_values import solve_bvp
from functrace.scipy.dispatch import scipys
from functrace.scipy.initial_values import odeint, solve_ivp
from functrace.scipy.quadrature import fixed_quad, quad, quad_vec
from functrace.scipy.sampled import (
    cumulative_simpson,
    cumulative_trapezoid,
    romb,
    simpson,
    trapezoid,
)

__all__ = [
    "cumulative_simpson", "cumulative_trapezoid", "fixed_quad", "odeint", "quad", "quad_vec",
    "romb", "simpson", "solve_bvp",
    "solve_ivp", "trapezoid",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Return SciPy's attribute of the same name."""
    return scipys(scipy.integrate, name)


def __dir__() -> list[str]:
    """List SciPy's names."""
    return sorted({*globals(), *dir(scipy.integrate)})
