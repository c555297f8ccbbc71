"""Operations that move elements: views, concatenation, padding, gather and scatter.

Layer: 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.ir.primitive import Primitive
from functrace.native.loop_ir import Affine, Atom, Const, Scalar, at
from functrace.native.lowering import TINY, Lowering, NoNativeForm, Operation, Row
from functrace.native.values import Scalars, Shape, Stored, Uniform, Value, c_strides, scalars
from functrace.ops import indexing, joining, shaping


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


def _array(x: object) -> np.ndarray[Any, Any]:
    if isinstance(x, np.ndarray):
        return x
    made = np.empty((), object)
    made[()] = x
    return made


def _index_memory(low: Lowering, x: Stored, op: Operation) -> Value:
    return index_view(x, op.params[0], op.shape)


def index_view(x: Stored, index: tuple[Any, ...], shape: Shape) -> Stored:
    """Return the view of a static index."""
    offset, strides, axis = x.offset, [], 0
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
            start, _, step = slice(*part).indices(x.shape[axis])
            offset = offset.plus(at(start * x.strides[axis]))
            strides.append(step * x.strides[axis])
        elif isinstance(part, int | np.integer):
            position = int(part) % x.shape[axis]
            offset = offset.plus(at(position * x.strides[axis]))
        else:
            raise NoNativeForm("an index")
        axis += 1
    return Stored(x.buffer, offset, (*strides, *x.strides[axis:]), shape)


def _transpose_memory(low: Lowering, x: Stored, op: Operation) -> Value:
    return Stored(x.buffer, x.offset, tuple(x.strides[k] for k in op.params[0]), op.shape)


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
    axis = op.params[0]
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
    axis = op.params[0]
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
    shift, axis = op.params
    x = low.computed(op.operands[0])
    if isinstance(x, Uniform):
        return Uniform(x.atom, op.shape)
    size = x.shape[axis]
    shift = shift % size if size else 0
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


def _same(low: Lowering, op: Operation) -> Value:
    return op.operands[0]


# -- gather and scatter ----------------------------------------------------------------------------


def _position(low: Lowering, atom: Atom, size: int) -> Affine:
    """Return the index of an element of an index array; the function fails if it is out of range."""
    let, boolean, whole = low.builder.let, np.dtype(bool), np.dtype(np.int64)
    atom = low.cast(atom, whole)
    if type(atom) is Const:
        if not -size <= atom.value < size:
            raise NoNativeForm("an index that is out of range")
        return at(atom.value % size)
    is_negative = let("less", boolean, atom, Const(0, whole))
    moved = let("select", whole, is_negative, let("add", whole, atom, Const(size, whole)), atom)
    below = let("less", boolean, moved, Const(0, whole))
    above = let("greater_equal", boolean, moved, Const(size, whole))
    low.builder.fail(let("or", boolean, below, above), 1)
    assert type(moved) is Scalar
    return Affine(((moved.name, 1),))


def _placement(template: tuple[Any, ...], arrays: int) -> int:
    """Return the first result axis of the index arrays; they must be beside each other."""
    places = [k for k, part in enumerate(template) if part == indexing.ARRAY]
    others = [k for k in template if k is not None and not isinstance(k, tuple) and k != "array"]
    if others or len(places) != arrays or places != list(range(places[0], places[-1] + 1)):
        raise NoNativeForm("an index with arrays that are apart")
    return places[0]


def _gathered(low: Lowering, op: Operation, template: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what gather and scatter share: first axis, index arrays, their common shape."""
    arrays = [low.computed(x) for x in op.operands[-sum(p == "array" for p in template) :]]
    first = _placement(template, len(arrays))
    if any(part is None or part is Ellipsis for part in template):
        raise NoNativeForm("an index with new axes")
    both = np.broadcast_shapes(*[x.shape for x in arrays])
    for x in arrays:
        if x.dtype.kind not in "iu":
            raise NoNativeForm("an index array")
        low.to_memory(x)
    return first, arrays, both


def _element_of(
    low: Lowering,
    x: Stored,
    template: tuple[Any, ...],
    arrays: list[Any],
    first: int,
    both: Shape,
    index: list[Affine],
) -> Affine:
    """Return the place in memory that an index of the result refers to."""
    from functrace.native.values import project

    place, taken = x.offset, iter(arrays)
    inner = index[first : first + len(both)]
    own = iter([*index[:first], *index[first + len(both) :]])
    rest = [(None, None, None)] * (len(x.shape) - len(template))
    for axis, part in enumerate((*template, *rest)):
        if part == indexing.ARRAY:
            array = next(taken)
            atom = low.atom(array, project(inner, array.shape))
            place = place.plus(_position(low, atom, x.shape[axis]), x.strides[axis])
        else:
            start, _, step = slice(*part).indices(x.shape[axis])
            place = place.plus(at(start * x.strides[axis]))
            place = place.plus(next(own), step * x.strides[axis])
    return place


def _gather(low: Lowering, op: Operation) -> Value:
    template = op.params[0]
    first, arrays, both = _gathered(low, op, template)
    x = low.stored(op.operands[0])
    target = low.target(op)
    with low.builder.loops(op.shape) as index:
        place = _element_of(low, x, template, arrays, first, both, index)
        low.builder.store(target.buffer, target.place(index), low.builder.load(x.buffer, place))
    if math.prod(op.shape) <= TINY:
        return Scalars(low.elements(target), op.dtype)
    return target


def _scatter(word: str) -> Row:
    """``scatter_add`` and ``scatter_set``; the order of writes is NumPy's."""

    def row(low: Lowering, op: Operation) -> Value:
        template = op.params[0]
        first, arrays, both = _gathered(low, op, template)
        builder, dtype = low.builder, op.dtype
        values = low.computed(op.operands[0 if word == "add" else 1])
        target = low.target(op)
        if word == "add":
            low.fill(target, Const(dtype.type(0).item(), dtype))
        else:
            low.copy(target, op.operands[0])
        low.to_memory(values)
        space = _gathered_shape(target.shape, template, first, both)
        from functrace.native.values import project

        with builder.loops(space) as index:
            place = _element_of(low, target, template, arrays, first, both, index)
            atom = low.cast(low.atom(values, project(index, values.shape)), dtype)
            if word == "add":
                atom = builder.let(
                    "or" if dtype.kind == "b" else "add",
                    dtype,
                    builder.load(target.buffer, place),
                    atom,
                )
            builder.store(target.buffer, place, atom)
        if math.prod(op.shape) <= TINY:
            return Scalars(low.elements(target), dtype)
        return target

    return row


def _gathered_shape(
    shape: Shape, template: tuple[Any, ...], first: int, both: Shape
) -> tuple[int, ...]:
    """Return the shape of the elements that an index with arrays refers to."""
    own: list[int] = []
    for part, size in zip(
        (*template, *[(None, None, None)] * (len(shape) - len(template))), shape, strict=True
    ):
        if part != indexing.ARRAY:
            own.append(len(range(*slice(*part).indices(size))))
    return (*own[:first], *both, *own[first:])


ROWS: dict[Primitive, Row] = {
    indexing.scatter_add_p: _scatter("add"),
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
