"""The ufuncs of ``scipy.special``, one row each: primitives as NumPy's are, whose derivatives are other rows.

This package imports SciPy, and is imported when a traced value first meets a ufunc of SciPy's, or when a program is read
that holds one. What has no derivative by an argument (the order of a Bessel function) raises when one is asked for. Those of
the incomplete gamma and beta functions by their shapes are integrals: `functrace.ops.special.incomplete`; the logarithms of
these functions, in the far tails, too, stand in `functrace.ops.special.tails`.

Layer: 2.
"""

from functrace.ops.special import bessel, distributions, errors, gamma, hypergeometric, logarithms
from functrace.ops.special.incomplete import BY_SHAPES
from functrace.ops.special.rows import TABLE, SpecialFunction, special_function
from functrace.ops.special.tails import TAILS

__all__ = [
    "BY_SHAPES", "TABLE", "TAILS", "SpecialFunction", "bessel", "distributions", "errors", "gamma", "hypergeometric",
    "logarithms", "special_function",
]  # fmt: skip
