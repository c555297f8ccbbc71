"""Checks for NumPy code whose result depends on ``isinstance(x, np.ndarray)``.

Layer: 3.
"""

from __future__ import annotations

import os
from types import FrameType

import numpy as np

from functrace.errors import UnsupportedFunctionError

_POLYNOMIAL = os.path.join(os.path.dirname(np.__file__), "polynomial") + os.sep

EVALUATIONS = frozenset({"polyval", "chebval", "legval", "lagval", "hermval", "hermeval"})
"""Functions of numpy.polynomial that add axes to coefficients only if the points are an ndarray."""


def refuse_several_polynomials(frame: FrameType) -> None:
    """Raise for a traced ``x`` and several polynomials: NumPy would pair them with its elements."""
    known = frame.f_locals
    points, coefficients = known.get("x"), known.get("c")
    is_evaluation = (
        frame.f_code.co_filename.startswith(_POLYNOMIAL)
        and known.get("tensor")
        and getattr(points, "ndim", 0)
    )
    if (
        is_evaluation
        and getattr(coefficients, "ndim", 1) > 1
        and not isinstance(points, np.ndarray)
    ):
        name = frame.f_code.co_name
        raise UnsupportedFunctionError(
            f"{frame.f_globals.get('__name__', 'numpy.polynomial')}.{name} of traced points takes "
            "the coefficients of one "
            "polynomial: several would be paired with the points, unlike for arrays",
            fix=f"add axes to the coefficients: {name}(x, c.reshape(c.shape + (1,) * x.ndim), "
            "tensor=False)",
        )
