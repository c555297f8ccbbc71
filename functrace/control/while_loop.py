"""``while_loop``: a loop with a condition as one operation, with the programs of its phases as
sub-programs.

See Note [A trip and its phases] in control/while_trips.py. The rules are in
control/while_tangents.py, control/while_transpose.py and control/while_vmap.py; this file has the
evaluation, and the other properties of the primitive.

Layer: 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from functrace.control.call import check_operands
from functrace.control.joining import evaluate_lowered
from functrace.control.while_tangents import linearized, pushed
from functrace.control.while_transpose import transposed
from functrace.control.while_trips import DerivedLoop, Trip, pruned
from functrace.control.while_vmap import batched, mapped_results, moving_inputs
from functrace.errors import ShapeError
from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import Assembly, holds_kept, output_avals
from functrace.ir.primitive import (
    Flags,
    Operand,
    Primitive,
    ReplacingJvp,
    SubPrograms,
    Tangents,
    Values,
)
from functrace.ir.program import Program
from functrace.ir.structures import Loop, Lowering
from functrace.ir.tape import Spec
from functrace.tracing.binding import bind
from functrace.transforms.vmap import reached_outputs

if TYPE_CHECKING:
    from functrace.ir.numpy_source import SourceWriter, Spelling
    from functrace.ir.primitive import Runs
    from functrace.ir.program import Param


def while_program(trip: Trip, operands: Sequence[Any]) -> list[Any]:
    """Apply a loop, without dead carries and values.

    Returns:
        the final carries of the phases that are not hidden.
    """
    trip, operands = pruned(trip, operands)
    return list(bind(while_p, tuple(operands), tuple(trip)))


def _turn(body: Program, cond: Program, constants: int) -> Program:
    """Return the body of the first phase with the next condition as its first result."""
    build = Assembly()
    inputs = [build.input(body.avals[i]) for i in body.input_ids]
    outputs = build.splice(body, inputs)
    carry = outputs[: len(inputs) - constants]
    return build.program([*build.splice(cond, [*inputs[:constants], *carry]), *outputs], body.name)


def bodies_that_run(
    cond: Program, bodies: tuple[Program, ...], constants: int
) -> tuple[Program, ...]:
    """Return the programs that run: the condition, the first body with the next condition, and the
    bodies of further phases.
    """
    key = (_turn, cond, constants)
    made = bodies[0].derived.get(key)
    if made is None:
        made = bodies[0].derived[key] = _turn(bodies[0], cond, constants).interned()
    return (cond, made, *bodies[1:])


def _eval(*rest: Any) -> Any:
    return evaluate_lowered(_lowers((), *rest[-7:]), rest[:-7])


def _lowers(
    _specs: Sequence[Spec],
    cond: Program,
    bodies: tuple[Program, ...],
    carries: tuple[int, ...],
    reverse: tuple[bool, ...],
    constants: int,
    hidden: int,
    most: int | None,
) -> Lowering:
    loop = Loop(constants, carries, reverse, hidden, most=most)
    return Lowering(bodies_that_run(cond, bodies, constants), loop, fresh=False)


def _aval(*rest: Any) -> Any:
    trip = Trip._make(rest[-7:])
    operands = rest[:-7]
    phases = len(trip.bodies)
    if (
        not phases
        or not phases == len(trip.carries) == len(trip.reverse)
        or trip.hidden > phases
        or trip.reverse[0]
    ):
        raise ShapeError(
            "while_loop: the numbers of bodies, carries and directions do not match",
            fix="give one of each per phase",
        )
    if trip.constants + sum(trip.carries) != len(operands):
        raise ShapeError(
            f"while_loop: {trip.constants} constants and carries {trip.carries} of {len(operands)} "
            "operands",
            fix="count the operands",
        )
    fixed, groups = trip.groups(operands)
    check_operands("while_loop", trip.cond, [*fixed, *groups[0]])
    if [a.dtype.kind for a in output_avals(trip.cond)] != ["b"] or output_avals(trip.cond)[0].shape:
        raise ShapeError("while_loop: the condition is not one bool", fix="compare with a number")
    kept: list[ShapeDtype] = []
    results: list[ShapeDtype] = []
    for phase, (body, carry) in enumerate(zip(trip.bodies, groups, strict=True)):
        check_operands("while_loop", body, [*fixed, *carry, *kept])
        avals = output_avals(body)
        if len(avals) < len(carry):
            raise ShapeError(
                f"while_loop: {len(carry)} carries of {len(avals)} results", fix="count the results"
            )
        for before, after in zip(carry, avals, strict=False):
            if before is not after:
                raise ShapeError(
                    f"while_loop: a carry is {before} before and {after} after a step",
                    fix="keep its shape and dtype",
                )
        kept += avals[len(carry) :]
        if phase >= trip.hidden:
            results += carry
    return tuple(results)


# -- rules -----------------------------------------------------------------------------------------


def _applied(derived: DerivedLoop) -> Any:
    return derived.results(while_program(derived.trip, derived.operands))


def _jvp(primals: Values, tangents: Tangents, *params: Param) -> Any:
    return _applied(pushed(Trip._make(params), primals, tangents))


def _linearize(primals: Values, tangents: Tangents, *params: Param) -> Any:
    trip, linear = linearized(Trip._make(params), primals, tangents)
    moved = _applied(linear)
    return bind(while_p, primals, tuple(trip)), moved


def _transpose(cts: Tangents, *rest: Any) -> Any:
    operands: tuple[Operand, ...] = rest[:-7]
    backwards = transposed(Trip._make(rest[-7:]), operands, cts)
    return (None,) * len(operands) if backwards is None else _applied(backwards)


def _batch(operands: Values, is_batched: Flags, *params: Param) -> Any:
    return _applied(batched(Trip._make(params), operands, is_batched))


def _mapped(is_batched: Sequence[bool], *params: Param) -> list[bool]:
    return mapped_results(Trip._make(params), is_batched)


def _depends(flags: Sequence[bool], *params: Param) -> list[bool]:
    return mapped_results(Trip._make(params), flags, reached_outputs)


def _moving(flags: Sequence[bool], *params: Param) -> list[tuple[Program, Sequence[bool]]]:
    return moving_inputs(Trip._make(params), flags)


# -- properties ------------------------------------------------------------------------------------


def _written(write: SourceWriter, _specs: Sequence[Spec], *params: Param) -> Spelling:
    """Spell the loop: a ``while`` statement, and a ``for`` statement over its steps for each
    further phase.
    """
    trip = Trip._make(params)
    condition = write.program(trip.cond, "goes_on")
    steps = [
        write.program(body, "step" if len(trip.bodies) == 1 else f"phase_{k}")
        for k, body in enumerate(trip.bodies)
    ]
    rows, t = write.local("rows"), write.local("t")
    hidden = [
        [write.local(f"h{p}_{k}") for k in range(trip.carries[p])] for p in range(trip.hidden)
    ]
    kept = [[write.local(f"r{n}") for n in range(trip.kept(p))] for p in range(len(trip.bodies))]

    def lines(inputs: Sequence[str], outputs: Sequence[str]) -> list[str]:
        fixed, groups = trip.groups(inputs)
        names, place = list(hidden), 0
        for count in trip.carries[trip.hidden :]:
            names.append(list(outputs[place : place + count]))
            place += count
        # A result may have the name of an operand with which a later phase starts: so assign all at
        # once.
        starts = [x for group in groups for x in group]
        targets = [x for group in names for x in group]
        found = [f"{rows} = []"]
        if targets:
            found.append(f"{', '.join(targets)}, = {', '.join(starts)},")
        for phase, (step, carry, more) in enumerate(zip(steps, names, kept, strict=True)):
            given = ", ".join(
                [*fixed, *carry, *([f"*{rows}[{t}]"] if phase and trip.stacks(phase) else [])]
            )
            left = ", ".join([*carry, *more])
            row = f"({', '.join(more)}{',' if len(more) == 1 else ''})"
            if not phase:
                found.append(f"while {condition}({', '.join([*fixed, *carry])}):")
                if trip.most is not None:
                    found.append(f"    assert len({rows}) < {trip.most}, 'max_steps={trip.most}'")
            else:
                order = f"range(len({rows}))"
                found.append(
                    f"for {t} in {f'reversed({order})' if trip.reverse[phase] else order}:"
                )
            if left:
                found.append(f"    {left} = {step}({given})")
            if not phase:
                found.append(f"    {rows}.append({row})")
            elif more:
                found.append(f"    {rows}[{t}] += {row}")
            elif not left:
                found.append("    pass")
        return found

    return lines


def _runs(_inputs: object, cond: Program, bodies: tuple[Program, ...], *_: object) -> Runs:
    """Return the runs, counted for one step: the number of steps is unknown."""
    return (tuple([(1, program) for program in (cond, *bodies)]),)


def _feeds(place: int, *params: Param) -> list[tuple[Program, int]]:
    trip = Trip._make(params)
    if place < trip.constants:
        return [(program, place) for program in (trip.cond, *trip.bodies)]
    first = trip.constants
    for phase, count in enumerate(trip.carries):
        if place < first + count:
            held = [(trip.bodies[phase], trip.constants + place - first)]
            return held if phase else [(trip.cond, place), *held]
        first += count
    return []


def _keeps(*params: Param) -> list[tuple[Program, int, list[str], list[tuple[Program, int]]]]:
    """Return the residuals of each step that hidden phases keep for the tangents."""
    trip = Trip._make(params)
    found: list[tuple[Program, int, list[str], list[tuple[Program, int]]]] = []
    for phase in range(trip.hidden):
        kinds = (
            ["constant"] * trip.constants
            + ["carry"] * trip.carries[phase]
            + ["value of this step"] * len(trip.stacks(phase))
        )
        for n in range(trip.kept(phase)):
            readers = [
                (
                    trip.bodies[p],
                    trip.constants + trip.carries[p] + trip.stacks(p).index((phase, n)),
                )
                for p in range(max(trip.hidden, phase + 1), len(trip.bodies))
            ]
            found.append((trip.bodies[phase], trip.carries[phase] + n, kinds, readers))
    return found


while_p = Primitive(
    "while_loop",
    eval=_eval,
    aval=_aval,
    jvp=ReplacingJvp(jvp=_jvp, linearize=_linearize),
    transpose=_transpose,
    batch=_batch,
    params=Trip._fields,
    many=True,
    kept=holds_kept,
    holds=SubPrograms(
        _runs, feeds=_feeds, keeps=_keeps, depends=_depends, moving=_moving, lowers=_lowers
    ),
    written=_written,
    mapped=_mapped,
)
"""``while_loop c0 h0 {cond={…}, bodies=({…},), carries=(1,), reverse=(False,), constants=1,
hidden=0, most=None}``: the final carries.
"""
