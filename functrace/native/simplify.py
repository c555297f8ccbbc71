"""Simplify loop IR so that it reads well: no fills that are overwritten, no copies, fewer loops.

A cotangent of a slice is zero elsewhere: it is lowered to a loop that fills an array, and one that
copies the slice into it. Here the fill keeps only the edges, the loop that computes the slice writes
to its place, and adjacent loops over the same range become one, if each element of a buffer is used
at the same step of both.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from functrace.native.loop_ir import (
    INT64,
    Affine,
    Atom,
    Buffer,
    Const,
    For,
    Function,
    Let,
    Load,
    Scalar,
    Statement,
    Store,
    at,
    blocks_of,
    buffers_of,
    walk,
)

LONGEST: int = 40
"""Statements of a loop up to which it is fused with another one."""


def simplify(function: Function) -> None:
    """Simplify a function in place."""
    _simplify_block(function.body, function)
    used = {buffer.name for s in walk(function.body) for buffer in buffers_of(s)}
    function.buffers[:] = [b for b in function.buffers if b.role != "temporary" or b.name in used]


def _simplify_block(block: list[Statement], function: Function) -> None:
    for statement in block:
        for inner in blocks_of(statement):
            _simplify_block(inner, function)
    _keep_edges(block)
    _forward_copies(block, function)
    _fuse(block)


def _touches(statement: Statement, buffer: Buffer) -> bool:
    """Return True if a statement, or a block inside it, accesses a buffer."""
    return any(x is buffer for s in walk((statement,)) for x in buffers_of(s))


class _Range(NamedTuple):
    """A range of elements that a loop accesses, one at every step, in order."""

    start: int
    stop: int


def _range(loop: For, index: Affine) -> _Range | None:
    if loop.reverse or type(loop.count) is not Const or index.terms != ((loop.counter, 1),):
        return None
    return _Range(index.offset, index.offset + loop.count.value)


# -- fills --


def _keep_edges(block: list[Statement]) -> None:
    """Fill only the edges of an array whose other elements are overwritten."""
    for fill in list(block):
        match fill:
            case For(body=[Store(buffer, index, Const() as value)]):
                whole = _range(fill, index)
            case _:
                continue
        place = next(k for k, s in enumerate(block) if s is fill)
        if whole is None or any(_touches(s, buffer) for s in block[:place]):
            continue
        after = next((s for s in block[place + 1 :] if _touches(s, buffer)), None)
        covered = _overwritten(after, buffer)
        if covered is None or covered.start < whole.start or covered.stop > whole.stop:
            continue
        del block[place]
        edges = (_Range(whole.start, covered.start), _Range(covered.stop, whole.stop))
        for edge in reversed(edges):
            count = edge.stop - edge.start
            if count == 1:
                block.insert(0, Store(buffer, at(edge.start), value))
            elif count:
                counter = f"{fill.counter}_{edge.start}"
                position = Affine(((counter, 1),), edge.start)
                body: list[Statement] = [Store(buffer, position, value)]
                block.insert(0, For(counter, Const(count, INT64), False, body, True))


def _overwritten(loop: Statement | None, buffer: Buffer) -> _Range | None:
    """Return the range of a buffer that a loop writes, if it does nothing else to the buffer."""
    if type(loop) is not For:
        return None
    found = [s for s in walk(loop.body) if any(x is buffer for x in buffers_of(s))]
    if len(found) != 1 or type(found[0]) is not Store or found[0] not in loop.body:
        return None
    return _range(loop, found[0].index)


# -- copies --


def _forward_copies(block: list[Statement], function: Function) -> None:
    """Write to the target of a copy at once."""
    for copy in list(block):
        match copy:
            case For(body=[Load(name, _, source, taken), Store(target, put, Scalar() as value)]):
                if value.name != name or source.role != "temporary" or source is target:
                    continue
            case _:
                continue
        if source.dtype != target.dtype or _range(copy, put) is None:
            continue
        accesses = [s for s in walk(function.body) if any(x is source for x in buffers_of(s))]
        place = next(k for k, s in enumerate(block) if s is copy)
        maker = next((k for k in reversed(range(place)) if _touches(block[k], source)), None)
        if len(accesses) != 2 or maker is None:
            continue
        if any(_touches(s, target) for s in block[maker:place]):
            continue
        loop = block[maker]
        if type(loop) is not For or _overwritten(loop, source) != _range(copy, taken):
            continue
        body = [
            Store(target, Affine(((loop.counter, 1),), put.offset), s.value)
            if type(s) is Store and s.buffer is source
            else s
            for s in loop.body
        ]
        block[maker] = replace(loop, body=body)
        del block[place]


# -- fusion --


def _fuse(block: list[Statement]) -> None:
    """Join adjacent loops."""
    k = 0
    while k + 1 < len(block):
        first, second = block[k], block[k + 1]
        if type(first) is For and type(second) is For and _can_fuse(first, second):
            block[k : k + 2] = [_joined(first, second)]
        else:
            k += 1


def _can_fuse(first: For, second: For) -> bool:
    if (
        first.reverse
        or second.reverse
        or first.lanes
        or second.lanes
        or type(first.count) is not Const
        or first.count != second.count
        or len(first.body) + len(second.body) > LONGEST
        or not all(isinstance(s, Let | Load | Store) for s in (*first.body, *second.body))
    ):
        return False
    written = {id(s.buffer) for s in (*first.body, *second.body) if type(s) is Store}
    indices = [
        {(id(s.buffer), _offset(loop, s.index)) for s in _accesses(loop) if id(s.buffer) in written}
        for loop in (first, second)
    ]
    shared = {b for b, _ in indices[0]} & {b for b, _ in indices[1]}
    for buffer in shared:
        offsets = {offset for one in indices for b, offset in one if b == buffer}
        if len(offsets) != 1 or None in offsets:
            return False
    return True


def _accesses(loop: For) -> Iterator[Load | Store]:
    for statement in loop.body:
        if isinstance(statement, Load | Store):
            yield statement


def _offset(loop: For, index: Affine) -> Affine | None:
    """Return an index without its counter, which must be there once; ``None`` for another index."""
    if dict(index.terms).get(loop.counter) != 1:
        return None
    return Affine(tuple(t for t in index.terms if t[0] != loop.counter), index.offset)


def _joined(first: For, second: For) -> For:
    """Return both loops as one; numbers of read-only arrays are loaded once."""
    names: dict[str, Atom] = {second.counter: Scalar(first.counter, INT64)}
    loaded: dict[tuple[str, Affine], Atom] = {}
    body: list[Statement] = []
    for statement in (*first.body, *second.body):
        made = _renamed(statement, names)
        if type(made) is Load and made.buffer.role in ("argument", "constant"):
            key = made.buffer.name, made.index
            if key in loaded:
                names[made.name] = loaded[key]
                continue
            loaded[key] = Scalar(made.name, made.dtype)
        body.append(made)
    return replace(first, body=body, independent=first.independent and second.independent)


def _renamed(statement: Statement, names: dict[str, Atom]) -> Statement:
    def atom(x: Atom) -> Atom:
        return names.get(x.name, x) if type(x) is Scalar else x

    def moved(index: Affine) -> Affine:
        found = Affine((), index.offset)
        for name, by in index.terms:
            new = names.get(name)
            found = found.plus(Affine(((new.name if type(new) is Scalar else name, 1),)), by)
        return found

    match statement:
        case Let(name, dtype, op, operands):
            return Let(name, dtype, op, tuple(map(atom, operands)))
        case Load(name, dtype, buffer, index):
            return Load(name, dtype, buffer, moved(index))
        case Store(buffer, index, value):
            return Store(buffer, moved(index), atom(value))
        case _:
            return statement
