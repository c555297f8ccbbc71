"""Timelines of compiled plans.

A plan says when each array is allocated, overwritten and freed; generated code, and so the process,
follows it. Here the same lifetimes are written down operation by operation, with those of the
bodies of loops and branches. The largest point equals `functrace.executor.plan.planner.Plan.peak_bytes`.

Layer: 7.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import final

from functrace.executor.memory.timeline import (
    MemoryPlan,
    OpenValue,
    Phase,
    TimelineWriter,
    phases,
)
from functrace.executor.plan.planner import Plan, Step
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import CONSTANT, INPUT, RESULT
from functrace.ir.program import Position, Program
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
    results = PlanTimeline(write, plan, given).write()
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


@final
class PlanTimeline:
    """Writer of the operations of one plan.

    Args:
        write: where to write.
        plan: the plan.
        given: records of inputs and constants, by variable.
        outer: line of the enclosing operation, and its phase.
        depth: number of enclosing operations.
        loop: for the body of a loop, the loop.
        lines: positions of the current recording, for a cached program.
    """

    def __init__(
        self,
        write: TimelineWriter,
        plan: Plan,
        given: dict[int, OpenValue],
        outer: tuple[Source | None, Phase] | None = None,
        depth: int = 0,
        loop: Loop | None = None,
        lines: Sequence[Position] = (),
    ) -> None:
        self._lines = lines
        self._to, self._plan, self._depth, self._outer = write, plan, depth, outer
        self._records = dict(given)
        program = plan.program
        makers = [k for k, op in enumerate(program.ops) if op[0] not in (INPUT, CONSTANT, RESULT)]
        self._texts = dict(zip(makers, program.equations, strict=True))
        steps = plan.steps
        found = phases(
            [(plan.results(step), program.ops[step.first][1]) for step in steps],
            [program.is_reverse(step.first, lines) for step in steps],
            program.output_ids,
        )
        self._phases: dict[int, Phase] = {
            step.first: phase for step, phase in zip(steps, found, strict=True)
        }
        self._waiting: dict[int, OpenValue] = {}
        """Second buffers of carries, by the operation that writes into them."""
        self._loop = loop

    def write(self) -> list[OpenValue]:
        """Write all operations; returns the records of the outputs."""
        plan, to = self._plan, self._to
        program, roots = plan.program, plan.memory
        readers: Counter[int] = Counter([roots.get(i, i) for i in program.output_ids])
        for step in plan.steps:
            for j in plan.results(step):
                readers[roots[j]] += 1
        for home, i in ({} if self._loop is None else plan.second_buffers(self._loop)).items():
            self._waiting[home] = to.allocate(
                self._name(i), program.avals[i], "carry", None, self._phase(i),
                kind="carry", depth=self._depth,
            )  # fmt: skip
        for step in plan.steps:
            self._step(step, readers)
        for record in self._waiting.values():
            to.free(record)
        return self._results()

    def _results(self) -> list[OpenValue]:
        """Write the copies of outputs; returns the records of the outputs."""
        plan, to, records = self._plan, self._to, self._records
        program, roots = plan.program, plan.memory
        last = self._outer if self._outer is not None else (None, to.phase)
        found: list[OpenValue] = []
        copied: dict[str, OpenValue | None] = {}
        for i, is_copied in zip(program.output_ids, plan.copied, strict=True):
            record = records.get(roots.get(i, i))
            if is_copied:
                copied[f"{self._name(i)} (a copy)"] = record
                record = to.allocate(
                    self._name(i), program.avals[i], "copy", *last, depth=self._depth
                )
            if record is not None:  # (an operand that a body forwards)
                found.append(record)
        if copied:
            index = to.point("return", f"return {', '.join(copied)}", *last, self._depth)
            for record in copied.values():
                if record is not None:
                    to.read(record, index, last[1])
        return found

    def _step(self, step: Step, readers: Counter[int]) -> None:
        plan, to, records = self._plan, self._to, self._records
        program, roots = plan.program, plan.memory
        k, results = step.first, plan.results(step)
        primitive, operands, _ = program.ops[k]
        source, phase = self._source(k), self._phase(k)
        is_loop = isinstance(step.structure, Loop)
        has_bodies = bool(step.bodies) and not isinstance(step.structure, FusionGroup)
        returns = has_bodies and not is_loop and plan.returns_of_bodies(step)
        if returns:  # the bodies allocate the results
            self._bodies(step, source, phase)
        overwritten = {
            roots[j]
            for n, j in enumerate(results)
            if roots[j] in plan.made
            and (step.into is not None or (step.onto and step.onto[n] is not None))
        }
        read = [records[r] for i in operands if i >= 0 and (r := roots.get(i, i)) in records]
        for root in overwritten:
            to.free(records[root])
        waiting = self._waiting.pop(k, None)
        if waiting is not None:
            to.free(waiting)
        for n, j in enumerate(results):
            root = roots[j]
            if root == j or root in overwritten:
                records[root] = to.allocate(
                    self._name(j), program.avals[root], self._made(step, n), source, phase,
                    nbytes=plan.allocated(root), depth=self._depth,
                )  # fmt: skip
        work = plan.work_bytes(step)
        extra = to.allocate_work(
            work, program.avals[k], primitive.name, source, phase, depth=self._depth
        )
        index = to.point(self._operation(step), self._text(step), source, phase, self._depth)
        for record in read:
            to.read(record, index, phase)
        if has_bodies and not returns:
            self._bodies(step, source, phase)
        to.free_work(extra)
        for i in plan.freed(step):
            root = roots.get(i, i)
            readers[root] -= 1
            if not readers[root] and root in records and root in plan.made:
                to.free(records[root])

    def _bodies(self, step: Step, source: Source | None, phase: Phase) -> None:
        """Write the bodies of an operation; what they return is counted by the operation."""
        to, structure = self._to, step.structure
        if isinstance(structure, Loop):
            to.nbytes_each += bytes_of_each_step(structure, [b.program for b in step.bodies])
        for body in step.bodies:
            loop = structure if isinstance(structure, Loop) else None
            outputs = PlanTimeline(to, body, {}, (source, phase), self._depth + 1, loop).write()
            for record in outputs:
                if record.death is None and record.value.kind not in ("argument", "captured"):
                    to.free(record)

    # -- words ---------------------------------------------------------------------------------

    def _name(self, i: int) -> str:
        return str(self._plan.program.variables[i].name)

    def _source(self, k: int) -> Source | None:
        found = self._plan.program.source(k, self._lines)
        return self._outer[0] if found is None and self._outer is not None else found

    def _phase(self, k: int) -> Phase:
        is_inside = self._outer is not None and self._outer[1] == "backward"
        own: Phase = self._phases.get(k, self._to.phase)
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
        text = str(self._texts[step.first])
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
