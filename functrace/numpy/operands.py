"""What NumPy's functions take, each read in one way: array-likes, axes, sizes, orders, ``dtype=`` and ``out=``.

Of array-likes there are three readings. `arrayed` makes an array of whatever is none yet, as most functions do. `operand`
leaves Python numbers weak, for arithmetic between arrays and numbers. What is written *into* an array is cast to its dtype
(`functrace.numpy.assigning.assigned`). A list that holds traced values becomes one traced array in all three (`stacked`).

Layer: 3.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeAlias, TypeVar, cast

import numpy as np

from functrace.errors import AxisError, DtypeError, LostGradientError, ShapeError, UnsupportedFunctionError
from functrace.ir.aval import shape_of
from functrace.numpy.tables import OR_LIFT
from functrace.ops import joining
from functrace.ops.shaping import convert, reshape
from functrace.tracing.tracer import LITERALS, Tracer, Value, as_array
from functrace.tracing.values import is_constant
from functrace.typing import Array, ArrayLike

if TYPE_CHECKING:
    from types import EllipsisType

    import numpy.typing as npt

    from functrace.numpy.array import TracedArray

Shape = tuple[int, ...]
Axes = tuple[int, ...]
Casting = Literal["no", "equiv", "safe", "same_kind", "unsafe"]

Operand: TypeAlias = "ArrayLike | TracedArray"
"""What is read as an array: arrays, traced values, numbers, nests of lists of them."""
Arrayed: TypeAlias = "Array | TracedArray"
"""What has been read as an array: `arrayed`."""
OneAxis: TypeAlias = "SupportsIndex | None"
"""``axis=`` of what runs along one axis; ``None`` for all elements in a row, or for what is usual."""
Axis: TypeAlias = "SupportsIndex | Sequence[SupportsIndex] | None"
"""``axis=`` of what may go along several."""
Sizes: TypeAlias = "SupportsIndex | Sequence[SupportsIndex] | Arrayed"
"""A shape, or other integers: one, or several."""
OrderLike: TypeAlias = Literal["K", "A", "C", "F"] | None
"""``order=``; ``None`` for what is usual."""
DtypeLike: TypeAlias = "npt.DTypeLike | None"
"""``dtype=``; ``None`` for what is usual."""
Out: TypeAlias = "Arrayed | None"
"""``out=``, which must be traced."""
Flag: TypeAlias = "bool | np.bool_"
"""``keepdims=`` and the like."""
Index: TypeAlias = "Operand | slice | EllipsisType | None"
"""What stands between brackets; a tuple of these is an `Operand`, too."""

K = TypeVar("K", bound="Axis")
X = TypeVar("X", bound="Arrayed")

NOT_GIVEN: Any = np._NoValue
"""NumPy's own mark of an argument that was not passed."""

_ALL = (None, None, None)


# -- array-likes ------------------------------------------------------------------------------------------------------


class HasOperators:
    """What has operators of its own with arrays: those of traced values leave theirs to it, though it takes ufuncs."""

    __slots__ = ()


def holds_tracer(value: object) -> bool:
    """Whether a value is traced, or a nest of lists and tuples with traced values in it."""
    return isinstance(value, Tracer) or (isinstance(value, list | tuple) and any(map(holds_tracer, value)))


def stacked(value: Operand) -> Operand:
    """Turn a nest of lists that holds traced values into one traced array; anything else stays as it is.

    Raises:
        ShapeError: if the nest is not rectangular.
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
    """Return a traced value or an array as it is, a list that holds traced values stacked, anything else as an array."""
    if isinstance(x, Tracer) or type(x) is np.ndarray:
        return x
    x = stacked(x)
    return x if isinstance(x, Tracer) else as_array(x)


def operand(x: Operand) -> Any:
    """Return an operand of arithmetic: a Python number as it is, which stays weak, anything else as `arrayed` does."""
    return x if type(x) in LITERALS else arrayed(x)


def flattened(x: Arrayed) -> Arrayed:
    """Return all elements of an array as a vector, in C order."""
    return reshape(x, (math.prod(shape_of(x)),))


def known(x: Operand | Tracer) -> np.ndarray[Any, Any]:
    """Return the plain value of an array-like, which may hold traced values.

    Raises:
        ConcretizationError: if one of them has no value.
    """
    return as_array(_plain(x))


def _plain(x: object) -> Any:
    if isinstance(x, list | tuple):
        return [_plain(part) for part in x]
    if not isinstance(x, Tracer):
        return x
    return x._concrete() if x.aval.size else np.empty(x.shape, x.dtype)  # of no elements all are known


def without_derivatives(value: Any) -> Any:
    """Return arguments with the traced values among them as plain ones, if none of them depends on an input.

    Returns:
        ``None`` if one of them does: then its derivative would be lost.
    """
    if isinstance(value, Tracer):
        return value._concrete() if is_constant(value) else None
    if type(value) in (list, tuple):
        parts = [without_derivatives(part) for part in value]
        is_lost = any(found is None and part is not None for found, part in zip(parts, value, strict=True))
        return None if is_lost else type(value)(parts)
    if type(value) is dict:
        parts = without_derivatives(list(value.values()))
        return None if parts is None else dict(zip(value, parts, strict=True))
    return value


# -- axes -------------------------------------------------------------------------------------------------------------


def exact_axis(axis: K) -> K:
    """Return ``axis=`` as NumPy's compiled functions take it: an integer that is no bool; ``None`` and tuples of them pass.

    (Its Python functions, such as ``median``, take bools and lists too.)
    """
    for k in axis if type(axis) is tuple else () if axis is None else (axis,):
        if isinstance(k, bool | np.bool_) or not hasattr(k, "__index__") or getattr(k, "ndim", 0):
            raise DtypeError(f"an axis must be an integer, not {k!r}", fix="count axes from 0")
    return axis


def one_axis(axis: SupportsIndex, ndim: int) -> int:
    """Return an axis as a non-negative int; raises `AxisError` if there is no such axis."""
    k = operator.index(axis)
    if not -ndim <= k < ndim:
        raise AxisError(f"axis {k} is out of bounds for an array with {ndim} axes", fix=f"use -{ndim} … {ndim - 1}")
    return k % ndim


def axis_tuple(axis: Axis, ndim: int) -> Axes:
    """Return axes (an int, several) in the order given, non-negative.

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
    """Return axes as reductions take them (``None`` for all, an int, several) sorted, non-negative; see `axis_tuple`."""
    return tuple(range(ndim)) if axis is None else tuple(sorted(axis_tuple(axis, ndim)))


def lined_up(a: Arrayed, axis: OneAxis) -> tuple[Arrayed, int]:
    """Return an array and the axis that a function works along; without one (``None``), all elements in a row."""
    return (flattened(a), 0) if axis is None else (a, one_axis(axis, len(shape_of(a))))


def exactly_lined_up(a: Arrayed, axis: OneAxis) -> tuple[Arrayed, int]:
    """As `lined_up`, for what NumPy has compiled: ``axis`` is exact, and a 0-d array is a vector of one element."""
    axis = exact_axis(axis)
    return lined_up(a, None if not shape_of(a) and axis in (0, -1) else axis)


def along(axis: int, part: object) -> tuple[Any, ...]:
    """Return the static index that takes ``part`` of one axis."""
    return (*(_ALL,) * axis, part)


def at_least(x: Value, ndim: int, what: str) -> None:
    """Check that an array has so many axes."""
    if len(shape_of(x)) < ndim:
        raise ShapeError(f"{what} needs an array with at least {ndim} axes, got shape {shape_of(x)}", fix="add an axis")


# -- sizes ------------------------------------------------------------------------------------------------------------


def int_tuple(sizes: Any) -> Shape:
    """Return a size or a sequence of sizes as a tuple of ints."""
    if isinstance(sizes, Tracer) and sizes.aval.shape:
        return tuple(int(n) for n in cast("Any", sizes))
    if isinstance(sizes, tuple | list | np.ndarray) and np.ndim(sizes) > 0:
        return tuple(operator.index(n) for n in sizes)
    return (operator.index(cast("Any", sizes)),)


def full_shape(shape: Shape, size: int) -> Shape:
    """Return a shape with its one ``-1`` worked out."""
    if -1 not in shape:
        return shape
    known = 1
    for n in shape:
        if n != -1:
            known *= n
    if shape.count(-1) > 1 or known == 0 or size % known:
        raise ShapeError(f"cannot reshape {size} elements to {shape}", fix="keep the number of elements")
    return tuple(size // known if n == -1 else n for n in shape)


# -- order= and dtype= ------------------------------------------------------------------------------------------------


def checked_order(order: object, what: str) -> str:
    """Return ``order=`` as a letter; raises for what is none."""
    letter = "K" if order is None else str(order).upper()
    if letter not in ("C", "F", "A", "K"):
        raise UnsupportedFunctionError(f"{what}: order must be 'C', 'F', 'A' or 'K', not {order!r}", fix="leave it out")
    return letter


def cast_to(x: X, dtype: DtypeLike, casting: Casting = "unsafe") -> X:
    """Return an array in the dtype that ``dtype=`` and ``casting=`` ask for; ``None`` leaves it as it is."""
    if dtype is None:
        return x
    if casting != "unsafe" and not np.can_cast(x.dtype, dtype, casting):
        raise DtypeError(f"cannot cast {x.dtype} to {np.dtype(dtype)} by the rule {casting!r}", fix="pass casting='unsafe'")
    return convert(x, dtype)


# -- out= and other targets -------------------------------------------------------------------------------------------


def need_traced(target: Operand, what: str) -> TracedArray:
    """Return what is written to, which must be traced: in a plain ndarray the derivative would be lost."""
    if isinstance(target, list | tuple) or type(target) in LITERALS:
        raise DtypeError(
            f"{what} writes into an array, not into a {type(target).__name__} (return arrays must be of ArrayType)",
            fix="make an array of it first, or use the returned value",
        )
    if not isinstance(target, Tracer):
        raise LostGradientError(
            f"{what} would write a traced value into a plain ndarray and lose its derivative",
            fix="use the returned value, or let the target be traced too: np.zeros_like(x) of a traced x, or "
            f"np.array(target, like=x). {OR_LIFT}",
        )
    return target


def stored(result: Arrayed, out: Out, name: str) -> Arrayed:
    """Return the result of the NumPy function of a name; where there is ``out=``, written into it.

    Raises:
        LostGradientError: if ``out`` is a plain array.
        ShapeError, DtypeError: if the result does not fit into it.
    """
    if out is None:
        return result
    if not isinstance(out, Tracer) and isinstance(result, Tracer) and is_constant(result):
        np.copyto(out, result._concrete(), casting="same_kind")
        return out
    return need_traced(out, f"numpy.{name} with out=")._assign(result, name)
