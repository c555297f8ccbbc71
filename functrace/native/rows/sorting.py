"""Sorting and searching: exchanges of neighbours for few elements, a merge sort in loops for many.

All of it is stable. NumPy's default `argsort` is not: if two keys are equal, NumPy's form runs.

Layer: 7.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from functrace.ir.primitive import Primitive
from functrace.native.loop_ir import INT64, Affine, Atom, Const, DType, Scalar, While, affine
from functrace.native.lowering import TINY, Lowering, NoNativeForm, Operation, Row
from functrace.native.rows import layout
from functrace.native.values import Scalars, Stored, Value
from functrace.ops import sorting

BOOL = np.dtype(bool)
FEW = 8
"""Elements that are sorted by straight-line code."""


def _less(low: Lowering, x: Atom, y: Atom) -> Atom:
    """Return True if x precedes y; nan is last."""
    let = low.builder.let
    if x.dtype.kind == "b":
        return let("and", BOOL, let("not", BOOL, x), y)
    less = let("less", BOOL, x, y)
    if x.dtype.kind != "f":
        return less
    is_number = let("not", BOOL, let("is_nan", BOOL, x))
    return let("or", BOOL, less, let("and", BOOL, let("is_nan", BOOL, y), is_number))


def _sorted_atoms(low: Lowering, keys: list[Atom], wants_places: bool) -> list[Any]:
    """Return pairs of keys and places, sorted."""
    let = low.builder.let
    found: list[Any] = [(key, Const(k, INT64)) for k, key in enumerate(keys)]
    for turn in range(len(found)):
        for k in range(turn % 2, len(found) - 1, 2):
            (x, i), (y, j) = found[k : k + 2]
            swaps = _less(low, y, x)
            first = let("select", x.dtype, swaps, y, x), let("select", x.dtype, swaps, x, y)
            second = (i, j)
            if wants_places:
                second = let("select", INT64, swaps, j, i), let("select", INT64, swaps, i, j)
            found[k : k + 2] = list(zip(first, second, strict=True))
    return found


def _fail_if_equal(low: Lowering, x: Atom, y: Atom) -> None:
    """Fail for two neighbours in sorted order that are equal."""
    less = _less(low, x, y)
    low.builder.fail(low.builder.let("not", BOOL, less), 1)


def _sort(low: Lowering, op: Operation) -> Value:
    return _sorted(low, op, False)


def _argsort(low: Lowering, op: Operation) -> Value:
    return _sorted(low, op, True)


def _sorted(low: Lowering, op: Operation, wants_places: bool) -> Value:
    kind: str = op.params[0]
    axis: int = op.params[1]
    x = low.computed(op.operands[0])
    if not x.shape or 0 in x.shape:
        raise NoNativeForm("sorting of nothing")
    axis %= len(x.shape)
    size: int = x.shape[axis]
    is_checked = wants_places and kind not in ("stable", "mergesort")
    if size <= FEW and math.prod(x.shape) <= TINY:
        lines = np.moveaxis(low.elements(x), axis, -1)
        made = np.empty(lines.shape, object)
        for place in np.ndindex(*lines.shape[:-1]):
            found = _sorted_atoms(low, list(lines[place]), wants_places)
            if is_checked:
                for (one, _), (other, _) in itertools.pairwise(found):
                    _fail_if_equal(low, one, other)
            for k, pair in enumerate(found):
                made[(*place, k)] = pair[wants_places]
        return Scalars(np.moveaxis(made, -1, axis), op.dtype)
    low.to_memory(x)
    target = low.target(op)
    b = low.builder
    keys = [low.array((size,), x.dtype) for _ in range(2)]
    places = [low.array((size,), INT64) for _ in range(2)] if wants_places else []
    space = tuple(1 if k == axis else n for k, n in enumerate(x.shape))
    with b.loops(space, independent=False) as index:
        at = list(index)
        with b.loop(size) as counter:
            at[axis] = here = affine(counter)
            b.store(keys[0].buffer, here, low.atom(x, at))
            if wants_places:
                b.store(places[0].buffer, here, counter)
        _merge_sort(low, size, keys, places)
        if is_checked:
            with b.loop(size - 1) as counter:
                pair = [b.load(keys[0].buffer, Affine(((counter.name, 1),), k)) for k in (0, 1)]
                _fail_if_equal(low, *pair)
        with b.loop(size) as counter:
            at[axis] = affine(counter)
            source = places[0] if wants_places else keys[0]
            b.store(target.buffer, target.place(at), b.load(source.buffer, affine(counter)))
    return layout.of_size(low, target)


def _merge_sort(low: Lowering, size: int, keys: list[Stored], places: list[Stored]) -> None:
    """Write a merge sort of the first of two lines; the second one is for merging."""
    b = low.builder
    let = b.let
    end = Const(size, INT64)
    pairs = [pair for pair in (keys, places) if pair]

    def less(x: Atom, y: Atom) -> Atom:
        return let("less", BOOL, x, y)

    def smaller(x: Atom, y: Atom) -> Atom:
        return let("select", INT64, less(x, y), x, y)

    def add(x: Atom, y: Atom) -> Atom:
        return let("add", INT64, x, y)

    one, last = Const(1, INT64), Const(size - 1, INT64)
    width_ = b.declare(one)
    with b.loop(max(size - 1, 0).bit_length()):
        width, start_ = b.get(width_), b.declare(Const(0, INT64))
        with b.block() as condition:
            more = less(b.get(start_), end)
        with b.block() as body:
            start = b.get(start_)
            middle = smaller(add(start, width), end)
            stop = smaller(add(middle, width), end)
            i_, j_ = b.declare(start), b.declare(middle)
            with b.loop(let("sub", INT64, stop, start)) as counter:
                i, j = b.get(i_), b.get(j_)
                x, y = (b.load(keys[0].buffer, affine(smaller(k, last))) for k in (i, j))
                first = let("not", BOOL, less(j, stop))
                first = let("or", BOOL, first, let("not", BOOL, _less(low, y, x)))
                first = let("and", BOOL, first, less(i, middle))
                chosen = affine(let("select", INT64, first, i, j))
                to = affine(add(start, counter))
                for old, new in pairs:
                    b.store(new.buffer, to, b.load(old.buffer, chosen))
                b.assign(i_, let("select", INT64, first, add(i, one), i))
                b.assign(j_, let("select", INT64, first, j, add(j, one)))
            b.assign(start_, stop)
        b.body.append(While(condition, more, body))
        with b.loop(size) as counter:
            for old, new in pairs:
                b.store(old.buffer, affine(counter), b.load(new.buffer, affine(counter)))
        b.assign(width_, add(width, width))


def _searchsorted(low: Lowering, op: Operation) -> Value:
    side, rows = op.params
    a, v = (low.computed(x) for x in op.operands)
    dtype: DType = np.result_type(a.dtype, v.dtype)
    size = a.shape[-1]
    if not size or dtype.kind not in "fiu" or len(a.shape) != rows + 1:
        raise NoNativeForm("searching in nothing")
    for x in (a, v):
        low.to_memory(x)
    b, let, target = low.builder, low.builder.let, low.target(op)
    one = Const(1, INT64)
    with b.loops(op.shape) as index:
        wanted = low.cast(low.atom(v, index), dtype)
        low_, high_ = b.declare(Const(0, INT64)), b.declare(Const(size, INT64))
        with b.loop(size.bit_length()):
            first, last = b.get(low_), b.get(high_)
            is_open = let("less", BOOL, first, last)
            middle = let("shift_right", INT64, let("add", INT64, first, last), one)
            place = let("select", INT64, is_open, middle, Const(0, INT64))
            assert type(place) is Scalar
            found = low.cast(low.atom(a, [*index[:rows], affine(place)]), dtype)
            if side == "left":
                is_right = _less(low, found, wanted)
            else:
                is_right = let("not", BOOL, _less(low, wanted, found))
            goes = let("and", BOOL, is_open, is_right)
            stays = let("and", BOOL, is_open, let("not", BOOL, is_right))
            b.assign(low_, let("select", INT64, goes, let("add", INT64, middle, one), first))
            b.assign(high_, let("select", INT64, stays, middle, last))
        b.store(target.buffer, target.place(index), b.get(low_))
    return layout.of_size(low, target)


ROWS: dict[Primitive, Row] = {
    sorting.sort_p: _sort,
    sorting.argsort_p: _argsort,
    sorting.searchsorted_p: _searchsorted,
}
"""Lowering by primitive."""
