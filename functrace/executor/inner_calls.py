"""Nested transforms: record a cached program as one call, not operation by operation.

`grad(grad(f))` records ``f`` for the inner gradient, whose program is cached, and runs that on
traced values. If it recorded all its operations again, the outer recording, which is the key of the
outer program, would be as long as the inner gradient: every call would write, hash and compare it.
So the outer recording gets one operation, with the program as a param that is compared by identity.
Building the outer program, which happens once, inlines these calls (`with_inner`). So derivatives,
batching and results are the same as without calls.

Note [When a call stands for its operations]
    A call could be observable: a result may depend on some of the arguments only (`functrace.value`
    returns the plain value of a result that no derivative can need; a result without dependences is
    concrete at once), and errors must be raised at their own lines. So there is a call only if
    every result depends on every traced argument (for float arguments through floats), and no
    operation in the program may fail, or is kept although it is dead. The program has no
    sub-programs either: for custom rules only the operation itself determines which are equal.
    Recordings that are not executed at their end (`jit`, `trace`, bodies) get all operations, as
    people read them.

Layer: 7.
"""

# A tracer's own fields are underscored for users; the library's packages read them.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from functrace.control.call import SAVE, call_p
from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import restrict
from functrace.ir.primitive import CONSTANT, INPUT, RESULT
from functrace.ir.program import Position, Program, resolved
from functrace.ir.tape import Op
from functrace.tracing.binding import claimed
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer

MOST_PLACED = 8
"""Maximum number of copies of one program, for recordings of the same structure from different
lines.
"""


@final
class CallableProgram:
    """A program that recordings can call.

    Args:
        program: the program, with positions that are numbers; see Note [Positions in cached
            programs] in tracing/lines.py.
    """

    __slots__ = ("_dependences", "_others", "_placed", "_program", "_used")

    def __init__(self, program: Program) -> None:
        ops, places = program.ops, {i: place for place, i in enumerate(program.input_ids)}
        computed = [
            i for i in program.output_ids if ops[i][0] is not INPUT and ops[i][0] is not CONSTANT
        ]
        self._others = [
            (place, places.get(i, -1), program.constant_values.get(i))
            for place, i in enumerate(program.output_ids)
            if ops[i][0] is INPUT or ops[i][0] is CONSTANT
        ]
        part = restrict(program, program.input_ids, computed)
        self._program = part.program
        used = set(part.used)
        self._used = [k for k, i in enumerate(program.input_ids) if i in used]
        self._dependences = _dependences(part.program) if _is_callable(program) else ()
        self._placed: tuple[tuple[list[Position], Program], ...] = ()

    def recorded(self, arguments: Sequence[Any], lines: Sequence[Position]) -> list[Any] | None:
        """Record a call in the newest recording of the arguments; returns its results.

        Returns:
            fresh handles, and copies of constants; ``None`` if the operations must be recorded
            individually.
        """
        if not self._dependences:
            return None
        operands: list[Any] = []
        newest: Recording | None = None
        traced = 0
        for place, k in enumerate(self._used):
            value = arguments[k]
            operands.append(value)
            if isinstance(value, Tracer):
                traced |= 1 << place
                recording = value.ft_recording
                if newest is None or recording.serial > newest.serial:
                    newest = recording
            elif not isinstance(value, (np.ndarray, np.generic)):  # (faster than a union type)
                return None
        if newest is None:
            return None
        if newest.shadows:
            newest = claimed(newest)
        if newest.inner is None or newest.closed:
            return None
        for found in self._dependences:
            if found & traced != traced:
                return None
        results = newest.call(call_p, operands, self._from(lines), (SAVE,))
        for place, k, value in self._others:
            results.insert(place, fresh(value if k < 0 else arguments[k]))
        return results

    def _from(self, lines: Sequence[Position]) -> Program:
        """Return the program with the lines of a recording: one object for all recordings from the
        same lines.
        """
        for known, program in self._placed:
            if len(known) != len(lines):
                continue
            for one, other in zip(known, lines, strict=True):  # equal code can be in two files
                if type(one) is not tuple or type(other) is not tuple:
                    if one != other:
                        break
                elif one[0] is not other[0] or one[1] != other[1]:
                    break
            else:
                return program
        made, kept = self._program, list(lines)
        positions = [resolved(p, kept) for p in made.positions]
        program = Program(
            made.ops,
            made.avals,
            made.literals,
            made.input_ids,
            made.constant_values,
            made.output_ids,
            positions=positions,
            name=made.name,
        )
        self._placed = (*self._placed[1 - MOST_PLACED :], (kept, program))
        return program


def fresh(value: Any) -> Any:
    """Return a result with a new handle, or in new memory, so that in-place changes do not affect
    other results.
    """
    return (
        value.ft_recording.handle(value.ft_variable)
        if isinstance(value, Tracer)
        else np.copy(value)
    )


def _is_callable(program: Program) -> bool:
    """Return True if a call of the program is not observable in its operations."""
    for k, _ in program.schedule:  # the schedule includes operations that are kept in any case
        primitive, operands, params = program.ops[k]
        if primitive.holds is not None or primitive.effects or primitive.kept is not None:
            return False
        if primitive.fails is not None and primitive.fails(
            *[program.spec(i) for i in operands], *params
        ):
            return False
    return True


def _dependences(program: Program) -> tuple[int, ...]:
    """Return, by output, the inputs on which it depends, as bit masks."""
    ops, avals = program.ops, program.avals
    places = {i: place for place, i in enumerate(program.input_ids)}
    by_all, by_floats = [0] * len(ops), [0] * len(ops)
    for k, (_, operands, _) in enumerate(ops):
        if k in places:
            by_all[k] = by_floats[k] = 1 << places[k]
        for i in operands:
            if i >= 0:
                by_all[k] |= by_all[i]
                by_floats[k] |= by_floats[i]
        if avals[k].dtype.kind not in "fc":
            by_floats[k] = 0
    floats = sum([1 << place for i, place in places.items() if avals[i].dtype.kind in "fc"])
    return tuple([(by_floats[i] & floats) | (by_all[i] & ~floats) for i in program.output_ids])


def with_inner(program: Program, calls: Sequence[int]) -> Program:
    """Inline the calls of inner programs.

    Args:
        program: the recorded program.
        calls: variables of the first results of calls; one that has been replaced since stays.

    Cost:
        about 1 us per operation.
    """
    inner = {k for k in calls if program.ops[k][0] is call_p}
    if not inner:
        return program
    moved: dict[int, int] = {}  # first: precomputed values of operations are inputs behind them
    starts: dict[int, int] = {}
    count = 0
    for k, (primitive, operands, params) in enumerate(program.ops):
        if k in inner:
            held: Program = params[0]
            starts[k] = count - len(held.input_ids)  # `restrict` puts inputs first
            moved.update(enumerate([starts[k] + i for i in held.output_ids], k))
            count += len(held.ops) - len(held.input_ids)
        elif primitive is not RESULT or operands[0] not in inner:
            moved[k] = count
            count += 1
    ops: list[Op] = []
    avals: list[ShapeDtype] = []
    literals = list(program.literals)
    positions: list[Position] = []
    constants = {moved[k]: value for k, value in program.constant_values.items()}
    for k, (primitive, operands, params) in enumerate(program.ops):
        if k in starts:
            held, start, first = params[0], starts[k], len(literals)
            given = [moved[i] for i in operands]
            literals += held.literals
            constants.update({start + i: value for i, value in held.constant_values.items()})
            for j in range(len(given), len(held.ops)):
                what, ids, static = held.ops[j]
                places = [
                    i - first if i < 0 else given[i] if i < len(given) else start + i for i in ids
                ]
                ops.append((what, tuple(places), static))
                avals.append(held.avals[j])
                positions.append(held.positions[j] if j < len(held.positions) else None)
        elif k in moved and (primitive is not RESULT or operands[0] not in starts):
            ops.append((primitive, tuple([moved[i] if i >= 0 else i for i in operands]), params))
            avals.append(program.avals[k])
            positions.append(program.positions[k] if k < len(program.positions) else None)
    return Program(
        ops,
        avals,
        literals,
        [moved[i] for i in program.input_ids],
        constants,
        [moved[i] for i in program.output_ids],
        positions=positions,
        name=program.name,
        input_names=program.input_names,
        lines=program.lines,
    )
