"""Loop nests that add in NumPy's order, elements being computed where they are added.

A run is summed pairwise; see `functrace.native.numpy_order`. Its partial sums are the lanes of a
vector, and the sums of its parts are added in a binary tree: after part ``j``, as many sums on a
stack are added as ``j`` has ones at its end, in binary.

Layer: 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias, final

from functrace.native.loop_ir import (
    BOOL,
    INT64,
    ZERO,
    Affine,
    Atom,
    Buffer,
    Const,
    If,
    Scalar,
    affine,
    at,
)
from functrace.native.numpy_order import BLOCKS, LANES, halves
from functrace.native.values import Order, Reduction, Shape, Stored

if TYPE_CHECKING:
    from functrace.native.lowering import Lowering

Index: TypeAlias = Sequence[Affine]
Add: TypeAlias = Callable[[Reduction, Atom, Index], None]
"""``add(root, atom, index)``: adds an element to a reduction."""
Body: TypeAlias = Callable[[Index, Add], None]
"""``body(index, add)``: writes the code of one element."""
Totals: TypeAlias = Mapping[int, Atom]
"""Sums by number of the reduction."""

WIDE: Final = 16
"""Bytes of a lane, of all steps that are computed together: two vectors of 64 bytes."""
LINE: Final = 1024
"""Elements of a line of memory, at least; or those of a row."""
CHEAP: Final = 12
"""Cost of an element up to which a step of all lanes is computed twice, for a branch less."""


def lanes_of(root: Reduction) -> int:
    """Return in how many partial sums NumPy adds."""
    return LANES // 2 if root.dtype.kind == "c" else LANES


def can_join(root: Reduction, leader: Reduction) -> bool:
    """Return True if a reduction can be in the loop nest of a sum.

    Args:
        root: the reduction.
        leader: the sum, in NumPy's order.
    """
    mine, order = root.order, leader.order
    assert order is not None
    run = order.axes[len(order.axes) - order.run :]
    if mine == order:
        return lanes_of(root) == lanes_of(leader) and root.op == leader.op
    is_whole = all(axis in root.axes for axis in run)
    is_apart = len(run) < 2 and not any(axis in root.axes for axis in run)
    if mine is None:
        return is_whole or is_apart
    if mine.run or not is_apart:
        return False
    return [k for k in order.axes if k in root.axes] == [k for k in mine.axes if k in root.axes]


def is_flat(view: Stored, shape: Shape, run: Sequence[int]) -> bool:
    """Return True if an array that broadcasts to a shape continues along the axes of a run."""
    first = len(shape) - len(view.shape)
    sizes = [1 if k < first else view.shape[k - first] for k in run]
    if all(n == 1 for n in sizes):
        return True
    strides = [0 if k < first else view.strides[k - first] for k in run]
    return all(n > 1 for n in sizes) and all(
        strides[k] == strides[k + 1] * shape[run[k + 1]] for k in range(len(run) - 1)
    )


@final
class RunNest:
    """The loop nest of reductions along a run.

    Args:
        low: the lowering.
        space: shape of the loop nest.
        order: of the sums.
        roots: the reductions.
        body: writes the code of one element.
        is_flat: True if all arrays continue along the axes of the run. If not, and if rows are not
            whole numbers of steps, elements are written to lines of memory before they are added.
        cost: of the code of an element.
        stores: True if the code of an element stores it, perhaps where it is read: an element must
            not be computed twice.
    """

    def __init__(
        self,
        low: Lowering,
        space: Shape,
        order: Order,
        roots: Sequence[Reduction],
        body: Body,
        is_flat: bool,
        cost: int,
        stores: bool,
    ) -> None:
        self._low, self._space, self._body = low, space, body
        self._outer = order.axes[: len(order.axes) - order.run]
        self._run = order.axes[len(order.axes) - order.run :]
        self._sums = [root for root in roots if root.order == order and root.op == "add"]
        self._own = [root for root in roots if all(k in root.axes for k in self._run)]
        """Reductions over the whole run; the rest is added to memory element by element."""
        self._others = [root for root in self._own if root not in self._sums]
        self._lanes = max(lanes_of(root) for root in self._sums)
        self._index: list[Affine] = []
        self._base = ZERO
        size, row = math.prod(space[k] for k in self._run), space[self._run[-1]]
        # elements that are computed twice, or that are computed together
        self._has_lines = not is_flat and row % self._lanes != 0
        self._is_flat = is_flat or self._has_lines
        is_cheap = cost <= CHEAP and not self._has_lines
        self._is_cheap = is_cheap and len(self._sums) == len(roots) and not stores
        self._times = max(1, WIDE // max(root.dtype.itemsize for root in roots))
        has_rows = is_flat or (
            row % (self._times * self._lanes) == 0 and self._parts_begin_with(size, self._times)
        )
        self._is_wide = has_rows and cost > CHEAP and self._lanes == LANES
        # lines
        self._is_short, self._rows = size <= LINE, max(1, LINE // row)
        self._all_rows = Const(size // row, INT64)
        capacity = size if self._is_short else self._rows * row + (BLOCKS + 1) * self._lanes
        self._parts = self._buffers(self._lanes)
        self._wide = self._buffers(self._times * self._lanes if self._is_wide else 0)
        self._lines = self._buffers(capacity if self._has_lines else 0)

    def _buffers(self, size: int) -> dict[int, Buffer]:
        """Return new memory by number of the reduction, if its size is not zero."""
        own = self._own if size else ()
        return {root.number: self._low.builder.buffer(root.dtype, size) for root in own}

    def _parts_begin_with(self, size: int, times: int) -> bool:
        """Return True if every part of a run begins after whole multiples of so many steps."""
        blocks, rest = divmod(size, self._lanes)
        cut = halves(blocks, rest)
        parts = 1 << cut.depth
        return parts == 1 or (cut.is_even and blocks % (parts * times) == 0)

    def write(self, join: Add) -> None:
        """Write the loop nest.

        Args:
            join: joins the value of a run to a reduction, or an element to one that keeps the axes
                of the run.
        """
        self._add = join
        with loops_over(self._low, self._space, self._outer) as index:
            self._index = index
            totals = self._along_run()
            for root in self._own:
                join(root, totals[root.number], index)

    # -- a run --

    def _along_run(self) -> Totals:
        size = math.prod(self._space[k] for k in self._run)
        blocks, rest = divmod(size, self._lanes)
        if self._has_lines:
            self._start_lines()
        variables = {root.number: self._low.builder.declare(_empty(root)) for root in self._others}
        if not blocks:
            short = {root.number: self._low.builder.declare(_empty(root)) for root in self._sums}
            self._one_by_one(ZERO, rest, {**short, **variables})
            return self._values({**short, **variables})
        for root in self._others:
            self._fill(root)
        cut = halves(blocks, rest)
        sums = (
            self._tree(blocks, rest, variables)
            if cut.depth
            else self._part(ZERO, blocks, rest, blocks * self._lanes, variables)
        )
        found = dict(sums)
        for root in self._others:
            lanes = self._joined_lanes(root)
            last = self._low.builder.get(variables[root.number])
            found[root.number] = self._low.join(root.op, lanes, last)
        return found

    def _values(self, variables: Mapping[int, Scalar]) -> Totals:
        return {number: self._low.builder.get(one) for number, one in variables.items()}

    def _fill(self, root: Reduction) -> None:
        buffer = self._parts[root.number]
        with self._low.builder.loop(self._lanes, independent=True, lanes=True) as lane:
            self._low.builder.store(buffer, affine(lane), _empty(root))

    def _joined_lanes(self, root: Reduction) -> Atom:
        """Return the sum of all lanes, of which neighbours are added first."""
        builder, buffer, width = self._low.builder, self._parts[root.number], self._lanes
        if root.dtype.kind == "f":
            # (vectors of 16 bytes and more: shorter ones have lanes that do not exist)
            while width * root.dtype.itemsize >= 32:
                width //= 2
                narrow = builder.buffer(root.dtype, width)
                with builder.loop(width, independent=True, lanes=True) as lane:
                    pair = [builder.load(buffer, Affine(((lane.name, 2),), k)) for k in (0, 1)]
                    builder.store(narrow, affine(lane), self._low.join(root.op, *pair))
                buffer = narrow
        parts = [builder.load(buffer, at(k)) for k in range(width)]
        while len(parts) > 1:
            parts = [
                self._low.join(root.op, a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)
            ]
        return parts[0]

    def _place(self, position: Affine) -> list[Affine]:
        """Return the index of an element of the run."""
        index = list(self._index)
        index[self._run[-1]] = position
        return index

    def _wide_step(self, start: Affine, block: Affine) -> None:
        """Write the code of some steps of all lanes: elements are computed on wider vectors."""
        builder = self._low.builder

        def keep(root: Reduction, atom: Atom, index: Index) -> None:
            if root.number in self._parts:
                builder.store(self._wide[root.number], self._lane, atom)
            else:
                self._add(root, atom, index)

        self._step(start, block, keep, self._times)
        for part in range(self._times):
            with builder.loop(self._lanes, independent=True, lanes=True) as lane:
                self._lane = affine(lane)
                for root in self._own:
                    place = self._lane.plus(at(part * self._lanes))
                    self._add_lane(root, builder.load(self._wide[root.number], place), ())

    def _step(self, start: Affine, block: Affine, add: Add, times: int = 1) -> None:
        """Write the code of all lanes, or of some times as many."""
        builder, index = self._low.builder, list(self._index)
        position = start.plus(block, self._lanes)
        if not self._is_flat:
            # (rows are whole numbers of steps, so that all lanes are in one row)
            left = self._atom(position)
            for axis in reversed(self._run[1:]):
                size = Const(self._space[axis], INT64)
                index[axis] = affine(builder.let("rest", INT64, left, size))
                left = builder.let("div", INT64, left, size)
            index[self._run[0]] = affine(left)
            position = index[self._run[-1]]
        with builder.loop(times * self._lanes, independent=True, lanes=True) as lane:
            index[self._run[-1]] = position.plus(affine(lane))
            self._lane = affine(lane)
            self._element(index, add)

    # -- lines --

    def _element(self, index: Index, add: Add) -> None:
        """Write the code of one element, or load it from a line."""
        if not self._has_lines:
            self._body(index, add)
            return
        place = index[self._run[-1]].plus(self._base, -1)
        for root in self._own:
            add(root, self._low.builder.load(self._lines[root.number], place), index)

    def _start_lines(self) -> None:
        """Start with empty lines; write a short run at once."""
        builder = self._low.builder
        self._base = ZERO
        if self._is_short:
            self._write_rows(ZERO, self._all_rows, ZERO)
        else:
            self._begin, self._end, self._row = (builder.declare(Const(0, INT64)) for _ in range(3))

    def _length(self, blocks: int | Atom, rest: int | Atom) -> Atom:
        """Return the number of elements of a part."""
        let = self._low.builder.let
        steps, more = (Const(x, INT64) if isinstance(x, int) else x for x in (blocks, rest))
        return let("add", INT64, let("mul", INT64, steps, Const(self._lanes, INT64)), more)

    def _need(self, start: Affine, length: Atom) -> None:
        """Write the elements of a part to the lines, unless they are there: whole rows, after what is
        left of the former ones.
        """
        builder = self._low.builder
        let = builder.let
        first, last = self._atom(start), builder.get(self._end)
        is_short = let("greater", BOOL, let("add", INT64, first, length), last)
        with builder.block() as then:
            before, row = builder.get(self._begin), builder.get(self._row)
            left = let("sub", INT64, last, first)
            with builder.loop(left, independent=True) as place:
                old = affine(place).plus(affine(first)).plus(affine(before), -1)
                for line in self._lines.values():
                    builder.store(line, affine(place), builder.load(line, old))
            more = let("sub", INT64, self._all_rows, row)
            limit = Const(self._rows, INT64)
            more = let("select", INT64, let("less", BOOL, more, limit), more, limit)
            self._write_rows(affine(row), more, affine(left))
            builder.assign(self._begin, first)
            builder.assign(self._row, let("add", INT64, row, more))
            done = let("mul", INT64, more, Const(self._space[self._run[-1]], INT64))
            builder.assign(self._end, let("add", INT64, last, done))
        builder.body.append(If(is_short, then, []))
        self._base = affine(builder.get(self._begin))

    def _write_rows(self, first: Affine, count: Atom, offset: Affine) -> None:
        """Write rows to the lines, from an offset on."""
        builder, index = self._low.builder, list(self._index)
        size = self._space[self._run[-1]]
        with builder.loop(count, independent=True) as row:
            left = self._atom(first.plus(affine(row)))
            for axis in reversed(self._run[1:-1]):
                length = Const(self._space[axis], INT64)
                index[axis] = affine(builder.let("rest", INT64, left, length))
                left = builder.let("div", INT64, left, length)
            index[self._run[0]] = affine(left)
            with builder.loop(size, independent=True) as column:
                index[self._run[-1]] = affine(column)
                place = offset.plus(affine(row), size).plus(affine(column))

                def keep(root: Reduction, atom: Atom, at: Index, place: Affine = place) -> None:
                    line = self._lines.get(root.number)
                    if line is None:
                        self._add(root, atom, at)
                    else:
                        builder.store(line, place, atom)

                self._body(index, keep)

    def _atom(self, position: Affine) -> Atom:
        builder = self._low.builder
        total: Atom = Const(position.offset, INT64)
        for name, factor in position.terms:
            term: Atom = Scalar(name, INT64)
            if factor != 1:
                term = builder.let("mul", INT64, term, Const(factor, INT64))
            is_zero = type(total) is Const and not total.value
            total = term if is_zero else builder.let("add", INT64, total, term)
        return total

    def _add_lane(self, root: Reduction, atom: Atom, index: Index) -> None:
        if root.number not in self._parts:
            self._add(root, atom, index)
            return
        buffer, builder = self._parts[root.number], self._low.builder
        total = self._low.join(root.op, builder.load(buffer, self._lane), atom)
        builder.store(buffer, self._lane, total)

    def _add_lane_if(self, condition: Atom) -> Add:
        def add(root: Reduction, atom: Atom, index: Index) -> None:
            buffer, builder = self._parts[root.number], self._low.builder
            before = builder.load(buffer, self._lane)
            total = self._low.join(root.op, before, atom)
            builder.store(
                buffer, self._lane, builder.let("select", root.dtype, condition, total, before)
            )

        return add

    def _one_by_one(
        self, start: Affine, count: int | Atom, variables: Mapping[int, Scalar]
    ) -> None:
        """Write a loop that adds one element after the other to mutable scalars."""
        builder = self._low.builder

        def add(root: Reduction, atom: Atom, index: Index) -> None:
            variable = variables.get(root.number)
            if variable is None:
                self._add(root, atom, index)
            else:
                total = self._low.join(root.op, builder.get(variable), atom)
                builder.assign(variable, total)

        if count == 1:
            self._element(self._place(start), add)
            return
        with builder.loop(count, independent=True) as counter:
            self._element(self._place(start.plus(affine(counter))), add)

    def _part(
        self,
        start: Affine,
        blocks: int | Atom,
        rest: int | Atom,
        end: int,
        variables: Mapping[int, Scalar],
        more: Atom | None = None,
    ) -> Totals:
        """Write the sum of a part that is not halved; returns it by reduction.

        Args:
            start: its first element.
            blocks: steps of all lanes.
            rest: number of elements after these.
            end: the first one of these elements.
            variables: of the reductions whose order does not matter, for the rest.
            more: True if there is one more step.
        """
        builder = self._low.builder
        if self._has_lines and not self._is_short:
            self._need(start, self._length(blocks, rest))
        for root in self._sums:
            self._fill(root)
        left: int | Atom = blocks
        first = ZERO
        if self._is_wide:
            if type(blocks) is int:
                many, left = divmod(blocks, self._times)
                first = at(blocks - left)
            else:
                assert not isinstance(blocks, int)
                many = builder.let("div", INT64, blocks, Const(self._times, INT64))
                left = builder.let("rest", INT64, blocks, Const(self._times, INT64))
                first = affine(builder.let("sub", INT64, blocks, left))
            if many != 0:
                with builder.loop(many, independent=True) as place:
                    self._wide_step(start, Affine(((place.name, self._times),)))
        if left != 0:
            with builder.loop(left, independent=True) as block:
                self._step(start, first.plus(affine(block)), self._add_lane)
        if more is not None:
            assert type(blocks) is int
            self._step(start, at(blocks), self._add_lane_if(more))
        sums = {root.number: self._joined_lanes(root) for root in self._sums}
        if rest == 0:
            return sums
        own = {number: builder.declare(atom) for number, atom in sums.items()}
        self._one_by_one(at(end), rest, {**own, **variables})
        return self._values(own)

    def _tree(self, blocks: int, rest: int, variables: Mapping[int, Scalar]) -> Totals:
        """Write the sum of a run that is halved."""
        builder = self._low.builder
        let = builder.let
        cut = halves(blocks, rest)
        parts, one = 1 << cut.depth, Const(1, INT64)
        stacks = {root.number: builder.buffer(root.dtype, cut.depth + 1) for root in self._sums}
        is_same = cut.is_even and not blocks % parts
        start_, turned_ = builder.declare(Const(0, INT64)), builder.declare(Const(0, INT64))
        with builder.loop(parts, independent=True) as part:
            start: Affine = Affine(((part.name, self._lanes * (blocks // parts)),))
            count: int | Atom = blocks // parts
            more: Atom | None = None
            if not is_same:
                begin = builder.get(start_)
                start, count = affine(begin), self._blocks(blocks, rest, builder.get(turned_), part)
                builder.assign(
                    start_,
                    let("add", INT64, begin, let("mul", INT64, count, Const(self._lanes, INT64))),
                )
                if cut.is_even and self._is_cheap:
                    more = let("greater", BOOL, count, Const(blocks // parts, INT64))
                    count = blocks // parts
            left: int | Atom = rest
            if rest:
                is_last = let("equal", BOOL, part, Const(cut.last, INT64))
                left = let("select", INT64, is_last, Const(rest, INT64), Const(0, INT64))
            sums = self._part(start, count, left, blocks * self._lanes, variables, more)
            after = let("add", INT64, part, one)
            ones = let("count_bits", INT64, let("xor", INT64, part, after))
            ones = let("sub", INT64, ones, one)
            totals = {number: builder.declare(atom) for number, atom in sums.items()}
            with builder.loop(ones, independent=True) as level:
                for root in self._sums:
                    other = builder.load(stacks[root.number], affine(level))
                    total = totals[root.number]
                    builder.assign(total, self._low.join("add", other, builder.get(total)))
            for root in self._sums:
                builder.store(stacks[root.number], affine(ones), builder.get(totals[root.number]))
            if not is_same:
                # count up with reversed bits
                first = let("shift_right", INT64, Const(parts, INT64), ones)
                turned = let("sub", INT64, builder.get(turned_), Const(parts, INT64))
                turned = let("add", INT64, turned, first)
                turned = let("add", INT64, turned, let("shift_right", INT64, first, one))
                builder.assign(turned_, turned)
        return {
            root.number: builder.load(stacks[root.number], at(cut.depth)) for root in self._sums
        }

    def _blocks(self, blocks: int, rest: int, turned: Atom, part: Atom) -> Atom:
        """Return the steps of a part; see `halves`."""
        let = self._low.builder.let
        cut = halves(blocks, rest)

        def number(value: int) -> Const:
            return Const(value, INT64)

        def cut_in(depth: int, turned: Atom) -> Atom:
            total = let("add", INT64, turned, number(blocks))
            return let("shift_right", INT64, total, number(depth))

        found = cut_in(cut.depth, turned)
        if cut.is_even:
            return found
        half = 1 << (cut.depth - 1)
        whole = cut_in(cut.depth - 1, let("and", INT64, turned, number(half - 1)))
        size = let("mul", INT64, whole, number(self._lanes))
        if rest:
            place = let("shift_right", INT64, part, number(1))
            is_last = let("equal", BOOL, place, number(half - 1))
            more = let("select", INT64, is_last, number(rest), number(0))
            size = let("add", INT64, size, more)
        is_cut = let("greater", BOOL, size, number(self._lanes * BLOCKS))
        is_second = let("greater", BOOL, let("and", INT64, part, number(1)), number(0))
        uncut = let("select", INT64, is_second, number(0), whole)
        return let("select", INT64, is_cut, found, uncut)


def _empty(root: Reduction) -> Atom:
    """Return what leaves any element as it is."""
    if root.op != "add":
        return root.first
    zero = -0.0 if root.dtype.kind == "f" else complex(-0.0, -0.0) if root.dtype.kind == "c" else 0
    return Const(zero, root.dtype)


@contextmanager
def loops_over(low: Lowering, space: Shape, axes: Sequence[int]) -> Generator[list[Affine]]:
    """Write a loop nest over some axes, the last one innermost; yields the index."""
    with low.builder.loops([space[k] for k in axes]) as places:
        index = [ZERO] * len(space)
        for axis, place in zip(axes, places, strict=True):
            index[axis] = place
        yield index
