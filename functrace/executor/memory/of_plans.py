"""Timelines of compiled plans.

A plan says when each array is allocated, overwritten and freed; generated code, and so the process,
follows it. Here the same lifetimes are written down operation by operation, with those of the
bodies of loops and branches. The largest point equals `functrace.executor.plan.planner.Plan.peak_bytes`.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, final

from functrace.executor.memory.timeline import (
    MemoryPlan,
    OpenValue,
    Phase,
    TimelineWriter,
    phases,
)
from functrace.executor.plan.liveness import PlanWalk
from functrace.executor.plan.memory_trace import Block, MemoryTrace, Value, uncounted
from functrace.executor.plan.planner import Plan, Step
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import CONSTANT, INPUT, RESULT
from functrace.ir.program import Equation, Position, Program
from functrace.ir.structures import FusionGroup, Loop
from functrace.source import Source

MOST_NAMES = 4
"""Number of operations of a fusion group that its text names."""


def timeline_of_plan(plan: Plan, name: str, runs: str) -> MemoryPlan:
    """Return the timeline of a plan.

    Args:
        plan: the plan.
        name: name of the function.
        runs: how it runs; see `MemoryPlan`.
    """
    write = TimelineWriter()
    given = allocate_given(write, plan.program)
    results = write_plan(write, plan, given)
    return write.finish(name, runs, results)


def timeline_of_block(
    program: Program, name: str, runs: str, made_by: str, nbytes: int
) -> MemoryPlan:
    """Return the timeline of a program that runs as one operation: a single point, with the results
    and one block of temporaries.

    Args:
        program: the program.
        name: name of the function.
        runs: how it runs; see `MemoryPlan`.
        made_by: name of the operation.
        nbytes: of the temporaries.
    """
    write = TimelineWriter()
    given = allocate_given(write, program)
    results = [
        write.allocate(str(program.variables[i].name), program.avals[i], made_by, None, "forward")
        for i in program.output_ids
        if program.avals[i].shape
    ]
    block = ShapeDtype((nbytes,), "uint8")
    work = write.allocate_work(nbytes, block, made_by, None, "forward")
    text = f"{len(program.schedule)} operations of {program.name}, one executable"
    index = write.point(made_by, text, None, "forward", 0)
    for record in given.values():
        write.read(record, index, "forward")
    write.free_work(work)
    return write.finish(name, runs, results)


def allocate_given(write: TimelineWriter, program: Program) -> dict[int, OpenValue]:
    """Note the arguments and captured arrays of a program; returns their records by variable."""
    found: dict[int, OpenValue] = {}
    for i, variable, name in zip(
        program.input_ids, program.inputs, program.input_names or [None] * 10**9, strict=False
    ):
        made = "captured array" if name is None else f"argument {name}"
        kind = "captured" if name is None else "argument"
        found[i] = write.allocate(
            str(variable.name), variable.aval, made, None, "forward", kind=kind
        )
    for i in program.constant_values:
        aval = program.avals[i]
        if aval.shape:
            found[i] = write.allocate(
                str(program.variables[i].name), aval, "captured array", None, "forward",
                kind="captured",
            )  # fmt: skip
    return found


def bytes_of_each_step(loop: Loop, bodies: Sequence[Program]) -> int:
    """Return the bytes that a loop of unknown length keeps of each step for the reverse loops."""
    if loop.length is not None:
        return 0
    return sum([stack.aval.nbytes for stack in loop.stacks(bodies) if stack.phase is not None])


def write_plan(
    write: TimelineWriter,
    plan: Plan,
    given: dict[int, OpenValue],
    lines: Sequence[Position] = (),
) -> list[OpenValue]:
    """Write the operations of a plan; returns the records of the outputs.

    Args:
        write: where to write.
        plan: the plan.
        given: records of inputs and constants, by variable.
        lines: positions of the current recording, for a cached program.
    """
    blocks = {i: Block(record, is_given=True) for i, record in given.items()}
    inputs = [Value(blocks.get(i) or uncounted().block) for i in plan.program.input_ids]
    trace = _Timeline(write, plan, lines)
    outputs = PlanWalk(plan, trace, inputs, constants=blocks).run()
    found = [output.block.memory for output in outputs]
    return [record for record in found if record is not None]


class _Frame(NamedTuple):
    """A plan that is being written.

    Args:
        plan: the plan.
        texts: of its operations.
        phases: of its operations.
        outer: line of the enclosing operation, and its phase.
    """

    plan: Plan
    texts: Mapping[int, Equation]
    phases: Mapping[int, Phase]
    outer: tuple[Source | None, Phase] | None


@final
class _Timeline(MemoryTrace):
    """Writer of the events of a plan, with names, lines and phases; memory is its record."""

    def __init__(self, write: TimelineWriter, plan: Plan, lines: Sequence[Position]) -> None:
        self._to, self._lines = write, lines
        self._frames: list[_Frame] = []
        self._begun: dict[int, _Frame] = {}
        """Frames by id of plan: steps of a loop are written more than once."""
        self._begin(plan, None)

    def _begin(self, plan: Plan, outer: tuple[Source | None, Phase] | None) -> None:
        frame = self._begun.get(id(plan))
        if frame is None:
            program, steps = plan.program, plan.steps
            makers = [
                k for k, op in enumerate(program.ops) if op[0] not in (INPUT, CONSTANT, RESULT)
            ]
            found = phases(
                [(plan.results(step), program.ops[step.first][1]) for step in steps],
                [program.is_reverse(step.first, self._lines) for step in steps],
                program.output_ids,
            )
            by_step: dict[int, Phase] = {
                s.first: phase for s, phase in zip(steps, found, strict=True)
            }
            texts = dict(zip(makers, program.equations, strict=True))
            frame = self._begun[id(plan)] = _Frame(plan, texts, by_step, outer)
        self._frames.append(frame)

    def enter(self, plan: Plan, step: Step) -> None:
        """Begin a body."""
        first = step.bodies[0]
        if isinstance(step.structure, Loop) and id(first) not in self._begun:
            programs = [body.program for body in step.bodies]
            self._to.nbytes_each += bytes_of_each_step(step.structure, programs)
        self._begin(plan, self._place(step.first))

    def leave(self) -> None:
        """End a body."""
        self._frames.pop()

    def allocate(self, step: Step | None, j: int, n: int, nbytes: int) -> OpenValue:
        """Record an array."""
        if step is None:
            made, place = "copy", self._end()
        else:
            made, place = self._made(step, n), self._place(step.first)
        aval = self._plan.program.avals[j]
        return self._to.allocate(
            self._name(j), aval, made, *place, nbytes=nbytes, depth=self._depth
        )

    def work(self, step: Step, nbytes: int) -> OpenValue:
        """Record work memory."""
        program, k = self._plan.program, step.first
        place = self._place(k)
        return self._to.allocate(
            "", program.avals[k], program.ops[k][0].name, *place, kind="work", nbytes=nbytes,
            depth=self._depth,
        )  # fmt: skip

    def free(self, memory: OpenValue) -> None:
        """Record a last use."""
        self._to.free(memory)

    def point(self, step: Step | None, reads: Sequence[OpenValue | None]) -> None:
        """Record an operation, or the copies at the end."""
        if step is None:
            plan, place = self._plan, self._end()
            outputs = zip(plan.program.output_ids, plan.copied, strict=True)
            names = [f"{self._name(i)} (a copy)" for i, is_copied in outputs if is_copied]
            operation, text = "return", f"return {', '.join(names)}"
        else:
            operation, text = self._operation(step), self._text(step)
            place = self._place(step.first)
        index = self._to.point(operation, text, *place, self._depth)
        for record in reads:
            if record is not None:
                self._to.read(record, index, place[1])

    def end_of_loop(self, step: Step) -> None:
        """Record the copy of a final carry."""
        name = self._plan.program.ops[step.first][0].name
        place = self._place(step.first)
        self._to.point(name, f"end of {name}: copies of its carry", *place, self._depth)

    def carry(self, memory: OpenValue) -> None:
        """Record that an array is a carry."""
        memory.value = replace(memory.value, kind="carry")

    def result(self, memory: OpenValue, step: Step, j: int, n: int) -> None:
        """Record that an array of a body is a result."""
        memory.value = replace(
            memory.value, name=self._name(j), kind="value", made=self._made(step, n),
            depth=self._depth,
        )  # fmt: skip

    def mark(self) -> int:
        """Return the index of the next point."""
        return self._to.next

    def peak_since(self, mark: int) -> int:
        """Return the most live bytes since a mark."""
        return max([point.nbytes for point in self._to.points[mark:]], default=0)

    def drop(self, start: int, end: int) -> None:
        """Leave points out."""
        self._to.drop(start, end)

    # -- words ---------------------------------------------------------------------------------

    @property
    def _plan(self) -> Plan:
        return self._frames[-1].plan

    @property
    def _depth(self) -> int:
        return len(self._frames) - 1

    def _end(self) -> tuple[Source | None, Phase]:
        """Return the line and the phase of the end of a plan."""
        outer = self._frames[-1].outer
        return (None, self._to.phase) if outer is None else outer

    def _place(self, k: int) -> tuple[Source | None, Phase]:
        """Return the line and the phase of an operation."""
        return self._source(k), self._phase(k)

    def _name(self, i: int) -> str:
        return str(self._plan.program.variables[i].name)

    def _source(self, k: int) -> Source | None:
        found, outer = self._plan.program.source(k, self._lines), self._frames[-1].outer
        return outer[0] if found is None and outer is not None else found

    def _phase(self, k: int) -> Phase:
        frame = self._frames[-1]
        is_inside = frame.outer is not None and frame.outer[1] == "backward"
        own: Phase = frame.phases.get(k, self._to.phase)
        return "backward" if is_inside else own

    def _operation(self, step: Step) -> str:
        if not isinstance(step.structure, FusionGroup):
            return self._plan.program.ops[step.first][0].name
        (body,) = step.bodies
        names = [body.program.ops[part.first][0].name for part in body.steps]
        more = f", … ({len(names)})" if len(names) > MOST_NAMES else ""
        return f"{', '.join(names[:MOST_NAMES])}{more}"

    def _text(self, step: Step) -> str:
        results = self._plan.results(step)
        if isinstance(step.structure, FusionGroup):
            left = ", ".join([f"{self._name(j)}: {self._plan.program.avals[j]}" for j in results])
            return f"{left} = {self._operation(step)}"
        text = str(self._frames[-1].texts[step.first])
        return f"{text.partition(' {')[0]} {{…}}" if step.bodies else text.partition("\n")[0]

    def _made(self, step: Step, n: int) -> str:
        """Name the operation that makes a result."""
        program = self._plan.program
        if isinstance(step.structure, FusionGroup):
            (body,) = step.bodies
            return body.program.ops[body.program.output_ids[n]][0].name
        if isinstance(step.structure, Loop) and step.structure.length is not None:
            carries = sum(step.structure.carries)
            return f"{program.ops[step.first][0].name}, {'stack' if n >= carries else 'carry'}"
        return program.ops[step.first][0].name
