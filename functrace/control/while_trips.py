"""Trips: the representation of a loop with an unknown number of steps, and of all its derivatives.

Note [A trip and its phases]
    The first phase is the loop itself: its body runs while the condition on its carry holds. The
    number of steps is known only at run time; so no value outside of the operation can have an axis
    of that length, and the residuals of each step stay inside of it. A *trip* is the loop, then
    further phases, which run over the same steps once more, forwards or backwards, each with its
    own carry. All results of a body besides its carry are kept per step, in a list that grows as
    the trip runs, and become inputs of the bodies of later phases at the same step.

    The linear part of a loop is a trip of two phases: the loop, which keeps its residuals, and the
    tangents, which read them. Its transpose runs the second phase backwards. A derivative of that
    adds its own phases; so trips are closed under every transform, to any order, and a reverse pass
    takes memory in proportion to the number of steps. Before a program runs, control/loop_sharing.py
    joins a loop to trips that start with it, so that it runs once.

The rules of the loop are functions from a trip to a trip (`DerivedLoop`): control/while_tangents.py,
control/while_transpose.py, control/while_vmap.py. The operation that applies them is in
control/while_loop.py.

Layer: 5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import Rewrite, restrict
from functrace.ir.program import Program


@final
class Trip(NamedTuple):
    """The params of a loop; see Note [A trip and its phases].

    Args:
        cond: from constants and the carry of the first phase to a bool: True if there is another
            step.
        bodies: by phase: from constants, its carry, and values that earlier phases kept of this
            step, to its carry and the values that it keeps.
        carries: by phase, number of carried values.
        reverse: by phase, True if it runs from the last step to the first.
        constants: number of operands that are constants; the others are the initial carries of all
            phases.
        hidden: number of first phases whose carries are not returned.
        most: maximum number of steps, or ``None``.
    """

    cond: Program
    bodies: tuple[Program, ...]
    carries: tuple[int, ...]
    reverse: tuple[bool, ...]
    constants: int
    hidden: int
    most: int | None

    def groups(self, values: Sequence[Any]) -> tuple[list[Any], list[list[Any]]]:
        """Return the constants, and the carry of each phase."""
        place, found = self.constants, list[list[Any]]()
        for count in self.carries:
            found.append(list(values[place : place + count]))
            place += count
        return list(values[: self.constants]), found

    def kept(self, phase: int) -> int:
        """Return the number of values that a phase keeps of every step."""
        return len(self.bodies[phase].output_ids) - self.carries[phase]

    def stacks(self, phase: int) -> list[tuple[int, int]]:
        """Return the kept values of earlier phases that a body takes, as (phase, index)."""
        return [(j, n) for j in range(phase) for n in range(self.kept(j))]


@final
class DerivedLoop(NamedTuple):
    """Result of a rule: another loop.

    Args:
        trip: of the loop to apply.
        operands: its operands.
        results: from the results of that loop to the results of the rule.
    """

    trip: Trip
    operands: list[Any]
    results: Callable[[list[Any]], Any]


def places_read(program: Program, outputs: Sequence[int]) -> set[int]:
    """Return the indices of the inputs on which variables depend."""
    needed = set(outputs)
    for k in range(len(program.ops) - 1, -1, -1):
        if k in needed:
            needed.update(program.ops[k][1])
    return {place for place, i in enumerate(program.input_ids) if i in needed}


def with_inputs(
    program: Program, inputs: Sequence[int | ShapeDtype], outputs: Sequence[int]
) -> Program:
    """Return the part of a program that computes some variables, with reordered inputs: indices, or
    avals of dead inputs.
    """
    part = restrict(program, program.input_ids, outputs, keep=True).program
    write = Rewrite(part, inputs)
    return write.finish(write.keep_all())


def pruned(trip: Trip, operands: Sequence[Any]) -> tuple[Trip, list[Any]]:
    """Eliminate dead constants, carries, kept values and phases."""
    fixed, groups = trip.groups(operands)
    phases, start = len(trip.bodies), trip.constants
    kept: set[tuple[int, int]] = set()
    carried: list[list[int]] = [[]] * phases
    tested = places_read(trip.cond, trip.cond.output_ids)
    read = {k for k in tested if k < start}
    for phase in range(phases - 1, -1, -1):
        body, count = trip.bodies[phase], trip.carries[phase]
        wanted = set(range(count)) if phase >= trip.hidden else set[int]()
        if phase == 0:
            wanted.update([k - start for k in tested if k >= start])
        mine = [count + n for n in range(trip.kept(phase)) if (phase, n) in kept]
        while True:
            needed = places_read(body, [body.output_ids[k] for k in [*sorted(wanted), *mine]])
            more = {k - start for k in needed if start <= k < start + count} - wanted
            if not more:
                break
            wanted |= more
        carried[phase] = sorted(wanted)
        read.update([k for k in needed if k < start])
        stacks = trip.stacks(phase)
        kept.update([stacks[k - start - count] for k in needed if k >= start + count])
    chosen = sorted(read)
    alive = [
        p
        for p in range(phases)
        if not p or p >= trip.hidden or carried[p] or any(j == p for j, _ in kept)
    ]
    bodies: list[Program] = []
    for phase in alive:
        body, count = trip.bodies[phase], trip.carries[phase]
        mine = [count + n for n in range(trip.kept(phase)) if (phase, n) in kept]
        before = [start + count + k for k, stack in enumerate(trip.stacks(phase)) if stack in kept]
        inputs = [*chosen, *[start + k for k in carried[phase]], *before]
        if len(inputs) < len(body.input_ids) or len(carried[phase]) + len(mine) < len(
            body.output_ids
        ):
            body = with_inputs(body, inputs, [body.output_ids[k] for k in [*carried[phase], *mine]])
        bodies.append(body.interned())
    cond = with_inputs(trip.cond, [*chosen, *[start + k for k in carried[0]]], trip.cond.output_ids)
    made = Trip(
        cond.interned(),
        tuple(bodies),
        tuple([len(carried[p]) for p in alive]),
        tuple([trip.reverse[p] for p in alive]),
        len(chosen),
        sum(p < trip.hidden for p in alive),
        trip.most,
    )
    return made, [*[fixed[k] for k in chosen], *[groups[p][k] for p in alive for k in carried[p]]]
