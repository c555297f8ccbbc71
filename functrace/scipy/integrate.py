"""``scipy.integrate`` for traced values: differential equations, with a choice of gradients, and integrals.

Example:
    >>> import numpy as np, functrace as ft
    >>> from functrace.scipy import integrate
    >>> def end(rate):
    ...     return integrate.solve_ivp(lambda t, y: -rate * y, (0.0, 1.0), [1.0], rtol=1e-9, atol=1e-9).y[0, -1]
    >>> round(float(ft.grad(end)(0.5)), 8), round(-float(np.exp(-0.5)), 8)
    (-0.60653066, -0.60653066)

Floor: 8.
"""

from __future__ import annotations

from typing import Any

import scipy.integrate

from functrace.errors import UnsupportedFunctionError
from functrace.numpy.operands import holds_tracer
from functrace.scipy.initial_values import odeint, solve_ivp
from functrace.scipy.quadrature import fixed_quad, quad, quad_vec
from functrace.scipy.sampled import cumulative_simpson, cumulative_trapezoid, romb, simpson, trapezoid

__all__ = [
    "cumulative_simpson", "cumulative_trapezoid", "fixed_quad", "odeint", "quad", "quad_vec", "romb", "simpson", "solve_ivp",
    "trapezoid",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Every other name is SciPy's; a function refuses traced values."""
    found = getattr(scipy.integrate, name)
    if isinstance(found, type) or not callable(found):
        return found

    def plain_only(*args: object, **kwargs: object) -> Any:
        if any(map(holds_tracer, (*args, *kwargs.values()))):
            raise UnsupportedFunctionError(
                f"scipy.integrate.{name} does not take traced values here",
                fix=f"use one of {', '.join(__all__)}; or call it through functrace.primitive, with a derivative",
            )
        return found(*args, **kwargs)

    plain_only.__name__ = plain_only.__qualname__ = name
    plain_only.__doc__ = found.__doc__
    return plain_only


def __dir__() -> list[str]:
    """SciPy's names."""
    return sorted({*globals(), *dir(scipy.integrate)})
