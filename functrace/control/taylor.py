"""Taylor mode of programs with loops and branches: `taylor_program` and `laplacian_program`.

A loop or branch on power series is the same loop or branch whose body computes all coefficients: the
coefficients of a carry are carried, and those of a result are results. (Other operations with
sub-programs are inlined, or use their jvp rules; see functrace/transforms/taylor.) The first-order
coefficients of collapsed Taylor mode have an axis of directions in front, which is moved behind the
axis of steps or examples.

Layer: 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

from functrace.control.carries import split_body
from functrace.control.cond import cond_p, cond_program
from functrace.control.scan import scan_p, scan_program, stacked_aval
from functrace.control.while_loop import while_p, while_program
from functrace.control.while_tangents import activity
from functrace.control.while_trips import Trip, with_inputs
from functrace.ir.aval import ShapeDtype, aval_of, shape_of
from functrace.ir.parts import inline, output_avals, reordered, restrict
from functrace.ir.primitive import Params, Primitive
from functrace.ir.program import Program
from functrace.ir.tape import Op
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.ops.shaping import broadcast_to, moveaxis
from functrace.transforms.building import finish, operand_of, remembered
from functrace.transforms.taylor.collapsed import CollapsedWalk
from functrace.transforms.taylor.rules import RULES
from functrace.transforms.taylor.series import Given, Rule, Series, TaylorWalk, zeros
from functrace.transforms.vmap import reached_outputs

Avals = tuple[ShapeDtype, ...]


def taylor_program(
    program: Program,
    order: int,
    active: Sequence[bool],
    count: int | None = None,
    given: Sequence[Sequence[bool]] | None = None,
) -> Program:
    """Make the program of outputs and of the Taylor coefficients of outputs.

    Args:
        program: the program.
        order: number of coefficients besides the first.
        active: one flag per input: True if it has coefficients.
        count: number of outputs, from the first on, that have coefficients; by default all.
        given: for each active input, which of its coefficients 1 to ``order`` are inputs; others
            are zero. By default all are.

    Returns:
        a program whose inputs are the program's, then the given coefficients of each active input,
        and whose outputs are the program's, then coefficients 1 to ``order`` of each of the first
        ``count``. A coefficient is a derivative divided by the factorial of its order.

    Raises:
        NotDifferentiableError: if an operation has no derivative.

    Example:
        >>> import functrace as ft
        >>> program = ft.trace(lambda x: x * x)(3.0)
        >>> ft.evaluate(taylor_program(program, 2, [True]), 3.0, 1.0, 0.0)
        (np.float64(9.0), np.float64(6.0), np.float64(1.0))

    Cost:
        about ``order**2 / 2`` times the products and elementary functions of the program, and
        ``order`` times its other operations.
    """
    flat = None if given is None else [flag for mask in given for flag in mask]
    return remembered(_taylor_program, program, order, active, count, flat)


def _taylor_program(
    program: Program,
    order: int,
    active: Sequence[bool],
    count: int | None,
    given: Sequence[bool] | None,
) -> Program:
    program = _inlined(program)
    into = ArrayRecording(f"taylor of {program.name}", keeps_source=False)
    firsts = [into.new_input(program.avals[i]) for i in program.input_ids]
    present = iter([True] * (order * sum(active)) if given is None else given)
    inputs: list[Series] = []
    for i, first, flag in zip(program.input_ids, firsts, active, strict=True):
        aval = program.avals[i]
        mask = list(islice(present, order)) if flag else []
        later = [into.new_input(aval) if has else None for has in mask]
        inputs.append(Given(aval, [first, *later]))
    walk = TaylorWalk(into, order, {**RULES, **STRUCTURES})
    found = walk.run(program, inputs)
    avals = output_avals(program)
    outs = [operand_of(into, x.coefficient(0), aval) for x, aval in zip(found, avals, strict=True)]
    for x, aval in zip(found[:count], avals, strict=False):
        outs += [operand_of(into, x.coefficient(k), aval) for k in range(1, order + 1)]
    return finish(into, outs, program, f"taylor_of_{program.name}")


def _inlined(program: Program) -> Program:
    """Inline calls, whose operations keep their source lines, but not functions with rules."""

    def called(op: Op) -> Program | None:
        primitive, _, params = op
        holds = primitive.holds
        if holds is None or holds.called_program is None or primitive.by_rule:
            return None
        return None if primitive in RULES else holds.called_program(*params)

    return inline(program, called)


Walk: TypeAlias = TaylorWalk | CollapsedWalk


def laplacian_program(
    program: Program,
    size: int,
    active: Sequence[bool],
    count: int | None = None,
    *,
    units: bool = False,
) -> Program:
    """Make the program of outputs and of the sums of their second-order coefficients.

    Args:
        program: the program.
        size: number of directions.
        active: one flag per input: True if it moves along the directions.
        count: number of outputs, from the first on, that have coefficients; by default all.
        units: True if the directions are the unit vectors of the only active input.

    Returns:
        a program whose inputs are the program's, then the directions of each active input, with a
        first axis of ``size``, and whose outputs are the program's, then, for each of the first
        ``count``, half of the sum of second derivatives along the directions.

    Raises:
        NotDifferentiableError: if an operation has no derivative.

    Example:
        >>> import numpy as np, functrace as ft
        >>> program = ft.trace(lambda x: np.sum(x**3))(np.ones(2))
        >>> ft.evaluate(laplacian_program(program, 2, [True]), np.array([1.0, 2.0]), np.eye(2))
        (np.float64(9.0), np.float64(9.0))

    Cost:
        ``size`` times the tangent of the program, and a few times the program.
    """
    made = _collapsed_program(program, size, active, count, False, units)
    behind = len(program.output_ids)
    outs = [*made.output_ids[:behind], *made.output_ids[behind + 1 :: 2]]
    return restrict(made, made.input_ids, outs, keep=True).program


def _collapsed_program(
    program: Program,
    size: int,
    active: Sequence[bool],
    count: int | None,
    seconds: bool,
    units: bool,
) -> Program:
    """Make the program of coefficients 1 and 2; with ``seconds``, second-order coefficients of
    active inputs are inputs, too."""
    program = _inlined(program)
    into = ArrayRecording(f"laplacian of {program.name}", keeps_source=False)
    firsts = [into.new_input(program.avals[i]) for i in program.input_ids]
    walk = CollapsedWalk(into, size, STRUCTURES, taylor_program)
    inputs: list[Series] = []
    for i, first, flag in zip(program.input_ids, firsts, active, strict=True):
        aval = program.avals[i]
        later: list[Any] = []
        if flag:
            later = [into.new_input(ShapeDtype((size, *aval.shape), aval.dtype))]
            later += [into.new_input(aval)] if seconds else []
        inputs.append(Given(aval, [first, *later]))
        if flag and units:
            walk.units.add(id(inputs[-1]))
    found = walk.run(program, inputs)
    avals = output_avals(program)
    outs = [operand_of(into, x.coefficient(0), aval) for x, aval in zip(found, avals, strict=True)]
    for x, aval in zip(found[:count], avals, strict=False):
        along = ShapeDtype((size, *aval.shape), aval.dtype)
        outs += [
            operand_of(into, x.coefficient(1), along),
            operand_of(into, x.coefficient(2), aval),
        ]
    return finish(into, outs, program, f"laplacian_of_{program.name}")


def _expanded(walk: Walk, body: Program, flags: Sequence[bool]) -> Program:
    """Return the program of all coefficients of a body, those of flagged inputs given."""
    if isinstance(walk, CollapsedWalk):
        return remembered(_collapsed_program, body, walk.size, flags, None, True, False)
    return taylor_program(body, walk.order, flags)


def _later(walk: Walk, series: Series, aval: ShapeDtype | None, stacked: bool = False) -> list[Any]:
    """Return all coefficients of an operand but the first, zeros filled in.

    Args:
        walk: the walk.
        series: the coefficients of the operand.
        aval: of the coefficients that are returned; by default that of the operand.
        stacked: True if the operand has an axis of steps or examples, which comes first.
    """
    own = aval if series.aval is None else series.aval
    assert own is not None
    shape = own.shape if aval is None else aval.shape
    made: list[Any] = []
    for k, lead in enumerate(walk.leads, 1):
        found = series.coefficient(k)
        if found is None:
            found = zeros(ShapeDtype((*lead, *own.shape), own.dtype))
        if stacked and lead:
            found = moveaxis(found, 0, 1)
        wanted = (shape[0], *lead, *shape[1:]) if stacked or shape != own.shape else (*lead, *shape)
        made.append(found if shape_of(found) == wanted else broadcast_to(found, wanted))
    return made


def _returned(walk: Walk, coefficients: Sequence[Any]) -> list[Any]:
    """Return coefficients of a result with an axis of steps or examples: it is behind that of
    directions."""
    return [
        moveaxis(x, 0, 1) if lead else x for lead, x in zip(walk.leads, coefficients, strict=True)
    ]


def _series(
    avals: Avals, firsts: Sequence[Any], later: Sequence[Sequence[Any] | None]
) -> list[Series]:
    return [
        Given(aval, [first, *(rest or ())])
        for aval, first, rest in zip(avals, firsts, later, strict=True)
    ]


def _positions(flags: Sequence[bool], start: int, order: int) -> list[list[int]]:
    """Return the positions of the coefficients of each flagged value, which begin at ``start``."""
    made: list[list[int]] = []
    for flag in flags:
        made.append(list(range(start, start + order)) if flag else [])
        start += order if flag else 0
    return made


def _firsts(operands: Sequence[Series]) -> list[Any]:
    return [series.coefficient(0) for series in operands]


def _scan(walk: Walk, operands: Sequence[Series], params: Params, avals: Avals) -> Any:
    body, length, reverse, constants, carries = params
    order = walk.order
    flags, split = split_body(body, [not s.is_constant for s in operands], constants, carries)
    joint = _expanded(walk, body, flags)
    total, count = len(body.input_ids), len(body.output_ids)
    dots = _positions(flags, total, order)
    outs = [
        joint.output_ids[count + k * order : count + (k + 1) * order] if flag else ()
        for k, flag in enumerate(split.active)
    ]
    sequence: list[int] = []
    groups: list[int] = []
    for start, end in (
        (0, constants),
        (constants, constants + carries),
        (constants + carries, total),
    ):
        group = [*range(start, end), *[d for dot in dots[start:end] for d in dot]]
        groups.append(len(group))
        sequence += group
    step = restrict(
        reordered(joint, sequence),
        [joint.input_ids[k] for k in sequence],
        [
            *joint.output_ids[:carries], *[i for out in outs[:carries] for i in out],
            *joint.output_ids[carries:count], *[i for out in outs[carries:] for i in out],
        ],
        keep=True,
    ).program  # fmt: skip
    values: list[Any] = _firsts(operands)
    specs = [body.avals[i] for i in body.input_ids]
    for k, (series, flag) in enumerate(zip(operands, flags, strict=True)):
        if flag:
            spec = specs[k] if k < constants + carries else stacked_aval(length, specs[k])
            values += _later(walk, series, spec, stacked=k >= constants + carries)
    results = scan_program(step, [values[k] for k in sequence], length, reverse, *groups[:2])
    left = iter(results)
    firsts = list(islice(left, carries))
    later = [list(islice(left, order)) if flag else None for flag in split.active[:carries]]
    firsts += islice(left, count - carries)
    later += [
        _returned(walk, list(islice(left, order))) if flag else None
        for flag in split.active[carries:]
    ]
    return _series(avals, firsts, later)


def _cond(walk: Walk, operands: Sequence[Series], params: Params, avals: Avals) -> Any:
    branches, batched = params
    which, *rest = operands
    order, chosen = walk.order, which.coefficient(0)
    flags = [not s.is_constant for s in rest]
    made = [_expanded(walk, branch, flags) for branch in branches]
    count = len(branches[0].output_ids)
    found = [reached_outputs(branch, flags) for branch in branches]
    needed = [any(pair) for pair in zip(*found, strict=True)]
    outs = [*range(count)]
    for k, flag in enumerate(needed):
        outs += range(count + k * order, count + (k + 1) * order) if flag else ()
    made = [
        restrict(p, p.input_ids, [p.output_ids[k] for k in outs], keep=True).program for p in made
    ]
    moved: list[Any] = []
    size = shape_of(chosen)[0] if batched else 0
    for k, series in enumerate(rest):
        if flags[k]:
            own = branches[0].avals[branches[0].input_ids[k]]
            whole = ShapeDtype((size, *own.shape), own.dtype) if batched else None
            moved += _later(walk, series, whole, stacked=bool(batched) and batched[k])
    mapped = (*batched, *[True] * len(moved)) if batched else ()
    results = iter(cond_program(chosen, [*_firsts(rest), *moved], made, mapped))
    firsts = list(islice(results, count))
    later = [list(islice(results, order)) if flag else None for flag in needed]
    if batched:
        later = [None if terms is None else _returned(walk, terms) for terms in later]
    return _series(avals, firsts, later)


def _while(walk: Walk, operands: Sequence[Series], params: Params, avals: Avals) -> Any:
    trip = Trip._make(params)
    order = walk.order
    found = activity(trip, [not s.is_constant for s in operands])
    fixed, groups = trip.groups(operands)
    dots = [c for s in fixed if not s.is_constant for c in _later(walk, s, None)]
    starts = [
        [
            c
            for s, flag in zip(group, active.split.active, strict=False)
            if flag
            for c in _later(walk, s, None)
        ]
        for group, active in zip(groups, found, strict=True)
    ]
    bodies: list[Program] = []
    for phase, (body, (flags, split)) in enumerate(zip(trip.bodies, found, strict=True)):
        joint = _expanded(walk, body, flags)
        total, count, carried = len(body.input_ids), len(body.output_ids), trip.carries[phase]
        dot_of = _positions(flags, total, order)
        ends = [trip.constants, trip.constants + carried]
        for j in range(phase):
            ends.append(ends[-1] + trip.kept(j))
        sequence: list[int] = []
        for begin, end in zip([0, *ends], ends, strict=False):
            sequence += [*range(begin, end), *[d for dot in dot_of[begin:end] for d in dot]]
        outs = joint.output_ids
        moved = [
            outs[count + k * order : count + (k + 1) * order] if flag else ()
            for k, flag in enumerate(split.active)
        ]
        chosen = [
            *outs[:carried], *[i for out in moved[:carried] for i in out],
            *outs[carried:count], *[i for out in moved[carried:] for i in out],
        ]  # fmt: skip
        bodies.append(with_inputs(joint, sequence, chosen))
    start = trip.constants
    inputs = [
        *range(start),
        *map(aval_of, dots),
        *range(start, start + trip.carries[0]),
        *map(aval_of, starts[0]),
    ]
    made = trip._replace(
        cond=with_inputs(trip.cond, inputs, trip.cond.output_ids),
        bodies=tuple([body.interned() for body in bodies]),
        carries=tuple([n + len(s) for n, s in zip(trip.carries, starts, strict=True)]),
        constants=start + len(dots),
    )
    values = [
        *_firsts(fixed),
        *dots,
        *[x for group, s in zip(groups, starts, strict=True) for x in (*_firsts(group), *s)],
    ]
    left = iter(while_program(made, values))
    firsts: list[Any] = []
    later: list[Any] = []
    for phase in range(trip.hidden, len(bodies)):
        carried = trip.carries[phase]
        firsts += islice(left, carried)
        later += [
            list(islice(left, order)) if flag else None
            for flag in found[phase].split.active[:carried]
        ]
    return _series(avals, firsts, later)


STRUCTURES: Mapping[Primitive, Rule] = {scan_p: _scan, cond_p: _cond, while_p: _while}
"""Rules of loops and branches, of both walks."""
