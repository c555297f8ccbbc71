"""Live memory of a loop: carries, their second buffers, stacks, and the values that steps keep.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, final

from functrace.executor.plan.layouts import Strides, c_strides
from functrace.executor.plan.loop_phases import LoopPhase, is_short
from functrace.executor.plan.memory_trace import Block, Value, uncounted
from functrace.ir.structures import Loop

if TYPE_CHECKING:
    from functrace.executor.plan.liveness import PlanWalk
    from functrace.executor.plan.planner import Step

FEWEST_STEPS = 3
"""Number of steps of a loop after which its carries may be in their final buffers."""
MOST_STEPS = 8
"""Maximum number of steps that are walked."""


@final
class LoopWalk:
    """Walk of a loop.

    Args:
        outer: walk of the plan that contains it.
        step, loop: the operation.
    """

    def __init__(self, outer: PlanWalk, step: Step, loop: Loop) -> None:
        self._outer, self._step, self._loop = outer, step, loop
        self._trace, self._depth = outer.trace, outer.depth
        self._is_inlined = is_short(step, outer.depth)
        self._operands = outer.plan.program.ops[step.first][1]
        self._values = [outer.value(i) if i >= 0 else uncounted() for i in self._operands]
        self._fixed: list[Value] = []
        self._left: list[Block] = []
        """Memory that the loop holds until its end."""
        bodies = step.bodies[loop.has_condition :]
        first = [int(loop.has_condition), *[0] * len(bodies)]
        self._phases = [
            LoopPhase(body, loop.constants, n, count)
            for body, n, count in zip(bodies, first, loop.carries, strict=False)
        ]
        for phase in self._phases:
            avals = phase.plan.program.avals
            phase.numbers = {
                i for i, x in enumerate(avals) if not x.shape and x.dtype.kind in "biu"
            }

    def run(self) -> None:
        """Walk the loop, and set its results."""
        outer, loop, step = self._outer, self._loop, self._step
        reads, results = outer.reads(step), outer.plan.results(step)
        values = self._values[loop.takes is not None :]
        self._fixed = values[: loop.constants]
        carries: list[list[Value]] = []
        place = loop.constants
        for count in loop.carries:
            carries.append(values[place : place + count])
            place += count
        for value in [value for carry in carries for value in carry]:
            value.block.users += 1
        if self._is_inlined:
            self._end_initial_carries(place)
        count = sum(loop.carries[loop.hidden :])
        stacks = [outer.allocated(step, n, results[n]) for n in range(count, len(results))]
        for block in stacks:
            block.users += 1
        self._trace.point(step, reads)
        if loop.length is not None:
            found = self._known(carries[0], values[place:], stacks, loop.length)
        else:
            found = self._unknown(carries)
        for block in self._left:
            outer.drop(block)
        for n, value in enumerate(found):
            outer.take(step, n, value)
        for n, block in enumerate(stacks, count):
            outer.take(step, n, Value(block))

    def _end_initial_carries(self, ends: int) -> None:
        """Drop the outer names of initial carries that only the loop reads, for the last time."""
        loop, operands = self._loop, self._operands
        first = loop.takes is not None
        carried = range(first + loop.constants, first + ends)
        others = {i for n, i in enumerate(operands) if n not in carried}
        for i in {operands[n] for n in carried} - others:
            if i in self._step.dies:
                self._outer.end(i)

    def _known(
        self, carry: list[Value], arrays: Sequence[Value], stacks: Sequence[Block], length: int
    ) -> list[Value]:
        """Walk a loop of known length; returns its final carries."""
        (phase,) = self._phases
        avals = phase.plan.program.avals
        slices = [
            Value(value.block, _of_slice(value.strides, avals[i].shape))
            for i, value in zip(phase.others, arrays, strict=True)
        ]
        chosen = self._steps(phase, carry, slices, length, stacks)
        alone = phase.plan.alone[phase.first : phase.first + phase.count]
        owned = [n for n, flag in enumerate(alone) if flag and length and self._is_inlined]
        return self._ends(carry, 0, {*owned, *chosen} if length else ())

    def _unknown(self, carries: list[list[Value]]) -> list[Value]:
        """Walk all phases of a loop of unknown length; returns the final carries."""
        loop, outer = self._loop, self._outer
        rows = [uncounted() for _ in (loop.takes or (0,))[1:]]
        if loop.has_condition:
            for value in outer.inside(
                self._step.bodies[0], [*self._fixed, *carries[0]], of=self._step
            ):
                outer.drop(value.block)
        found: list[Value] = []
        for number, (phase, carry) in enumerate(zip(self._phases, carries, strict=True)):
            given = () if loop.has_condition and not number else tuple(rows)
            chosen = self._steps(phase, carry, given, None, (), rows)
            if number < loop.hidden:
                self._left += [value.block for value in carry]
            else:
                found += self._ends(carry, len(found), chosen)
        return found

    def _ends(self, carry: list[Value], first: int, owned: Collection[int]) -> list[Value]:
        """Copy the final carries of a phase, but for those that the loop owns.

        Args:
            carry: the final carries.
            first: index of the result that is the first of them.
            owned: positions of those that the loop owns.
        """
        outer, step = self._outer, self._step
        for n, value in enumerate(carry):
            j = outer.plan.results(step)[first + n]
            if n in owned or not outer.plan.program.avals[j].shape:
                continue
            block = outer.allocated(step, first + n, j)
            block.users += 1
            self._trace.end_of_loop(step)
            outer.drop(value.block)
            carry[n] = Value(block, value.strides)
        return carry

    def _steps(
        self,
        phase: LoopPhase,
        carry: list[Value],
        slices: Sequence[Value],
        length: int | None,
        stacks: Sequence[Block],
        rows: list[Value] | None = None,
    ) -> list[int]:
        """Walk the steps of a phase, until its peak is reached.

        Args:
            phase: the phase.
            carry: the carries, which the loop holds; replaced in place.
            slices: the other operands of its body.
            length: number of steps, if known.
            stacks: memory of the stacked results.
            rows: receives the values that are kept of a step.

        Returns:
            the carries that are double-buffered.
        """
        trace, first = self._trace, phase.first
        chosen = phase.double_buffered(copies=length is not None) if self._is_inlined else []
        homes = {j: phase.home(first + j) for j in chosen}
        chosen = [j for j in chosen if list(homes.values()).index(homes[j]) == chosen.index(j)]
        spares: dict[int, Block | None] = dict.fromkeys(chosen)
        lasts: dict[int, Block | None] = dict.fromkeys(chosen)
        written: dict[int, Block] = {}
        if self._is_inlined:
            for n, stack in enumerate(stacks, first + phase.count):
                home = phase.home(n)
                if home is not None and home not in homes.values() and home not in written:
                    written[home] = stack
        best, shown, count, kept = -1, (0, 0), 0, list[Value]()
        while count < MOST_STEPS and (length is None or count < length):
            start = trace.mark()
            targets = {homes[j]: spare for j, spare in spares.items() if spare is not None}
            kept = self._one(phase, carry, slices, targets, written)
            for j in chosen:
                before, spares[j], lasts[j] = spares[j], lasts[j], carry[j].block
                carry[j].block.users += 1
                if before is not None:
                    self._outer.drop(before)
            for value in kept:
                if rows is not None:
                    self._uncount(value.block)
                self._outer.drop(value.block)
            count += 1
            end, peak = trace.mark(), trace.peak_since(start)
            if peak > best:
                trace.drop(*shown)
                best, shown = peak, (start, end)
                continue
            trace.drop(start, end)
            if count >= FEWEST_STEPS:
                break
        if rows is not None:
            rows += kept or [uncounted() for _ in phase.kept]
        self._left += [block for block in (*spares.values(), *lasts.values()) if block is not None]
        return chosen

    def _one(
        self,
        phase: LoopPhase,
        carry: list[Value],
        slices: Sequence[Value],
        targets: dict[Any, Block],
        written: dict[int, Block],
    ) -> list[Value]:
        """Walk one step; replaces the carries, and returns the values that are kept."""
        outer, place = self._outer, len(self._fixed)
        taken = range(place, place + len(carry)) if self._is_inlined else range(0)
        outputs = outer.inside(
            phase.plan,
            [*self._fixed, *carry, *slices],
            of=self._step,
            taken=taken,
            targets=targets,
            rows=written,
            depth=self._depth + 1 if self._is_inlined else 0,
        )
        ends = phase.first + phase.count
        for value in outputs[: phase.first]:
            outer.drop(value.block)
        for n, value in enumerate(outputs[phase.first : ends]):
            if not self._is_inlined:
                outer.drop(carry[n].block)
            carry[n] = value
            if not value.block.is_given and value.block not in written.values():
                self._trace.carry(value.block.memory)
        return outputs[ends:]

    def _uncount(self, block: Block) -> None:
        """Stop counting memory that is kept for each step of a loop of unknown length."""
        if not block.is_given:
            self._trace.free(block.memory)
            block.is_given = True


def _of_slice(strides: Strides | None, shape: tuple[int, ...]) -> Strides | None:
    """Return the strides of a slice of an array along its first axis, ``None`` for C order.

    Args:
        strides: of the array.
        shape: of the slice.
    """
    if strides is None or strides[1:] == c_strides(shape):
        return None
    return strides[1:]
