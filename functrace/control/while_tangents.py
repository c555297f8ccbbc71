"""Forward derivatives of loops with an unknown number of steps: tangents together with values, or
in separate phases.

See Note [A trip and its phases] in control/while_trips.py.

Layer: 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from functrace.control.carries import hoisted, invariants, source_variables, split_body, zeros_where
from functrace.control.while_trips import DerivedLoop, Trip, with_inputs
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.ir.parts import Assembly, output_avals, without_kept
from functrace.ir.primitive import Tangents, Values
from functrace.ir.program import Program
from functrace.transforms.derivatives import SplitProgram, as_differentiated, jvp_program


def pushed(trip: Trip, primals: Values, tangents: Tangents) -> DerivedLoop:
    """Build the loop of values and tangents; its results are converted to outputs and their
    tangents.
    """
    found = activity(trip, [t is not None for t in tangents])
    fixed, groups = trip.groups(primals)
    dots = [t for t in tangents[: trip.constants] if t is not None]
    starts = _starts(trip, tangents, found)
    bodies: list[Program] = []
    for phase, (body, (flags, split)) in enumerate(zip(trip.bodies, found, strict=True)):
        joint = jvp_program(body, flags)
        total, count, carried = len(body.input_ids), len(body.output_ids), trip.carries[phase]
        moved = iter(range(total, total + sum(flags)))
        dot_of = [next(moved) if flag else None for flag in flags]
        ends = [trip.constants, trip.constants + carried]
        for j in range(phase):
            ends.append(ends[-1] + trip.kept(j))
        order: list[int] = []
        for begin, end in zip([0, *ends], ends, strict=False):
            order += [*range(begin, end), *[k for k in dot_of[begin:end] if k is not None]]
        outs = joint.output_ids
        moved_outs = [outs[count + k] if flag else None for k, flag in enumerate(split.active)]
        chosen = [
            *outs[:carried], *[i for i in moved_outs[:carried] if i is not None],
            *outs[carried:count], *[i for i in moved_outs[carried:] if i is not None],
        ]  # fmt: skip
        bodies.append(with_inputs(joint, order, chosen))
    start = trip.constants
    inputs = [
        *range(start),
        *map(aval_of, dots),
        *range(start, start + trip.carries[0]),
        *map(aval_of, starts[0]),
    ]
    made = trip._replace(
        cond=with_inputs(trip.cond, inputs, trip.cond.output_ids),
        bodies=tuple(bodies),
        carries=tuple([n + len(s) for n, s in zip(trip.carries, starts, strict=True)]),
        constants=start + len(dots),
    )
    operands = [
        *fixed,
        *dots,
        *[x for pair in zip(groups, starts, strict=True) for group in pair for x in group],
    ]

    def results(values: list[Any]) -> tuple[list[Any], list[Any]]:
        left, outputs, moved = iter(values), list[Any](), list[Any]()
        for phase in range(trip.hidden, len(bodies)):
            outputs += islice(left, trip.carries[phase])
            moved += islice(left, len(starts[phase]))
        return outputs, _tangents_of(trip, found, moved)

    return DerivedLoop(made, operands, results)


def linearized(trip: Trip, primals: Values, tangents: Tangents) -> tuple[Trip, DerivedLoop]:
    """Build the linear part of a loop, which starts with the loop itself; returns it with the loop
    without derivatives.

    The results of the linear part are converted to tangents.
    """
    found = activity(trip, [t is not None for t in tangents])
    fixed, groups = trip.groups(primals)
    dots = [t for t in tangents[: trip.constants] if t is not None]
    starts = _starts(trip, tangents, found)
    start, phases = trip.constants, range(len(trip.bodies))
    # Loop-invariant residuals become constants; others are kept by step.
    same: list[Any] = []
    # of each phase's residuals: an index in `same`, or (phase, index) of a kept value
    places: list[dict[int, Any]] = []
    extra: list[list[int]] = []
    for phase in phases:
        body, split = trip.bodies[phase], found[phase].split
        invariant, per_step = hoisted(split, body, start)
        computed = [n for n in invariant if split.sources[n][0] != "input"]
        place: dict[int, Any] = {n: split.sources[n][1] for n in invariant}
        place.update({n: start + len(same) + k for k, n in enumerate(computed)})
        same += invariants(split.forward, split, computed, primals, start, len(body.output_ids))
        mine: list[int] = []
        forward, count, carried = split.forward, len(body.output_ids), trip.carries[phase]
        stacks, variables = trip.stacks(phase), source_variables(forward, count)
        for n in per_step:
            word, k = split.sources[n]
            if word == "input" and k >= start + carried:
                place[n] = stacks[k - start - carried]
            elif word == "output" and k >= carried:
                place[n] = (phase, k - carried)
            else:
                variable = variables[word][k]
                if variable not in mine:
                    mine.append(variable)
                place[n] = (phase, trip.kept(phase) + mine.index(variable))
        places.append(place)
        extra.append(mine)
    unread = [*map(aval_of, same), *map(aval_of, dots)]
    bodies: list[Program] = []
    kept: list[tuple[tuple[int, int], ShapeDtype]] = []
    for phase in phases:
        forward, count, carried = (
            found[phase].split.forward,
            len(trip.bodies[phase].output_ids),
            trip.carries[phase],
        )
        at = {stack: start + carried + k for k, stack in enumerate(trip.stacks(phase))}
        inputs = [
            *range(start),
            *unread,
            *range(start, start + carried),
            *[at.get(stack, aval) for stack, aval in kept],
        ]
        outputs = [*forward.output_ids[:count], *extra[phase]]
        bodies.append(without_kept(with_inputs(forward, inputs, outputs)))
        kept += [((phase, n), forward.avals[i]) for n, i in enumerate(outputs[carried:])]
    moved: list[tuple[tuple[int, int], ShapeDtype]] = []
    for phase in phases:
        split = found[phase].split
        carried, linear = trip.carries[phase], split.linear
        build = Assembly()
        constants = [
            *[build.input(aval_of(x)) for x in fixed],
            *[build.input(aval) for aval in unread],
        ]
        carry = [build.input(aval_of(x)) for x in starts[phase]]
        rows = {stack: build.input(aval) for stack, aval in kept}
        tangent_rows = {stack: build.input(aval) for stack, aval in moved}
        sources = [places[phase][n] for n in range(len(split.sources))]
        residuals = [constants[s] if isinstance(s, int) else rows[s] for s in sources]
        active_rows = [tangent_rows[s] for s in trip.stacks(phase) if s in tangent_rows]
        outputs = build.splice(
            linear, [*residuals, *constants[start + len(same) :], *carry, *active_rows]
        )
        bodies.append(build.program(outputs, linear.name))
        active = [n for n, flag in enumerate(split.active[carried:]) if flag]
        moved += [
            ((phase, n), linear.avals[i])
            for n, i in zip(active, linear.output_ids[len(carry) :], strict=True)
        ]
    inputs = [*range(start), *unread, *range(start, start + trip.carries[0])]
    made = Trip(
        with_inputs(trip.cond, inputs, trip.cond.output_ids),
        tuple(bodies),
        (*trip.carries, *map(len, starts)),
        trip.reverse * 2,
        start + len(unread),
        len(phases) + trip.hidden,
        trip.most,
    )
    if any(body.has_rules for body in trip.bodies):
        bodies = [
            as_differentiated(body, flags)
            for body, (flags, _) in zip(trip.bodies, found, strict=True)
        ]
        trip = trip._replace(bodies=tuple([body.interned() for body in bodies]))
    operands = [*fixed, *same, *dots, *chain(*groups, *starts)]

    def results(values: list[Any]) -> list[Any]:
        return _tangents_of(trip, found, values)

    return trip, DerivedLoop(made, operands, results)


class _Active(NamedTuple):
    """Flags of the inputs of a phase's body that have tangents, and its split."""

    inputs: list[bool]
    split: SplitProgram


def activity(trip: Trip, moving: Sequence[bool]) -> list[_Active]:
    """Return the activity of each phase: a carry that gets a tangent in a step has one from the
    start.

    Args:
        trip: the loop.
        moving: flags of the operands that have tangents.
    """
    fixed, groups = trip.groups(moving)
    kept: list[bool] = []
    found: list[_Active] = []
    for body, carry in zip(trip.bodies, groups, strict=True):
        inputs, split = split_body(body, [*fixed, *carry, *kept], len(fixed), len(carry))
        found.append(_Active(inputs, split))
        kept += split.active[len(carry) :]
    return found


def _starts(trip: Trip, tangents: Tangents, found: Sequence[_Active]) -> list[list[Any]]:
    """Return the initial tangents of each phase's carry; zeros for carries that get one later."""
    _, groups = trip.groups(tangents)
    made: list[list[Any]] = []
    for body, group, active in zip(trip.bodies, groups, found, strict=True):
        made.append(
            zeros_where(active.split.active[: len(group)], group, output_avals(body)[: len(group)])
        )
    return made


def _tangents_of(trip: Trip, found: Sequence[_Active], moved: Sequence[Any]) -> list[Any]:
    """Return one tangent or ``None`` per result, from the given ones."""
    left, shown = iter(moved), range(trip.hidden, len(trip.bodies))
    return [
        next(left) if flag else None
        for p in shown
        for flag in found[p].split.active[: trip.carries[p]]
    ]
