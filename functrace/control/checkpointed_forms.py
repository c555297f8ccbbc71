"""A checkpointed loop in other forms: the same loop with plain operations, of values and tangents,
and over all examples.

Layer: 5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from functrace.control.call import call_program, check_operands, zeros_of
from functrace.control.carries import settled, split_body
from functrace.control.checkpointed_steps import (
    CheckpointedLoop,
    extra_avals,
    step_programs,
    trip_of,
)
from functrace.control.cond import cond_program
from functrace.control.scan import batched_scan, operand_avals, pushed_scan, scan_program
from functrace.control.schedules import saved_forward
from functrace.control.while_loop import while_program
from functrace.control.while_tangents import pushed
from functrace.errors import ShapeError
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.ir.parts import Assembly, output_avals, restrict, without_kept
from functrace.ir.primitive import (
    RuleArgument,
    Tangents,
    Values,
)
from functrace.ir.program import Program
from functrace.ir.tape import Spec
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.ops.reductions import reduce_any_p
from functrace.ops.shaping import broadcast_to, moveaxis
from functrace.tracing.binding import bind
from functrace.transforms.building import finish, operand_of
from functrace.transforms.derivatives import jvp_program
from functrace.transforms.vmap import batch_size, mapped_outputs, reached_outputs, vmap_program

if TYPE_CHECKING:
    from functrace.ir.program import Param


def interned_loop(loop: CheckpointedLoop) -> CheckpointedLoop:
    """Return the loop with interned programs."""
    cond = loop.cond if loop.cond is None else loop.cond.interned()
    return loop._replace(body=loop.body.interned(), cond=cond)


# -- the same loop, with plain operations ----------------------------------------------------------


def loop_avals(loop: CheckpointedLoop) -> list[ShapeDtype]:
    """Return the avals of the operands of a loop."""
    if loop.length is None:
        return [loop.body.avals[i] for i in loop.body.input_ids]
    return operand_avals(loop.body, loop.length, loop.constants, loop.carries)


def applied_plainly(loop: CheckpointedLoop, operands: Sequence[Any]) -> list[Any]:
    """Apply the loop without its schedule."""
    if loop.length is None:
        return while_program(trip_of(loop), operands)
    return scan_program(
        loop.body, operands, loop.length, loop.reverse, loop.constants, loop.carries
    )


def derived_program(
    make: Callable[..., Program], loop: CheckpointedLoop, *rest: RuleArgument
) -> Program:
    """Return the memoized program that ``make`` builds from a loop."""
    key = (make, loop, *rest)
    found = loop.body.derived.get(key)
    if found is None:
        found = loop.body.derived[key] = make(loop, *rest).interned()
    return found


def plain_loop(loop: CheckpointedLoop) -> Program:
    """Return the program of a loop without a schedule."""
    return derived_program(_plain_loop, loop._replace(active=()))


def _plain_loop(loop: CheckpointedLoop) -> Program:
    into = ArrayRecording(loop.body.name, keeps_source=False)
    results = applied_plainly(loop, [into.new_input(aval) for aval in loop_avals(loop)])
    outs = [operand_of(into, r, aval_of(r)) for r in results]
    return finish(into, outs, loop.body, loop.body.name)


def plain_forward(loop: CheckpointedLoop) -> Program:
    """Return the program of the forward sweep of a loop of known length, which stacks all carries
    first.
    """
    assert loop.length is not None, "the length is known"
    step = loop.body
    held = [*step.output_ids, *step.input_ids[loop.constants : loop.constants + loop.carries]]
    body = restrict(step, step.input_ids, held, keep=True).program
    into = ArrayRecording(f"forward of {body.name}", keeps_source=False)
    given = [into.new_input(aval) for aval in loop_avals(loop)]
    results = scan_program(body, given, loop.length, loop.reverse, loop.constants, loop.carries)
    count = len(loop.body.output_ids)
    steps = list(saved_forward(loop.schedule, loop.length))
    numbers = [loop.length - 1 - k for k in steps] if loop.reverse else steps
    stacks = [stack[np.array(numbers, np.int64)] for stack in results[count:]]
    results = [*results[:count], *stacks]
    return finish(into, [operand_of(into, r, aval_of(r)) for r in results], body, body.name)


def plain_tangents(loop: CheckpointedLoop) -> Program:
    """Return the program of the tangents, from the operands of ``checkpointed_tangents``."""
    plain, outs = plain_loop(loop), step_programs(loop).active_outputs
    joint = without_kept(jvp_program(plain, loop.active))  # the forward sweep has the side effects
    build = Assembly()
    avals = loop_avals(loop)
    primals = [build.input(a) for a in avals]
    for aval in (*extra_avals(loop), *output_avals(step_programs(loop).invariants)):
        build.input(aval)
    dots = [build.input(a) for a, flag in zip(avals, loop.active, strict=True) if flag]
    results = build.splice(joint, [*primals, *dots])[len(plain.output_ids) :]
    return build.program([results[k] for k in outs], f"tangents_of_{plain.name}")


def computed_invariants(loop: CheckpointedLoop, operands: Sequence[Any]) -> list[Any]:
    """Compute the loop-invariant residuals, from the operands of a loop."""
    made = step_programs(loop).invariants
    if not made.output_ids:
        return []
    part = restrict(made, made.input_ids, made.output_ids)
    used = [k for k, i in enumerate(made.input_ids) if i in part.used]
    return call_program(part.program.interned(), [operands[k] for k in used])


def loop_of(rest: Sequence[Any]) -> tuple[CheckpointedLoop, tuple[Any, ...]]:
    """Return the loop and the operands from the arguments of a rule."""
    count = len(CheckpointedLoop._fields)
    return CheckpointedLoop._make(rest[-count:]), tuple(rest[:-count])


def check_loop(loop: CheckpointedLoop, specs: Sequence[Spec], name: str) -> None:
    """Check the operands of a loop.

    Raises:
        ShapeError: for an operand of another aval.
    """
    if loop.length is None:
        if loop.cond is None:
            raise ShapeError(f"{name}: neither a length nor a condition", fix="give one of them")
        check_operands(name, loop.body, specs)
        return
    for spec, aval in zip(specs, loop_avals(loop), strict=True):
        if spec is not aval:
            raise ShapeError(f"{name}: an operand is {spec}, not {aval}", fix="convert it")


def pushed_loop(
    loop: CheckpointedLoop, primals: Values, tangents: Tangents
) -> tuple[CheckpointedLoop, list[Any], list[bool]]:
    """Return the loop of values and tangents, its operands, and the operands that have tangents.

    Its operands, and its results, are in three groups (constants, carry, arrays), values before
    tangents in each.
    """
    flags, _ = split_body(
        loop.body, [t is not None for t in tangents], loop.constants, loop.carries
    )
    filled = tuple([
        t if t is not None else zeros_of(a) if flag else None
        for t, a, flag in zip(tangents, loop_avals(loop), flags, strict=True)
    ])  # fmt: skip
    found: list[Any] = []

    def take(body: Program, operands: Sequence[Any], *rest: RuleArgument) -> list[Any]:
        found.extend([body.interned(), list(operands), *rest])
        return [None] * len(body.output_ids)

    if loop.length is None:
        derived = pushed(trip_of(loop), primals, filled)
        trip, operands = derived.trip, derived.operands
        made = loop._replace(
            body=trip.bodies[0].interned(),
            cond=trip.cond.interned(),
            constants=trip.constants,
            carries=trip.carries[0],
        )
    else:
        pushed_scan(
            primals, filled, loop.body, loop.length, loop.reverse, loop.constants, loop.carries,
            apply=take,
        )  # fmt: skip
        body, operands, _, _, constants, carries = found
        made = loop._replace(body=body, constants=constants, carries=carries)
    return made, operands, flags


@final
class JointPlaces(NamedTuple):
    """Places in a loop of values and tangents: of each operand's value and tangent, and of each
    result's; ``None`` without a tangent.
    """

    values: list[int]
    dots: list[int | None]


def _places(flags: Sequence[bool], ends: Sequence[int]) -> JointPlaces:
    values: list[int] = []
    dots: list[int | None] = []
    start = place = 0
    for end in ends:
        group = flags[start:end]
        values += range(place, place + len(group))
        moved = iter(range(place + len(group), place + len(group) + sum(group)))
        dots += [next(moved) if flag else None for flag in group]
        place += len(group) + sum(group)
        start = end
    return JointPlaces(values, dots)


def result_places(loop: CheckpointedLoop, flags: Sequence[bool]) -> JointPlaces:
    """Return the places of the results in a loop of values and tangents."""
    active = split_body(loop.body, flags, loop.constants, loop.carries)[1].active
    return _places(active, (loop.carries, len(active)))


def batched_loop(
    loop: CheckpointedLoop, operands: Sequence[Any], is_batched: Sequence[bool]
) -> tuple[CheckpointedLoop, list[Any], list[bool], list[bool]]:
    """Return the loop over all examples, its operands, and which operands and results are batched.

    The axis of examples is the second one of arrays, and of stacked results.
    """
    size = batch_size(operands, is_batched)
    if loop.length is not None:
        found: list[Any] = []

        def take(body: Program, values: Sequence[Any], *_rest: object) -> list[Any]:
            found.extend([body.interned(), list(values)])
            return [np.float64(0.0)] * loop.carries + [np.zeros((1, 1))] * (
                len(body.output_ids) - loop.carries
            )

        batched_scan(
            tuple(operands), tuple(is_batched), loop.body, loop.length, loop.reverse,
            loop.constants, loop.carries, apply=take,
        )  # fmt: skip
        flags, outs = settled(mapped_outputs, loop.body, is_batched, loop.constants, loop.carries)
        return loop._replace(body=found[0]), found[1], flags, outs
    trip = trip_of(loop)
    start = loop.constants
    flags, outs = settled(mapped_outputs, loop.body, is_batched, start, loop.carries)
    each = any(mapped_outputs(trip.cond, flags))
    if each:
        flags, outs = [*flags[:start], *[True] * loop.carries], [True] * loop.carries
    values = [
        broadcast_to(x, (size, *aval.shape)) if flag and not was else x
        for x, aval, flag, was in zip(operands, loop_avals(loop), flags, is_batched, strict=True)
    ]
    if each:
        body, cond = _step_of_each(loop, size, flags)
    else:
        body = vmap_program(loop.body, size, flags, outs)
        cond = vmap_program(trip.cond, size, flags, [False])
    made = loop._replace(body=body.interned(), cond=cond.interned())
    return made, values, flags, outs


def _step_of_each(loop: CheckpointedLoop, size: int, flags: list[bool]) -> tuple[Program, Program]:
    """Return body and condition of a loop in which examples stop one by one.

    An example that is done keeps its carry; see Note [A loop per example] in control/while_vmap.py.
    The mask of active examples is computed from the carry again, so that it is no carry itself.
    """
    trip = trip_of(loop)
    condition = active_examples(trip.cond, size, flags)
    body = loop.body

    def of(given: list[Any]) -> list[Any]:
        active = call_program(condition, given)[0]
        return chosen_step(active, given, body, loop.constants, loop.carries, flags)

    made = recorded(body, size, flags, of)
    return made, any_example(condition, trip.cond.name)


def active_examples(cond: Program, size: int, flags: Sequence[bool]) -> Program:
    """Return the condition of each example."""
    return vmap_program(cond, size, flags, [True]).interned()


def any_example(condition: Program, name: str) -> Program:
    """Return a condition that is true while any example is active."""
    into = ArrayRecording("vmap of a condition", keeps_source=False)
    given = [into.new_input(condition.avals[i]) for i in condition.input_ids]
    result = bind(reduce_any_p, (call_program(condition, given)[0],), ((0,),))
    return finish(into, [operand_of(into, result, result.aval)], condition, name)


def chosen_step(
    active: Any,
    given: Sequence[Any],
    body: Program,
    constants: int,
    carries: int,
    flags: Sequence[bool],
) -> list[Any]:
    """Apply a step to active examples; others keep their carry, and get zeros for other results.

    Args:
        active: the mask of active examples.
        given: operands of the step.
        body: the step of one example: from constants, carry and others to carry and others.
        constants, carries: numbers of these inputs.
        flags: of the operands: True if it is batched.
    """
    build = Assembly()
    inputs = [build.input(body.avals[i]) for i in body.input_ids]
    idle = [build.constant(zeros_of(a), a) for a in output_avals(body)[carries:]]
    stay = build.program([*inputs[constants : constants + carries], *idle], "stay").interned()
    return cond_program(active, given, [stay, body], tuple(flags))


def recorded(
    body: Program, size: int, flags: Sequence[bool], apply: Callable[[list[Any]], list[Any]]
) -> Program:
    """Return the program of a function of the batched inputs of a body."""
    into = ArrayRecording(f"vmap of {body.name}", keeps_source=False)
    avals = [body.avals[i] for i in body.input_ids]
    given = [
        into.new_input(ShapeDtype((size, *aval.shape), aval.dtype) if flag else aval)
        for aval, flag in zip(avals, flags, strict=True)
    ]
    results = apply(given)
    return finish(into, [operand_of(into, r, aval_of(r)) for r in results], body, body.name)


def examples_first(
    loop: CheckpointedLoop, results: Sequence[Any], flags: Sequence[bool]
) -> list[Any]:
    """Move the axis of examples of stacked results to the front."""
    return [
        moveaxis(x, 1, 0) if flag and k >= loop.carries else x
        for k, (x, flag) in enumerate(zip(results, flags, strict=True))
    ]


def stops_each(loop: CheckpointedLoop, flags: Sequence[bool]) -> bool:
    """Return True if batched examples stop one by one."""
    return loop.length is None and any(mapped_outputs(trip_of(loop).cond, flags))


def mapped_results(is_batched: Sequence[bool], *params: Param) -> list[bool]:
    """Return flags of the results of a loop that have a batch axis."""
    loop = CheckpointedLoop._make(params)
    flags, outs = settled(mapped_outputs, loop.body, is_batched, loop.constants, loop.carries)
    return [True] * len(outs) if stops_each(loop, flags) else outs


def reached_results(flags: Sequence[bool], *params: Param) -> list[bool]:
    """Return flags of the results of a loop that depend on flagged operands."""
    loop = CheckpointedLoop._make(params)
    ins, outs = settled(reached_outputs, loop.body, flags, loop.constants, loop.carries)
    if loop.length is None and any(reached_outputs(trip_of(loop).cond, ins)):
        return [True] * len(outs)
    return outs
