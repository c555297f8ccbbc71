"""NumPy's functions that rearrange, join, cut and repeat arrays, on traced values.

What is a view in NumPy is a view here, too (see Note [In-place operations on traced values] in numpy/views.py); views that
NumPy makes read-only (``broadcast_to``, ``diagonal``) refuse to be written to.

Floor: 6.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from functrace.errors import AxisError, DtypeError, ShapeError, UnsupportedFunctionError
from functrace.ir.aval import shape_of
from functrace.numpy.layout import UNKNOWN, elements_in_memory, is_row, layout_of, order_like
from functrace.numpy.operands import (
    Casting,
    Shape,
    along,
    arrayed,
    at_least,
    axis_tuple,
    cast_to,
    checked_order,
    exact_axis,
    flattened,
    full_shape,
    int_tuple,
    lined_up,
    normalize_axes,
    one_axis,
    stored,
)
from functrace.numpy.tables import array_method, implements, unsupported_function
from functrace.numpy.taking import take
from functrace.numpy.view_kinds import BroadcastView, DiagonalView, LaidView, RavelView, View, WindowView
from functrace.numpy.views import (
    copied,
    copied_kind,
    indexed,
    is_scalar,
    laid_out,
    linked,
    new_array,
    owned,
    reshaped,
    shares,
    transposed,
)
from functrace.ops import elementwise as ew
from functrace.ops import joining, shaping
from functrace.ops.indexing import index_static
from functrace.ops.reductions import reduce_sum
from functrace.ops.shaping import broadcast_to as broadcast
from functrace.ops.shaping import convert, permute
from functrace.ops.shaping import reshape as reshape_to
from functrace.tracing.recording import Tracer, as_array

_ALL = (None, None, None)


# -- helpers -------------------------------------------------------------------------------------------


def _known_layout(a: Any, what: str) -> Any:
    """A stand-in with the strides that NumPy would give ``a``; raises where they are not known."""
    found = layout_of(a)
    if found is None:
        raise UnsupportedFunctionError(
            f"{what} depends on the memory layout that NumPy would have given {a.aval}, which is not known here",
            made=a._recording.source(a._id),
            fix="pass order='C' (or 'F'), or copy the array first: x.copy() is laid out in C order",
        )
    return found


# -- shape ---------------------------------------------------------------------------------------------


@implements(np.reshape)
def reshape(a: Any, /, shape: Any, order: Any = "C", *, copy: bool | None = None) -> Any:
    """As ``numpy.reshape``."""
    sizes = full_shape(int_tuple(shape) if shape != () else (), a.size)
    letter = checked_order(order, "reshape")
    if letter == "K":
        raise UnsupportedFunctionError("reshape: order 'K' is not permitted for reshaping", fix="use 'C', 'F' or 'A'")
    if letter == "A":
        letter = "F" if not is_row(a.shape) and _known_layout(a, "reshape with order='A'").flags.fnc else "C"
    if copy:
        a = a.copy(letter)
    if letter == "F":
        result = transposed(reshaped(transposed(a, _reversed(a.ndim)), sizes[::-1]), _reversed(len(sizes)))
    else:
        result = reshaped(a, sizes)
    if copy is False and isinstance(result._view, View) and result._view.base is not None:
        _need_view(result, "reshape with copy=False")
    return result


@array_method("reshape")
def _reshape_method(x: Any, *shape: Any, order: str = "C", copy: bool | None = None) -> Any:
    """As ``numpy.ndarray.reshape``: sizes one by one, or a tuple of them."""
    sizes = shape[0] if len(shape) == 1 and not isinstance(shape[0], int | np.integer) else shape
    if order != "C" or copy is not None:
        return reshape(x, sizes, order=order, copy=copy)
    sizes = (sizes,) if isinstance(sizes, int | np.integer) else sizes
    return reshaped(x, full_shape(tuple(int(n) for n in sizes), x.size))


def _need_view(result: Any, what: str) -> None:
    """Check that a result is a view, as ``copy=False`` asks."""
    link = result
    while link._view is not None and link._view.base is not None:
        shared = shares(link._view)
        if shared is None:
            _known_layout(link._view.base, what)
        if not shared:
            raise ShapeError(f"{what}: unable to avoid creating a copy while reshaping", fix="leave copy=False out")
        link = link._view.base
        if type(link._view) is not type(result._view):
            return


def _reversed(ndim: int) -> Shape:
    return tuple(range(ndim))[::-1]


@implements(np.ravel)
def ravel(a: Any, order: Any = "C", *, copy: bool = False) -> Any:
    """As ``numpy.ravel``, or with ``copy`` as ``numpy.ndarray.flatten``."""
    a = arrayed(a)
    letter = checked_order(order, "ravel")
    axes = tuple(range(a.ndim))
    if letter == "F":
        axes = _reversed(a.ndim)
    elif letter in "AK" and not is_row(a.shape):
        known = _known_layout(a, f"ravel with order={order!r}")
        if letter == "A":
            axes = _reversed(a.ndim) if known.flags.fnc else axes
        else:
            axes = elements_in_memory(known)
    view = RavelView(a, axes)
    result = view.read(a)
    return owned(result) if copy or not isinstance(a, Tracer) else linked(result, view)


@array_method("ravel")
def _ravel_method(x: Any, order: str = "C") -> Any:
    """As ``numpy.ndarray.ravel``."""
    return ravel(x, order)


@array_method("flatten")
def _flatten_method(x: Any, order: str = "C") -> Any:
    """As ``numpy.ndarray.flatten``: always a copy."""
    return ravel(x, order, copy=True)


@implements(np.transpose)
def transpose(a: Any, axes: Any = None) -> Any:
    """As ``numpy.transpose``."""
    if axes is None:
        return transposed(a, _reversed(a.ndim))
    order = axis_tuple(tuple(axes), a.ndim)
    if len(order) != a.ndim:
        raise ShapeError(f"transpose: axes {tuple(axes)} do not match {a.aval}", fix="name every axis once")
    return transposed(a, order)


@array_method("transpose")
def _transpose_method(x: Any, *axes: Any) -> Any:
    """As ``numpy.ndarray.transpose``: axes one by one, or a tuple of them."""
    order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int | np.integer) else axes
    return transpose(x, tuple(order) if order else None)


@implements(np.swapaxes, method="swapaxes")
def swapaxes(a: Any, axis1: Any, axis2: Any) -> Any:
    """As ``numpy.swapaxes``."""
    axes = list(range(a.ndim))
    i, j = one_axis(axis1, a.ndim), one_axis(axis2, a.ndim)
    axes[i], axes[j] = j, i
    return transposed(a, tuple(axes))


@implements(np.moveaxis)
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    """As ``numpy.moveaxis``."""
    sources, targets = axis_tuple(source, a.ndim), axis_tuple(destination, a.ndim)
    if len(sources) != len(targets):
        raise ShapeError(
            f"moveaxis: {len(sources)} source axes, but {len(targets)} destinations", fix="give as many of both"
        )
    axes = [k for k in range(a.ndim) if k not in sources]
    for target, one in sorted(zip(targets, sources, strict=True)):
        axes.insert(target, one)
    return transposed(a, tuple(axes))


@implements(np.rollaxis)
def rollaxis(a: Any, axis: Any, start: int = 0) -> Any:
    """As ``numpy.rollaxis``."""
    n = a.ndim
    axis = one_axis(axis, n)
    start = start + n if start < 0 else start
    if not 0 <= start <= n:
        raise AxisError(f"rollaxis: start {start} is out of bounds for {a.aval}", fix=f"use -{n} … {n}")
    axes = [k for k in range(n) if k != axis]
    axes.insert(start - 1 if axis < start else start, axis)
    return transposed(a, tuple(axes))


@implements(np.matrix_transpose, np.linalg.matrix_transpose)
def matrix_transpose(x: Any, /) -> Any:
    """As ``numpy.matrix_transpose``."""
    at_least(x, 2, "matrix_transpose")
    return swapaxes(x, -1, -2)


@implements(np.squeeze, method="squeeze")
def squeeze(a: Any, axis: Any = None) -> Any:
    """As ``numpy.squeeze``."""
    if axis is None:
        axes = tuple(k for k, n in enumerate(a.shape) if n == 1)
    else:
        axes = axis_tuple(axis, a.ndim)
        for k in axes:
            if a.shape[k] != 1:
                raise ShapeError(f"squeeze: axis {k} of {a.aval} has size {a.shape[k]}, not 1", fix="choose another axis")
    return reshaped(a, tuple(n for k, n in enumerate(a.shape) if k not in axes))


@implements(np.expand_dims)
def expand_dims(a: Any, axis: Any) -> Any:
    """As ``numpy.expand_dims``."""
    given = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    ndim = len(shape_of(a)) + len(given)
    axes = axis_tuple(given, ndim)
    sizes = iter(shape_of(a))
    return reshaped(a, tuple(1 if k in axes else next(sizes) for k in range(ndim)))


def _atleast(*arrays: Any, ndim: int, place: Callable[[Shape], Shape]) -> Any:
    made = []
    for x in map(arrayed, arrays):
        shape = shape_of(x)
        made.append(reshaped(x, place(shape)) if len(shape) < ndim else x)
    return made[0] if len(made) == 1 else tuple(made)


@implements(np.atleast_1d)
def atleast_1d(*arys: Any) -> Any:
    """As ``numpy.atleast_1d``."""
    return _atleast(*arys, ndim=1, place=lambda _: (1,))


@implements(np.atleast_2d)
def atleast_2d(*arys: Any) -> Any:
    """As ``numpy.atleast_2d``."""
    return _atleast(*arys, ndim=2, place=lambda shape: (1, *shape) if shape else (1, 1))


@implements(np.atleast_3d)
def atleast_3d(*arys: Any) -> Any:
    """As ``numpy.atleast_3d``."""
    places = {0: lambda s: (1, 1, 1), 1: lambda s: (1, *s, 1), 2: lambda s: (*s, 1)}
    return _atleast(*arys, ndim=3, place=lambda shape: places[len(shape)](shape))


@implements(np.broadcast_to)
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    """As ``numpy.broadcast_to``."""
    sizes = int_tuple(shape) if shape != () else ()
    return linked(broadcast(array, sizes), BroadcastView(array, sizes))


@implements(np.broadcast_arrays)
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Any, ...]:
    """As ``numpy.broadcast_arrays``."""
    arrays = [arrayed(x) for x in args]
    shape = _common_shape("broadcast_arrays", arrays)
    return tuple(broadcast_to(x, shape) if isinstance(x, Tracer) else np.broadcast_to(x, shape) for x in arrays)


def _common_shape(what: str, arrays: Any) -> Shape:
    try:
        return np.broadcast_shapes(*(shape_of(x) for x in arrays))
    except ValueError:
        shapes = ", ".join(str(shape_of(x)) for x in arrays)
        raise ShapeError(f"{what} cannot broadcast shapes {shapes}", fix="make the sizes equal, or 1") from None


@implements(np.copy)
def copy(a: Any, order: Any = "K", subok: bool = False) -> Any:
    """As ``numpy.copy``: an array, also of a scalar."""
    return owned(a, order_like(a, checked_order(order, "copy")))


@implements(np.astype)
def astype(
    x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None, order: Any = "K", casting: Casting = "unsafe"
) -> Any:
    """As ``numpy.astype``."""
    letter = checked_order(order, "astype")
    result = cast_to(x, np.dtype(dtype), casting)
    if result is x:
        if copy:
            return copied(x, letter)
        return x if letter == "K" or (is_row(x.shape) and x.size == 1) else linked(x, LaidView(x, letter))
    if not x.shape:
        scalar = is_scalar(x)
        return result if scalar else copied_kind(result, scalar)
    return result if letter == "K" else new_array(result, order_like(x, letter))


@array_method("astype")
def _astype_method(
    x: Any, dtype: Any, order: str = "K", casting: Casting = "unsafe", subok: bool = True, copy: bool = True
) -> Any:
    """As ``numpy.ndarray.astype``; a cast to an integer ends the derivative, as NumPy means it."""
    return astype(x, dtype, copy=copy, order=order, casting=casting)


@array_method("resize")
def _resize_method(x: Any, *new_shape: Any, refcheck: bool = True) -> None:
    """Raise: a traced value keeps its shape, which ``numpy.ndarray.resize`` changes in place."""
    raise UnsupportedFunctionError(
        "x.resize changes the shape of an array in place, which has no meaning on traced values",
        fix="make another array: np.resize(x, shape), or x[:n], or np.pad(x, (0, n))",
    )


@array_method("view")
def _view_method(x: Any, *args: Any, **kwargs: Any) -> Any:
    """A view of all of it; another dtype has no meaning on traced values."""
    if args or kwargs:
        raise unsupported_function(np.ndarray.view)
    return linked(x, View(x))


# -- turning and rolling --------------------------------------------------------------------------------


@implements(np.flip)
def flip(m: Any, axis: Any = None) -> Any:
    """As ``numpy.flip``."""
    axes = normalize_axes(axis, m.ndim)
    return indexed(m, tuple((None, None, -1) if k in axes else _ALL for k in range(m.ndim)))


@implements(np.fliplr)
def fliplr(m: Any) -> Any:
    """As ``numpy.fliplr``."""
    at_least(m, 2, "fliplr")
    return flip(m, 1)


@implements(np.flipud)
def flipud(m: Any) -> Any:
    """As ``numpy.flipud``."""
    at_least(m, 1, "flipud")
    return flip(m, 0)


@implements(np.rot90)
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    """As ``numpy.rot90``."""
    at_least(m, 2, "rot90")
    if len(tuple(axes)) != 2:
        raise ShapeError(f"rot90 turns in a plane of 2 axes, got {tuple(axes)}", fix="pass two axes")
    i, j = axis_tuple(tuple(axes), m.ndim)
    turns = operator.index(k) % 4
    if turns == 0:
        return m[...]
    if turns == 2:
        return flip(m, (i, j))
    return swapaxes(flip(m, j), i, j) if turns == 1 else flip(swapaxes(m, i, j), j)


@implements(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """As ``numpy.roll``."""
    if axis is None:
        return owned(reshape_to(roll(flattened(a), sum(int_tuple(shift)), 0), a.shape))
    shifts, axes = int_tuple(shift), tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    count = max(len(shifts), len(axes))
    if {len(shifts), len(axes)} - {1, count}:
        raise ShapeError(f"roll: {len(shifts)} shifts do not fit {len(axes)} axes", fix="give one shift per axis")
    total: dict[int, int] = {}
    for n, k in zip(shifts * (count // len(shifts)), axes * (count // len(axes)), strict=True):
        k = one_axis(k, a.ndim)
        total[k] = total.get(k, 0) + n
    result = a
    for k, n in total.items():
        n = n % a.shape[k] if a.shape[k] else 0
        if n:
            result = shaping.roll(result, n, k)
    return owned(result, order_like(result, "K")) if result is a else result


# -- joining -------------------------------------------------------------------------------------------


def _join(arrays: Any, axis: int, dtype: Any, casting: Casting) -> Any:
    arrays = [cast_to(x, dtype, casting) for x in arrays]
    return joining.concatenate(arrays, axis)


def _sequence(arrays: Any, what: str) -> list[Any]:
    found = [arrayed(x) for x in arrays]
    if not found:
        raise ShapeError(f"{what} needs at least one array", fix="pass a sequence that is not empty")
    return found


@implements(np.concatenate, of_sequence=True)
def concatenate(arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Casting = "same_kind") -> Any:
    """As ``numpy.concatenate``."""
    found = _sequence(arrays, "concatenate")
    if axis is None:
        found, axis = [flattened(x) for x in found], 0
    ndim = len(shape_of(found[0]))
    if ndim == 0:
        raise ShapeError("zero-dimensional arrays cannot be concatenated", fix="use np.stack, or axis=None")
    return stored(_join(found, one_axis(exact_axis(axis), ndim), dtype, casting), out, "concatenate")


@implements(np.stack, of_sequence=True)
def stack(arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Casting = "same_kind") -> Any:
    """As ``numpy.stack``."""
    found = [cast_to(x, dtype, casting) for x in _sequence(arrays, "stack")]
    if len({shape_of(x) for x in found}) > 1:
        shapes = ", ".join(str(shape_of(x)) for x in found)
        raise ShapeError(f"all input arrays must have the same shape, stack got {shapes}", fix="use np.concatenate")
    return stored(joining.stack(found, one_axis(axis, len(shape_of(found[0])) + 1)), out, "stack")


@implements(np.vstack, of_sequence=True)
def vstack(tup: Any, *, dtype: Any = None, casting: Casting = "same_kind") -> Any:
    """As ``numpy.vstack``."""
    return _join([atleast_2d(x) for x in _sequence(tup, "vstack")], 0, dtype, casting)


@implements(np.hstack, of_sequence=True)
def hstack(tup: Any, *, dtype: Any = None, casting: Casting = "same_kind") -> Any:
    """As ``numpy.hstack``."""
    found = [atleast_1d(x) for x in _sequence(tup, "hstack")]
    return _join(found, 0 if len(shape_of(found[0])) == 1 else 1, dtype, casting)


@implements(np.dstack, of_sequence=True)
def dstack(tup: Any) -> Any:
    """As ``numpy.dstack``."""
    return _join([atleast_3d(x) for x in _sequence(tup, "dstack")], 2, None, "same_kind")


@implements(np.column_stack, of_sequence=True)
def column_stack(tup: Any) -> Any:
    """As ``numpy.column_stack``."""
    columns = []
    for x in _sequence(tup, "column_stack"):
        shape = shape_of(x)
        columns.append(x if len(shape) >= 2 else reshaped(x, (math.prod(shape), 1)))
    return _join(columns, 1, None, "same_kind")


@implements(np.block)
def block(arrays: Any) -> Any:
    """As ``numpy.block``."""
    depth, ndim = _block_depth(arrays, "arrays")
    ndim = max(depth, ndim)

    def joined(nest: Any, level: int) -> Any:
        if level == depth:
            x = arrayed(nest)
            return reshaped(x, (1,) * (ndim - len(shape_of(x))) + shape_of(x))
        return joining.concatenate([joined(part, level + 1) for part in nest], ndim - depth + level)

    result = joined(arrays, 0)
    return result.copy() if depth == 0 else result


def _block_depth(nest: Any, where: str) -> tuple[int, int]:
    if type(nest) is tuple:
        raise DtypeError(f"{where} is a tuple: only lists can be used to arrange blocks", fix="write lists")
    if type(nest) is not list:
        return 0, len(shape_of(nest))
    if not nest:
        raise ShapeError(f"{where} is an empty list", fix="leave it out")
    found = [_block_depth(part, f"{where}[{k}]") for k, part in enumerate(nest)]
    depths = {depth for depth, _ in found}
    if len(depths) > 1:
        raise ShapeError(f"the lists in {where} are nested {sorted(depths)} deep", fix="nest all blocks equally deep")
    return 1 + depths.pop(), max(ndim for _, ndim in found)


@implements(np.append)
def append(arr: Any, values: Any, axis: Any = None) -> Any:
    """As ``numpy.append``."""
    return concatenate((arr, values), axis)


@implements(np.ediff1d)
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """As ``numpy.ediff1d``."""
    ary = arrayed(ary)
    x = flattened(ary)
    differences = x[1:] - x[:-1]
    parts = [differences]
    for end, place in ((to_begin, 0), (to_end, len(parts) + 1)):
        if end is None:
            continue
        end = arrayed(end)
        if not np.can_cast(end.dtype, x.dtype, "same_kind"):
            raise DtypeError(f"ediff1d: {end.dtype} does not fit an array of {x.dtype}", fix="convert the array first")
        parts.insert(place, convert(flattened(end), differences.dtype))
    return joining.concatenate(parts, 0) if len(parts) > 1 else differences


# -- cutting -------------------------------------------------------------------------------------------


@implements(np.array_split)
def array_split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[Any]:
    """As ``numpy.array_split``."""
    axis = one_axis(axis, ary.ndim)
    n = ary.shape[axis]
    if np.ndim(indices_or_sections) == 0:
        sections = operator.index(indices_or_sections)
        if sections <= 0:
            raise ShapeError("number sections must be larger than 0", fix="pass a positive number")
        each, extra = divmod(n, sections)
        points = [k * each + min(k, extra) for k in range(sections + 1)]
    else:
        points = [0, *int_tuple(indices_or_sections), n]
    return [indexed(ary, along(axis, (a, b, None))) for a, b in itertools.pairwise(points)]


@implements(np.split)
def split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[Any]:
    """As ``numpy.split``."""
    if np.ndim(indices_or_sections) == 0:
        n, sections = ary.shape[one_axis(axis, ary.ndim)], operator.index(indices_or_sections)
        if sections > 0 and n % sections:
            raise ShapeError(
                f"array split does not result in an equal division: {n} elements into {sections}", fix="use np.array_split"
            )
    return array_split(ary, indices_or_sections, axis)


@implements(np.hsplit)
def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """As ``numpy.hsplit``."""
    at_least(ary, 1, "hsplit")
    return split(ary, indices_or_sections, 1 if ary.ndim > 1 else 0)


@implements(np.vsplit)
def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """As ``numpy.vsplit``."""
    at_least(ary, 2, "vsplit")
    return split(ary, indices_or_sections, 0)


@implements(np.dsplit)
def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """As ``numpy.dsplit``."""
    at_least(ary, 3, "dsplit")
    return split(ary, indices_or_sections, 2)


@implements(np.unstack)
def unstack(x: Any, /, *, axis: Any = 0) -> tuple[Any, ...]:
    """As ``numpy.unstack``."""
    at_least(x, 1, "unstack")
    axis = one_axis(axis, x.ndim)
    return tuple(indexed(x, along(axis, k)) for k in range(x.shape[axis]))


# -- repeating -----------------------------------------------------------------------------------------


@implements(np.tile)
def tile(A: Any, reps: Any) -> Any:
    """As ``numpy.tile``."""
    times = int_tuple(reps) if np.ndim(reps) else (operator.index(reps),)
    ndim = max(len(times), A.ndim)
    times, shape = (1,) * (ndim - len(times)) + times, (1,) * (ndim - A.ndim) + A.shape
    if min(times, default=0) < 0:
        raise ShapeError(f"tile: negative dimensions are not allowed, reps are {times}", fix="pass counts of at least 0")
    apart = reshape_to(A, tuple(n for size in shape for n in (1, size)))
    spread = broadcast(apart, tuple(n for pair in zip(times, shape, strict=True) for n in pair))
    result = reshape_to(spread, tuple(r * n for r, n in zip(times, shape, strict=True)))
    return owned(result)


@implements(np.repeat, method="repeat")
def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    """As ``numpy.repeat``; traced counts are asked for their values."""
    a = arrayed(a)
    a, axis = lined_up(a, exact_axis(axis))
    shape = shape_of(a)
    counts = np.asarray(int_tuple(repeats)) if np.ndim(repeats) else np.asarray(operator.index(repeats))
    if counts.size == 1:
        times = int(counts.reshape(()))
        if times < 0:
            raise ShapeError("repeats may not contain negative values", fix="pass counts of at least 0")
        apart = reshape_to(a, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
        spread = broadcast(apart, (*shape[: axis + 1], times, *shape[axis + 1 :]))
        result = reshape_to(spread, (*shape[:axis], shape[axis] * times, *shape[axis + 1 :]))
        return owned(result)
    if counts.shape != (shape[axis],):
        raise ShapeError(
            f"repeat: {counts.size} counts do not fit an axis of size {shape[axis]}", fix="give one per element"
        )
    if counts.size and counts.min() < 0:
        raise ShapeError("repeats may not contain negative values", fix="pass counts of at least 0")
    return take(a, np.repeat(np.arange(shape[axis]), counts), axis)


@implements(np.lib.stride_tricks.sliding_window_view)
def sliding_window_view(x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False) -> Any:
    """As ``numpy.lib.stride_tricks.sliding_window_view``: a view that cannot be written."""
    if writeable:
        raise UnsupportedFunctionError("sliding_window_view: writeable=True is not supported", fix="leave it out")
    sizes = int_tuple(window_shape)
    axes = tuple(range(x.ndim)) if axis is None else axis_tuple(axis, x.ndim)
    if len(sizes) != len(axes):
        raise ShapeError(f"sliding_window_view: {len(sizes)} window sizes do not fit {len(axes)} axes", fix="give one each")
    for size, k in zip(sizes, axes, strict=True):
        count = shape_of(x)[k] - size + 1
        if size < 0 or count < 1:
            raise ShapeError(
                f"window shape cannot be larger than input array shape: {size} along axis {k} of {x.aval}",
                fix="make the window smaller",
            )

    def read(base: Any) -> Any:
        for size, k in zip(sizes, axes, strict=True):
            count = shape_of(base)[k] - size + 1
            windows = take(base, np.arange(count)[:, None] + np.arange(size), k)
            ndim = len(shape_of(windows))
            base = permute(windows, (*(j for j in range(ndim) if j != k + 1), k + 1))
        return laid_out(base, UNKNOWN) if sizes else base

    return linked(read(x), WindowView(x, sizes, axes, read))


@implements(np.resize)
def resize(a: Any, new_shape: Any) -> Any:
    """As ``numpy.resize``."""
    shape = int_tuple(new_shape) if new_shape != () else ()
    if min(shape, default=0) < 0:
        raise ShapeError("all elements of `new_shape` must be non-negative", fix="pass sizes of at least 0")
    size = math.prod(shape)
    if a.size == 0:
        return shaping.filled(a, shape, a.dtype)
    flat = tile(flattened(a), -(-size // a.size))
    return reshape_to(index_static(flat, ((None, size, None),)), shape)


@implements(np.meshgrid)
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Any, ...]:
    """As ``numpy.meshgrid``."""
    if indexing not in ("xy", "ij"):
        raise ShapeError("Valid values for `indexing` are 'xy' and 'ij'.", fix="pass one of them")
    vectors = [arrayed(x) for x in xi]
    places = list(range(len(xi)))
    if indexing == "xy" and len(xi) > 1:
        places[:2] = 1, 0
    made = []
    for place, x in zip(places, vectors, strict=True):
        made.append(reshaped(x, (1,) * place + (math.prod(shape_of(x)),) + (1,) * (len(xi) - place - 1)))
    if not sparse:
        made = list(broadcast_arrays(*made))
    if copy:
        made = [owned(x) if isinstance(x, Tracer) else np.array(x) for x in made]
    return tuple(made)


@implements(np.vander)
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """As ``numpy.vander``."""
    if x.ndim != 1:
        raise ShapeError(f"x must be a one-dimensional array or sequence, vander got {x.aval}", fix="pass a vector")
    count = len(x) if N is None else operator.index(N)
    x = convert(x, np.promote_types(x.dtype, int))
    if count == 0:
        return shaping.filled(x, (len(x), 0), x.dtype)
    columns = [shaping.filled(x, x.shape, x.dtype, 1)]
    for _ in range(1, count):
        columns.append(x if len(columns) == 1 else columns[-1] * x)
    return joining.stack(columns if increasing else columns[::-1], 1)


# -- diagonals and triangles ------------------------------------------------------------------------------


def _diagonal_last(a: Any, axis1: Any, axis2: Any, what: str) -> Any:
    at_least(a, 2, what)
    i, j = one_axis(axis1, a.ndim), one_axis(axis2, a.ndim)
    if i == j:
        raise AxisError(f"{what}: axis1 and axis2 cannot be the same ({axis1})", fix="name two axes")
    return (*(k for k in range(a.ndim) if k not in (i, j)), i, j)


@implements(np.diagonal, method="diagonal")
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """As ``numpy.diagonal``."""
    axes, offset = _diagonal_last(a, axis1, axis2, "diagonal"), operator.index(offset)

    return linked(shaping.diagonal(permute(a, axes), offset), DiagonalView(a, axes, offset))


@implements(np.trace, method="trace")
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
    """As ``numpy.trace``."""
    axes = _diagonal_last(a, axis1, axis2, "trace")
    d = shaping.diagonal(permute(a, axes), operator.index(offset))
    return stored(reduce_sum(cast_to(d, dtype), (d.ndim - 1,)), out, "trace")


@implements(np.diag)
def diag(v: Any, k: int = 0) -> Any:
    """As ``numpy.diag``."""
    if v.ndim == 2:
        return diagonal(v, k)
    if v.ndim != 1:
        raise ShapeError(f"Input must be 1- or 2-d. diag got {v.aval}", fix="use np.diagonal")
    k = operator.index(k)
    n = v.shape[0] + abs(k)
    return shaping.embed_diagonal(v, k, n, n)


@implements(np.diagflat)
def diagflat(v: Any, k: int = 0) -> Any:
    """As ``numpy.diagflat``."""
    return diag(flattened(v), k)


def _triangle(m: Any, k: int, lower: bool, what: str) -> Any:
    # NumPy broadcasts a vector against the mask, too.
    if m.ndim < 1:
        raise ShapeError(f"{what} needs at least 1 axis", fix="pass a vector or matrices")
    rows = m.shape[-2] if m.ndim > 1 else m.shape[-1]
    mask = np.tri(rows, m.shape[-1], k if lower else k - 1, dtype=bool)
    zero: Any = False if m.dtype.kind == "b" else 0
    return ew.where(mask, m, zero) if lower else ew.where(mask, zero, m)


@implements(np.tril)
def tril(m: Any, k: int = 0) -> Any:
    """As ``numpy.tril``."""
    return _triangle(m, operator.index(k), True, "tril")


@implements(np.triu)
def triu(m: Any, k: int = 0) -> Any:
    """As ``numpy.triu``."""
    return _triangle(m, operator.index(k), False, "triu")


# -- pad -----------------------------------------------------------------------------------------------

_PAD_OPTIONS: dict[str, tuple[str, ...]] = {
    "constant": ("constant_values",), "edge": (), "empty": (), "wrap": (), "linear_ramp": ("end_values",),
    "maximum": ("stat_length",), "mean": ("stat_length",), "median": ("stat_length",), "minimum": ("stat_length",),
    "reflect": ("reflect_type",), "symmetric": ("reflect_type",),
}  # fmt: skip


def _pairs(values: Any, ndim: int, what: str) -> Any:
    """Spread values given once, as one pair, or as one pair per axis, to an array of shape ``(ndim, 2)``."""
    if isinstance(values, Tracer):
        return broadcast(values, (ndim, 2))
    try:
        return np.broadcast_to(as_array(values), (ndim, 2))
    except ValueError:
        raise ShapeError(f"pad: {what}={values!r} does not fit {ndim} axes", fix=f"give {ndim} pairs, or one") from None


@implements(np.pad)
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    """As ``numpy.pad``; padding by a function of the user's is not supported."""
    array = arrayed(array)
    options = _PAD_OPTIONS.get(mode) if isinstance(mode, str) else None
    if options is None:
        raise UnsupportedFunctionError(f"pad: mode {mode!r} is not supported", fix=f"use one of {', '.join(_PAD_OPTIONS)}")
    unknown = [name for name in kwargs if name not in options]
    if unknown:
        raise ShapeError(f"unsupported keyword arguments for mode {mode!r}: {unknown}", fix="leave them out")
    ndim = len(shape_of(array))
    if isinstance(pad_width, dict):
        widths: Any = [(0, 0)] * ndim
        for key, width in pad_width.items():
            widths[one_axis(key, ndim)] = (width, width) if isinstance(width, int) else tuple(width)
    else:
        widths = _pairs(pad_width, ndim, "pad_width")
        if widths.dtype.kind not in "iu":
            raise DtypeError(f"pad: pad_width must be of integral type, not {widths.dtype}", fix="pass ints")
    given = order_like(array, "A") if isinstance(array, Tracer) else UNKNOWN
    ends = _pairs(kwargs.get(options[0], 0), ndim, options[0]) if options and options[0].endswith("_values") else None
    for axis in range(ndim):
        low, high = int(widths[axis][0]), int(widths[axis][1])
        if low < 0 or high < 0:
            raise ShapeError("index can't contain negative values: pad_width is a count", fix="cut with x[1:] instead")
        if not low and not high:
            continue
        n = shape_of(array)[axis]
        if mode in ("edge", "reflect", "symmetric", "wrap", *_STATISTICS) and n == 0:
            raise ShapeError(f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'", fix="use those")
        if mode in ("constant", "empty"):
            array = _pad_constant(array, axis, low, high, None if ends is None else ends[axis])
        elif mode == "linear_ramp":
            assert ends is not None
            array = _pad_ramp(array, axis, low, high, ends[axis])
        elif mode in _STATISTICS:
            lengths = kwargs.get("stat_length")
            chosen = None if lengths is None else _pairs(lengths, ndim, "stat_length")[axis]
            array = _pad_statistic(array, axis, low, high, mode, chosen)
        elif kwargs.get("reflect_type", "even") == "odd":
            array = _pad_odd(array, axis, low, high, mode)
        else:
            array = take(array, np.pad(np.arange(n), (low, high), cast("Any", mode)), axis)
    return owned(array, given)


def _surround(x: Any, axis: int, before: Any, after: Any) -> Any:
    return joining.concatenate([part for part in (before, x, after) if shape_of(part)[axis]], axis)


def _pad_constant(x: Any, axis: int, low: int, high: int, ends: Any) -> Any:
    shape = shape_of(x)
    first, last = (0, 0) if ends is None else (ends[0], ends[1])

    def side(value: Any, size: int) -> Any:
        sizes = (*shape[:axis], size, *shape[axis + 1 :])
        if isinstance(value, Tracer):
            return broadcast(convert(value, x.dtype), sizes)
        return shaping.filled(x, sizes, x.dtype, value)

    return _surround(x, axis, side(first, low), side(last, high))


def _pad_ramp(x: Any, axis: int, low: int, high: int, ends: Any) -> Any:
    from functrace.numpy.creation import linspace

    dtype = x.dtype
    edges = [index_static(x, along(axis, k)) for k in (0, -1)]
    before, after = (
        linspace(broadcast(arrayed(end), shape_of(edge)), edge, size, endpoint=False, dtype=dtype, axis=axis)
        for end, edge, size in zip((ends[0], ends[1]), edges, (low, high), strict=True)
    )
    return _surround(x, axis, before, flip(after, axis) if isinstance(after, Tracer) else np.flip(after, axis))


_STATISTICS: dict[str, Callable[..., Any]] = {"maximum": np.max, "minimum": np.min, "mean": np.mean, "median": np.median}


def _pad_statistic(x: Any, axis: int, low: int, high: int, mode: str, lengths: Any) -> Any:
    n, shape = shape_of(x)[axis], shape_of(x)
    first, last = (n, n) if lengths is None else (min(int(lengths[0]), n), min(int(lengths[1]), n))
    if mode in ("maximum", "minimum") and min(first, last) == 0:
        raise ShapeError("stat_length of 0 yields no value for padding", fix="pass a positive stat_length")

    def side(part: Any, size: int) -> Any:
        value = _STATISTICS[mode](index_static(x, along(axis, part)), axis=axis, keepdims=True)
        if x.dtype.kind in "iu" and mode in ("mean", "median"):
            value = np.round(value)
        return broadcast(convert(value, x.dtype), (*shape[:axis], size, *shape[axis + 1 :]))

    return _surround(x, axis, side((0, first, None), low), side((n - last, n, None), high))


def _pad_odd(x: Any, axis: int, low: int, high: int, mode: Any) -> Any:
    # Odd reflection is linear, so NumPy itself tells the weights when it pads the identity.
    n = shape_of(x)[axis]
    weights = np.pad(np.eye(n, dtype=x.dtype), ((low, high), (0, 0)), mode, reflect_type="odd")
    x = np.moveaxis(x, axis, -1)
    parts = [_combined(x, weights[:low]), x, _combined(x, weights[low + n :])]  # its own elements as they are
    return np.moveaxis(np.concatenate(parts, -1), -1, axis)


def _combined(x: Any, weights: np.ndarray[Any, Any]) -> Any:
    """Combinations of elements along the last axis, few each: an element that has no part in one may be infinite."""
    order = np.argsort(weights == 0, axis=1, kind="stable")  # those that have a part first
    total: Any = np.zeros((), x.dtype)
    for k in range(max(1, int(np.max(np.count_nonzero(weights, axis=1), initial=0)))):
        places = order[:, k]
        factors = weights[np.arange(len(weights)), places]
        total = total + np.where(factors != 0, np.take(x, places, -1), np.zeros((), x.dtype)) * factors
    return total


@implements(np.linalg.diagonal)
def _linalg_diagonal(x: Any, /, *, offset: int = 0) -> Any:
    return diagonal(x, offset, -2, -1)


@implements(np.linalg.trace)
def _linalg_trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    return trace(x, offset, -2, -1, dtype)
