"""Loop nests of a function that are equal but for names: each is compiled once.

A Python loop of 100 equal steps becomes 100 loop nests that differ in the arrays that they read and
write. Here they are found; the printer of LLVM IR makes a function of the first one, and calls it.

Layer: 7.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import Final, NamedTuple, final

from functrace.native.loop_ir import (
    INT64,
    Affine,
    Assign,
    Atom,
    Buffer,
    Const,
    Declare,
    Fail,
    For,
    Get,
    If,
    Let,
    Load,
    MatrixProduct,
    Scalar,
    Statement,
    Store,
    While,
    blocks_of,
    indices_of,
)

LEAST_WORK: Final = 4096
"""Instructions of a loop nest from which it can be a function of its own: a call takes some ns."""


class CalledLoop(NamedTuple):
    """A loop nest as a call of a function.

    Args:
        key: equal for loop nests that are equal but for names.
        buffers: the memory that it accesses, in the order of the code.
        scalars: scalars from outside that it reads, in the order of the code.
    """

    key: Hashable
    buffers: list[Buffer]
    scalars: list[Scalar]


class Repeats(NamedTuple):
    """The loop nests of a function that occur more than once.

    Args:
        calls: by id of the loop.
        firsts: the first loop of each kind, by key.
    """

    calls: dict[int, CalledLoop]
    firsts: dict[Hashable, For]

    def count(self, block: Sequence[Statement]) -> int:
        """Return how long the code of a block is, in statements; the arithmetic of indices counts."""
        total = 0
        for statement in block:
            total += 1 + sum(2 * len(index.terms) for index in indices_of(statement))
            nest = self.calls.get(id(statement))
            if nest is not None:
                total += len(nest.buffers)
                if self.firsts[nest.key] is not statement:
                    continue
            total += sum(map(self.count, blocks_of(statement)))
        return total


def repeats_in(block: Sequence[Statement]) -> Repeats:
    """Find the outermost loop nests that occur more than once, at the same depth."""
    found = Repeats({}, {})
    blocks: list[Sequence[Statement]] = [block]
    while blocks:
        loops = [loop for inner in blocks for loop in _outermost(inner)]
        read = [_Reader(loop) for loop in loops]
        counts = Counter(x.key for x in read if x.is_callable)
        blocks = []
        for loop, x in zip(loops, read, strict=True):
            if x.is_callable and counts[x.key] > 1:
                found.calls[id(loop)] = CalledLoop(x.key, [*x.buffers.values()], x.scalars)
                if found.firsts.setdefault(x.key, loop) is not loop:
                    continue
            if x.work >= LEAST_WORK:
                blocks.append(loop.body)
    return found


def _outermost(block: Sequence[Statement]) -> Iterator[For]:
    """Yield the outermost loops of a block."""
    for statement in block:
        if type(statement) is For:
            yield statement
        else:
            for inner in blocks_of(statement):
                yield from _outermost(inner)


@final
class _Reader:
    """Reads a loop nest: its statements with numbers in place of names.

    Args:
        loop: the loop nest.

    Attributes:
        key: equal for loop nests that are equal but for names.
        work: about how many instructions it runs.
        buffers, scalars: as for `CalledLoop`.
        is_callable: True if it can be a function: it is not short, and changes no variables from
            outside.
    """

    def __init__(self, loop: For) -> None:
        self._tokens: list[Hashable] = []
        self.buffers: dict[str, Buffer] = {}
        self.scalars: list[Scalar] = []
        self._names: dict[str, int] = {}
        self._places: dict[str, int] = {}
        self._has_outer_variables = False
        self.work = self._block((loop,))
        self.key: Hashable = tuple(self._tokens)
        self.is_callable = self.work >= LEAST_WORK and not self._has_outer_variables

    def _define(self, name: str) -> None:
        self._names[name] = len(self._names)

    def _use(self, scalar: Scalar) -> int:
        if scalar.name not in self._names:
            self._define(scalar.name)
            self.scalars.append(scalar)
            self._tokens.append(("from outside", scalar.dtype.str))
        return self._names[scalar.name]

    def _variable(self, name: str) -> int:
        if name not in self._names:
            self._has_outer_variables = True
            return -1
        return self._names[name]

    def _atom(self, atom: Atom) -> Hashable:
        if type(atom) is Const:
            return repr(atom.value), atom.dtype.str
        return self._use(atom)

    def _index(self, index: Affine) -> Hashable:
        terms = [(self._use(Scalar(name, INT64)), by) for name, by in index.terms]
        return tuple(sorted(terms)), index.offset

    def _buffer(self, buffer: Buffer) -> Hashable:
        if buffer.name not in self.buffers:
            self._places[buffer.name] = len(self.buffers)
            self.buffers[buffer.name] = buffer
        return self._places[buffer.name], buffer.dtype.str

    def _block(self, block: Sequence[Statement]) -> float:
        """Read a block; returns about how many instructions it runs."""
        add = self._tokens.append
        total = 0.0
        add(len(block))
        for statement in block:
            work = 1.0
            match statement:
                case Let(name, dtype, op, operands):
                    given = tuple(map(self._atom, operands))
                    self._define(name)
                    add(("let", dtype.str, op, given))
                case Load(name, dtype, buffer, index):
                    place = self._index(index)
                    self._define(name)
                    add(("load", dtype.str, self._buffer(buffer), place))
                case Store(buffer, index, value):
                    add(("store", self._buffer(buffer), self._index(index), self._atom(value)))
                case Declare(name, dtype, value):
                    first = self._atom(value)
                    self._define(name)
                    add(("declare", dtype.str, first))
                case Get(name, dtype, variable):
                    read = self._variable(variable)
                    self._define(name)
                    add(("get", dtype.str, read))
                case Assign(variable, value):
                    add(("assign", self._variable(variable), self._atom(value)))
                case For(counter, count, reverse, body, independent, lanes):
                    steps = self._atom(count)
                    self._define(counter)
                    add(("for", steps, reverse, independent, lanes))
                    work = self._block(body)
                    work *= count.value if type(count) is Const else math.inf
                case While(condition, value, body):
                    add("while")
                    work = math.inf
                    self._block(condition)
                    add(self._atom(value))
                    self._block(body)
                case If(value, then, otherwise):
                    add(("if", self._atom(value)))
                    work = max(self._block(then), self._block(otherwise))
                case Fail(value, code):
                    add(("fail", self._atom(value), code))
                case MatrixProduct(a, b, c, sizes):
                    matrices = [(self._buffer(x[0]), self._index(x[1]), *x[2:]) for x in (a, b, c)]
                    add(("product", tuple(matrices), sizes))
                    work = float(math.prod(sizes))
            total += work
        return total
