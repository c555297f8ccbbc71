"""Timelines of instruction lists: the runs of un-jitted transforms on small and medium arrays.

An instruction list overwrites nothing, and frees values only in programs of at least
`functrace.executor.interpreter.SMALL` bytes.

Layer: 7.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from functrace.executor.interpreter import (
    ANY,
    FREES_FIRST,
    FREES_SECOND,
    MANY,
    TWO,
    WIDTH,
    InstructionList,
    listed,
)
from functrace.executor.memory.of_plans import allocate_given, bytes_of_each_step
from functrace.executor.memory.timeline import (
    GIVEN,
    MemoryPlan,
    MemoryValue,
    OpenValue,
    Phase,
    TimelineWriter,
    phases,
)
from functrace.executor.plan.arena import SHOWN, c_strides
from functrace.executor.plan.planner import flag_bytes
from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import output_avals
from functrace.ir.primitive import Primitive
from functrace.ir.program import Position
from functrace.ir.structures import Branch, Loop, Lowering
from functrace.ir.tape import Params, Spec
from functrace.ops.indexing import gather_p
from functrace.passes import EARLY, optimized
from functrace.source import Source

NUMBER = ShapeDtype((), np.dtype(float))
MOST_DIGITS = 12
"""Number of characters of a number in the text of an operation."""


def timeline_of_list(made: InstructionList, name: str, runs: str) -> MemoryPlan:
    """Return the timeline of an instruction list.

    Args:
        made: the list.
        name: name of the function.
        runs: how it runs; see `MemoryPlan`.
    """
    write = TimelineWriter()
    given = allocate_given(write, made.program)
    return write.finish(name, runs, ListTimeline(write, made, given).write())


class _Entry(NamedTuple):
    """An instruction.

    Args:
        primitive, params: its operation.
        operands: indices of values; negative for numbers.
        specs: avals of the operands, or types of numbers.
        first: index of its first result.
        avals: of its results.
        freed: operands that are freed after it.
    """

    primitive: Primitive
    params: Params
    operands: tuple[int, ...]
    specs: tuple[Spec, ...]
    first: int
    avals: tuple[ShapeDtype, ...]
    freed: tuple[int, ...]


@final
class ListTimeline:
    """Writer of the instructions of one list.

    Args:
        write: where to write.
        made: the list.
        given: records of inputs and constants, by variable.
        outer: line of the enclosing operation, and its phase.
        depth: number of enclosing operations.
        lines: positions of the current recording, for a cached program.
        is_inner: True if its values are freed at its end, the results excepted.
    """

    def __init__(
        self,
        write: TimelineWriter,
        made: InstructionList,
        given: dict[int, OpenValue],
        outer: tuple[Source | None, Phase] | None = None,
        depth: int = 0,
        *,
        is_inner: bool = False,
        lines: Sequence[Position] = (),
    ) -> None:
        self._lines = lines
        self._is_inner = is_inner
        self._to, self._made, self._outer, self._depth = write, made, outer, depth
        self._given = {id(record): record for record in given.values()}  # (held: ids are reused)
        self._records: dict[int, OpenValue] = dict(given)
        """Memory by variable; views have the record of their operand."""
        self._users: Counter[int] = Counter()
        """Number of values in each record, by its id."""
        self._avals: dict[int, ShapeDtype] = {}
        """Avals of the values behind the program's variables."""
        self._shown: dict[int, Any] = {}
        """Arrays with the strides of values that are views; their elements are never read."""

    def write(self) -> list[OpenValue]:
        """Write all instructions; returns the records of the outputs."""
        made, to = self._made, self._to
        entries = self._entries()
        found = phases(
            [(range(e.first, e.first + len(e.avals)), e.operands) for e in entries],
            [self._is_reverse(e.first) for e in entries],
            [place for place, _ in made.outputs],
        )
        is_inside = self._outer is not None and self._outer[1] == "backward"
        for entry, phase in zip(entries, found, strict=True):
            self._instruction(entry, "backward" if is_inside else phase)
        outer = self._outer
        last = (None, to.phase) if outer is None else outer
        results: list[OpenValue] = []
        copied: list[str] = []
        for place, is_copied in made.outputs:
            record = self._records.get(place)
            if is_copied:
                copied.append(self._name(place))
                aval = self._aval_of(place)
                record = to.allocate(copied[-1], aval, "copy", *last, depth=self._depth)
            results.append(_given(self._aval_of(place)) if record is None else record)
        if copied:
            to.point("return", f"return {', '.join(copied)} (copied)", *last, self._depth)
        kept = {id(record) for record in results}
        if self._is_inner:
            for record in {id(r): r for r in self._records.values()}.values():
                if (
                    record.death is None
                    and id(record) not in kept
                    and id(record) not in self._given
                ):
                    to.free(record)
        return results

    def _instruction(self, entry: _Entry, phase: Phase) -> None:
        to, records, users = self._to, self._records, self._users
        primitive, k = entry.primitive, entry.first
        source = self._source(k)
        read = [records[i] for i in entry.operands if i in records]
        lowering = self._lowering(entry)
        returns = lowering is not None and returns_of_bodies(lowering, entry.avals)
        if lowering is not None and returns:
            self._bodies(lowering, source, phase)
        shared = records.get(entry.operands[0]) if primitive.view and entry.operands else None
        if shared is not None and not self._is_view(entry):
            shared = None
        ends = _final_carries(lowering)  # copies that are made at the end of the loop
        is_free = primitive.view and bool(entry.operands) and shared is None
        is_free = is_free and not self._aval_of(entry.operands[0]).shape  # a number, repeated
        for n, aval in enumerate(entry.avals):
            if n not in ends and not is_free:
                self._result(entry, n, aval, shared, source, phase)
        work = primitive.work_bytes(entry.specs, entry.avals, entry.params)
        if lowering is not None and isinstance(which := entry.specs[0], ShapeDtype):
            work += flag_bytes(lowering.structure, which)
        extra = to.allocate_work(
            work, entry.avals[0], primitive.name, source, phase, depth=self._depth
        )
        index = to.point(primitive.name, self._text(entry), source, phase, self._depth)
        for record in read:
            to.read(record, index, phase)
        carry: list[OpenValue] = []
        if lowering is not None and not returns:
            carry = self._bodies(lowering, source, phase)
        to.free_work(extra)
        text = f"end of {primitive.name}: copies of its carry"
        for n in ends:  # a carry is freed once it is copied
            self._result(entry, n, entry.avals[n], None, source, phase)
            if entry.avals[n].shape:
                to.point(primitive.name, text, source, phase, self._depth)
            for record in carry[n : n + 1]:
                if record.death is None and all(record is not later for later in carry[n + 1 :]):
                    to.free(record)
        for i in entry.freed:
            record = records.pop(i, None)
            if record is None or id(record) in self._given:
                continue
            users[id(record)] -= 1
            if not users[id(record)]:
                to.free(record)

    def _result(
        self,
        entry: _Entry,
        n: int,
        aval: ShapeDtype,
        shared: OpenValue | None,
        source: Source | None,
        phase: Phase,
    ) -> None:
        """Note a result; ``shared`` is the record of the operand of which it is a view."""
        place = entry.first + n
        record = shared
        if record is None:
            record = self._to.allocate(
                self._name(place), aval, entry.primitive.name, source, phase, depth=self._depth
            )
        self._records[place] = record
        self._users[id(record)] += 1

    def _bodies(self, lowering: Lowering, source: Source | None, phase: Phase) -> list[OpenValue]:
        """Write the bodies; returns the records of a loop's final carries, which are still alive."""
        to, structure, depth = self._to, lowering.structure, self._depth + 1
        is_loop = isinstance(structure, Loop)
        repeats = is_loop and (structure.length is None or structure.length > 1)
        if is_loop:
            to.nbytes_each += bytes_of_each_step(structure, lowering.bodies)
        carries: list[OpenValue] = []
        bodies = () if is_loop and structure.length == 0 else lowering.bodies
        for number, body in enumerate(bodies):
            made = listed(optimized(body, EARLY), fresh=lowering.fresh)
            carried = range(0)
            if is_loop and number >= structure.has_condition:
                phase_number = number - structure.has_condition
                first = int(structure.has_condition and not phase_number)
                carried = range(first, first + structure.carries[phase_number])
            before: list[OpenValue] = []
            if repeats:  # the carries of the step before are alive during a step
                last = ListTimeline(TimelineWriter(), made, _inputs(made), is_inner=True).write()
                before = [
                    to.allocate("", record.value.aval, "carry", source, phase, kind="carry",
                                nbytes=record.value.nbytes, depth=depth)
                    for record in _new([last[n] for n in carried if n < len(last)])
                ]  # fmt: skip
            results = ListTimeline(
                to, made, _inputs(made), (source, phase), depth, is_inner=True
            ).write()
            for record in before:
                to.free(record)
            kept = [results[n] for n in carried if n < len(results)]
            is_final = is_loop and number - structure.has_condition >= structure.hidden
            for record in _new(results):
                if not is_final or all(record is not other for other in kept):
                    to.free(record)
            carries += kept if is_final else []
        return carries

    # -- entries -------------------------------------------------------------------------------

    def _entries(self) -> list[_Entry]:
        made, program = self._made, self._made.program
        count, code = len(program.avals), made.code
        found: list[_Entry] = []
        for at in range(0, len(code), WIDTH):
            entry = code[at : at + WIDTH]
            kind: int = entry[0]
            first, second = entry[2], entry[3]
            result: int = entry[4]
            if kind in (ANY, MANY):
                operands, freed = tuple(first), tuple(second)
            else:
                operands = (first, second) if kind & TWO else (first,)
                freed = (first,) if kind & FREES_FIRST else ()
                freed += (second,) if kind & FREES_SECOND else ()
            if result < count:
                primitive, own, params = program.ops[result]
                many = program.result_count(result) if primitive.many else 1
                avals = program.avals[result : result + many]
                specs = tuple(map(program.spec, own))
            else:
                row = made.rows[result - count]
                primitive, params = row.piece.primitive, row.piece.params
                specs, avals = row.specs, (row.piece.aval,)
                if not specs:  # the sum of two cotangents
                    avals = (self._aval(operands[0]) or row.piece.aval,)
                    specs = (avals[0], avals[0])
            found.append(_Entry(primitive, params, operands, specs, result, tuple(avals), freed))
            self._avals[result] = avals[0]
        return found

    def _aval_of(self, place: int) -> ShapeDtype:
        return self._aval(place) or NUMBER

    def _aval(self, place: int) -> ShapeDtype | None:
        """Return the aval of a value; ``None`` for a number."""
        program = self._made.program
        if place < 0:
            return None
        return program.avals[place] if place < len(program.avals) else self._avals.get(place)

    def _is_view(self, entry: _Entry) -> bool:
        """Return True if the result is a view of the first operand: a reshape of one may copy, and
        a gather by arrays does.
        """
        primitive, (i, *_) = entry.primitive, entry.operands
        if primitive is gather_p:
            return not any(type(x) is ShapeDtype and x.shape for x in entry.specs[1:])
        aval = self._aval(i)
        if primitive not in SHOWN or aval is None:
            return True
        x = self._shown.get(i)
        if x is None:
            x = as_strided(np.empty(1, aval.dtype), aval.shape, c_strides(aval))
        try:
            self._shown[entry.first] = SHOWN[primitive](x, *entry.params)
        except ValueError:  # NumPy copies
            return False
        return True

    def _lowering(self, entry: _Entry) -> Lowering | None:
        holds = entry.primitive.holds
        if holds is None or holds.lowers is None:
            return None
        return holds.lowers(entry.specs, *entry.params)

    # -- words ---------------------------------------------------------------------------------

    def _origin(self, place: int) -> int:
        count = len(self._made.program.avals)
        return place if place < count else self._made.origins[place - count]

    def _name(self, place: int) -> str:
        program = self._made.program
        if 0 <= place < len(program.avals):
            return str(program.variables[place].name)
        return f"v{place}"

    def _source(self, place: int) -> Source | None:
        origin = self._origin(place)
        found = self._made.program.source(origin, self._lines) if origin >= 0 else None
        return self._outer[0] if found is None and self._outer is not None else found

    def _is_reverse(self, place: int) -> bool:
        made, program = self._made, self._made.program
        if place < len(program.avals):
            return program.is_reverse(place, self._lines)
        return made.turned is not None and place >= made.turned

    def _text(self, entry: _Entry) -> str:
        made = self._made
        left = ", ".join(
            [f"{self._name(entry.first + n)}: {aval}" for n, aval in enumerate(entry.avals)]
        )
        right = [
            self._name(i) if i >= 0 else str(made.values[i])[:MOST_DIGITS] for i in entry.operands
        ]
        return " ".join([f"{left} = {entry.primitive.name}", *right])


def _new(records: Sequence[OpenValue]) -> list[OpenValue]:
    """Return the records of arrays that a body has allocated, each once."""
    return [
        record
        for record in {id(record): record for record in records}.values()
        if record.death is None and record.value.kind not in GIVEN
    ]


def _inputs(made: InstructionList) -> dict[int, OpenValue]:
    """Return records for the inputs of a body, whose memory is counted outside."""
    return {i: _given(made.program.avals[i]) for i in made.inputs}


def _given(aval: ShapeDtype) -> OpenValue:
    """Return a record for memory that does not count."""
    return OpenValue(MemoryValue("", aval, 0, "argument", "", None, "forward", -1, -1, (), 0))


def returns_of_bodies(lowering: Lowering, avals: tuple[ShapeDtype, ...]) -> bool:
    """Return True if the results of an operation are arrays that its body allocates."""
    structure = lowering.structure
    if isinstance(structure, Loop) or (isinstance(structure, Branch) and structure.by_example):
        return False
    return tuple(output_avals(lowering.bodies[-1])) == avals


def _final_carries(lowering: Lowering | None) -> range:
    """Return the results of a loop that are its final carries."""
    if lowering is None or not isinstance(lowering.structure, Loop):
        return range(0)
    loop = lowering.structure
    return range(sum(loop.carries[loop.hidden :]))
