"""NumPy's functions that change shape, axis order or dtype, copy, flip or roll arrays.

Functions that return views in NumPy do so here (see Note [In-place operations on traced values] in
numpy/arrays/views.py); views that NumPy makes read-only (``broadcast_to``, ``diagonal``) are
read-only.

Layer: 3.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from functrace.errors import AxisError, ShapeError, UnsupportedFunctionError
from functrace.ir.aval import shape_of
from functrace.numpy.arrays.instances import is_lifted
from functrace.numpy.arrays.layout import elements_in_memory, is_row, layout_of, order_like
from functrace.numpy.arrays.view_kinds import BroadcastView, OrderedView, RavelView, View
from functrace.numpy.arrays.views import (
    copied,
    copied_kind,
    indexed,
    is_scalar,
    linked,
    new_array,
    owned,
    reshaped,
    shares,
    transposed,
)
from functrace.numpy.protocol.operands import (
    Arrayed,
    Axis,
    Casting,
    DtypeLike,
    Operand,
    Shape,
    Sizes,
    arrayed,
    at_least,
    axis_tuple,
    cast_to,
    checked_order,
    exact_axis,
    flattened,
    full_shape,
    int_tuple,
    normalize_axes,
    one_axis,
)
from functrace.numpy.protocol.tables import array_method, implements, unsupported_function
from functrace.ops import shaping
from functrace.ops.shaping import broadcast_to as broadcast
from functrace.ops.shaping import reshape as reshape_to
from functrace.tracing.tracer import Tracer
from functrace.tracing.values import is_constant

if TYPE_CHECKING:
    from functrace.numpy.arrays.traced_array import TracedArray

_ALL = (None, None, None)


# -- helpers ---------------------------------------------------------------------------------------


def _known_layout(a: TracedArray, what: str) -> Any:
    """Return a stand-in with the strides that NumPy would give ``a``; raise if they are unknown."""
    found = layout_of(a)
    if found is None:
        raise UnsupportedFunctionError(
            f"{what} depends on the memory layout that NumPy would have given {a.aval}, which is "
            "not known here",
            made=a.ft_recording.source(a.ft_variable),
            fix="pass order='C' (or 'F'), or copy the array first: x.copy() is laid out in C order",
        )
    return found


# -- shape -----------------------------------------------------------------------------------------


@implements(np.reshape)
def reshape(
    a: TracedArray, /, shape: Sizes, order: str | None = "C", *, copy: bool | None = None
) -> Any:
    """As ``numpy.reshape``."""
    sizes = full_shape(int_tuple(shape) if shape != () else (), a.size)
    letter = checked_order(order, "reshape")
    if letter == "K":
        raise UnsupportedFunctionError(
            "reshape: order 'K' is not permitted for reshaping", fix="use 'C', 'F' or 'A'"
        )
    if letter == "A":
        letter = (
            "F"
            if not is_row(a.shape) and _known_layout(a, "reshape with order='A'").flags.fnc
            else "C"
        )
    if copy:
        a = a.copy(letter)
    if letter == "F":
        result = transposed(
            reshaped(transposed(a, _reversed(a.ndim)), sizes[::-1]), _reversed(len(sizes))
        )
    else:
        result = reshaped(a, sizes)
    if copy is False and isinstance(result.ft_view, View) and result.ft_view.base is not None:
        _need_view(result, "reshape with copy=False")
    return result


@array_method("reshape")
def _reshape_method(
    x: TracedArray,
    *shape: SupportsIndex | Sequence[SupportsIndex],
    order: str = "C",
    copy: bool | None = None,
) -> Any:
    """As ``numpy.ndarray.reshape``: separate sizes, or a tuple."""
    sizes: Any = (
        shape[0] if len(shape) == 1 and not isinstance(shape[0], int | np.integer) else shape
    )
    if order != "C" or copy is not None:
        return reshape(x, sizes, order=order, copy=copy)
    sizes = (sizes,) if isinstance(sizes, int | np.integer) else sizes
    return reshaped(x, full_shape(tuple(map(operator.index, sizes)), x.size))


def _need_view(result: TracedArray, what: str) -> None:
    """Raise unless a result is a view, for ``copy=False``."""
    link = result
    while link.ft_view is not None and link.ft_view.base is not None:
        shared = shares(link.ft_view)
        if shared is None:
            _known_layout(link.ft_view.base, what)
        if not shared:
            raise ShapeError(
                f"{what}: unable to avoid creating a copy while reshaping",
                fix="leave copy=False out",
            )
        link = link.ft_view.base
        if type(link.ft_view) is not type(result.ft_view):
            return


def _reversed(ndim: int) -> Shape:
    return tuple(range(ndim))[::-1]


@implements(np.ravel)
def ravel(a: Operand, order: str | None = "C", *, copy: bool = False) -> Any:
    """As ``numpy.ravel``, or with ``copy`` as ``numpy.ndarray.flatten``."""
    x: Any = arrayed(a)
    letter = checked_order(order, "ravel")
    axes = tuple(range(x.ndim))
    if letter == "F":
        axes = _reversed(x.ndim)
    elif letter in "AK" and not is_row(x.shape):
        known = _known_layout(x, f"ravel with order={order!r}")
        if letter == "A":
            axes = _reversed(x.ndim) if known.flags.fnc else axes
        else:
            axes = elements_in_memory(known)
    view = RavelView(x, axes)
    result = view.read(x)
    return owned(result) if copy or not isinstance(x, Tracer) else linked(result, view)


@array_method("ravel")
def _ravel_method(x: TracedArray, order: str = "C") -> Any:
    """As ``numpy.ndarray.ravel``."""
    return ravel(x, order)


@array_method("flatten")
def _flatten_method(x: TracedArray, order: str = "C") -> Any:
    """As ``numpy.ndarray.flatten``: always a copy."""
    return ravel(x, order, copy=True)


@implements(np.transpose)
def transpose(a: TracedArray, axes: Sequence[SupportsIndex] | None = None) -> Any:
    """As ``numpy.transpose``."""
    if axes is None:
        return transposed(a, _reversed(a.ndim))
    order = axis_tuple(tuple(axes), a.ndim)
    if len(order) != a.ndim:
        raise ShapeError(
            f"transpose: axes {tuple(axes)} do not match {a.aval}", fix="name every axis once"
        )
    return transposed(a, order)


@array_method("transpose")
def _transpose_method(x: TracedArray, *axes: SupportsIndex | Sequence[SupportsIndex]) -> Any:
    """As ``numpy.ndarray.transpose``: separate axes, or a tuple."""
    order: Any = axes[0] if len(axes) == 1 and not isinstance(axes[0], int | np.integer) else axes
    return transpose(x, tuple(order) if order else None)


@implements(np.swapaxes, method="swapaxes")
def swapaxes(a: Arrayed, axis1: SupportsIndex, axis2: SupportsIndex) -> Any:
    """As ``numpy.swapaxes``."""
    axes = list(range(a.ndim))
    i, j = one_axis(axis1, a.ndim), one_axis(axis2, a.ndim)
    axes[i], axes[j] = j, i
    return transposed(a, tuple(axes))


@implements(np.moveaxis)
def moveaxis(a: Arrayed, source: Sizes, destination: Sizes) -> Any:
    """As ``numpy.moveaxis``."""
    sources, targets = axis_tuple(source, a.ndim), axis_tuple(destination, a.ndim)
    if len(sources) != len(targets):
        raise ShapeError(
            f"moveaxis: {len(sources)} source axes, but {len(targets)} destinations",
            fix="give as many of both",
        )
    axes = [k for k in range(a.ndim) if k not in sources]
    for target, one in sorted(zip(targets, sources, strict=True)):
        axes.insert(target, one)
    return transposed(a, tuple(axes))


@implements(np.rollaxis)
def rollaxis(a: TracedArray, axis: SupportsIndex, start: int = 0) -> Any:
    """As ``numpy.rollaxis``."""
    n = a.ndim
    axis = one_axis(axis, n)
    start = start + n if start < 0 else start
    if not 0 <= start <= n:
        raise AxisError(
            f"rollaxis: start {start} is out of bounds for {a.aval}", fix=f"use -{n} … {n}"
        )
    axes = [k for k in range(n) if k != axis]
    axes.insert(start - 1 if axis < start else start, axis)
    return transposed(a, tuple(axes))


@implements(np.matrix_transpose, np.linalg.matrix_transpose)
def matrix_transpose(x: Arrayed, /) -> Any:
    """As ``numpy.matrix_transpose``."""
    at_least(x, 2, "matrix_transpose")
    return swapaxes(x, -1, -2)


@implements(np.squeeze, method="squeeze")
def squeeze(a: TracedArray, axis: Axis = None) -> Any:
    """As ``numpy.squeeze``."""
    if axis is None:
        axes = tuple(k for k, n in enumerate(a.shape) if n == 1)
    else:
        axes = () if not a.ndim and axis in (0, -1) else axis_tuple(exact_axis(axis), a.ndim)
        for k in axes:
            if a.shape[k] != 1:
                raise ShapeError(
                    f"squeeze: axis {k} of {a.aval} has size {a.shape[k]}, not 1",
                    fix="choose another axis",
                )
    return reshaped(a, tuple(n for k, n in enumerate(a.shape) if k not in axes))


@implements(np.expand_dims)
def expand_dims(a: Arrayed, axis: SupportsIndex | Sequence[SupportsIndex]) -> Any:
    """As ``numpy.expand_dims``."""
    given: Any = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    ndim = len(shape_of(a)) + len(given)
    axes = axis_tuple(given, ndim)
    sizes = iter(shape_of(a))
    return reshaped(a, tuple(1 if k in axes else next(sizes) for k in range(ndim)))


def _atleast(*arrays: Operand, ndim: int, place: Callable[[Shape], Shape]) -> Any:
    made = []
    for x in map(arrayed, arrays):
        shape = shape_of(x)
        made.append(reshaped(x, place(shape)) if len(shape) < ndim else x)
    return made[0] if len(made) == 1 else tuple(made)


@implements(np.atleast_1d)
def atleast_1d(*arys: Operand) -> Any:
    """As ``numpy.atleast_1d``."""
    return _atleast(*arys, ndim=1, place=lambda _: (1,))


@implements(np.atleast_2d)
def atleast_2d(*arys: Operand) -> Any:
    """As ``numpy.atleast_2d``."""
    return _atleast(*arys, ndim=2, place=lambda shape: (1, *shape) if shape else (1, 1))


@implements(np.atleast_3d)
def atleast_3d(*arys: Operand) -> Any:
    """As ``numpy.atleast_3d``."""
    places = {0: lambda s: (1, 1, 1), 1: lambda s: (1, *s, 1), 2: lambda s: (*s, 1)}
    return _atleast(*arys, ndim=3, place=lambda shape: places[len(shape)](shape))


@implements(np.broadcast_to)
def broadcast_to(array: Arrayed, shape: Sizes, subok: bool = False) -> Any:
    """As ``numpy.broadcast_to``."""
    sizes = int_tuple(shape) if shape != () else ()
    return linked(broadcast(array, sizes), BroadcastView(array, sizes))


@implements(np.broadcast_arrays)
def broadcast_arrays(*args: Operand, subok: bool = False) -> tuple[Any, ...]:
    """As ``numpy.broadcast_arrays``."""
    arrays = [arrayed(x) for x in args]
    shape = _common_shape("broadcast_arrays", arrays)
    return tuple(
        broadcast_to(x, shape) if isinstance(x, Tracer) else np.broadcast_to(x, shape)
        for x in arrays
    )


def _common_shape(what: str, arrays: Iterable[Operand]) -> Shape:
    try:
        return np.broadcast_shapes(*(shape_of(x) for x in arrays))
    except ValueError:
        shapes = ", ".join(str(shape_of(x)) for x in arrays)
        raise ShapeError(
            f"{what} cannot broadcast shapes {shapes}", fix="make the sizes equal, or 1"
        ) from None


@implements(np.copy)
def copy(a: TracedArray, order: str | None = "K", subok: bool = False) -> Any:
    """As ``numpy.copy``: returns an array even for a scalar."""
    return owned(a, order_like(a, checked_order(order, "copy")))


@implements(np.astype)
def astype(
    x: TracedArray,
    dtype: DtypeLike,
    /,
    *,
    copy: bool = True,
    device: str | None = None,
    order: str | None = "K",
    casting: Casting = "unsafe",
) -> Any:
    """As ``numpy.astype``."""
    letter = checked_order(order, "astype")
    result = cast_to(x, np.dtype(dtype), casting)
    if result is x:
        if copy:
            return copied(x, letter)
        return (
            x
            if letter == "K" or (is_row(x.shape) and x.size == 1)
            else linked(x, OrderedView(x, letter))
        )
    if not x.shape:
        scalar = is_scalar(x)
        return result if scalar else copied_kind(result, scalar)
    return result if letter == "K" else new_array(result, order_like(x, letter))


@array_method("astype")
def _astype_method(
    x: TracedArray,
    dtype: DtypeLike,
    order: str = "K",
    casting: Casting = "unsafe",
    subok: bool = True,
    copy: bool = True,
) -> Any:
    """As ``numpy.ndarray.astype``; a cast to an integer has derivative 0."""
    if np.dtype(dtype).kind not in "biufc" and is_constant(x):
        return np.asarray(x).astype(dtype, order, casting, subok, copy)  # type: ignore[call-overload]
    return astype(x, dtype, copy=copy, order=order, casting=casting)


@array_method("resize")
def _resize_method(x: object, *new_shape: Sizes, refcheck: bool = True) -> None:
    """Raise: ``numpy.ndarray.resize`` works in place, and traced values keep their shape."""
    raise UnsupportedFunctionError(
        "x.resize changes the shape of an array in place, which has no meaning on traced values",
        fix="make another array: np.resize(x, shape), or x[:n], or np.pad(x, (0, n))",
    )


@array_method("view")
def _view_method(x: TracedArray, *args: object, **kwargs: object) -> Any:
    """Return a view of the whole array, in lifted code also as a subclass of ndarray.

    Another dtype is an error, except for values that depend on no input, which are concrete.
    """
    kind = (
        args[0]
        if len(args) == 1 and not kwargs
        else kwargs.get("type")
        if not args and len(kwargs) == 1
        else None
    )
    if kind is np.ndarray or not (args or kwargs):
        return linked(x, View(x))
    if isinstance(kind, type) and issubclass(kind, np.ndarray):
        if is_lifted() and kind.__module__.partition(".")[0] != "numpy":
            from functrace.numpy.arrays.subclasses import seen_as

            return seen_as(x, kind)
    elif isinstance(args[0] if args else kwargs.get("dtype"), (str, type, np.dtype)):
        wanted = np.dtype(args[0] if args else kwargs["dtype"])  # type: ignore[call-overload]
        if wanted == x.dtype and len(args) + len(kwargs) == 1:
            return linked(x, View(x))
        if is_constant(x):
            return np.asarray(x).view(*args, **kwargs)  # type: ignore[call-overload]
    raise unsupported_function(np.ndarray.view)


# -- flipping and rolling --------------------------------------------------------------------------


@implements(np.flip)
def flip(m: Arrayed, axis: Axis = None) -> Any:
    """As ``numpy.flip``."""
    axes = normalize_axes(axis, m.ndim)
    return indexed(m, tuple((None, None, -1) if k in axes else _ALL for k in range(m.ndim)))


@implements(np.fliplr)
def fliplr(m: Arrayed) -> Any:
    """As ``numpy.fliplr``."""
    at_least(m, 2, "fliplr")
    return flip(m, 1)


@implements(np.flipud)
def flipud(m: Arrayed) -> Any:
    """As ``numpy.flipud``."""
    at_least(m, 1, "flipud")
    return flip(m, 0)


@implements(np.rot90)
def rot90(m: Arrayed, k: int = 1, axes: Sequence[int] = (0, 1)) -> Any:
    """As ``numpy.rot90``."""
    at_least(m, 2, "rot90")
    if len(tuple(axes)) != 2:
        raise ShapeError(
            f"rot90 turns in a plane of 2 axes, got {tuple(axes)}", fix="pass two axes"
        )
    i, j = axis_tuple(tuple(axes), m.ndim)
    turns = operator.index(k) % 4
    if turns == 0:
        return m[...]
    if turns == 2:
        return flip(m, (i, j))
    return swapaxes(flip(m, j), i, j) if turns == 1 else flip(swapaxes(m, i, j), j)


@implements(np.roll)
def roll(a: Arrayed, shift: Sizes, axis: Axis = None) -> Any:
    """As ``numpy.roll``."""
    if axis is None:
        return owned(reshape_to(roll(flattened(a), sum(int_tuple(shift)), 0), a.shape))
    shifts = int_tuple(shift)
    axes: Any = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    count = max(len(shifts), len(axes))
    if {len(shifts), len(axes)} - {1, count}:
        raise ShapeError(
            f"roll: {len(shifts)} shifts do not fit {len(axes)} axes", fix="give one shift per axis"
        )
    total: dict[int, int] = {}
    for n, k in zip(shifts * (count // len(shifts)), axes * (count // len(axes)), strict=True):
        k = one_axis(k, a.ndim)
        total[k] = total.get(k, 0) + n
    result: Any = a
    for k, n in total.items():
        n = n % a.shape[k] if a.shape[k] else 0
        if n:
            result = shaping.roll(result, n, k)
    return owned(result, order_like(result, "K")) if result is a else result
