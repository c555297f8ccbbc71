"""What is refused where NumPy's Python code asks whether a value is an ndarray, and computes something else if it is not.

Layer: 3.
"""

from __future__ import annotations

import os
from types import FrameType

import numpy as np

from functrace.errors import UnsupportedFunctionError

_POLYNOMIAL = os.path.join(os.path.dirname(np.__file__), "polynomial") + os.sep

EVALUATIONS = frozenset({"polyval", "chebval", "legval", "lagval", "hermval", "hermeval"})
"""Functions of numpy.polynomial that add axes to their coefficients if the points are an ndarray, and only then."""


def refuse_several_polynomials(frame: FrameType) -> None:
    """Refuse a traced ``x`` in one of `EVALUATIONS` with several polynomials: they would be paired with its elements."""
    known = frame.f_locals
    points, coefficients = known.get("x"), known.get("c")
    is_asked = frame.f_code.co_filename.startswith(_POLYNOMIAL) and known.get("tensor") and getattr(points, "ndim", 0)
    if is_asked and getattr(coefficients, "ndim", 1) > 1 and not isinstance(points, np.ndarray):
        name = frame.f_code.co_name
        raise UnsupportedFunctionError(
            f"{frame.f_globals.get('__name__', 'numpy.polynomial')}.{name} of traced points takes the coefficients of one "
            "polynomial: those of several would be paired with the points, which NumPy does not do for arrays",
            fix=f"give the coefficients their axes, and say so: {name}(x, c.reshape(c.shape + (1,) * x.ndim), tensor=False)",
        )
