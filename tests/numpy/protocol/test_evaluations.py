"""Evaluating polynomials by ``numpy.polynomial``: right for one polynomial, refused for several of
traced points.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.polynomial import chebyshev, hermite, hermite_e, laguerre, legendre, polynomial

import functrace as ft
from functrace.errors import UnsupportedFunctionError

FUNCTIONS = [
    polynomial.polyval, chebyshev.chebval, legendre.legval, laguerre.lagval, hermite.hermval,
    hermite_e.hermeval,
]  # fmt: skip
POINTS = [np.array([0.3, 0.5]), np.array(0.4), np.array([[0.1, 0.2], [0.3, 0.4]])]


@pytest.mark.parametrize("degree", [1, 2, 3, 5])
@pytest.mark.parametrize("x", POINTS, ids=lambda x: str(x.shape))
@pytest.mark.parametrize("evaluate", FUNCTIONS)
def test_evaluations(evaluate: Any, x: Any, degree: int) -> None:
    one = np.linspace(0.5, 1.5, degree)
    np.testing.assert_allclose(
        ft.jvp(lambda x: evaluate(x, one), (x,), (x,))[0], evaluate(x, one), rtol=1e-12
    )
    several = np.stack([one, one + 1], -1)
    if not x.ndim:
        np.testing.assert_allclose(
            ft.jvp(lambda x: evaluate(x, several), (x,), (x,))[0], evaluate(x, several), rtol=1e-12
        )
        return
    with pytest.raises(UnsupportedFunctionError, match="tensor=False"):
        ft.jvp(lambda x: evaluate(x, several), (x,), (x,))
    with_axes = several.reshape(several.shape + (1,) * x.ndim)
    found, _ = ft.jvp(lambda x: evaluate(x, with_axes, tensor=False), (x,), (x,))
    np.testing.assert_allclose(found, evaluate(x, several), rtol=1e-12)
