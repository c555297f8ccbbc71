"""Types of arguments of this package, for signatures with shapes.

Shapes are of arrays and of traced values; nested lists and numbers, which SciPy converts, have
none to check.

Note [Shapes without jaxtyping]
    Annotations are text that only a checker evaluates: beartype under jaxtyping's import hook.
    `Numeric` imports jaxtyping then, and so importing this package does not.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import numpy as np

from functrace.typing import Array, Scalar

if TYPE_CHECKING:
    from typing import Annotated as Numeric

    from functrace.numpy.arrays.traced_array import TracedArray

    X: TypeAlias = Array | np.generic | TracedArray
else:
    X: TypeAlias = Array

    class Numeric:
        """Numbers of every dtype, with a shape: ``Numeric[X, "n m"]``."""

        def __class_getitem__(cls, given: tuple[Any, str]) -> Any:
            """Return jaxtyping's type; see Note [Shapes without jaxtyping]."""
            from functrace.scipy.linalg import operands

            return operands.Numeric[given]


Nested: TypeAlias = Scalar | list[Any] | tuple[Any, ...]
"""Python numbers, and nested lists, which may contain traced values."""
Operand: TypeAlias = X | Nested
"""Array-like of any shape."""
Axis: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | None
"""``axes=``: one, several, or the default."""

__all__ = ["Axis", "Nested", "Numeric", "Operand", "X"]
