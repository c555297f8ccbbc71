"""NumPy's functions that join and split arrays: ``concatenate``, ``stack``, ``block``, ``split`` ….

Layer: 3.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable
from typing import Any, SupportsIndex

import numpy as np

from functrace.errors import DtypeError, ShapeError
from functrace.ir.aval import shape_of
from functrace.numpy.arrays.overlaps import refuse_overlap
from functrace.numpy.arrays.traced_number import DTYPES, common_dtype, cut_to, strong, weak_kind
from functrace.numpy.arrays.views import indexed, reshaped
from functrace.numpy.functions.shaping import atleast_1d, atleast_2d, atleast_3d
from functrace.numpy.protocol.operands import (
    Arrayed,
    Casting,
    DtypeLike,
    OneAxis,
    Operand,
    Out,
    along,
    arrayed,
    at_least,
    cast_to,
    exact_axis,
    flattened,
    int_tuple,
    one_axis,
    operand,
    stored,
)
from functrace.numpy.protocol.tables import implements
from functrace.ops import joining
from functrace.ops.shaping import convert

# -- joining ---------------------------------------------------------------------------------------


def _join(arrays: Iterable[Arrayed], axis: int, dtype: DtypeLike, casting: Casting) -> Arrayed:
    return joining.concatenate([cast_to(x, dtype, casting) for x in arrays], axis)


def _sequence(
    arrays: Iterable[Operand], what: str, read: Callable[[Operand], Any] = arrayed
) -> list[Any]:
    found = [read(x) for x in arrays]
    if not found:
        raise ShapeError(
            f"{what} needs at least one array", fix="pass a sequence that is not empty"
        )
    return found


@implements(np.concatenate, of_sequence=True, weak=True)
def concatenate(
    arrays: Iterable[Operand],
    /,
    axis: OneAxis = 0,
    out: Out = None,
    *,
    dtype: DtypeLike = None,
    casting: Casting = "same_kind",
) -> Arrayed:
    """As ``numpy.concatenate``."""
    if axis is None:
        found, axis = _in_a_row(_sequence(arrays, "concatenate", operand), dtype, out, casting), 0
    else:
        found = _sequence([strong(x) for x in arrays], "concatenate")
    for part in found if out is not None else ():
        refuse_overlap(out, part, "concatenate with out=")
    ndim = len(shape_of(found[0]))
    if ndim == 0:
        raise ShapeError(
            "zero-dimensional arrays cannot be concatenated", fix="use np.stack, or axis=None"
        )
    return stored(
        _join(found, one_axis(exact_axis(axis), ndim), dtype, casting), out, "concatenate"
    )


def _in_a_row(arrays: list[Any], dtype: DtypeLike, out: Out, casting: Casting) -> list[Any]:
    """Flatten arrays to join without an axis; NumPy wraps Python numbers to the dtype there."""
    target = (
        np.dtype(dtype) if dtype is not None else common_dtype(arrays) if out is None else out.dtype
    )
    for kind in map(weak_kind, arrays):
        is_unsigned = kind is int and target.kind == "u"  # same_kind excludes int64 to unsigned
        if (
            kind is not None
            and casting != "unsafe"
            and not (is_unsigned or np.can_cast(DTYPES[kind], target, "same_kind"))
        ):
            raise DtypeError(
                f"cannot cast a Python {kind.__name__} to {target} by the rule {casting!r}",
                fix="pass casting='unsafe'",
            )
    return [flattened(x if weak_kind(x) is None else cut_to(x, target)) for x in arrays]


@implements(np.stack, of_sequence=True)
def stack(
    arrays: Iterable[Operand],
    axis: SupportsIndex = 0,
    out: Out = None,
    *,
    dtype: DtypeLike = None,
    casting: Casting = "same_kind",
) -> Any:
    """As ``numpy.stack``."""
    found = [cast_to(x, dtype, casting) for x in _sequence(arrays, "stack")]
    if len({shape_of(x) for x in found}) > 1:
        shapes = ", ".join(str(shape_of(x)) for x in found)
        raise ShapeError(
            f"all input arrays must have the same shape, stack got {shapes}",
            fix="use np.concatenate",
        )
    for part in found if out is not None else ():
        refuse_overlap(out, part, "stack with out=")
    return stored(joining.stack(found, one_axis(axis, len(shape_of(found[0])) + 1)), out, "stack")


@implements(np.vstack, of_sequence=True)
def vstack(
    tup: Iterable[Operand], *, dtype: DtypeLike = None, casting: Casting = "same_kind"
) -> Any:
    """As ``numpy.vstack``."""
    return _join([atleast_2d(x) for x in _sequence(tup, "vstack")], 0, dtype, casting)


@implements(np.hstack, of_sequence=True)
def hstack(
    tup: Iterable[Operand], *, dtype: DtypeLike = None, casting: Casting = "same_kind"
) -> Any:
    """As ``numpy.hstack``."""
    found = [atleast_1d(x) for x in _sequence(tup, "hstack")]
    return _join(found, 0 if len(shape_of(found[0])) == 1 else 1, dtype, casting)


@implements(np.dstack, of_sequence=True)
def dstack(tup: Iterable[Operand]) -> Any:
    """As ``numpy.dstack``."""
    return _join([atleast_3d(x) for x in _sequence(tup, "dstack")], 2, None, "same_kind")


@implements(np.column_stack, of_sequence=True)
def column_stack(tup: Iterable[Operand]) -> Any:
    """As ``numpy.column_stack``."""
    columns = []
    for x in _sequence(tup, "column_stack"):
        shape = shape_of(x)
        columns.append(x if len(shape) >= 2 else reshaped(x, (math.prod(shape), 1)))
    return _join(columns, 1, None, "same_kind")


@implements(np.block)
def block(arrays: Operand) -> Any:
    """As ``numpy.block``."""
    depth, ndim = _block_depth(arrays, "arrays")
    ndim = max(depth, ndim)

    def joined(nested: Any, level: int) -> Any:
        if level == depth:
            x = arrayed(nested)
            return reshaped(x, (1,) * (ndim - len(shape_of(x))) + shape_of(x))
        return joining.concatenate(
            [joined(part, level + 1) for part in nested], ndim - depth + level
        )

    result = joined(arrays, 0)
    return result.copy() if depth == 0 else result


def _block_depth(nested: Any, where: str) -> tuple[int, int]:
    if type(nested) is tuple:
        raise DtypeError(
            f"{where} is a tuple: only lists can be used to arrange blocks", fix="write lists"
        )
    if type(nested) is not list:
        return 0, len(shape_of(nested))
    if not nested:
        raise ShapeError(f"{where} is an empty list", fix="leave it out")
    found = [_block_depth(part, f"{where}[{k}]") for k, part in enumerate(nested)]
    depths = {depth for depth, _ in found}
    if len(depths) > 1:
        raise ShapeError(
            f"the lists in {where} are nested {sorted(depths)} deep",
            fix="use one depth for all blocks",
        )
    return 1 + depths.pop(), max(ndim for _, ndim in found)


@implements(np.append)
def append(arr: Operand, values: Operand, axis: OneAxis = None) -> Any:
    """As ``numpy.append``."""
    return concatenate((arrayed(arr), arrayed(values)), axis)


@implements(np.ediff1d)
def ediff1d(ary: Operand, to_end: Operand | None = None, to_begin: Operand | None = None) -> Any:
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
            raise DtypeError(
                f"ediff1d: {end.dtype} does not fit an array of {x.dtype}",
                fix="convert the array first",
            )
        parts.insert(place, convert(flattened(end), differences.dtype))
    return joining.concatenate(parts, 0) if len(parts) > 1 else differences


# -- splitting -------------------------------------------------------------------------------------


@implements(np.array_split)
def array_split(ary: Arrayed, indices_or_sections: Any, axis: SupportsIndex = 0) -> list[Any]:
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
def split(ary: Arrayed, indices_or_sections: Any, axis: SupportsIndex = 0) -> list[Any]:
    """As ``numpy.split``."""
    if np.ndim(indices_or_sections) == 0:
        n, sections = ary.shape[one_axis(axis, ary.ndim)], operator.index(indices_or_sections)
        if sections > 0 and n % sections:
            raise ShapeError(
                f"array split does not result in an equal division: {n} elements into {sections}",
                fix="use np.array_split",
            )
    return array_split(ary, indices_or_sections, axis)


@implements(np.hsplit)
def hsplit(ary: Arrayed, indices_or_sections: Any) -> list[Any]:
    """As ``numpy.hsplit``."""
    at_least(ary, 1, "hsplit")
    return split(ary, indices_or_sections, 1 if ary.ndim > 1 else 0)


@implements(np.vsplit)
def vsplit(ary: Arrayed, indices_or_sections: Any) -> list[Any]:
    """As ``numpy.vsplit``."""
    at_least(ary, 2, "vsplit")
    return split(ary, indices_or_sections, 0)


@implements(np.dsplit)
def dsplit(ary: Arrayed, indices_or_sections: Any) -> list[Any]:
    """As ``numpy.dsplit``."""
    at_least(ary, 3, "dsplit")
    return split(ary, indices_or_sections, 2)


@implements(np.unstack)
def unstack(x: Arrayed, /, *, axis: SupportsIndex = 0) -> tuple[Any, ...]:
    """As ``numpy.unstack``."""
    at_least(x, 1, "unstack")
    axis = one_axis(axis, x.ndim)
    return tuple(indexed(x, along(axis, k)) for k in range(x.shape[axis]))
