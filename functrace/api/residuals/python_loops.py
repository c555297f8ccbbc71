"""Checkpoint the steps of Python loops: runs of equal steps in a recorded program become checkpointed
loops.

Layer: 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from functrace.control.checkpointed_loop import checkpointed_loop_p
from functrace.control.checkpointed_steps import CheckpointedLoop
from functrace.control.schedules import Schedule
from functrace.errors import ArgumentError
from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import Assembly, Rewrite
from functrace.ir.program import Program
from functrace.ops.indexing import index_p
from functrace.ops.joining import stack_p
from functrace.ops.shaping import broadcast_to_p
from functrace.passes import inline_calls
from functrace.passes.rerolling import (
    Carried,
    Fixed,
    Local,
    Own,
    Region,
    evaluation_order,
    loops_in,
)

FEWEST_SAVED = 6
"""Operations that a loop has to save."""


def checkpoint_python_loops(program: Program, schedule: Schedule, owner: str) -> Program:
    """Return an equal program whose runs of equal steps are checkpointed loops.

    Args:
        program: the program of a function.
        schedule: of the loops.
        owner: name of the function, for messages.

    Raises:
        ArgumentError: if there are no equal steps.

    Cost:
        operations times the longest possible step: 0.2 s for 10,000 operations.
    """
    key = (checkpoint_python_loops, schedule)
    made = program.derived.get(key)
    if made is None:
        program.derived[key] = made = _rewritten(program, schedule, owner)
    return made


def _rewritten(program: Program, schedule: Schedule, owner: str) -> Program:
    flat = inline_calls(program)
    order = evaluation_order(flat)
    regions = loops_in(flat, order, FEWEST_SAVED)
    if not regions:
        raise ArgumentError(
            f"{owner}: no equal steps of a Python loop are found in its {len(order)} operations",
            fix="write the loop as functrace.scan(..., checkpoint=) or functrace.fori_loop; numbers "
            "that differ from step to step are arrays there",
        )
    write, place = Rewrite(flat), 0
    for region in regions:
        write.keep_each(order[place : region.start])
        _Writer(write, flat, order, region).loop(schedule)
        place = region.end
    write.keep_each(order[place:])
    return write.finish().interned()


@final
class _Writer:
    """Writes the loop of a region.

    Args:
        write: the new program.
        program: the old one.
        order: its operations in order of evaluation.
        region: the region.
    """

    def __init__(
        self, write: Rewrite, program: Program, order: Sequence[int], region: Region
    ) -> None:
        self.write, self.program, self.order, self.region = write, program, order, region

    def variable(self, step: int, local: Local) -> int:
        """Return the variable of a result of a step."""
        return self.order[step * self.region.period + local[0] + self.region.start] + local[1]

    def loop(self, schedule: Schedule) -> None:
        """Write the loop, and its results in place of those of the steps."""
        program, region, write = self.program, self.region, self.write
        avals, steps = program.avals, region.steps
        fixed = list(
            dict.fromkeys(
                x.variable
                for operands in region.operands
                for x in operands
                if isinstance(x, Fixed) and x.variable >= 0
            )
        )
        carried = [c.of for c in region.carries]
        stacked, last = self._read_later()
        more = [local for local in last if local not in carried]
        starts = [write.operand(c.first) for c in region.carries]
        for local in more:  # results of the last step only: carries that no step reads
            aval = avals[self.variable(0, local)]
            zero = write.constant(aval.dtype.type(0), ShapeDtype((), aval.dtype))
            shaped = write.place(broadcast_to_p, (zero,), (aval.shape,)) if aval.shape else zero
            starts.append(shaped)
        results = [*carried, *more]
        body = self._body(fixed, results, stacked)
        arrays = [self._array(variables) for variables in region.slices]
        loop = CheckpointedLoop(
            body, None, steps, False, len(fixed), len(results), None, schedule, ()
        )
        operands = (*map(write.operand, fixed), *starts, *arrays)
        first = write.place(
            checkpointed_loop_p, operands, tuple(loop), write.position(self.variable(0, (0, 0)))
        )
        for n, local in enumerate(results):
            write.moved[self.variable(steps - 1, local)] = first + n
        for n, local in enumerate(stacked, len(results)):
            for step in range(steps):
                variable = self.variable(step, local)
                if variable in self.read:
                    write.moved[variable] = write.place(index_p, (first + n,), ((step,),))

    def _read_later(self) -> tuple[list[Local], list[Local]]:
        """Return the results that are read after the loop: of any step, and of the last one."""
        region, last = self.region, self.region.steps - 1
        self.read = set(self.program.output_ids)
        for k in self.order[region.end :]:
            self.read.update(self.program.ops[k][1])
        stacked = [
            local
            for local in region.kept
            if any(self.variable(step, local) in self.read for step in range(last))
        ]
        return stacked, [local for local in region.kept if local not in stacked]

    def _body(
        self, fixed: Sequence[int], results: Sequence[Local], stacked: Sequence[Local]
    ) -> Program:
        """Return the program of a step."""
        program, region = self.program, self.region
        avals = program.avals
        inputs = [
            *[avals[i] for i in fixed],
            *[avals[self.variable(0, local)] for local in results],
            *[avals[variables[0]] for variables in region.slices],
        ]
        part = Rewrite(program, inputs)
        first = len(fixed)
        slices = first + len(results)
        number = {i: n for n, i in enumerate(fixed)}
        found: dict[Local, int] = {}
        for j, row in enumerate(region.operands):
            given: list[int] = []
            for x in row:
                if isinstance(x, Fixed):
                    given.append(
                        number[x.variable] if x.variable >= 0 else part.operand(x.variable)
                    )
                elif isinstance(x, Own):
                    given.append(found[x.of])
                elif isinstance(x, Carried):
                    given.append(first + x.number)
                else:
                    given.append(slices + x.number)
            k = self.variable(0, (j, 0))
            primitive, _, params = program.ops[k]
            made = part.place(primitive, tuple(given), params, part.position(k))
            for n in range(program.result_count(k)):
                found[j, n] = made + n
        outputs = [found[local] for local in (*results, *stacked)]
        return Assembly.program(part, outputs, program.name).interned()

    def _array(self, variables: Sequence[int]) -> int:
        """Return the array whose rows the steps take: a given one, or a stack."""
        program, write = self.program, self.write
        ops = [program.ops[i] for i in variables]
        sources = {operands[0] for primitive, operands, _ in ops if primitive is index_p}
        if len(sources) == 1 and all(
            primitive is index_p and params == ((t,),)
            for t, (primitive, _, params) in enumerate(ops)
        ):
            (source,) = sources
            if program.avals[source].shape[0] == len(variables):
                return write.operand(source)
        return write.place(stack_p, tuple(map(write.operand, variables)), (0,))
