"""Loop nests that read rolled arrays: ``np.roll`` without a copy.

An element of a rolled array is at another position, which wraps around at one index. Along all axes but
the last, that position is computed once per row. The loop along the last axis is divided where
positions wrap; between two such indices they differ by a constant, and elements are lanes of vectors.

Layer: 7.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, TypeAlias, final

from functrace.native.loop_ir import BOOL, INT64, ZERO, Affine, Atom, Const, DType, affine, at
from functrace.native.values import Deferred, Operand, Reduction, Rolled, Shape, Stored

if TYPE_CHECKING:
    from functrace.native.lowering import Lowering

BYTES: Final = 64
"""Bytes of a vector."""
MOST_LANES: Final = 16
"""Lanes of a vector, at most."""

Body: TypeAlias = Callable[[Sequence[Affine]], None]
"""``body(index)``: writes the code of one element."""
Moved: TypeAlias = dict[tuple[Affine, int, int], Affine]
"""Positions that elements are read at, by position, shift and size of the axis."""


@final
class RolledNest:
    """A loop nest of elementwise operations that read rolled arrays.

    Args:
        low: the lowering.
        space: shape of the loop nest.
        values: the operations that it computes.
        targets: memory that it writes to.
        moved: gets the positions that the code of an element reads at.
    """

    def __init__(
        self,
        low: Lowering,
        space: Shape,
        values: Sequence[Deferred],
        targets: Sequence[Stored],
        moved: Moved,
    ) -> None:
        self._low, self._space, self._moved = low, space, moved
        self._shifts: list[set[int]] = [set() for _ in space]
        operands = [x for value in values for x in value.operands]
        for x in operands:
            if isinstance(x, Rolled):
                for axis, shift in enumerate(x.shifts, len(space) - len(x.shape)):
                    self._shifts[axis].add(shift)
        self._last = max(k for k, n in enumerate(space) if n > 1)
        self._lanes = _lanes([x.dtype for x in (*values, *operands, *targets)])
        written = {id(target.buffer) for target in targets}
        self._is_repeatable = not any(id(_buffer(x)) in written for x in operands)
        """True if elements can be computed twice: none of what is read is overwritten."""

    def write(self, body: Body) -> None:
        """Write the loop nest.

        Args:
            body: writes the code of one element.
        """
        builder, space = self._low.builder, self._space
        index = [ZERO] * len(space)
        with ExitStack() as loops:
            for axis, size in enumerate(space[: self._last]):
                if size == 1:
                    continue
                place = loops.enter_context(builder.loop(size, independent=True))
                index[axis] = affine(place)
                for shift in sorted(self._shifts[axis] - {0}):
                    self._moved[index[axis], shift, size] = self._move(place, shift, size)
            size = space[self._last]
            wraps = sorted(self._shifts[self._last] | {0, size})
            for start, stop in itertools.pairwise(wraps):
                self._between(index, start, stop, body)
        self._moved.clear()

    def _move(self, place: Atom, shift: int, size: int) -> Affine:
        """Return the position that a rolled array is read at."""
        let = self._low.builder.let
        is_behind = let("less", BOOL, place, Const(shift, INT64))
        before = let("sub", INT64, place, Const(shift, INT64))
        after = let("add", INT64, place, Const(size - shift, INT64))
        return affine(let("select", INT64, is_behind, after, before))

    def _between(self, index: list[Affine], start: int, stop: int, body: Body) -> None:
        """Write the code of the elements between two indices at which positions wrap."""
        size, builder = self._space[self._last], self._low.builder

        def element(position: Affine) -> None:
            for shift in self._shifts[self._last] - {0}:
                by = -shift if start >= shift else size - shift
                self._moved[position, shift, size] = position.plus(at(by))
            index[self._last] = position
            body(index)

        def lanes(first: Affine) -> None:
            with builder.loop(self._lanes, independent=True, lanes=True) as lane:
                element(first.plus(affine(lane)))

        many, rest = divmod(stop - start, self._lanes) if self._lanes > 1 else (0, stop - start)
        if many:
            with builder.loop(many, independent=True) as block:
                lanes(at(start).plus(affine(block), self._lanes))
        if rest and many and self._is_repeatable:
            lanes(at(stop - self._lanes))
        elif rest == 1:
            element(at(stop - 1))
        elif rest:
            with builder.loop(rest, independent=True) as place:
                element(at(stop - rest).plus(affine(place)))


def _lanes(dtypes: Sequence[DType]) -> int:
    """Return the lanes of vectors that hold elements of all dtypes; 1 for complex numbers."""
    if any(dtype.kind == "c" for dtype in dtypes):
        return 1
    return min(MOST_LANES, BYTES // max(dtype.itemsize for dtype in dtypes))


def _buffer(operand: Operand) -> object:
    """Return the memory that an operand is in, if that is known."""
    x = operand.source if isinstance(operand, Rolled) else operand
    if isinstance(x, Deferred | Reduction):
        x = x.result
    return x.buffer if isinstance(x, Stored) else None
