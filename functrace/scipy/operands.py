"""Types of arguments and results of SciPy's functions, for signatures with shapes.

Shapes are of arrays and of traced values; nested lists and numbers, which SciPy converts, have
none to check. ``*b`` are the axes of a stack, ``#`` says that they broadcast.

Note [Shapes without jaxtyping]
    Annotations are text that only a checker evaluates: beartype under jaxtyping's import hook.
    `Numeric`, `Shaped` and the others import jaxtyping then, and so importing a package that uses
    them does not. An alias of a shape would be evaluated on import: signatures spell shapes out.

Layer: 9.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import numpy as np

from functrace.typing import Array, Scalar

if TYPE_CHECKING:
    from typing import Annotated as Numeric

    from jaxtyping import Complex, Float, Inexact, Integer, Shaped

    from functrace.numpy.arrays.traced_array import TracedArray

    X: TypeAlias = Array | np.generic | TracedArray
else:
    X: TypeAlias = Array

    @functools.lru_cache(maxsize=256)
    def _numeric() -> Any:
        """Return numbers of every dtype: jaxtyping's ``Num``, bools, and C's long types."""
        import jaxtyping

        dtypes = (
            *jaxtyping.Num.dtypes,
            "bool",
            "longlong",
            "ulonglong",
            "longdouble",
            "clongdouble",
        )
        return type("Numeric", (jaxtyping.AbstractDtype,), {"dtypes": dtypes})

    class _Lazy:
        """jaxtyping's type of a name; see Note [Shapes without jaxtyping]."""

        def __init__(self, name: str) -> None:
            self.name = name

        def __repr__(self) -> str:
            return self.name

        def __getitem__(self, given: tuple[Any, str]) -> Any:
            import jaxtyping

            found = _numeric() if self.name == "Numeric" else getattr(jaxtyping, self.name)
            return found[given]

    Complex, Float, Inexact, Integer, Numeric, Shaped = map(
        _Lazy, ("Complex", "Float", "Inexact", "Integer", "Numeric", "Shaped")
    )


Nested: TypeAlias = Scalar | list[Any] | tuple[Any, ...]
"""Python numbers, and nested lists, which may contain traced values."""
Operand: TypeAlias = X | Nested
"""Array-like of any shape."""
Axis: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | None
"""``axes=``: one, several, or the default."""

__all__ = [
    "Axis",
    "Complex",
    "Float",
    "Inexact",
    "Integer",
    "Nested",
    "Numeric",
    "Operand",
    "Scalar",
    "Shaped",
    "X",
]
