"""Types of arguments of this package, for signatures with shapes.

Shapes are of arrays and of traced values; nested lists and numbers, which SciPy converts, have
none to check. ``*b`` are the axes of a stack, ``#`` says that they broadcast.

Layer: 9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import jaxtyping
import numpy as np

from functrace.typing import Array, Scalar

if TYPE_CHECKING:
    from typing import Annotated as Numeric

    from functrace.numpy.arrays.traced_array import TracedArray

    X: TypeAlias = Array | np.generic | TracedArray
else:
    X: TypeAlias = Array

    class Numeric(jaxtyping.AbstractDtype):
        """Numbers of every dtype: jaxtyping's ``Num``, bools, and those of C's long types."""

        dtypes = (
            *jaxtyping.Num.dtypes,
            "bool",
            "longlong",
            "ulonglong",
            "longdouble",
            "clongdouble",
        )


Nested: TypeAlias = Scalar | list[Any] | tuple[Any, ...]
"""Python numbers, and nested lists, which may contain traced values."""
Operand: TypeAlias = X | Nested
"""Array-like of any shape."""

np_linalg: Any = np.linalg
"""``numpy.linalg``, whose own types say nothing about operands that may be traced values."""

__all__ = ["Nested", "Numeric", "Operand", "X", "np_linalg"]
