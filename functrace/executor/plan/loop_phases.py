"""Phases of loops that the NumPy backend inlines, and the carries that are double-buffered.

Note [Two arrays in turn]
    An array carry of a loop is double-buffered: it is written into the memory that it had two steps
    before, which nothing reads any more. The body's plan must prove that no other result shares the
    array, that no other carry is, or may be, the previous value of the carry, and that an operation
    that takes a target computes it into fresh memory in C order. In the first two steps there is no
    such memory yet, and the target is ``None``: the initial carry belongs to the caller, and is
    neither copied nor overwritten. A loop of known length copies stacked results into their stack,
    or computes them there; a loop whose length depends on values keeps the arrays themselves, which
    counts as sharing.

Layer: 7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import numpy as np

from functrace.control.residuals import packs
from functrace.ir.primitive import CONSTANT, INPUT

if TYPE_CHECKING:
    from functrace.executor.plan.planner import Plan, Step

LONGEST_IN_LINE = 64
"""Maximum number of operations of an inlined body; longer bodies are separate functions."""
DEEPEST = 8
"""Maximum depth of inlined loops; Python allows 20 nested blocks."""


def is_short(step: Step, depth: int) -> bool:
    """Return True if a loop is short enough to inline, and not nested too deeply.

    Args:
        step: the loop.
        depth: number of enclosing inlined loops.
    """
    return (
        depth < DEEPEST
        and sum(map(_length, step.bodies)) <= LONGEST_IN_LINE
        and not any(packs(body.program) for body in step.bodies)
    )


def _length(plan: Plan) -> int:
    return sum([1 + sum(map(_length, step.bodies)) for step in plan.steps])


@final
class LoopPhase:
    """Static properties of one phase of a loop.

    Args:
        plan: of its body.
        constants: number of constants of the loop.
        first: number of results of the body before its carry.
        count: number of carried values.
    """

    def __init__(self, plan: Plan, constants: int, first: int, count: int) -> None:
        program = plan.program
        self.plan = plan
        self.first = first
        self.count = count
        self.constants = program.input_ids[:constants]
        self.inputs = program.input_ids[constants : constants + count]
        self.others = program.input_ids[constants + count :]
        """The inputs that change in every step: slices, or values that earlier phases kept."""
        self.outputs = program.output_ids[first : first + count]
        self.kept = program.output_ids[first + count :]
        self.numbers: set[int] = set()
        """Variables that are Python numbers."""

    def double_buffered(self, copies: bool) -> list[int]:
        """Return the indices of the carries that are double-buffered; see the module.

        Args:
            copies: True if kept values are copied.
        """
        plan, program, end = self.plan, self.plan.program, self.first + self.count
        chosen = [
            j
            for j, n in enumerate(range(self.first, end))
            if plan.alone[n] and self.home(n) is not None
        ]
        shown = range(self.first, end if copies else len(program.output_ids))
        before: set[int] = set()
        for n in shown:
            i = program.output_ids[n]
            root = plan.owners.get(i, i)
            primitive = program.ops[root][0]
            if primitive is INPUT or primitive is CONSTANT:
                before.add(root)
            elif not (
                plan.alone[n]
                or i in self.numbers
                or (not program.avals[i].shape and program.ops[i][0].is_ufunc)
            ):
                return []  # may be a view of anything
        return [j for j in chosen if self.inputs[j] not in before]

    def home(self, n: int) -> int | None:
        """Return the operation that allocates output ``n``, if it can write into a given target."""
        home = self.plan.homes[n]
        if home is None:
            return None
        primitive = self.plan.program.ops[home][0]
        return home if primitive.is_ufunc or primitive.eval in (np.matmul, np.dot) else None

    def scalars(self) -> set[int]:
        """Return the carry inputs that are NumPy scalars, if the initial carry has scalars."""
        program = self.plan.program
        found = {i for i in self.inputs if not program.avals[i].shape}
        while True:
            left = {
                i
                for i, after in zip(self.inputs, self.outputs, strict=True)
                if i in found and (after in found or program.ops[after][0].is_ufunc)
            }
            if left == found:
                return left
            found = left
