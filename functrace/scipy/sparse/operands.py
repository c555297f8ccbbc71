"""Types of arguments of this package, for signatures with shapes.

Shapes are of arrays and of traced values; nested lists, and right-hand sides that are sparse, have
none to check.

Layer: 9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse

from functrace.typing import Array, Scalar

if TYPE_CHECKING:
    from functrace.numpy.arrays.traced_array import TracedArray

    X: TypeAlias = Array | np.generic | TracedArray
    Plain: TypeAlias = Any
else:
    X: TypeAlias = Array
    Plain: TypeAlias = scipy.sparse.sparray | scipy.sparse.spmatrix

Nested: TypeAlias = Scalar | list[Any] | tuple[Any, ...] | Plain
"""Python numbers, nested lists, and SciPy's sparse matrices."""
Operand: TypeAlias = X | Nested
"""Array-like of any shape."""
