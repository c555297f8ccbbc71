"""Timelines of calls: of jitted programs, and of un-jitted functions that run transforms.

An un-jitted call is recorded as the sequence of the programs that it runs: each transform of
concrete arguments is one, run by its `functrace.executor.runner.Runner`. The lifetimes inside of a
run are exact; between runs, values are taken to be freed after their last use, as Python does
unless a variable keeps them.

Layer: 7.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, final

from functrace.executor.compilation import plan_of
from functrace.executor.interpreter import listed
from functrace.executor.memory.of_lists import ListTimeline, timeline_of_list
from functrace.executor.memory.of_plans import allocate_given, timeline_of_plan, write_plan
from functrace.executor.memory.timeline import MemoryPlan, OpenValue, TimelineWriter
from functrace.executor.runner import LONGEST_COMPILED, Runner, flat_at_once
from functrace.ir.program import Position, Program
from functrace.passes import Pass


class Run(NamedTuple):
    """One run of a program in an un-jitted call.

    Args:
        runner: of the program.
        lines: positions of the recording that it was made for; see Note [Positions in cached
            programs].
    """

    runner: Runner
    lines: tuple[Position, ...]


def timeline_of_jit(
    program: Program,
    name: str,
    passes: Sequence[Pass] = (),
    donated: Sequence[int] = (),
) -> MemoryPlan:
    """Return the timeline of a jitted program; arguments as those of
    `functrace.executor.runner.compile_at_once`.
    """
    flat = flat_at_once(program, passes)
    if len(flat.schedule) > LONGEST_COMPILED:
        return timeline_of_list(listed(Runner(flat).flat), name, "jit, instruction list")
    return timeline_of_plan(plan_of(flat, donated=donated), name, "jit, NumPy")


def timeline_of_call(program: Program, runs: Mapping[int, Run], name: str) -> MemoryPlan:
    """Return the timeline of an un-jitted call.

    Args:
        program: the recorded call, with one operation for each program that it runs.
        runs: of these programs, by operation.
        name: name of the function.
    """
    write = TimelineWriter()
    timeline = CallTimeline(write, program, allocate_given(write, program), runs)
    results = timeline.write()
    tiers = ", ".join(dict.fromkeys(timeline.tiers))
    return write.finish(name, f"un-jitted, {tiers}", results)


@final
class CallTimeline:
    """Writer of an un-jitted call; see the module.

    Args:
        write: where to write.
        program: the recorded call.
        given: records of inputs and constants, by variable.
        runs: of the programs, by operation.
    """

    def __init__(
        self,
        write: TimelineWriter,
        program: Program,
        given: dict[int, OpenValue],
        runs: Mapping[int, Run],
    ) -> None:
        self._to, self._program, self._runs = write, program, runs
        self._records = dict(given)
        self._given = {id(record) for record in given.values()}
        self.tiers: list[str] = []
        """Execution tiers of the programs."""

    def write(self) -> list[OpenValue]:
        """Write all operations; returns the records of the outputs."""
        program, records, to = self._program, self._records, self._to
        users: Counter[int] = Counter()
        for k, dying in program.schedule:
            primitive, operands, params = program.ops[k]
            count = program.result_count(k) if primitive.many else 1
            avals = program.avals[k : k + count]
            read = [records[i] for i in operands if i in records]
            run = self._runs.get(k)
            if run is not None:
                results = self._run(run, operands)
            elif primitive.view and read:
                results = read[:1]
            else:
                source, phase = program.source(k), to.phase
                results = [
                    to.allocate(
                        str(program.variables[k + n].name), aval, primitive.name, source, phase
                    )
                    for n, aval in enumerate(avals)
                ]
                work = primitive.work_bytes(tuple(map(program.spec, operands)), avals, params)
                extra = to.allocate_work(work, avals[0], primitive.name, source, phase)
                index = to.point(primitive.name, primitive.name, source, phase, 0)
                to.free_work(extra)
                for record in read:
                    to.read(record, index, phase)
            for n, record in enumerate(results):
                records[k + n] = record
                users[id(record)] += 1
            for i in dying:
                record = records.pop(i, None)
                if record is not None and id(record) not in self._given:
                    users[id(record)] -= 1
                    if not users[id(record)] and record.death is None:
                        to.free(record)
        return [records[i] for i in program.output_ids if i in records]

    def _run(self, run: Run, operands: Sequence[int]) -> list[OpenValue]:
        """Write the run of a program."""
        instructions = run.runner.instructions()
        if instructions is not None:
            self.tiers.append("instruction list")
            given = self._passed(instructions.program, operands)
            return ListTimeline(
                self._to, instructions, given, lines=run.lines, is_inner=True
            ).write()
        plan = plan_of(run.runner.flat)
        self.tiers.append("compiled plan")
        given = self._passed(plan.program, operands)
        return write_plan(self._to, plan, given, run.lines)

    def _passed(self, inner: Program, operands: Sequence[int]) -> dict[int, OpenValue]:
        """Return the records of a program's inputs, and of its constants."""
        found = {
            i: self._records[operand]
            for i, operand in zip(inner.input_ids, operands, strict=True)
            if operand in self._records
        }
        for i in inner.constant_values:
            if inner.avals[i].shape:
                found[i] = self._to.allocate(
                    str(inner.variables[i].name), inner.avals[i], "captured array", None,
                    "forward", kind="captured",
                )  # fmt: skip
        return found
