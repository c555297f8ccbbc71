"""Normalization of arguments: array-likes, axes, sizes, orders, ``dtype=`` and ``out=``.

There are three conversions of array-likes. `arrayed` converts everything to an array, as most
functions do. `operand` keeps Python numbers weak, for arithmetic between arrays and numbers.
`functrace.numpy.arrays.assignment.assigned` casts values written *into* an array to its dtype. All
three turn a list that contains traced values into one traced array (`stacked`).

Layer: 3.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeAlias, TypeVar, cast

import numpy as np

from functrace.errors import (
    AxisError,
    DtypeError,
    LostGradientError,
    ShapeError,
    UnsupportedFunctionError,
)
from functrace.ir.aval import shape_of
from functrace.numpy.protocol.tables import OR_LIFT
from functrace.ops import joining
from functrace.ops.shaping import convert, reshape
from functrace.tracing.tracer import LITERALS, Tracer, Value, as_array
from functrace.tracing.values import is_constant
from functrace.typing import Array, ArrayLike

if TYPE_CHECKING:
    from types import EllipsisType

    import numpy.typing as npt

    from functrace.numpy.arrays.traced_array import TracedArray

Shape = tuple[int, ...]
Axes = tuple[int, ...]
Casting = Literal["no", "equiv", "safe", "same_kind", "unsafe"]

Operand: TypeAlias = "ArrayLike | TracedArray"
"""Array-like: arrays, traced values, numbers, nested lists of them."""
Arrayed: TypeAlias = "Array | TracedArray"
"""Array, as returned by `arrayed`."""
OneAxis: TypeAlias = "SupportsIndex | None"
"""``axis=`` of functions along one axis; ``None`` for the flattened array, or the default."""
Axis: TypeAlias = "SupportsIndex | Sequence[SupportsIndex] | None"
"""``axis=`` of functions along several axes."""
Sizes: TypeAlias = "SupportsIndex | Sequence[SupportsIndex] | Arrayed"
"""A shape, or other integers: one, or several."""
OrderLike: TypeAlias = Literal["K", "A", "C", "F"] | None
"""``order=``; ``None`` for the default."""
DtypeLike: TypeAlias = "npt.DTypeLike | None"
"""``dtype=``; ``None`` for the default."""
Out: TypeAlias = "Arrayed | None"
"""``out=``, which must be traced."""
Flag: TypeAlias = "bool | np.bool_"
"""``keepdims=`` and the like."""
Index: TypeAlias = "Operand | slice | EllipsisType | None"
"""Entry of an index; a tuple of entries is an `Operand`, too."""

K = TypeVar("K", bound="Axis")
X = TypeVar("X", bound="Arrayed")

NOT_GIVEN: Any = np._NoValue
"""NumPy's own marker of an argument that was not passed."""

_ALL = (None, None, None)


# -- array-likes -----------------------------------------------------------------------------------


class HasOperators:
    """Base of classes with their own operators: those of traced values defer to them."""

    __slots__ = ()


def holds_tracer(value: object) -> bool:
    """Return True if a value is traced, or a nested list or tuple that contains traced values."""
    return isinstance(value, Tracer) or (
        isinstance(value, list | tuple) and any(map(holds_tracer, value))
    )


def stacked(value: Operand) -> Operand:
    """Stack a nested list that contains traced values; return anything else unchanged.

    Raises:
        ShapeError: if the list is not rectangular.
    """
    if not isinstance(value, list | tuple) or not holds_tracer(value):
        return value
    parts = [arrayed(part) for part in value]
    shapes = {shape_of(part) for part in parts}
    if len(shapes) > 1:
        raise ShapeError(
            f"a list of arrays of shapes {', '.join(map(str, sorted(shapes)))} is not one array",
            fix="make all shapes equal, or join them with np.concatenate",
        )
    return joining.stack(parts, 0)


def arrayed(x: Operand) -> Arrayed:
    """Return traced values and arrays unchanged, and stack or convert anything else to an array."""
    if isinstance(x, Tracer) or type(x) is np.ndarray:
        return x
    x = stacked(x)
    return x if isinstance(x, Tracer) else as_array(x)


def operand(x: Operand) -> Any:
    """Return an operand of arithmetic: Python numbers stay weak, anything else as `arrayed`."""
    return x if type(x) in LITERALS else arrayed(x)


def flattened(x: Arrayed) -> Arrayed:
    """Return all elements of an array as a vector, in C order."""
    return reshape(x, (math.prod(shape_of(x)),))


def known(x: Operand | Tracer) -> np.ndarray[Any, Any]:
    """Return the concrete value of an array-like, which may contain traced values.

    Raises:
        ConcretizationError: if one of them is abstract.
    """
    return as_array(_plain(x))


def _plain(x: object) -> Any:
    if isinstance(x, list | tuple):
        return [_plain(part) for part in x]
    if not isinstance(x, Tracer):
        return x
    return x.ft_concrete() if x.aval.size else np.empty(x.shape, x.dtype)  # empty: always concrete


def without_derivatives(value: Any) -> Any:
    """Return arguments with traced values as concrete ones, if none of them depends on an input.

    Returns:
        ``None`` if one depends on an input, whose derivative would be lost.
    """
    if isinstance(value, Tracer):
        return value.ft_concrete() if is_constant(value) else None
    if type(value) in (list, tuple):
        parts = [without_derivatives(part) for part in value]
        is_lost = any(
            found is None and part is not None for found, part in zip(parts, value, strict=True)
        )
        return None if is_lost else type(value)(parts)
    if type(value) is dict:
        parts = without_derivatives(list(value.values()))
        return None if parts is None else dict(zip(value, parts, strict=True))
    return value


# -- axes ------------------------------------------------------------------------------------------


def exact_axis(axis: K) -> K:
    """Check ``axis=`` as compiled NumPy functions do: an integer but no bool, ``None``, or a tuple.

    (NumPy's Python functions, such as ``median``, also take bools and lists.)
    """
    for k in axis if type(axis) is tuple else () if axis is None else (axis,):
        if isinstance(k, bool | np.bool_) or not hasattr(k, "__index__") or getattr(k, "ndim", 0):
            raise DtypeError(f"an axis must be an integer, not {k!r}", fix="count axes from 0")
    return axis


def one_axis(axis: SupportsIndex, ndim: int) -> int:
    """Return an axis as a non-negative int; raise `AxisError` if it does not exist."""
    k = operator.index(axis)
    if not -ndim <= k < ndim:
        raise AxisError(
            f"axis {k} is out of bounds for an array with {ndim} axes",
            fix=f"use -{ndim} … {ndim - 1}",
        )
    return k % ndim


def axis_tuple(axis: Axis, ndim: int) -> Axes:
    """Return axes (an int, several) in the given order, non-negative.

    Raises:
        AxisError: if an axis is out of bounds or named twice.
    """
    is_one = hasattr(axis, "__index__") and not getattr(axis, "ndim", 0)
    several: Any = (axis,) if is_one else axis
    found = tuple([one_axis(k, ndim) for k in several])
    if len(set(found)) != len(found):
        raise AxisError(f"axis {axis} names an axis twice", fix="name every axis once")
    return found


def normalize_axes(axis: Axis, ndim: int) -> Axes:
    """Return the axes of a reduction (``None`` for all) sorted, non-negative; see `axis_tuple`."""
    return tuple(range(ndim)) if axis is None else tuple(sorted(axis_tuple(axis, ndim)))


def lined_up(a: Arrayed, axis: OneAxis) -> tuple[Arrayed, int]:
    """Return the array and axis for a function along one axis; ``None`` flattens the array."""
    return (flattened(a), 0) if axis is None else (a, one_axis(axis, len(shape_of(a))))


def exactly_lined_up(a: Arrayed, axis: OneAxis) -> tuple[Arrayed, int]:
    """Apply `lined_up` with NumPy's compiled rules: `exact_axis`, and a 0-d array is a vector."""
    axis = exact_axis(axis)
    return lined_up(a, None if not shape_of(a) and axis in (0, -1) else axis)


def along(axis: int, part: object) -> tuple[Any, ...]:
    """Return the static index that applies ``part`` to one axis."""
    return (*(_ALL,) * axis, part)


def at_least(x: Value, ndim: int, what: str) -> None:
    """Check the minimum number of axes of an array."""
    if len(shape_of(x)) < ndim:
        raise ShapeError(
            f"{what} needs an array with at least {ndim} axes, got shape {shape_of(x)}",
            fix="add an axis",
        )


# -- sizes -----------------------------------------------------------------------------------------


def int_tuple(sizes: Any) -> Shape:
    """Return a size or a sequence of sizes as a tuple of ints."""
    if isinstance(sizes, Tracer) and sizes.aval.shape:
        return tuple(int(n) for n in cast("Any", sizes))
    if isinstance(sizes, tuple | list | np.ndarray) and np.ndim(sizes) > 0:
        return tuple(operator.index(n) for n in sizes)
    return (operator.index(cast("Any", sizes)),)


def full_shape(shape: Shape, size: int) -> Shape:
    """Return a shape with ``-1`` replaced by the inferred size."""
    if -1 not in shape:
        return shape
    known = 1
    for n in shape:
        if n != -1:
            known *= n
    if shape.count(-1) > 1 or known == 0 or size % known:
        raise ShapeError(
            f"cannot reshape {size} elements to {shape}", fix="keep the number of elements"
        )
    return tuple(size // known if n == -1 else n for n in shape)


# -- order= and dtype= -----------------------------------------------------------------------------


def checked_order(order: object, what: str) -> str:
    """Return ``order=`` as a letter; raise if it is invalid."""
    letter = "K" if order is None else str(order).upper()
    if letter not in ("C", "F", "A", "K"):
        raise UnsupportedFunctionError(
            f"{what}: order must be 'C', 'F', 'A' or 'K', not {order!r}", fix="leave it out"
        )
    return letter


def cast_to(x: X, dtype: DtypeLike, casting: Casting = "unsafe") -> X:
    """Cast an array by ``dtype=`` and ``casting=``; ``None`` returns it unchanged."""
    if dtype is None:
        return x
    if casting != "unsafe" and not np.can_cast(x.dtype, dtype, casting):
        raise DtypeError(
            f"cannot cast {x.dtype} to {np.dtype(dtype)} by the rule {casting!r}",
            fix="pass casting='unsafe'",
        )
    return convert(x, dtype)


# -- out= and other targets ------------------------------------------------------------------------


def need_traced(target: Operand, what: str) -> TracedArray:
    """Return the target of a write; raise unless it is traced, since a derivative would be lost."""
    if isinstance(target, list | tuple) or type(target) in LITERALS:
        raise DtypeError(
            f"{what} writes into an array, not into a {type(target).__name__} (return arrays must "
            "be of ArrayType)",
            fix="make an array of it first, or use the returned value",
        )
    if not isinstance(target, Tracer):
        raise LostGradientError(
            f"{what} would write a traced value into a plain ndarray and lose its derivative",
            fix="use the returned value, or let the target be traced too: np.zeros_like(x) of a "
            "traced x, or "
            f"np.array(target, like=x). {OR_LIFT}",
        )
    return target


def stored(result: Arrayed, out: Out, name: str) -> Arrayed:
    """Return the result of a NumPy function, written into ``out=`` if given.

    Raises:
        LostGradientError: if ``out`` is a plain array.
        ShapeError, DtypeError: if the result does not fit into it.
    """
    if out is None:
        return result
    if not isinstance(out, Tracer) and isinstance(result, Tracer) and is_constant(result):
        np.copyto(out, result.ft_concrete(), casting="same_kind")
        return out
    return need_traced(out, f"numpy.{name} with out=").ft_assign(result, name)
