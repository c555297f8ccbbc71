"""Loops with an unknown number of steps under vmap.

Note [A loop per example]
    Under vmap, a loop whose condition differs between examples runs until the last example is done.
    Its carry includes a mask of active examples, and each step is a choice per example
    (control/cond.py) between the body and the identity: an example that is done keeps its carry,
    and derivatives of steps that it did not take do not propagate to it, not even a NaN.

Layer: 5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from functrace.control.call import call_program, zeros_of
from functrace.control.carries import settled
from functrace.control.cond import cond_program
from functrace.control.while_trips import DerivedLoop, Trip
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.ir.parts import Assembly, output_avals
from functrace.ir.primitive import Flags, Values
from functrace.ir.program import Program
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.ops.reductions import reduce_any_p
from functrace.ops.shaping import broadcast_to
from functrace.tracing.binding import bind
from functrace.transforms.building import finish, operand_of
from functrace.transforms.vmap import batch_size, mapped_outputs, reached_outputs, vmap_program

_FLAG = np.dtype(bool)
Flagged: TypeAlias = Callable[[Program, Sequence[bool]], Sequence[bool]]


def batched(trip: Trip, operands: Values, is_batched: Flags) -> DerivedLoop:
    """Build the loop over all examples."""
    size = batch_size(operands, is_batched)
    mapped = _mapped_flags(trip, is_batched)
    fixed, groups = trip.groups(list(zip(operands, is_batched, strict=True)))
    constants = [x for x, _ in fixed]
    carries: list[list[Any]] = []
    for body, group, flags in zip(trip.bodies, groups, mapped.inputs, strict=True):
        avals = output_avals(body)
        carries.append(
            [
                broadcast_to(x, (size, *aval.shape)) if flag and not was else x
                for (x, was), aval, flag in zip(group, avals, flags[trip.constants :], strict=False)
            ]
        )
    if not mapped.each:
        bodies = [
            vmap_program(b, size, i, o)
            for b, i, o in zip(trip.bodies, mapped.inputs, mapped.outputs, strict=True)
        ]
        made = trip._replace(
            cond=vmap_program(trip.cond, size, mapped.inputs[0], [False]), bodies=tuple(bodies)
        )
        return DerivedLoop(made, [*constants, *chain(*carries)], tuple)
    condition = vmap_program(trip.cond, size, mapped.inputs[0], [True]).interned()
    active = call_program(condition, [*constants, *carries[0]])[0]
    made = trip._replace(
        cond=_any_active(trip, mapped, size),
        bodies=tuple(
            [_chosen(trip, mapped, size, phase, condition) for phase in range(len(trip.bodies))]
        ),
        carries=(1 + trip.carries[0], *trip.carries[1:]),
    )

    def results(values: list[Any]) -> tuple[Any, ...]:
        return tuple(values if trip.hidden else values[1:])  # without the mask of active examples

    return DerivedLoop(made, [*constants, active, *chain(*carries)], results)


def mapped_results(
    trip: Trip, is_batched: Sequence[bool], flagged: Flagged = mapped_outputs
) -> list[bool]:
    """Return flags of the results that have a batch axis, or another property computed by
    ``flagged``.
    """
    outputs = _mapped_flags(trip, is_batched, flagged).outputs
    return [
        flag for p in range(trip.hidden, len(trip.bodies)) for flag in outputs[p][: trip.carries[p]]
    ]


def moving_inputs(trip: Trip, flags: Sequence[bool]) -> list[tuple[Program, Sequence[bool]]]:
    """Return the condition and the bodies, with a flag per input: True if it depends on a flagged
    operand at any step.
    """
    inputs = _mapped_flags(trip, flags, reached_outputs).inputs
    return [(trip.cond, inputs[0]), *zip(trip.bodies, inputs, strict=True)]


class _BatchedFlags(NamedTuple):
    """Flags of batched inputs and outputs of each phase's body; ``each`` is True if examples stop
    one by one.
    """

    inputs: list[list[bool]]
    outputs: list[list[bool]]
    each: bool


def _mapped_flags(
    trip: Trip, is_batched: Sequence[bool], flagged: Flagged = mapped_outputs
) -> _BatchedFlags:
    fixed, groups = trip.groups(is_batched)
    inputs: list[list[bool]] = []
    outputs: list[list[bool]] = []
    kept: list[bool] = []
    each = False
    for phase, (body, carry) in enumerate(zip(trip.bodies, groups, strict=True)):
        ins, outs = settled(flagged, body, [*fixed, *carry, *kept], trip.constants, len(carry))
        end = trip.constants + len(carry)
        if not phase:
            each = any(flagged(trip.cond, ins[:end]))
        if each:
            ins, outs = [*fixed, *[True] * len(carry), *kept], [True] * len(outs)
        inputs.append(ins)
        outputs.append(outs)
        kept += outs[len(carry) :]
    return _BatchedFlags(inputs, outputs, each)


def _any_active(trip: Trip, mapped: _BatchedFlags, size: int) -> Program:
    """Return the condition of a loop per example: True while any example is active."""
    into = ArrayRecording("vmap of a condition", keeps_source=False)
    given = [
        _stacked(trip.cond.avals[i], size) if f else trip.cond.avals[i]
        for i, f in zip(trip.cond.input_ids, mapped.inputs[0], strict=True)
    ]
    place = trip.constants
    active = [
        into.new_input(aval)
        for aval in [*given[:place], ShapeDtype((size,), _FLAG), *given[place:]]
    ][place]
    result = bind(reduce_any_p, (active,), ((0,),))
    return finish(into, [operand_of(into, result, result.aval)], trip.cond, trip.cond.name)


def _chosen(
    trip: Trip, mapped: _BatchedFlags, size: int, phase: int, condition: Program
) -> Program:
    """Return the body of a phase of a loop per example: active examples take the step, others keep
    their carry.
    """
    body, flags, start, count = (
        trip.bodies[phase],
        mapped.inputs[phase],
        trip.constants,
        trip.carries[phase],
    )
    into = ArrayRecording(f"vmap of {body.name}", keeps_source=False)
    avals = [body.avals[i] for i in body.input_ids]
    shown = [
        _stacked(aval, size) if flag else aval for aval, flag in zip(avals, flags, strict=True)
    ]
    # of the mask: first of the carry, or of the first phase's kept values
    place = start if not phase else start + count
    given = [
        into.new_input(aval)
        for aval in [*shown[:place], ShapeDtype((size,), _FLAG), *shown[place:]]
    ]
    active = given.pop(place)
    build = Assembly()
    inputs = [build.input(a) for a in avals]
    outs = output_avals(body)
    idle = [build.constant(zeros_of(a), a) for a in outs[count:]]
    stay = build.program([*inputs[start : start + count], *idle], "stay").interned()
    results = cond_program(active, given, [stay, body], tuple(flags))
    if not phase:
        again = call_program(condition, [*given[:start], *results[:count]])[0]
        results = [again, *results[:count], active, *results[count:]]
    return finish(into, [operand_of(into, r, aval_of(r)) for r in results], body, body.name)


def _stacked(aval: ShapeDtype, size: int) -> ShapeDtype:
    return ShapeDtype((size, *aval.shape), aval.dtype)
