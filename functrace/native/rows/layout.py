"""Operations that move elements: views, concatenation, padding, gather and scatter.

Layer: 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from functrace.ir.primitive import Primitive
from functrace.native.loop_ir import INT64, ZERO, Affine, Atom, Const, Scalar, affine, at
from functrace.native.lowering import TINY, Lowering, NoNativeForm, Operation, Row
from functrace.native.values import (
    AtomArray,
    Deferred,
    Reduction,
    Scalars,
    Shape,
    Stored,
    Uniform,
    Value,
    c_strides,
    project,
    scalars,
)
from functrace.ops import indexing, joining, shaping, sorting, windows


def _view(
    of_atoms: Callable[[Any, Operation], Any],
    of_memory: Callable[[Lowering, Stored, Operation], Value],
) -> Row:
    """A row of a view: NumPy's function on atoms, another one on memory."""

    def row(low: Lowering, op: Operation) -> Value:
        x = low.computed(op.operands[0])
        if isinstance(x, Uniform):
            return Uniform(x.atom, op.shape)
        if isinstance(x, Scalars):
            made = of_atoms(x.atoms, op)
            if math.prod(op.shape) <= TINY:
                return Scalars(_array(made), x.dtype)
            x = low.stored(x)
        if math.prod(op.shape) <= TINY and op.shape != x.shape:
            view = of_memory(low, x, op)
            return Scalars(low.elements(view), op.dtype) if isinstance(view, Stored) else view
        return of_memory(low, x, op)

    return row


def _array(x: AtomArray) -> AtomArray:
    if isinstance(x, Const | Scalar):
        made = np.empty((), object)
        made[()] = x
        return made
    return x


def _index_memory(low: Lowering, x: Stored, op: Operation) -> Value:
    return index_view(x, op.params[0], op.shape)


def index_view(x: Stored, index: tuple[Any, ...], shape: Shape) -> Stored:
    """Return the view of a static index."""
    strides: list[int] = []
    offset, axis = x.offset, 0
    for part in index:
        if part is None:
            strides.append(0)
            continue
        if part is Ellipsis:
            skipped = len(x.shape) - sum(p is not None and p is not Ellipsis for p in index)
            strides += x.strides[axis : axis + skipped]
            axis += skipped
            continue
        if isinstance(part, tuple):
            bounds = cast("tuple[int | None, ...]", part)
            start, _, step = slice(*bounds).indices(x.shape[axis])
            offset = offset.plus(at(start * x.strides[axis]))
            strides.append(step * x.strides[axis])
        elif isinstance(part, int):
            position = part % x.shape[axis]
            offset = offset.plus(at(position * x.strides[axis]))
        else:
            raise NoNativeForm("an index")
        axis += 1
    return Stored(x.buffer, offset, (*strides, *x.strides[axis:]), shape)


def _transpose_memory(low: Lowering, x: Stored, op: Operation) -> Value:
    axes: tuple[int, ...] = op.params[0]
    return Stored(x.buffer, x.offset, tuple(x.strides[k] for k in axes), op.shape)


def broadcast_view(x: Stored, shape: Shape) -> Stored:
    """Return the view that broadcasts to a shape."""
    pad = len(shape) - len(x.shape)
    strides = [
        0 if mine != size else stride
        for mine, size, stride in zip(x.shape, shape[pad:], x.strides, strict=True)
    ]
    return Stored(x.buffer, x.offset, (*(0,) * pad, *strides), shape)


def _broadcast_memory(low: Lowering, x: Stored, op: Operation) -> Value:
    return broadcast_view(x, op.shape)


def _reshape_memory(low: Lowering, x: Stored, op: Operation) -> Value:
    return reshape_view(low, x, op.shape)


def reshape_view(low: Lowering, x: Stored, shape: Shape) -> Stored:
    """Return an array of another shape: a view where possible."""
    if [n for n in x.shape if n != 1] == [n for n in shape if n != 1]:
        left = iter([s for n, s in zip(x.shape, x.strides, strict=True) if n != 1])
        return Stored(x.buffer, x.offset, tuple(0 if n == 1 else next(left) for n in shape), shape)
    if not x.is_contiguous:
        made = low.array(x.shape, x.dtype)
        low.copy(made, x)
        x = made
    return Stored(x.buffer, x.offset, c_strides(shape), shape)


def _diagonal_memory(low: Lowering, x: Stored, op: Operation) -> Value:
    (offset,) = op.params
    down, across = x.strides[-2:]
    start = x.offset.plus(at(offset * across if offset >= 0 else -offset * down))
    return Stored(x.buffer, start, (*x.strides[:-2], down + across), op.shape)


def _concatenate(low: Lowering, op: Operation) -> Value:
    axis: int = op.params[0]
    parts = [low.computed(x) for x in op.operands]
    if math.prod(op.shape) <= TINY:
        given = [low.elements(x) for x in parts]
        made = np.concatenate(given, axis)
        return scalars([low.cast(x, op.dtype) for x in made.ravel()], op.shape, op.dtype)
    target, start = low.target(op), 0
    for part in parts:
        offset = target.offset.plus(at(start * target.strides[axis]))
        view = Stored(target.buffer, offset, target.strides, part.shape)
        _assign(low, view, part)
        start += part.shape[axis]
    return target


def _stack(low: Lowering, op: Operation) -> Value:
    axis: int = op.params[0]
    parts = [low.computed(x) for x in op.operands]
    if math.prod(op.shape) <= TINY:
        made = np.stack([low.elements(x) for x in parts], axis)
        return scalars([low.cast(x, op.dtype) for x in made.ravel()], op.shape, op.dtype)
    target = low.target(op)
    axis %= len(target.shape)
    strides = (*target.strides[:axis], *target.strides[axis + 1 :])
    for number, part in enumerate(parts):
        offset = target.offset.plus(at(number * target.strides[axis]))
        _assign(low, Stored(target.buffer, offset, strides, part.shape), part)
    return target


def _assign(low: Lowering, target: Stored, value: Value) -> None:
    """Copy a value, converted to the target's dtype."""
    if value.dtype != target.dtype:
        kind = target.dtype
        value = low.computed(
            low.elementwise(lambda inner, x: inner.cast(x, kind), [value], value.shape, kind)
        )
    low.copy(target, value)


def _embed(low: Lowering, op: Operation) -> Value:
    index, shape = op.params
    x = low.computed(op.operands[0])
    zero = Const(op.dtype.type(0).item(), op.dtype)
    if math.prod(op.shape) <= TINY:
        made = scalars([zero] * math.prod(op.shape), op.shape, op.dtype).atoms
        atoms = low.elements(x)
        made[indexing.decode_index(index)] = atoms if atoms.ndim else atoms[()]
        return Scalars(made, op.dtype)
    target = low.target(op)
    low.fill(target, zero)
    low.copy(index_view(target, index, x.shape), x)
    del shape
    return target


def _embed_diagonal(low: Lowering, op: Operation) -> Value:
    offset = op.params[0]
    x = low.computed(op.operands[0])
    zero = Const(op.dtype.type(0).item(), op.dtype)
    target = low.target(op)
    low.fill(target, zero)
    down, across = target.strides[-2:]
    start = target.offset.plus(at(offset * across if offset >= 0 else -offset * down))
    low.copy(Stored(target.buffer, start, (*target.strides[:-2], down + across), x.shape), x)
    if math.prod(op.shape) <= TINY:
        return Scalars(low.elements(target), op.dtype)
    return target


def _roll(low: Lowering, op: Operation) -> Value:
    shift: int = op.params[0]
    axis: int = op.params[1]
    x = op.operands[0]
    size = x.shape[axis]
    shift = shift % size if size else 0
    if isinstance(x, Stored | Deferred | Reduction) and math.prod(x.shape) > TINY:
        found = low.rolled(x, shift, axis)
        if found is not None:
            return found
    x = low.computed(x)
    if isinstance(x, Uniform):
        return Uniform(x.atom, op.shape)
    if isinstance(x, Scalars):
        return Scalars(np.roll(x.atoms, shift, axis), x.dtype)
    target = low.target(op)
    for start, stop, to in ((0, size - shift, shift), (size - shift, size, 0)):
        if stop == start:
            continue
        shape = (*x.shape[:axis], stop - start, *x.shape[axis + 1 :])
        source = Stored(x.buffer, x.offset.plus(at(start * x.strides[axis])), x.strides, shape)
        offset = target.offset.plus(at(to * target.strides[axis]))
        low.copy(Stored(target.buffer, offset, target.strides, shape), source)
    return target


# -- gather and scatter ----------------------------------------------------------------------------


def _position(low: Lowering, atom: Atom, size: int) -> Affine:
    """Return the index of an element of an index array; the function fails if it is out of range."""
    let, boolean, whole = low.builder.let, np.dtype(bool), np.dtype(np.int64)
    if type(atom) is Const and atom.value > np.iinfo(whole).max:
        raise NoNativeForm("an index that is out of range")
    is_unsigned = atom.dtype == np.uint64
    atom = low.cast(atom, whole)
    if type(atom) is Const:
        if not -size <= atom.value < size:
            raise NoNativeForm("an index that is out of range")
        return at(atom.value % size)
    is_negative = let("less", boolean, atom, Const(0, whole))
    if is_unsigned:  # NumPy refuses a large scalar, and wraps those of arrays
        low.builder.fail(is_negative, 1)
    moved = let("select", whole, is_negative, let("add", whole, atom, Const(size, whole)), atom)
    below = let("less", boolean, moved, Const(0, whole))
    above = let("greater_equal", boolean, moved, Const(size, whole))
    low.builder.fail(let("or", boolean, below, above), 1)
    assert type(moved) is Scalar
    return Affine(((moved.name, 1),))


class _Index(NamedTuple):
    """A static index with arrays.

    Args:
        parts: by axis of the result that no array makes, and by array or integer: the axis of the
            indexed array (``None`` for a new axis), and the slice, the integer, or ``None`` for the
            next array.
        first: first axis of the result that the arrays make.
        arrays: the index arrays.
        both: their common shape.
    """

    parts: list[tuple[int | None, Any]]
    first: int
    arrays: list[Any]
    both: Shape

    def shape(self, shape: Shape) -> Shape:
        """Return the shape of what is indexed."""
        own = [
            1 if axis is None else len(range(*part.indices(shape[axis])))
            for axis, part in self.parts
            if axis is None or isinstance(part, slice)
        ]
        return (*own[: self.first], *self.both, *own[self.first :])

    def place(self, low: Lowering, x: Stored, index: Sequence[Affine]) -> Affine:
        """Return the place in memory of an element of what is indexed."""
        taken = iter(self.arrays)
        last = self.first + len(self.both)
        inner, own = index[self.first : last], iter([*index[: self.first], *index[last:]])
        place = x.offset
        for axis, part in self.parts:
            if axis is None:
                next(own)
            elif isinstance(part, slice):
                start, _, step = part.indices(x.shape[axis])
                place = place.plus(at(start * x.strides[axis]))
                place = place.plus(next(own), step * x.strides[axis])
            else:
                atom: Atom = Const(part, INT64)
                if part is None:
                    array = next(taken)
                    atom = low.atom(array, project(inner, array.shape))
                place = place.plus(_position(low, atom, x.shape[axis]), x.strides[axis])
        return place


def _index_of(
    low: Lowering, template: tuple[Any, ...], operands: Sequence[Value], ndim: int
) -> _Index:
    """Return a static index with its arrays in memory."""
    arrays = [low.computed(x) for x in operands]
    for x in arrays:
        if x.dtype.kind not in "iu":
            raise NoNativeForm("an index array")
        low.to_memory(x)
    parts: list[tuple[int | None, Any]] = []
    places: list[int] = []
    axis = first = 0
    used = sum(part is not None and part is not Ellipsis for part in template)
    for k, part in enumerate((*template, *([] if Ellipsis in template else [Ellipsis]))):
        if part is None:
            parts.append((None, None))
        elif part is Ellipsis:
            parts += [(axis + n, slice(None)) for n in range(ndim - used)]
            axis += ndim - used
        elif isinstance(part, tuple):
            parts.append((axis, slice(*cast("tuple[int | None, ...]", part))))
            axis += 1
        elif part == indexing.ARRAY or (isinstance(part, int) and not isinstance(part, bool)):
            if not places:
                first = sum(n is None or isinstance(p, slice) for n, p in parts)
            places.append(k)
            parts.append((axis, None if part == indexing.ARRAY else part))
            axis += 1
        else:
            raise NoNativeForm("an index")
    if arrays and places != list(range(places[0], places[-1] + 1)):
        first = 0
    both = np.broadcast_shapes(*[x.shape for x in arrays])
    return _Index(parts, first, arrays, both)


def _gather(low: Lowering, op: Operation) -> Value:
    x = low.stored(op.operands[0])
    index = _index_of(low, op.params[0], op.operands[1:], len(x.shape))
    target = low.target(op)
    with low.builder.loops(op.shape) as places:
        place = index.place(low, x, places)
        low.builder.store(target.buffer, target.place(places), low.builder.load(x.buffer, place))
    return of_size(low, target)


def of_size(low: Lowering, target: Stored) -> Value:
    """Return an array in memory as scalars if it is tiny."""
    if math.prod(target.shape) <= TINY:
        return Scalars(low.elements(target), target.dtype)
    return target


def _scatter_add(low: Lowering, op: Operation) -> Value:
    builder, dtype = low.builder, op.dtype
    values = low.computed(op.operands[0])
    index = _index_of(low, op.params[0], op.operands[1:], len(op.shape))
    target = low.target(op)
    low.fill(target, Const(dtype.type(0).item(), dtype))
    low.to_memory(values)
    with builder.loops(index.shape(target.shape), independent=False) as places:
        place = index.place(low, target, places)
        atom = low.cast(low.atom(values, project(places, values.shape)), dtype)
        word = "or" if dtype.kind == "b" else "add"
        total = builder.let(word, dtype, builder.load(target.buffer, place), atom)
        builder.store(target.buffer, place, total)
    return of_size(low, target)


def _scatter_set(low: Lowering, op: Operation) -> Value:
    """Write values; of several for one element, the last one stays."""
    x, values, *arrays = op.operands
    values = low.computed(values)
    if values.dtype.kind == "c" and op.dtype.kind != "c":
        raise NoNativeForm("complex numbers in a real array")
    index = _index_of(low, op.params[0], arrays, len(op.shape))
    if sum(n > 1 for n in index.both) > 1 and math.prod(values.shape) > 1:
        raise NoNativeForm("writes in an order that depends on strides")
    target = low.target(op)
    low.copy(target, x)
    low.to_memory(values)
    with low.builder.loops(index.shape(target.shape), independent=False) as places:
        place = index.place(low, target, places)
        atom = low.cast(low.atom(values, project(places, values.shape)), op.dtype)
        low.builder.store(target.buffer, place, atom)
    return of_size(low, target)


def _is_last_write(low: Lowering, op: Operation) -> Value:
    """Return True where no later write is to the same element."""
    template, shape = op.params
    builder = low.builder
    index = _index_of(low, template, op.operands, len(shape))
    if sum(n > 1 for n in index.both) > 1:
        raise NoNativeForm("writes in an order that depends on strides")
    writer, target = low.array(tuple(shape), INT64), low.target(op)
    number = builder.declare(Const(0, INT64))
    with builder.loops(op.shape, independent=False) as places:
        now = builder.get(number)
        builder.store(writer.buffer, index.place(low, writer, places), now)
        builder.assign(number, builder.let("add", INT64, now, Const(1, INT64)))
    builder.assign(number, Const(0, INT64))
    with builder.loops(op.shape, independent=False) as places:
        now = builder.get(number)
        last = builder.load(writer.buffer, index.place(low, writer, places))
        is_last = builder.let("equal", np.dtype(bool), last, now)
        builder.store(target.buffer, target.place(places), is_last)
        builder.assign(number, builder.let("add", INT64, now, Const(1, INT64)))
    return of_size(low, target)


def _take_along_axis(low: Lowering, op: Operation) -> Value:
    x, positions = low.stored(op.operands[0]), low.computed(op.operands[1])
    axis: int = op.params[0] % len(x.shape)
    low.to_memory(positions)
    target = low.target(op)
    with low.builder.loops(op.shape) as index:
        atom = low.atom(positions, project(index, positions.shape))
        inside = [ZERO if x.shape[k] == 1 and k != axis else place for k, place in enumerate(index)]
        inside[axis] = _position(low, atom, x.shape[axis])
        low.builder.store(
            target.buffer, target.place(index), low.builder.load(x.buffer, x.place(inside))
        )
    return of_size(low, target)


def _add_along_axis(low: Lowering, op: Operation) -> Value:
    x, positions = (low.computed(y) for y in op.operands)
    axis, size, is_permutation = op.params
    builder, dtype = low.builder, op.dtype
    if dtype.kind == "b" or x.shape != positions.shape:
        raise NoNativeForm("sums along an axis that broadcast")
    for y in (x, positions):
        low.to_memory(y)
    target = low.target(op)
    low.fill(target, Const(dtype.type(0).item(), dtype))
    with builder.loops(x.shape, independent=False) as index:
        inside = list(index)
        inside[axis] = _position(low, low.atom(positions, index), size)
        place = target.place(inside)
        atom = low.cast(low.atom(x, index), dtype)
        if not is_permutation:
            atom = builder.let("add", dtype, builder.load(target.buffer, place), atom)
        builder.store(target.buffer, place, atom)
    return of_size(low, target)


def _lines(shape: Shape, axes: int) -> tuple[int, int]:
    kept = len(shape) - axes
    return math.prod(shape[:kept]), math.prod(shape[kept:])


def _take_flat(low: Lowering, op: Operation) -> Value:
    axes = op.params[0]
    x, positions = (low.stored(y) for y in op.operands)
    (lines, size), (_, count) = _lines(x.shape, axes), _lines(positions.shape, axes)
    target = low.target(op)
    source = reshape_view(low, x, (lines, size))
    where = reshape_view(low, positions, (lines, count))
    made = Stored(target.buffer, target.offset, (count, 1), (lines, count))
    if not target.is_contiguous:
        raise NoNativeForm("a result that is not contiguous")
    with low.builder.loops((lines, count)) as (line, k):
        place = _inside(low, low.atom(where, (line, k)), size)
        low.builder.store(made.buffer, made.place((line, k)), low.atom(source, (line, place)))
    return of_size(low, target)


def _put_flat(low: Lowering, op: Operation) -> Value:
    sizes, is_permutation = op.params
    x, positions = (low.stored(y) for y in op.operands)
    lines, count = _lines(x.shape, len(sizes))
    size = math.prod(sizes)
    builder, dtype = low.builder, op.dtype
    target = low.target(op)
    if not target.is_contiguous or dtype.kind == "b":
        raise NoNativeForm("a result that is not contiguous")
    low.fill(target, Const(dtype.type(0).item(), dtype))
    values = reshape_view(low, x, (lines, count))
    where = reshape_view(low, positions, (lines, count))
    made = Stored(target.buffer, target.offset, (size, 1), (lines, size))
    with builder.loops((lines, count), independent=False) as (line, k):
        place = made.place((line, _inside(low, low.atom(where, (line, k)), size)))
        atom = low.atom(values, (line, k))
        if not is_permutation:
            atom = builder.let("add", dtype, builder.load(made.buffer, place), atom)
        builder.store(made.buffer, place, atom)
    return of_size(low, target)


def _inside(low: Lowering, atom: Atom, size: int) -> Affine:
    """Return an index that is not negative; the function fails if it is out of range."""
    let, boolean = low.builder.let, np.dtype(bool)
    atom = low.cast(atom, INT64)
    low.builder.fail(let("less", boolean, atom, Const(0, INT64)), 1)
    low.builder.fail(let("greater_equal", boolean, atom, Const(size, INT64)), 1)
    return affine(atom)


FUSED = frozenset((shaping.roll_p,))
"""Primitives that read elements of large arrays in loop nests of others."""

ROWS: dict[Primitive, Row] = {
    indexing.scatter_add_p: _scatter_add,
    indexing.is_last_write_p: _is_last_write,
    indexing.scatter_set_p: _scatter_set,
    indexing.scatter_each_p: _scatter_set,
    sorting.take_along_axis_p: _take_along_axis,
    sorting.add_along_axis_p: _add_along_axis,
    windows.take_flat_p: _take_flat,
    windows.put_flat_p: _put_flat,
    indexing.index_p: _view(
        lambda atoms, op: atoms[indexing.decode_index(op.params[0])], _index_memory
    ),
    shaping.reshape_p: _view(lambda atoms, op: atoms.reshape(op.params[0]), _reshape_memory),
    shaping.permute_p: _view(lambda atoms, op: atoms.transpose(op.params[0]), _transpose_memory),
    shaping.broadcast_to_p: _view(
        lambda atoms, op: np.broadcast_to(atoms, op.params[0]), _broadcast_memory
    ),
    shaping.diagonal_p: _view(
        lambda atoms, op: np.diagonal(atoms, op.params[0], -2, -1), _diagonal_memory
    ),
    shaping.embed_diagonal_p: _embed_diagonal,
    shaping.roll_p: _roll,
    joining.concatenate_p: _concatenate,
    joining.stack_p: _stack,
    indexing.embed_p: _embed,
    indexing.gather_p: _gather,
}
"""Lowering by primitive."""
