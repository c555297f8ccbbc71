"""The ufuncs of ``scipy.special``, one row each: primitives as NumPy's are, whose derivatives are other rows.

This package imports SciPy, and is imported when a traced value first meets a ufunc of SciPy's, or when a program is read
that holds one. What has no derivative by an argument (the order of a Bessel function, the shape of an incomplete beta
function) raises when one is asked for.

Floor: 2.
"""

from functrace.ops.special import bessel, errors, gamma, hypergeometric, logarithms
from functrace.ops.special.rows import TABLE, SpecialFunction, special_function

__all__ = ["TABLE", "SpecialFunction", "bessel", "errors", "gamma", "hypergeometric", "logarithms", "special_function"]
