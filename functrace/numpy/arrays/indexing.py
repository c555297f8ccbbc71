"""Indexing: ``x[index]`` and ``x[index] = v``.

`parse_index` turns an index into a static template and its index arrays
(functrace/ops/indexing.py). Ints, slices, ``None`` and ``...`` are static. Integer arrays, traced
or not, are operands. A concrete mask becomes the integer arrays of its true elements. A traced mask
is concretized, except where the shape of the result does not depend on it: ``x[mask] = v`` is
``np.where(mask, v, x)``, and ``x[mask] *= 2`` uses a `MaskedSelection`.

Layer: 3.
"""

from __future__ import annotations

import operator
from typing import Any, SupportsIndex

import numpy as np

from functrace.errors import ConcretizationError, ShapeError, TracedIndexError
from functrace.ir.aval import shape_of
from functrace.numpy.arrays.assignment import assigned
from functrace.numpy.arrays.masked import MaskedSelection, is_mask, known_mask
from functrace.numpy.protocol.operands import Arrayed, Index, Operand, holds_tracer, stacked
from functrace.ops import elementwise as ew
from functrace.ops.indexing import ARRAY, StaticIndex, gather, scatter_set
from functrace.ops.shaping import V, convert, reshape
from functrace.tracing.tracer import Tracer, Value, as_array
from functrace.tracing.values import has_value


def has_array(index: Index) -> bool:
    """Return True if an index contains a plain 0-d array: NumPy then returns a copy."""
    return any(
        type(k) is np.ndarray and not k.ndim for k in (index if type(index) is tuple else (index,))
    )


def _bound(bound: SupportsIndex | None) -> int | None:
    if bound is None or type(bound) is int:
        return bound
    try:
        return operator.index(bound)
    except ConcretizationError as error:
        raise ConcretizationError(
            "a slice with a traced bound has a length that depends on values, which are not known "
            "here",
            made=error.made,
            fix="x[start + np.arange(length)] reads a part of fixed length at a traced start",
        ) from error


def _entry(entry: Any) -> Any:
    """Return an entry of an index in one of its canonical forms: int, slice tuple, None, Ellipsis,
    array or tracer.
    """
    kind = type(entry)
    if kind is int or entry is None or entry is Ellipsis:
        return entry
    if kind is slice:
        return (_bound(entry.start), _bound(entry.stop), _bound(entry.step))
    if isinstance(entry, Tracer | bool | np.bool_):
        array: Any = entry
    elif isinstance(entry, list | tuple) and holds_tracer(entry):
        array = stacked(entry)
    else:
        array = as_array(entry)
        if array.size == 0 and not isinstance(entry, np.ndarray):
            array = array.astype(np.intp)
        if array.ndim == 0 and array.dtype.kind in "iu":
            return int(array)
    if not is_mask(array) and array.dtype.kind not in "iu":
        raise TracedIndexError(
            f"arrays used as indices must be of integer or boolean type, not {array.dtype}",
            fix="use .astype(int)",
        )
    return array


def parse_index(x: Value, index: Index) -> tuple[StaticIndex, tuple[Any, ...]]:
    """Return the static template of an index into ``x``, and its index arrays.

    Raises:
        TracedIndexError: if the index does not fit ``x``.
        ConcretizationError: if it needs a concrete value of an abstract operand.
    """
    entries = [_entry(k) for k in index] if type(index) is tuple else [_entry(index)]
    shape = shape_of(x)
    used = sum(
        0 if k is None or k is Ellipsis else len(shape_of(k)) if is_mask(k) else 1 for k in entries
    )
    template: list[Any] = []
    arrays: list[Any] = []
    axis = 0
    for entry in entries:
        kind = type(entry)
        if entry is Ellipsis:
            axis += len(shape) - used
        elif is_mask(entry):
            mask = known_mask(entry)
            if mask.ndim == 0:
                raise TracedIndexError(
                    "a single bool among other indices has no meaning on traced values",
                    fix="use x[None] for x[True], or np.where",
                )
            if mask.shape != shape[axis : axis + mask.ndim]:
                raise TracedIndexError(
                    f"boolean index of shape {mask.shape} does not match the axes {axis} … of "
                    f"shape {shape}",
                    fix="a mask has the same sizes as the axes that it selects from",
                )
            template.extend([ARRAY] * mask.ndim)
            arrays.extend(np.nonzero(mask))
            axis += mask.ndim
            continue
        elif kind is int or kind is tuple or entry is None:
            axis += entry is not None
        else:
            template.append(ARRAY)
            arrays.append(entry)
            axis += 1
            continue
        template.append(entry)
    return tuple(template), tuple(arrays)


def only_mask(x: Value, index: Index) -> Any:
    """Return the mask if the index is a single mask that fits ``x``, otherwise ``None``."""
    mask: Any = index[0] if type(index) is tuple and len(index) == 1 else index
    if type(mask) is list:
        mask = _entry(mask)
    if not is_mask(mask):
        return None
    shape = shape_of(mask)
    return mask if shape == shape_of(x)[: len(shape)] else None


def select(x: Arrayed, index: Index) -> Any:
    """Return ``x[mask]`` for a single bool or an abstract mask; otherwise ``None``."""
    mask = only_mask(x, index)
    if mask is not None:
        if shape_of(mask) == ():
            chosen = np.zeros(int(known_mask(mask)), np.intp)
            return gather(reshape(x, (1, *shape_of(x))), (ARRAY,), (chosen,))
        if isinstance(mask, Tracer) and not has_value(mask):
            return MaskedSelection(x, mask)
    return None


def read(x: Arrayed, index: Index) -> Any:
    """Return ``x[index]`` as a new array, never a view."""
    selected = select(x, index)
    if selected is not None:
        return selected
    template, arrays = parse_index(x, index)
    return gather(x, template, arrays)


# -- writing ---------------------------------------------------------------------------------------


def without_leading_ones(v: V, rank: int) -> V:
    """Drop leading axes of size 1 beyond a rank, as NumPy's assignments do."""
    shape = shape_of(v)
    extra = len(shape) - rank
    return reshape(v, shape[extra:]) if extra > 0 and all(n == 1 for n in shape[:extra]) else v


def _rank_read(x: Value, template: StaticIndex, arrays: tuple[Any, ...]) -> int:
    taken = sum(k is not None and k is not Ellipsis and type(k) is not tuple for k in template)
    rank = len(shape_of(x)) - taken + sum(k is None for k in template)
    return rank + max((len(shape_of(a)) for a in arrays), default=0)


def put_at(x: Value, template: StaticIndex, arrays: tuple[Any, ...], v: Value) -> Any:
    """Return a copy of ``x`` with ``v``, already cast to its dtype, written at a parsed index."""
    if shape_of(v):
        v = without_leading_ones(v, _rank_read(x, template, arrays))
    return scatter_set(x, template, v, arrays)


def _put_where(x: Arrayed, mask: Value, v: Value) -> Any:
    """Return ``x[mask] = v`` as a ``where``; ``None`` if it depends on the number of elements."""
    shape, rank = shape_of(x), len(shape_of(mask))
    rest = shape[rank:]
    v = without_leading_ones(v, len(rest)) if shape_of(v) else v
    sizes = shape_of(v)
    if len(sizes) > len(rest):
        return None
    try:
        fits = np.broadcast_shapes(sizes, rest) == rest
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(
            f"could not broadcast input array from shape {sizes} into the elements {rest} that a "
            "mask selects",
            fix="the value's sizes must be equal to those of x[mask], or 1, from the last axis",
        )
    result = ew.where(reshape(mask, shape_of(mask) + (1,) * len(rest)), v, x)
    return convert(result, x.dtype)


def store(x: Arrayed, index: Index, value: Operand) -> Any:
    """Return a copy of ``x`` after ``x[index] = value``, with NumPy's semantics."""
    if type(value) is MaskedSelection:
        if not value.is_array and value.goes_with(index) and shape_of(value.full) == shape_of(x):
            return convert(ew.where(value.condition, value.full, x), x.dtype)
        value = value.array()
    v = assigned(value, x.dtype)
    mask = only_mask(x, index)
    if mask is not None:
        result = _put_where(x, mask, v)
        if result is not None:
            return result
    template, arrays = parse_index(x, index)
    if (
        shape_of(v)
        and not arrays
        and Ellipsis not in template
        and not _rank_read(x, template, arrays)
    ):
        raise ShapeError(
            f"setting an array element with a sequence: {shape_of(v)} does not fit into one "
            "element",
            fix="write one number",
        )
    return put_at(x, template, arrays, v)
