"""Find the repeated steps of unrolled Python loops, for XLA, which then gets a loop, and for
checkpoints of steps.

A Python loop is recorded step by step. XLA compiles such a program slowly, and runs it slower than a
loop; and a reverse pass keeps the residuals of all steps. Here runs of equal steps are found in the
order of evaluation: the same primitives, params and avals, whose operands are, step by step, the
same values, results of the same step, results of the step before, or other values from before the
loop (which are stacked).

Layer: 6.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, final

import numpy as np

from functrace.ir.program import Program
from functrace.ops.broadcasting import Elementwise
from functrace.ops.elementwise import add
from functrace.ops.indexing import embed_p, index_p

FEWEST_STEPS: Final = 4
"""Steps from which a loop is rerolled."""
FEWEST_SAVED: Final = 40
"""Operations that a loop has to save."""
MOST_FUSED: Final = 2000
"""Operations of a program up to which XLA makes one loop over elements of elementwise steps in about
a second. Rerolled, such steps take twice as long.
"""

Local: TypeAlias = tuple[int, int]
"""A result in a step: the operation's place in the step, and the number of the result."""


@final
class Fixed(NamedTuple):
    """An operand that is the same variable, or literal, in all steps."""

    variable: int


@final
class Own(NamedTuple):
    """An operand that is a result of the same step."""

    of: Local


@final
class Carried(NamedTuple):
    """An operand that is a carry, by number."""

    number: int


@final
class Sliced(NamedTuple):
    """An operand that is another variable in every step; by number of the slices."""

    number: int


Operand: TypeAlias = Fixed | Own | Carried | Sliced


@final
class Carry(NamedTuple):
    """A value that a step takes from the step before.

    Args:
        first: the variable that the first step takes.
        of: the result of the step before.
    """

    first: int
    of: Local


@final
class Region(NamedTuple):
    """A loop in a program.

    Args:
        start: place of its first operation in the order.
        period: operations of a step.
        steps: number of steps.
        operands: by operation of a step, its operands.
        carries: the carried values.
        slices: variables of sliced operands, one per step.
        kept: results that are read after the loop, stacked.
    """

    start: int
    period: int
    steps: int
    operands: tuple[tuple[Operand, ...], ...]
    carries: tuple[Carry, ...]
    slices: tuple[tuple[int, ...], ...]
    kept: tuple[Local, ...]

    @property
    def end(self) -> int:
        """Place in the order after its last operation."""
        return self.start + self.period * self.steps


def rerolled(program: Program) -> tuple[list[int], tuple[Region, ...]]:
    """Return the operations of a program in an order of evaluation, and the loops in that order;
    found once."""
    found = program.derived.get(rerolled)
    if found is None:
        order = evaluation_order(program)
        loops = [
            x
            for x in loops_in(program, order)
            if len(order) > MOST_FUSED or not is_elementwise(program, order, x)
        ]
        found = program.derived[rerolled] = order, tuple(loops)
    return found


def is_elementwise(program: Program, order: Sequence[int], region: Region) -> bool:
    """Return True if a step of a loop is elementwise operations on arrays of one shape."""
    step = order[region.start : region.start + region.period]
    return all(isinstance(program.ops[k][0], Elementwise) for k in step) and (
        len({program.avals[k].shape for k in step}) == 1
    )


def evaluation_order(program: Program) -> list[int]:
    """Return the operations, by the variable of the first result, in an order of evaluation.

    A loop that takes ``x[k]`` in step ``k`` would differ in every step, and so would the cotangent of
    ``x``, to which step ``k`` adds an array with zeros around its part: parts of arguments and
    constants come first, and such sums that nothing else reads come last.
    """
    given = {*program.input_ids, *program.constant_values}
    readers: dict[int, list[int]] = {}
    for k, _ in program.schedule:
        for i in program.ops[k][1]:
            readers.setdefault(i, []).append(k)
    late: set[int] = set()
    for k, _ in reversed(program.schedule):
        primitive = program.ops[k][0]
        if primitive is embed_p or (primitive is add and program.avals[k].shape):
            users = readers.get(k, ())
            if late.issuperset(users) if primitive is add else users and late.issuperset(users):
                late.add(k)
    ordered: tuple[list[int], list[int], list[int]] = [], [], []
    for k, _ in program.schedule:
        primitive, operands, _ = program.ops[k]
        is_part = primitive is index_p and given.issuperset(operands)
        ordered[0 if is_part else 2 if k in late else 1].append(k)
    return [k for part in ordered for k in part]


def loops_in(
    program: Program, order: Sequence[int], fewest_saved: int = FEWEST_SAVED
) -> tuple[Region, ...]:
    """Return the loops of a program, in order; they do not overlap.

    Args:
        program: the program.
        order: see `evaluation_order`.
        fewest_saved: number of operations that a loop has to save.

    Cost:
        operations times the longest possible step, 0.2 s for 10,000 operations.
    """
    if len(order) < fewest_saved:
        return ()
    finder = _Finder(program, order, fewest_saved)
    found: list[Region] = []
    waiting = [(0, len(order))]
    while waiting:
        low, high = waiting.pop()
        region = finder.best(low, high)
        if region is not None:
            found.append(region)
            waiting += [(low, region.start), (region.end, high)]
    found.sort()
    return tuple(map(finder.with_kept, found))


@final
class _Finder:
    """Finds loops in a program.

    Args:
        program: the program.
        order: its operations, by the variable of the first result, in order of evaluation.
        fewest_saved: number of operations that a loop has to save.
    """

    def __init__(self, program: Program, order: Sequence[int], fewest_saved: int) -> None:
        self.program, self.order, self.fewest_saved = program, order, fewest_saved
        self.owner: dict[int, tuple[int, int]] = {}
        """By variable: the place of its operation, and the number of the result."""
        numbers: dict[Hashable, int] = {}
        kinds: list[int] = []
        for place, k in enumerate(order):
            primitive, operands, params = program.ops[k]
            count = program.result_count(k) if primitive.many else 1
            self.owner.update((k + n, (place, n)) for n in range(count))
            literals = tuple([self._literal(i) for i in operands])
            key = (primitive, _hashable(params), tuple(program.avals[k : k + count]), literals)
            kinds.append(numbers.setdefault(key, len(numbers)))
        self.kinds = np.asarray(kinds)

    def _literal(self, i: int) -> Hashable:
        if i >= 0:
            return None
        value = self.program.literals[~i]
        return type(value), repr(value)

    def best(self, low: int, high: int) -> Region | None:
        """Return the loop between two places that saves most operations; None without one."""
        kinds = self.kinds[low:high]
        candidates: list[tuple[int, int, int, int]] = []
        for period in range(1, len(kinds) // FEWEST_STEPS + 1):
            start, length = _longest_run(kinds[:-period] == kinds[period:])
            steps = (length + period) // period
            saved = (steps - 1) * period
            if steps >= FEWEST_STEPS and saved >= self.fewest_saved:
                candidates.append((saved, -period, low + start, steps))
        for _, period, start, steps in sorted(candidates, reverse=True)[:8]:
            found = self._region(start, -period, steps)
            if found is not None:
                return found
        return None

    def _region(self, start: int, period: int, steps: int) -> Region | None:
        """Return the loop of equal steps from a place on; perhaps with fewer steps."""
        while steps >= FEWEST_STEPS and (steps - 1) * period >= self.fewest_saved:
            found = self._checked(start, period, steps)
            if isinstance(found, Region):
                return found
            if found == 0:  # the first step takes its operands from other places
                start, steps = start + period, steps - 1
            else:
                steps = found
        return None

    def _checked(self, start: int, period: int, steps: int) -> Region | int:
        """Return the loop, or the number of the first step that does not fit."""
        carries: dict[Carry, int] = {}
        slices: dict[tuple[int, ...], int] = {}
        rows: list[tuple[Operand, ...]] = []
        worst = steps
        for j in range(period):
            ops = [self.program.ops[self.order[start + t * period + j]] for t in range(steps)]
            row: list[Operand] = []
            for slot in range(len(ops[0][1])):
                variables = [op[1][slot] for op in ops]
                found = self._operand(variables, start, period, carries, slices)
                if isinstance(found, int):
                    if found == 0:
                        return 0
                    worst = min(worst, found)
                else:
                    row.append(found)
            rows.append(tuple(row))
        if worst < steps:
            return worst
        return Region(start, period, steps, tuple(rows), tuple(carries), tuple(slices), ())

    def _operand(
        self,
        variables: Sequence[int],
        start: int,
        period: int,
        carries: dict[Carry, int],
        slices: dict[tuple[int, ...], int],
    ) -> Operand | int:
        """Classify an operand by its variables in all steps; or the first step that differs."""
        if variables[0] < 0:
            return Fixed(variables[0])
        places = [self._in_step(i, start, period) for i in variables]
        second = places[1]
        if second is None:
            for t, place in enumerate(places):
                if place is not None:
                    return t
            if len(set(variables)) == 1:
                return Fixed(variables[0])
            avals = [self.program.avals[i] for i in variables]
            if avals[1] is not avals[0]:
                return 0
            for t, aval in enumerate(avals):
                if aval is not avals[0]:  # (it broadcasts)
                    return t
            return Sliced(slices.setdefault(tuple(variables), len(slices)))
        step, local = second
        if step == 1:
            for t, place in enumerate(places):
                if place != (t, local):
                    return t
            return Own(local)
        if places[0] is not None:
            return 0
        for t in range(1, len(places)):
            if places[t] != (t - 1, local):
                return t
        avals = self.program.avals
        before = self.order[start + local[0]] + local[1]
        if avals[variables[0]] is not avals[before]:
            return 0
        return Carried(carries.setdefault(Carry(variables[0], local), len(carries)))

    def _in_step(self, variable: int, start: int, period: int) -> tuple[int, Local] | None:
        """Return the step of a variable, and its place there; None before the loop."""
        owner = self.owner.get(variable)
        if owner is None or owner[0] < start:
            return None
        step, place = divmod(owner[0] - start, period)
        return step, (place, owner[1])

    def with_kept(self, region: Region) -> Region:
        """Add the results that are read after a loop."""
        kept: set[Local] = set()
        inside = range(region.start, region.end)
        for place, k in enumerate(self.order):
            if place >= region.end:
                kept.update(self._locals(region, inside, self.program.ops[k][1]))
        kept.update(self._locals(region, inside, self.program.output_ids))
        return region._replace(kept=tuple(sorted(kept)))

    def _locals(self, region: Region, inside: range, variables: Sequence[int]) -> Iterator[Local]:
        for i in variables:
            owner = self.owner.get(i)
            if owner is not None and owner[0] in inside:
                yield (owner[0] - region.start) % region.period, owner[1]


def _longest_run(flags: np.ndarray[Any, np.dtype[np.bool_]]) -> tuple[int, int]:
    """Return the start and the length of the longest run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    if not len(edges):
        return 0, 0
    lengths = edges[1::2] - edges[::2]
    longest = int(np.argmax(lengths))
    return int(edges[2 * longest]), int(lengths[longest])


def _hashable(params: tuple[object, ...]) -> Hashable:
    """Return params as a key; those that cannot be hashed are equal to themselves only."""
    try:
        hash(params)
    except TypeError:
        return tuple([id(param) for param in params])
    return tuple([(type(param), param) for param in params])
