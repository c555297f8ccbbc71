"""NumPy's functions that read, write, delete or insert elements, and index functions.

Layer: 3.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functrace.errors import ConcretizationError, DtypeError, ShapeError
from functrace.ir.aval import shape_of
from functrace.numpy.arrays.assignment import assigned, numeric
from functrace.numpy.arrays.indexing import put_at, without_leading_ones
from functrace.numpy.arrays.layout import UNKNOWN, order_like
from functrace.numpy.arrays.masked import is_mask, known_mask
from functrace.numpy.arrays.overlaps import refuse_overlap
from functrace.numpy.arrays.traced_number import alike, strong
from functrace.numpy.arrays.views import laid_out, need_array
from functrace.numpy.protocol.operands import (
    Arrayed,
    OneAxis,
    Operand,
    Out,
    along,
    arrayed,
    exactly_lined_up,
    flattened,
    holds_tracer,
    known,
    lined_up,
    need_traced,
    stored,
)
from functrace.numpy.protocol.tables import array_method, implements
from functrace.ops import elementwise as ew
from functrace.ops.checks import require
from functrace.ops.indexing import ARRAY, StaticIndex, check_bounds, gather
from functrace.ops.joining import concatenate
from functrace.ops.shaping import broadcast_to, convert, moveaxis, reshape
from functrace.tracing.tracer import Tracer
from functrace.tracing.values import has_value

if TYPE_CHECKING:
    from functrace.numpy.arrays.traced_array import TracedArray


def _integers(indices: Operand, what: str) -> Arrayed:
    indices = arrayed(indices)
    if indices.dtype.kind == "b" or (indices.size == 0 and not isinstance(indices, Tracer)):
        return convert(indices, np.intp)
    if indices.dtype.kind not in "iu":
        raise DtypeError(f"{what} must be integers, not {indices.dtype}", fix="use .astype(int)")
    return indices


@implements(np.take, method="take")
def take(
    a: Operand, indices: Operand, axis: OneAxis = None, out: Out = None, mode: str = "raise"
) -> Arrayed:
    """As ``numpy.take``; the indices may be traced."""
    a, indices = arrayed(a), _integers(indices, "the indices of take")
    a, axis = exactly_lined_up(a, axis)
    indices = _bounded(indices, shape_of(a)[axis], mode)
    return stored(laid_out(gather(a, along(axis, ARRAY), (indices,))), out, "take")


def _bounded(indices: Arrayed, size: int, mode: str) -> Any:
    """Bring indices into bounds by ``mode``; for 'raise', the later read or write checks them."""
    if mode in ("wrap", "clip") and indices.dtype == np.uint64:
        indices = convert(indices, np.intp)  # as NumPy does, so large ones are negative
    if mode == "wrap":
        return ew.remainder(indices, size)
    if mode == "clip":
        return ew.minimum(ew.maximum(indices, 0), size - 1)
    if mode != "raise":
        raise ShapeError(
            f"mode must be 'raise', 'wrap' or 'clip', not {mode!r}", fix="use mode='raise'"
        )
    return indices


def _along(
    arr: Arrayed, indices: Operand, axis: int, what: str
) -> tuple[Any, StaticIndex, tuple[Any, ...]]:
    indices = _integers(indices, what)
    shape, wanted = shape_of(arr), shape_of(indices)
    if len(wanted) != len(shape):
        raise ShapeError(
            f"{what} have {len(wanted)} axes, and the array {len(shape)}",
            fix="give both the same rank",
        )
    arrays = tuple(
        indices
        if k == axis
        else np.arange(n).reshape([-1 if j == k else 1 for j in range(len(shape))])
        for k, n in enumerate(shape)
    )
    return indices, (ARRAY,) * len(shape), arrays


@implements(np.take_along_axis)
def take_along_axis(arr: Operand, indices: Operand, axis: int | None = -1) -> Any:
    """As ``numpy.take_along_axis``."""
    arr, axis = lined_up(arrayed(arr), axis)
    _, template, arrays = _along(arr, indices, axis, "the indices of take_along_axis")
    return gather(arr, template, arrays)


@implements(np.put_along_axis)
def put_along_axis(arr: TracedArray, indices: Operand, values: Operand, axis: int | None) -> None:
    """As ``numpy.put_along_axis``; ``arr`` must be traced."""
    need_traced(arr, "numpy.put_along_axis")
    target, axis = lined_up(arr, axis)
    _, template, arrays = _along(target, indices, axis, "the indices of put_along_axis")
    result = put_at(target, template, arrays, assigned(values, arr.dtype))
    arr.ft_assign(reshape(result, shape_of(arr)), "put_along_axis")


@implements(np.compress)
def compress(condition: Operand, a: Operand, axis: OneAxis = None, out: Out = None) -> Any:
    """As ``numpy.compress``; the condition must be concrete."""
    a = arrayed(a)
    if len(shape_of(arrayed(condition))) != 1:
        raise ShapeError(
            "condition must be a 1-d array", fix="pass one bool per element, or use a[mask]"
        )
    chosen = np.flatnonzero(known_mask(condition))
    return take(a, chosen, axis, out)


@array_method("compress")
def _compress_method(x: Operand, condition: Operand, axis: OneAxis = None, out: Out = None) -> Any:
    """As ``numpy.ndarray.compress``."""
    return compress(condition, x, axis, out)


@implements(np.extract)
def extract(condition: Operand, arr: Operand) -> Any:
    """As ``numpy.extract``."""
    arr = arrayed(arr)
    condition = known_mask(condition)
    return take(flattened(arr), np.flatnonzero(condition))


@implements(np.choose, method="choose", of_sequence=True, weak=True, scalars=True)
def choose(a: Operand, choices: Sequence[Operand], out: Out = None, mode: str = "raise") -> Any:
    """As ``numpy.choose``; ``a`` may be traced."""
    index = _integers(a, "the first argument of choose")
    parts = alike(list(choices))
    index = _bounded(index, len(parts), mode)
    if mode == "raise":
        index = require(
            index, _within(index, len(parts)), "ValueError", "invalid entry in choice array"
        )
    shape = np.broadcast_shapes(shape_of(index), *map(shape_of, parts))
    result = broadcast_to(parts[-1], shape)
    for k in range(len(parts) - 2, -1, -1):
        result = ew.where(ew.equal(index, k), parts[k], result)
    result = result if len(parts) > 1 else ew.positive(result)  # a copy
    return stored(broadcast_to(result, shape), out, "choose")


@implements(np.delete)
def delete(arr: Operand, obj: Any, axis: OneAxis = None) -> Any:
    """As ``numpy.delete``; one integer may be abstract, several may not: some may be equal."""
    arr, axis = lined_up(arrayed(arr), axis)
    size, obj = shape_of(arr)[axis], strong(obj)
    if _is_unknown(obj) and not obj.ndim:
        kept = np.arange(size - 1)
        kept = kept + (kept >= _places(obj, axis, size, size))
    else:
        obj = obj if isinstance(obj, slice) or not holds_tracer(obj) else known(obj)
        kept = np.delete(np.arange(size), obj)
    result = gather(arr, along(axis, ARRAY), (kept,))
    is_one = isinstance(obj, slice | Tracer) or np.size(obj) == 1
    return laid_out(result, order_like(arr, "A")) if is_one and isinstance(arr, Tracer) else result


def _places(obj: Any, axis: int, size: int, end: int) -> Any:
    """Return non-negative positions for `insert`; the program checks abstract ones at run time."""
    if not _is_unknown(obj):
        found = known(obj)
        found = np.flatnonzero(found) if found.dtype == np.bool_ else found.astype(np.intp)
        check_bounds(found, axis, end)
        return np.where(found < 0, found + size, found)
    places: Any = obj.astype(np.intp)
    holds = (places >= -size) & (places < end)
    places = require(
        places, holds, "IndexError", f"an index is out of bounds for axis {axis} with size {size}"
    )
    return np.where(places < 0, places + size, places)


def _is_unknown(obj: object) -> bool:
    """Return True for abstract integers."""
    return isinstance(obj, Tracer) and obj.dtype.kind in "iu" and not has_value(obj)


@implements(np.insert, weak=True)
def insert(arr: Operand, obj: slice | Operand, values: Operand, axis: OneAxis = None) -> Any:
    """As ``numpy.insert``; integers in ``obj`` may be abstract."""
    arr = arrayed(arr)
    values = arrayed(assigned(values, arr.dtype))
    arr, axis = lined_up(arr, axis)
    ndim = len(shape_of(arr))
    size = shape_of(arr)[axis]
    places = _places(
        np.arange(size)[obj] if isinstance(obj, slice) else strong(obj), axis, size, size + 1
    )
    if places.size == 1:
        # For one position, NumPy moves the first axis of the values to a scalar position's axis.
        values = reshape(values, (1,) * (ndim - len(shape_of(values))) + shape_of(values))
        values = values if places.ndim else moveaxis(values, 0, axis)
        places = np.repeat(np.reshape(places, -1), shape_of(values)[axis])
    count = places.shape[0]
    shape = (*shape_of(arr)[:axis], size + count, *shape_of(arr)[axis + 1 :])
    # Source of each result: elements, then values; a value precedes the element at its position.
    source = np.argsort(np.concatenate([2 * np.arange(size) + 1, 2 * places]), kind="stable")
    written = convert(without_leading_ones(assigned(values, arr.dtype), ndim), arr.dtype)
    added = broadcast_to(written, (*shape[:axis], count, *shape[axis + 1 :]))
    made = gather(concatenate([arr, added], axis), along(axis, ARRAY), (source,))
    return laid_out(made, order_like(arr, "A") if isinstance(arr, Tracer) else UNKNOWN)


@implements(np.nonzero, method="nonzero")
def nonzero(a: Operand) -> tuple[Any, ...]:
    """As ``numpy.nonzero``; the values must be concrete."""
    return np.nonzero(_known_for(a, "nonzero"))


@implements(np.argwhere)
def argwhere(a: Operand) -> Any:
    """As ``numpy.argwhere``."""
    return np.argwhere(_known_for(a, "argwhere"))


@implements(np.flatnonzero)
def flatnonzero(a: Operand) -> Any:
    """As ``numpy.flatnonzero``."""
    return np.flatnonzero(_known_for(a, "flatnonzero"))


def _known_for(a: Operand, name: str) -> np.ndarray[Any, Any]:
    try:
        return known(a)
    except ConcretizationError as error:
        raise ConcretizationError(
            f"numpy.{name} of a traced array has a shape that depends on values, which are not "
            "known here",
            made=error.made,
            fix="use np.where(condition, x, y), which keeps the shape",
        ) from error


# -- functions that write into their argument ------------------------------------------------------


@implements(np.put, method="put", weak=True)
def put(a: TracedArray, ind: Operand, v: Operand, mode: str = "raise") -> None:
    """As ``numpy.put``; ``a`` must be traced."""
    need_traced(a, "numpy.put")
    need_array(a, "put")
    indices = flattened(_integers(ind, "the indices of put"))
    flat = flattened(a)
    indices = _bounded(indices, shape_of(flat)[0], mode)
    values = _cycled(arrayed(assigned(v, a.dtype)), shape_of(indices)[0])
    if values is not None:
        result = put_at(flat, (ARRAY,), (indices,), assigned(values, a.dtype))
        a.ft_assign(reshape(result, shape_of(a)), "put")


def _cycled(v: Arrayed, count: int) -> Arrayed | None:
    """Repeat or truncate values to ``count``; ``None`` if empty (NumPy then does nothing)."""
    v = flattened(v)
    size = shape_of(v)[0]
    if size == 0:
        return None
    return v if size == count else gather(v, (ARRAY,), (np.arange(count) % size,))


def _safe(values: Operand, dtype: np.dtype[Any], what: str) -> Arrayed:
    """Return flat values for `place` and `putmask`, cast with NumPy's rules and errors."""
    if holds_tracer(values):
        array = arrayed(values)
        if not np.can_cast(array.dtype, dtype, "safe"):
            raise DtypeError(
                f"{what}: cannot cast {array.dtype} to {dtype} safely",
                fix="convert the values first",
            )
        return flattened(convert(array, dtype))
    made = np.empty(numeric(values).size, dtype)
    np.putmask(made, np.ones(made.shape, bool), values)
    return made


@implements(np.putmask)
def putmask(a: TracedArray, mask: Operand, values: Operand) -> None:
    """As ``numpy.putmask``; ``a`` must be traced."""
    need_traced(a, "numpy.putmask")
    mask = arrayed(mask)
    if mask.size != a.size:
        raise ShapeError(
            "putmask: mask and data must be the same size", fix="use np.where, which broadcasts"
        )
    written = _cycled(_safe(values, a.dtype, "putmask"), a.size)
    if written is not None:
        result = ew.where(reshape(mask, a.shape), reshape(assigned(written, a.dtype), a.shape), a)
        a.ft_assign(result, "putmask")


@implements(np.place)
def place(arr: TracedArray, mask: Operand, vals: Operand) -> None:
    """As ``numpy.place``; ``arr`` must be traced."""
    need_traced(arr, "numpy.place")
    if arrayed(mask).size != arr.size:
        raise ShapeError(
            "place: mask and data must be the same size",
            fix="broadcast the mask first: np.broadcast_to",
        )
    chosen = np.flatnonzero(known_mask(mask))
    refuse_overlap(arr, vals, "numpy.place", lambda t, v: np.place(t, known_mask(mask), v))
    values = _cycled(_safe(vals, arr.dtype, "place"), len(chosen))
    if values is None and len(chosen):
        raise ShapeError("cannot insert from an empty array", fix="pass at least one value")
    if values is not None and len(chosen):
        result = put_at(flattened(arr), (ARRAY,), (chosen,), assigned(values, arr.dtype))
        arr.ft_assign(reshape(result, arr.shape), "place")


@array_method("fill")
def _fill_method(x: TracedArray, value: Operand) -> None:
    """Write a number into every element."""
    if np.ndim(value):
        raise ShapeError("fill takes one number", fix="write x[...] = values")
    need_array(x, "fill")
    x[...] = value


@implements(np.fill_diagonal)
def fill_diagonal(a: TracedArray, val: Operand, wrap: bool = False) -> None:
    """As ``numpy.fill_diagonal``; ``a`` must be traced."""
    need_traced(a, "numpy.fill_diagonal")
    refuse_overlap(a, val, "numpy.fill_diagonal", lambda t, v: np.fill_diagonal(t, v, wrap))
    numbers = np.arange(a.size).reshape(a.shape)
    marks = np.zeros(a.shape, bool)
    np.fill_diagonal(marks, True, wrap)
    put(a, numbers[marks], val)


# -- index functions -------------------------------------------------------------------------------


@implements(np.ix_)
def ix_(*args: Operand) -> tuple[Any, ...]:
    """As ``numpy.ix_``; integer sequences may be traced."""
    made = []
    for k, arg in enumerate(args):
        array = arrayed(arg)
        if len(shape_of(array)) != 1:
            raise ShapeError(
                "Cross index must be 1 dimensional", fix="pass one-dimensional sequences"
            )
        if is_mask(array):
            array = np.flatnonzero(known_mask(array))
        elif array.size == 0 and not isinstance(arg, (np.ndarray, Tracer)):
            array = convert(array, np.intp)  # of an empty list
        made.append(reshape(array, (1,) * k + (array.size,) + (1,) * (len(args) - k - 1)))
    return tuple(made)


def _stand_in(x: Operand) -> np.ndarray[Any, Any]:
    """Return a plain array of the same shape, for functions of the shape only."""
    return np.broadcast_to(np.empty((), np.bool_), shape_of(x))


@implements(np.triu_indices_from)
def triu_indices_from(arr: Operand, k: int = 0) -> Any:
    """As ``numpy.triu_indices_from``."""
    return np.triu_indices_from(_stand_in(arr), k)


@implements(np.tril_indices_from)
def tril_indices_from(arr: Operand, k: int = 0) -> Any:
    """As ``numpy.tril_indices_from``."""
    return np.tril_indices_from(_stand_in(arr), k)


@implements(np.diag_indices_from)
def diag_indices_from(arr: Operand) -> Any:
    """As ``numpy.diag_indices_from``."""
    return np.diag_indices_from(_stand_in(arr))


def _within(indices: Arrayed, size: int) -> Any:
    return ew.logical_and(ew.greater_equal(indices, 0), ew.less(indices, size))


@implements(np.unravel_index)
def unravel_index(
    indices: Operand, shape: int | Sequence[int], order: str = "C"
) -> tuple[Any, ...]:
    """As ``numpy.unravel_index``."""
    left, parts = _integers(indices, "the indices of unravel_index"), []
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    size = math.prod(sizes)
    left = require(
        left,
        _within(left, size),
        "ValueError",
        f"index is out of bounds for array with size {size}",
    )
    is_fortran = _is_fortran(order, "unravel_index")
    for n in sizes if is_fortran else reversed(sizes):
        parts.append(ew.remainder(left, n))
        left = ew.floor_divide(left, n)
    return tuple(parts if is_fortran else reversed(parts))


def _is_fortran(order: str, name: str) -> bool:
    if order not in ("C", "F"):
        raise ShapeError(
            f"{name}: only 'C' or 'F' order is permitted, not {order!r}", fix="leave order out"
        )
    return order == "F"


@implements(np.ravel_multi_index)
def ravel_multi_index(
    multi_index: Iterable[Operand],
    dims: Sequence[int],
    mode: str | Sequence[str] = "raise",
    order: str = "C",
) -> Any:
    """As ``numpy.ravel_multi_index``."""
    total: Any = 0
    modes = (mode,) * len(tuple(dims)) if isinstance(mode, str) else tuple(mode)
    axes = list(zip(multi_index, dims, modes, strict=True))
    for k, (part, n, how) in enumerate(
        reversed(axes) if _is_fortran(order, "ravel_multi_index") else axes
    ):
        part = _bounded(_integers(part, "the indices of ravel_multi_index"), n, how)
        if how == "raise":
            part = require(
                part, _within(part, n), "ValueError", "invalid entry in coordinates array"
            )
        total = part if k == 0 else ew.add(ew.mul(total, n), part)
    return total
