"""Parsing of this package's arguments: shapes, dtypes and parameters.

Layer: 8.
"""

# pyright: reportUnusedImport=false
# (what a checker imports here as a dtype is exported)
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import jaxtyping
import numpy as np
import numpy.typing as npt

from functrace.errors import DtypeError, ShapeError
from functrace.ir.aval import aval_of, broadcast_shapes, shape_of
from functrace.numpy.protocol.operands import Arrayed, arrayed, int_tuple
from functrace.ops.shaping import broadcast_to, convert
from functrace.typing import Array, Scalar

if TYPE_CHECKING:
    from typing import Annotated as Float
    from typing import Annotated as Inexact
    from typing import Annotated as Real

    from functrace.numpy.arrays.traced_array import TracedArray

    X: TypeAlias = Array | TracedArray
    Nested: TypeAlias = Scalar | np.generic | list[Any] | tuple[Any, ...]
else:
    X: TypeAlias = Array  # of which NumPy's scalars and traced values are instances
    Nested: TypeAlias = Scalar | list[Any] | tuple[Any, ...]

    class Float(jaxtyping.AbstractDtype):
        """jaxtyping's dtypes of floats, and longdouble."""

        dtypes = (*jaxtyping.Float.dtypes, "longdouble")

    class Inexact(jaxtyping.AbstractDtype):
        """jaxtyping's dtypes of floats and complex numbers, and longdouble ones."""

        dtypes = (*jaxtyping.Inexact.dtypes, "longdouble", "clongdouble")

    class Real(jaxtyping.AbstractDtype):
        """Dtypes of parameters: integers, bools and floats."""

        dtypes = (*jaxtyping.Real.dtypes, "longdouble", "longlong", "ulonglong", "bool")


Operand: TypeAlias = X | Nested
"""Array, traced value, Python number, or nested list of them, which has no shape to check."""
DtypeLike: TypeAlias = npt.DTypeLike | None
"""Type of ``dtype=``; ``None`` for the default."""

Shape = tuple[int, ...]
ShapeLike: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
"""Type of ``shape=``: an integer, or several."""
FLOAT = np.dtype(np.float64)
INT = np.dtype(np.int64)
_TUPLE: type[Any] = tuple  # narrows nothing: elements stay `Any` for a type checker


def sizes(shape: ShapeLike, name: str) -> Shape:
    """Return a shape as a tuple; raise `ShapeError` if it is invalid."""
    given: Any = shape
    if type(given) is _TUPLE and all(type(n) is int and n >= 0 for n in given):  # 0.3 us, of 1.5
        return given
    try:
        found = int_tuple(shape)
    except TypeError:
        raise ShapeError(
            f"random.{name}: shape {shape!r} is not a tuple of integers",
            fix="pass one, e.g. (3, 4)",
        ) from None
    if any(n < 0 for n in found):
        raise ShapeError(
            f"random.{name}: shape {found} has negative sizes", fix="pass sizes from 0 on"
        )
    return found


def float_dtype(dtype: DtypeLike, name: str, kinds: str = "f") -> np.dtype[Any]:
    """Return the dtype of a continuous draw, float64 by default; raise `DtypeError` if it is not of
    these kinds."""
    found = FLOAT if dtype is None else np.dtype(dtype)
    if found.kind not in kinds:
        raise DtypeError(
            f"random.{name} does not draw {found}", fix="pass a float dtype, and convert the result"
        )
    return found


def int_dtype(dtype: DtypeLike, name: str, kinds: str = "iuf") -> np.dtype[Any]:
    """Return the dtype of a discrete draw, int64 by default; raise `DtypeError` if it is not of
    these kinds."""
    found = INT if dtype is None else np.dtype(dtype)
    if found.kind not in kinds:
        raise DtypeError(f"random.{name} does not draw {found}", fix="pass an integer dtype")
    return found


def parameter(x: Operand, dtype: np.dtype[Any], name: str) -> Any:
    """Return a parameter as an array of a dtype; raise `DtypeError` if it is complex and the dtype
    is not."""
    found = arrayed(x)
    if found.dtype.kind not in "biuf" + dtype.kind:
        raise DtypeError(f"random.{name}: a parameter is {aval_of(found)}", fix="pass real numbers")
    return convert(found, dtype)


def joint_shape(name: str, shape: ShapeLike | None, *shapes: Shape) -> Shape:
    """Return the shape of a draw: ``shape``, or by default the broadcast shape of the parameters.

    Raises:
        ShapeError: if the parameters do not broadcast to it.
    """
    try:
        found = broadcast_shapes(*shapes)
        if shape is None:
            return found
        wanted = sizes(shape, name)
        if not found or broadcast_shapes(found, wanted) == wanted:
            return wanted
    except ValueError:
        pass
    shown = " and ".join(map(str, shapes))
    raise ShapeError(
        f"random.{name}: parameters of shape {shown} do not broadcast"
        + ("" if shape is None else f" to {shape}"),
        fix="omit shape=, or let it end with the shape of the parameters",
    )


def parameters(
    name: str, shape: ShapeLike | None, dtype: np.dtype[Any], *given: Operand
) -> tuple[Shape, tuple[Any, ...]]:
    """Return the shape of a draw, and its parameters in its dtype; see `joint_shape`."""
    arrays = tuple([parameter(x, dtype, name) for x in given])
    return joint_shape(name, shape, *map(shape_of, arrays)), arrays


def shaped(x: Arrayed, shape: Shape) -> Any:
    """Broadcast a draw to its shape: parameters may have determined all of it."""
    return x if shape_of(x) == shape else broadcast_to(x, shape)
