"""Transpose of loops with an unknown number of steps: the linear part of each phase, in reverse.

See Note [A trip and its phases] in control/while_trips.py.

Layer: 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from functrace.control.call import zeros_of
from functrace.control.carries import settled
from functrace.control.while_trips import DerivedLoop, Trip, places_read, with_inputs
from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import Assembly, output_avals, restrict
from functrace.ir.primitive import Operand, Tangents, is_linear
from functrace.ir.program import Program
from functrace.ops.elementwise import add
from functrace.transforms.transpose import transpose_program
from functrace.transforms.vmap import dependent_outputs


def transposed(trip: Trip, operands: Sequence[Operand], cts: Tangents) -> DerivedLoop | None:
    """Build the loop that pulls cotangents back; ``None`` without cotangents. Its results are
    converted to one per operand.
    """
    linear = _linear_inputs(trip, operands)
    backwards = _backwards(trip, linear, cts)
    if not backwards:
        return None
    start, phases = trip.constants, range(len(trip.bodies))
    fixed, groups = trip.groups(operands)
    known = [k for k in range(start) if not linear[0][k]]
    # The nonlinear part runs first. Besides its own values, it keeps the carries that a backward
    # phase reads.
    before: dict[int, list[int]] = {
        b.phase: [k for k in b.values if start <= k < start + trip.carries[b.phase]]
        for b in backwards
    }
    bodies: list[Program] = []
    carries: list[int] = []
    starts: list[Any] = []
    kept: list[tuple[Any, ShapeDtype]] = []
    for phase in phases:
        body, carried, flags = trip.bodies[phase], trip.carries[phase], linear[phase]
        outs = dependent_outputs(body, flags)
        own = [k for k in range(carried) if not flags[start + k]]
        keeps = [n for n in range(trip.kept(phase)) if not outs[carried + n]]
        ahead = before.get(phase, [])
        at = {s: start + carried + k for k, s in enumerate(trip.stacks(phase))}
        inputs = [*known, *[start + k for k in own], *[at.get(key, aval) for key, aval in kept]]
        ids = [
            *[body.output_ids[k] for k in [*own, *[carried + n for n in keeps]]],
            *[body.input_ids[k] for k in ahead],
        ]
        bodies.append(with_inputs(body, inputs, ids))
        carries.append(len(own))
        starts += [groups[phase][k] for k in own]
        kept += zip(
            [(phase, n) for n in keeps] + [(phase, "before", k) for k in ahead],
            map(body.avals.__getitem__, ids[len(own) :]),
        )
    pulled: list[tuple[int, tuple[int, int], ShapeDtype]] = []
    for number, b in enumerate(backwards):
        body, carried = trip.bodies[b.phase], trip.carries[b.phase]
        avals = [body.avals[i] for i in body.input_ids]
        build = Assembly()
        variable: dict[Any, int] = {k: build.input(avals[k]) for k in known}
        sums = [build.input(avals[k]) for k in b.sums]
        carry = [build.input(avals[start + k]) for k in b.carry]
        rows = {key: build.input(aval) for key, aval in kept}
        for k, stack in enumerate(trip.stacks(b.phase), start + carried):
            if stack in rows:
                variable[k] = rows[stack]
        for k in range(start, start + carried):
            if (b.phase, "before", k) in rows:
                variable[k] = rows[b.phase, "before", k]
        totals: dict[tuple[int, int], int] = {}
        for _, stack, aval in pulled:
            x = build.input(aval)
            totals[stack] = build.place(add, (totals[stack], x), ()) if stack in totals else x
        given = [totals[b.phase, n] for n in b.given]
        outputs = build.splice(b.made, [*[variable[k] for k in b.values], *carry, *given])
        count = len(sums)
        summed = [build.place(add, (s, x), ()) for s, x in zip(sums, outputs, strict=False)]
        bodies.append(build.program([*summed, *outputs[count:]], b.made.name))
        carries.append(count + len(carry))
        starts += [*[zeros_of(avals[k]) for k in b.sums], *b.starts]
        keeps_avals = [b.made.avals[i] for i in b.made.output_ids[count + len(carry) :]]
        pulled += [(number, stack, aval) for stack, aval in zip(b.keeps, keeps_avals, strict=True)]
    inputs = [*known, *[start + k for k in range(trip.carries[0]) if not linear[0][start + k]]]
    made = Trip(
        with_inputs(trip.cond, inputs, trip.cond.output_ids),
        tuple(bodies),
        tuple(carries),
        (*trip.reverse, *[not trip.reverse[b.phase] for b in backwards]),
        len(known),
        len(phases),
        trip.most,
    )

    def results(values: list[Any]) -> tuple[Any, ...]:
        left = iter(values)
        found: list[Any] = [None] * len(operands)
        for b in backwards:
            for k in b.sums:
                ct = next(left)
                found[k] = ct if found[k] is None else add(found[k], ct)
            first = start + sum(trip.carries[: b.phase])
            for k in b.carry:
                found[first + k] = next(left)
        return tuple(found)

    return DerivedLoop(made, [*[fixed[k] for k in known], *starts], results)


class _Backward(NamedTuple):
    """One phase of a transposed trip.

    Args:
        phase: the phase that it transposes.
        made: from nonlinear values, in order of index, and cotangents to cotangents.
        values: indices of those values among the inputs of the phase's body.
        given: indices of the phase's kept values that have kept cotangents.
        sums: indices of the constants whose cotangents it sums.
        carry: indices of linear values in its carry.
        keeps: values kept by earlier phases whose cotangents it keeps.
        starts: initial cotangents of the carry.
    """

    phase: int
    made: Program
    values: list[int]
    given: list[int]
    sums: list[int]
    carry: list[int]
    keeps: list[tuple[int, int]]
    starts: list[Any]


def _linear_inputs(trip: Trip, operands: Sequence[Operand]) -> list[list[bool]]:
    """Return flags of the linear inputs of each phase's body."""
    fixed, groups = trip.groups([is_linear(x) for x in operands])
    kept: list[bool] = []
    found: list[list[bool]] = []
    for body, carry in zip(trip.bodies, groups, strict=True):
        inputs, outs = settled(
            dependent_outputs, body, [*fixed, *carry, *kept], len(fixed), len(carry)
        )
        found.append(inputs)
        kept += outs[len(carry) :]
    return found


def _backwards(trip: Trip, linear: list[list[bool]], cts: Tangents) -> list[_Backward]:
    """Transpose the linear part of each phase that has cotangents, from the last to the first."""
    start, found = trip.constants, list[_Backward]()
    pulled: set[tuple[int, int]] = set()
    shown = [trip.carries[p] if p >= trip.hidden else 0 for p in range(len(trip.bodies))]
    for phase in range(len(trip.bodies) - 1, -1, -1):
        body, carried, flags = trip.bodies[phase], trip.carries[phase], linear[phase]
        mine = cts[sum(shown[:phase]) : sum(shown[: phase + 1])] or (None,) * carried
        carry = [k for k in range(carried) if flags[start + k]]
        given = [n for n in range(trip.kept(phase)) if (phase, n) in pulled]
        if not given and all(mine[k] is None for k in carry):
            continue
        outs = [body.output_ids[k] for k in [*carry, *[carried + n for n in given]]]
        part = restrict(body, body.input_ids, outs, keep=True).program
        whole = transpose_program(part, flags)
        needed = places_read(part, part.output_ids)
        stacks = trip.stacks(phase)
        sums = [k for k in range(start) if flags[k] and k in needed]
        keeps = [s for k, s in enumerate(stacks, start + carried) if flags[k] and k in needed]
        by_place = dict(
            zip([k for k, flag in enumerate(flags) if flag], whole.output_ids, strict=True)
        )
        at = {s: k for k, s in enumerate(stacks, start + carried)}
        chosen = [
            *[by_place[k] for k in sums],
            *[by_place[start + k] for k in carry],
            *[by_place[at[s]] for s in keeps],
        ]
        others = [k for k, flag in enumerate(flags) if not flag]
        reads = places_read(whole, chosen)
        values = [k for n, k in enumerate(others) if n in reads]
        inputs = [n for n in range(len(whole.input_ids)) if n >= len(others) or n in reads]
        made = with_inputs(whole, inputs, chosen)
        avals = output_avals(body)
        starts = [zeros_of(avals[k]) if mine[k] is None else mine[k] for k in carry]
        found.append(_Backward(phase, made, values, given, sums, carry, keeps, starts))
        pulled.update(keeps)
    return found
