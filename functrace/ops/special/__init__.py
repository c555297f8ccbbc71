"""The ufuncs of ``scipy.special``, one row each: primitives whose derivatives are other rows.

This package imports SciPy; it is imported when a traced value is first passed to a SciPy ufunc, or
when a program with one is read. Differentiating by an argument without a derivative (the order of a
Bessel function) raises. Derivatives of the incomplete gamma and beta functions by their shapes are
integrals: `functrace.ops.special.incomplete`; the logarithms of these functions, also in the far
tails, are in `functrace.ops.special.tails`.

Layer: 2.
"""

from functrace.ops.special import bessel, distributions, errors, gamma, hypergeometric, logarithms
from functrace.ops.special.beta_ends import beta_end_p
from functrace.ops.special.error_slopes import ERROR_SLOPES
from functrace.ops.special.incomplete import BY_SHAPES
from functrace.ops.special.rows import TABLE, SpecialFunction, special_function
from functrace.ops.special.tails import TAILS

SLOPES = {**ERROR_SLOPES, beta_end_p.name: beta_end_p}
"""Primitives of derivatives of other functions, by name."""

__all__ = [
    "BY_SHAPES", "SLOPES", "TABLE", "TAILS", "SpecialFunction", "bessel", "distributions", "errors", "gamma",
    "hypergeometric",
    "logarithms", "special_function",
]  # fmt: skip
