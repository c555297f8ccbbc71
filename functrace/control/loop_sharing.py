"""Share one forward `while_loop` between the primal and the reverse pass, in programs that run.

The reverse derivative of a `while_loop` is a separate operation, which starts with the same loop
(Note [A trip and its phases] in control/while_trips.py). If a program has both the loop and such an
operation, `share_forward_loops` makes the first keep the residuals of each step in a growing list, besides
its carry, and makes the second start from that list.

Note [Rows]
    The list has no aval: it has as many rows as there were steps. So the two operations below occur
    only in programs that are about to run, and have no derivatives. A loop in a call with a policy
    (`functrace.checkpoint`) is unchanged: there, the user chose to run the loop twice.

Layer: 5.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from functrace.control.call import plain_call
from functrace.control.joining import evaluate_lowered
from functrace.control.while_loop import bodies_that_run, while_p
from functrace.control.while_trips import Trip
from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import Assembly, Rewrite, holds_kept, inline, output_avals
from functrace.ir.primitive import Primitive, SubPrograms, absent
from functrace.ir.program import Program
from functrace.ir.structures import Loop, Lowering
from functrace.typing import Array

if TYPE_CHECKING:
    from functrace.ir.primitive import Runs

ROWS = ShapeDtype((0,), np.dtype(bool))
"""Placeholder aval of rows; see Note [Rows]."""


def share_forward_loops(program: Program) -> Program:
    """Share forward loops between primal and derivative; returns an equal program, to be run.

    Cost:
        nothing without such loops; else the time of inlining its calls.
    """
    if not _walks_twice(program):
        return program
    program = inline(program, plain_call)
    loops: list[int] = []
    pairs: dict[int, list[_LoopPair]] = {}
    for k, _ in program.schedule:
        primitive, operands, params = program.ops[k]
        if primitive is not while_p:
            continue
        trip = Trip._make(params)
        if len(trip.bodies) == 1:
            loops.append(k)
        elif trip.hidden:
            pair = next(
                (
                    p
                    for first in loops
                    if (p := _paired(program, first, k, trip, operands)) is not None
                ),
                None,
            )
            if pair is not None:
                pairs.setdefault(pair.first, []).append(pair)
    return _rewritten(program, pairs) if pairs else program


def _walks_twice(program: Program) -> bool:
    """Return True if some trip starts with a hidden loop."""
    for op in program.ops:
        if op[0] is while_p and Trip._make(op[2]).hidden:
            return True
        held = plain_call(op)
        if held is not None and _walks_twice(held):
            return True
    return False


# -- equality of loops -----------------------------------------------------------------------------


class _LoopPair(NamedTuple):
    """A loop, and a trip that starts with it.

    Args:
        first, second: the operations.
        inputs: inputs of the loop's body, by the inputs of the trip's first body.
    """

    first: int
    second: int
    inputs: dict[int, int]


def _paired(
    program: Program, first: int, second: int, trip: Trip, operands: Sequence[int]
) -> _LoopPair | None:
    """Return a pair if a trip starts with a loop: with the same values, steps and condition."""
    loop = Trip._make(program.ops[first][2])
    if loop.most != trip.most:
        return None
    own, begun = loop.bodies[0], trip.bodies[0]
    given = program.ops[first][1]
    inputs: dict[int, int] = {}
    for place in range(trip.constants):
        found = [c for c in range(loop.constants) if _same(program, given[c], operands[place])]
        if found:
            inputs[begun.input_ids[place]] = own.input_ids[found[0]]
    free = iter(range(loop.constants, loop.constants + loop.carries[0]))
    carried: list[int] = []
    for place in range(trip.constants, trip.constants + trip.carries[0]):
        found = next((c for c in free if _same(program, given[c], operands[place])), None)
        if found is None:
            return None
        inputs[begun.input_ids[place]] = own.input_ids[found]
        carried.append(found - loop.constants)
    table = _ValueNumbering()
    named = _inputs(program, first)
    mine = table.of(own, named)
    theirs = table.of(begun, {i: ("input", j) for i, j in inputs.items()})
    if any(mine[own.output_ids[m]] != theirs[begun.output_ids[j]] for j, m in enumerate(carried)):
        return None
    places = dict(zip(begun.input_ids, trip.cond.input_ids, strict=False))
    tested = table.of(
        loop.cond, {i: named[j] for i, j in zip(loop.cond.input_ids, own.input_ids, strict=True)}
    )
    again = table.of(trip.cond, {places[i]: ("input", j) for i, j in inputs.items()})
    if tested[loop.cond.output_ids[0]] != again[trip.cond.output_ids[0]]:
        return None
    kept = begun.output_ids[trip.carries[0] :]
    if any(_is_other(theirs[i]) for i in kept):
        return None
    return _LoopPair(first, second, inputs)


def _inputs(program: Program, first: int) -> dict[int, Any]:
    """Assign value numbers to the inputs of a loop's body: equal constants have one number."""
    _, given, params = program.ops[first]
    loop = Trip._make(params)
    ids = loop.bodies[0].input_ids
    found: dict[int, Any] = {i: ("input", i) for i in ids}
    for c in range(loop.constants):
        same = next(n for n in range(c + 1) if _same(program, given[n], given[c]))
        found[ids[c]] = ("input", ids[same])
    return found


def _same(program: Program, i: int, j: int) -> bool:
    """Return True if two operands have the same value, in every run."""
    if i == j:
        return True
    a, b = [program.constant_values.get(x) if x >= 0 else None for x in (i, j)]
    if a is None or b is None or program.avals[i] is not program.avals[j]:
        return False
    return a is b or (
        program.avals[i].nbytes <= 64 and np.asarray(a).tobytes() == np.asarray(b).tobytes()
    )


@final
class _UniqueNumber:
    """Unique value number, for operations that call user code or have unknown inputs."""


def _is_other(number: object) -> bool:
    return isinstance(number, _UniqueNumber)


@final
class _ValueNumbering:
    """Value numbering: values that are computed in the same way from the same inputs have one
    number.
    """

    def __init__(self) -> None:
        self._table: dict[Any, int] = {}

    def of(self, program: Program, inputs: dict[int, Any]) -> dict[int, Any]:
        """Return the number of each variable, from those of the inputs; an input without one gets a
        unique number.
        """
        found: dict[int, Any] = {i: inputs.get(i, _UniqueNumber()) for i in program.input_ids}
        for i, value in program.constant_values.items():
            array = np.asarray(value)
            key = (array.dtype, array.shape, array.tobytes()) if array.nbytes <= 64 else id(value)
            found[i] = self._number(("constant", key))
        for k, _ in program.schedule:
            primitive, operands, params = program.ops[k]
            given = [
                found[i] if i >= 0 else ("literal", repr(program.literals[~i])) for i in operands
            ]
            other = primitive.effects or any(map(_is_other, given))
            number = _UniqueNumber() if other else self._number((primitive, tuple(given), params))
            for j in range(program.result_count(k) if primitive.many else 1):
                found[k + j] = number if other else (number, j)
        return found

    def _number(self, key: Hashable) -> int:
        return self._table.setdefault(key, len(self._table))


# -- the program that runs -------------------------------------------------------------------------


def _rewritten(program: Program, pairs: dict[int, list[_LoopPair]]) -> Program:
    write = Rewrite(program)
    # by trip: rows, indices and number of their values
    rows: dict[int, tuple[int, tuple[int, ...], int]] = {}
    seconds = {pair.second: pair for group in pairs.values() for pair in group}
    for k, _ in program.schedule:
        _, operands, params = program.ops[k]
        if k in pairs:
            loop = Trip._make(params)
            body, places = _keeping(program, loop, pairs[k])
            count = loop.carries[0]
            given = tuple(map(write.operand, operands))
            first = write.place(
                walk_p, given, (loop.cond, body, loop.constants, loop.most), write.position(k)
            )
            write.replace(k, range(first, first + count))
            for pair, chosen in zip(pairs[k], places, strict=True):
                rows[pair.second] = (first + count, chosen, len(body.output_ids) - count)
        elif k in seconds:
            trip = Trip._make(params)
            taken, chosen, width = rows[k]
            skipped = trip.constants + trip.carries[0]
            given = (taken, *map(write.operand, (*operands[: trip.constants], *operands[skipped:])))
            details = (
                trip.carries[1:],
                trip.reverse[1:],
                trip.constants,
                trip.hidden - 1,
                chosen,
                width,
            )
            first = write.place(along_p, given, (trip.bodies[1:], *details), write.position(k))
            write.replace(k, range(first, first + program.result_count(k)))
        else:
            write.keep(k)
    return write.finish()


def _keeping(
    program: Program, loop: Trip, pairs: Sequence[_LoopPair]
) -> tuple[Program, list[tuple[int, ...]]]:
    """Return the body of a loop that keeps the values that trips need of each step, and their
    indices for each trip.
    """
    own, table, build = loop.bodies[0], _ValueNumbering(), Assembly()
    inputs = [build.input(own.avals[i]) for i in own.input_ids]
    numbers = table.of(own, _inputs(program, pairs[0].first))
    placed: dict[int, int] = dict(zip(own.input_ids, inputs, strict=True))
    for i, value in own.constant_values.items():
        placed[i] = build.constant(value, own.avals[i])
    for k, _ in own.schedule:
        build.copy(own, k, placed)
    known: dict[Any, int] = {
        numbers[i]: there for i, there in reversed(placed.items()) if i in numbers
    }
    kept: list[int] = []
    chosen: list[tuple[int, ...]] = []
    for pair in pairs:
        trip = Trip._make(program.ops[pair.second][2])
        begun = trip.bodies[0]
        theirs = table.of(begun, {i: ("input", j) for i, j in pair.inputs.items()})
        moved = {i: placed[j] for i, j in pair.inputs.items()}
        for i, value in begun.constant_values.items():
            moved[i] = build.constant(value, begun.avals[i])
        for k in _needed(begun, trip.carries[0], theirs, known):
            results = range(k, k + (begun.result_count(k) if begun.ops[k][0].many else 1))
            if all(theirs[j] in known for j in results):
                moved.update({j: known[theirs[j]] for j in results})
            else:
                build.copy(begun, k, moved)
                known.update({theirs[j]: moved[j] for j in results})
        mine: list[int] = []
        for i in begun.output_ids[trip.carries[0] :]:
            variable = known.get(theirs[i], moved.get(i, -1))
            place = next(
                (n for n, other in enumerate(kept) if other == variable and n not in mine),
                len(kept),
            )
            if place == len(kept):
                kept.append(variable)
            mine.append(place)  # each once: its reader frees it
        chosen.append(tuple(mine))
    made = build.program([*[placed[i] for i in own.output_ids], *kept], own.name)
    return made.interned(), chosen


def _needed(
    program: Program, carries: int, numbers: dict[int, Any], known: dict[Any, int]
) -> Iterator[int]:
    """Yield the operations on which kept values of a body depend, in order."""
    needed = set(program.output_ids[carries:])
    found: list[int] = []
    for k, _ in reversed(program.schedule):
        results = range(k, k + (program.result_count(k) if program.ops[k][0].many else 1))
        if not needed.isdisjoint(results):
            found.append(k)
            if not all(numbers[j] in known for j in results):
                needed.update([i for i in program.ops[k][1] if i >= 0])
    return reversed(found)


# -- operations that pass rows ---------------------------------------------------------------------

_NONE = absent(
    because="rows of a loop occur only in programs that run", instead="this is a bug in functrace"
)


def _walk_eval(*rest: *tuple[*tuple[Array, ...], Program, Program, int, int | None]) -> Any:
    return evaluate_lowered(_walk_lowers(rest[:-4], *rest[-4:]), rest[:-4])


def _walk_aval(
    *rest: *tuple[*tuple[ShapeDtype, ...], Program, Program, int, int | None],
) -> tuple[ShapeDtype, ...]:
    *operands, _, body, constants, _ = rest
    return (*output_avals(body)[: len(operands) - constants], ROWS)


def _walk_lowers(
    specs: Sequence[Any], cond: Program, body: Program, constants: int, most: int | None
) -> Lowering:
    loop = Loop(constants, (len(specs) - constants,), (False,), most=most, gives=True)
    return Lowering(bodies_that_run(cond, (body,), constants), loop, fresh=False)


def _walk_runs(_inputs: object, cond: Program, body: Program, *_: object) -> Runs:
    return (((1, cond), (1, body)),)


walk_p = Primitive(
    "walk",
    eval=_walk_eval,
    aval=_walk_aval,
    jvp=_NONE,
    transpose=_NONE,
    batch=_NONE,
    params=("cond", "body", "constants", "most"),
    many=True,
    kept=holds_kept,
    holds=SubPrograms(_walk_runs, lowers=_walk_lowers),
)
"""``walk c0 h0 {cond={…}, body={…}, constants=1, most=None}``: the loop's final carry, and the
rows.
"""


_Phases = tuple[tuple[int, ...], tuple[bool, ...], int, int, tuple[int, ...], int]
_Details = tuple[
    tuple[Program, ...], tuple[int, ...], tuple[bool, ...], int, int, tuple[int, ...], int
]


def _along_eval(*rest: *tuple[*tuple[Array, ...], *_Details]) -> Any:
    return evaluate_lowered(_along_lowers((), *rest[-7:]), rest[:-7])


def _along_aval(*rest: *tuple[*tuple[ShapeDtype, ...], *_Details]) -> tuple[ShapeDtype, ...]:
    *_, bodies, carries, _, _, hidden, _, _ = rest
    ends = [output_avals(body)[:count] for body, count in zip(bodies, carries, strict=True)]
    return tuple([aval for group in ends[hidden:] for aval in group])


def _along_lowers(
    _specs: Sequence[Any], bodies: tuple[Program, ...], *details: *_Phases
) -> Lowering:
    carries, reverse, constants, hidden, places, width = details
    return Lowering(
        bodies, Loop(constants, carries, reverse, hidden, takes=(width, *places)), fresh=False
    )


def _along_runs(_inputs: object, bodies: tuple[Program, ...], *_: object) -> Runs:
    return (tuple([(1, body) for body in bodies]),)


along_p = Primitive(
    "along",
    eval=_along_eval,
    aval=_along_aval,
    jvp=_NONE,
    transpose=_NONE,
    batch=_NONE,
    params=("bodies", "carries", "reverse", "constants", "hidden", "places", "width"),
    many=True,
    kept=holds_kept,
    holds=SubPrograms(_along_runs, lowers=_along_lowers),
)
"""``along rows c0 h0 {bodies=({…},), carries=(1,), reverse=(True,), …}``: the final carries of
further phases.
"""
