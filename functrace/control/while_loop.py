"""``while_loop``: a loop that ends when a condition says so, as one operation, which holds the programs of its phases.

Note [A trip and its phases]
    The first phase is the loop itself: its body is carried out as long as the condition on its carry holds. How often, only
    the run knows; so no value outside of the operation can have an axis of that length. What a derivative needs of every
    step therefore stays inside of it. A *trip* is the loop, then further phases, which walk the same steps once more,
    forwards or backwards, each with a carry of its own. Whatever a body returns besides its carry is kept per step, in a
    list that grows as the trip runs, and is handed to the bodies of later phases at the same step.

    The linear part of a loop is a trip of two phases: the loop, which keeps its residuals, and the tangents, which read
    them. Its transpose walks the second phase backwards. A derivative of that one adds phases of its own; so trips are
    closed under every transform, to any order, and a reverse pass takes memory in proportion to the steps that were taken.
    Before a program runs, control/walked_once.py joins a loop to trips that begin with it, so that it is walked once.

Note [A loop per example]
    Under vmap, a loop whose condition differs between examples runs until the last example is done. It carries which of
    them are still at it, and each step is a choice per example (control/cond.py) between the body and staying as it is: an
    example that is done keeps its carry, and no derivative of a step that it did not take reaches it, not even a NaN.

Floor: 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, final

import numpy as np

from functrace.control.call import call_program, check_operands
from functrace.control.cond import cond_program
from functrace.control.residuals import packs
from functrace.control.scan import hoisted, invariants, zeros_of
from functrace.errors import ArgumentError, ShapeError
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.ir.parts import Assembly, Compiled, Loop, Lowering, Rewrite, holds_kept, output_avals, restrict, without_kept
from functrace.ir.primitive import Flags, Holds, Joint, Operand, Primitive, Tangents, Values, is_linear
from functrace.ir.program import Program
from functrace.ir.tape import Spec
from functrace.ops.elementwise import add
from functrace.ops.reductions import reduce_any_p
from functrace.ops.shaping import broadcast_to
from functrace.tracing.binding import bind
from functrace.tracing.evaluate import evaluate_program
from functrace.tracing.recording import Recording
from functrace.transforms.linearize import Split, as_differentiated, finish, operand_of, split_program
from functrace.transforms.pushforward import jvp_program
from functrace.transforms.transpose import transpose_program
from functrace.transforms.vmap import batch_size, dependent_outputs, mapped_outputs, vmap_program

if TYPE_CHECKING:
    from functrace.ir.numpy_source import Spelling, Writer
    from functrace.ir.primitive import Runs
    from functrace.ir.program import Param


@final
class Trip(NamedTuple):
    """The params of a loop; see Note [A trip and its phases].

    Args:
        cond: from constants and the carry of the first phase to whether there is another step.
        bodies: of each phase: from constants, its carry, and what earlier phases kept of this step, to its carry and what it
            keeps of this step.
        carries: of each phase, how many values it carries.
        reverse: of each phase, whether it walks from the last step to the first.
        constants: how many operands are constants; the others are the initial carries of all phases.
        hidden: how many of the first phases do not return what they carry.
        most: the largest number of steps that is allowed, or ``None``.
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
        """How many values a phase keeps of every step."""
        return len(self.bodies[phase].output_ids) - self.carries[phase]

    def stacks(self, phase: int) -> list[tuple[int, int]]:
        """What the body of a phase is handed of earlier ones: by phase and place there."""
        return [(j, n) for j in range(phase) for n in range(self.kept(j))]


def while_program(trip: Trip, operands: Sequence[Any]) -> list[Any]:
    """Apply a loop, without what none of its results needs.

    Returns:
        what the phases that are not hidden carry in the end.
    """
    trip, operands = _pruned(trip, operands)
    return list(bind(while_p, tuple(operands), tuple(trip)))


def run_trip(
    ask: Compiled,
    steps: Sequence[Compiled],
    operands: Sequence[Any],
    carries: Sequence[int],
    reverse: Sequence[bool],
    constants: int,
    hidden: int,
    most: int | None,
) -> tuple[Any, ...]:
    """Run a loop with functions for its condition and for the bodies of its phases; that of the first one is `_turn`."""
    fixed, place = operands[:constants], constants + carries[0]
    carry, rows = run_walk(ask, steps[0], fixed, operands[constants:place], most, keeps=len(steps) > 1)
    ends = [] if hidden else [*carry]
    ends += run_along(rows, steps[1:], fixed, operands[place:], carries[1:], reverse[1:], max(hidden - 1, 0))
    # A carry may be an operand, or an array that the last step returned twice.
    return tuple([np.copy(c)[()] for c in ends])


def run_walk(
    ask: Compiled, step: Compiled, fixed: Sequence[Any], carry: Sequence[Any], most: int | None, *, keeps: bool
) -> tuple[Sequence[Any], list[tuple[Any, ...]]]:
    """Run the first phase; returns its carry, and a tuple of what it keeps of each step."""
    end = 1 + len(carry)
    rows: list[tuple[Any, ...]] = []
    steps = 0
    (goes_on,) = ask(*fixed, *carry)
    if not keeps and most is None:
        while goes_on:
            goes_on, *carry = step(*fixed, *carry)
    while goes_on:
        if steps == most:
            refuse(most)
        steps += 1
        results = step(*fixed, *carry)
        goes_on, carry = results[0], results[1:end]
        if keeps:
            rows.append(results[end:])
    return carry, rows


def run_along(
    rows: list[tuple[Any, ...]],
    steps: Sequence[Compiled],
    fixed: Sequence[Any],
    starts: Sequence[Any],
    carries: Sequence[int],
    reverse: Sequence[bool],
    hidden: int,
) -> list[Any]:
    """Run further phases along tuples of what earlier ones have kept of each step; returns what they carry in the end."""
    ends: list[Any] = []
    place = 0
    for phase, (step, count) in enumerate(zip(steps, carries, strict=True)):
        carry = starts[place : place + count]
        place += count
        keeps = False
        for t in range(len(rows) - 1, -1, -1) if reverse[phase] else range(len(rows)):
            results = step(*fixed, *carry, *rows[t])
            carry = results[:count]
            if keeps or len(results) > count:
                keeps = True
                rows[t] += results[count:]
        if phase >= hidden:
            ends += carry
    return ends


def refuse(most: int | None) -> NoReturn:
    """Raise where there is one more step than is allowed."""
    raise ArgumentError(f"a while loop is not done after max_steps={most}", fix="allow more steps")


def _turn(body: Program, cond: Program, constants: int) -> Program:
    """The body of the first phase, and whether there is another step after it, which is its first result."""
    build = Assembly()
    inputs = [build.input(body.avals[i]) for i in body.input_ids]
    outputs = build.splice(body, inputs)
    carry = outputs[: len(inputs) - constants]
    return build.program([*build.splice(cond, [*inputs[:constants], *carry]), *outputs], body.name)


def bodies_that_run(cond: Program, bodies: tuple[Program, ...], constants: int) -> tuple[Program, ...]:
    """What runs: the condition, a turn, and the bodies of further phases."""
    key = (_turn, cond, constants)
    made = bodies[0].derived.get(key)
    if made is None:
        made = bodies[0].derived[key] = _turn(bodies[0], cond, constants).interned()
    return (cond, made, *bodies[1:])


def _eval(*rest: Any) -> Any:
    cond, bodies, *details = rest[-7:]

    def runs(program: Program) -> Compiled:
        return lambda *values: tuple(evaluate_program(program, values))

    ask, *steps = [runs(program) for program in bodies_that_run(cond, bodies, details[2])]
    return run_trip(ask, steps, rest[:-7], *details)


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
    def join(runs: Sequence[Compiled]) -> Compiled:
        ask, *steps = runs
        return lambda *operands: run_trip(ask, steps, operands, carries, reverse, constants, hidden, most)

    programs = bodies_that_run(cond, bodies, constants)
    loop = None if any(map(packs, programs)) else Loop(constants, carries, reverse, hidden, None, most, refuse)
    return Lowering(programs, join, fresh=False, loop=loop)


def _aval(*rest: Any) -> Any:
    trip = Trip._make(rest[-7:])
    operands = rest[:-7]
    phases = len(trip.bodies)
    if not phases or not phases == len(trip.carries) == len(trip.reverse) or trip.hidden > phases or trip.reverse[0]:
        raise ShapeError("while_loop: there are not as many bodies as carries", fix="give one of each per phase")
    if trip.constants + sum(trip.carries) != len(operands):
        raise ShapeError(
            f"while_loop: {trip.constants} constants and carries {trip.carries} of {len(operands)} operands",
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
            raise ShapeError(f"while_loop: {len(carry)} carries of {len(avals)} results", fix="count the results")
        for before, after in zip(carry, avals, strict=False):
            if before is not after:
                raise ShapeError(
                    f"while_loop: a carry is {before} before and {after} after a step", fix="keep its shape and dtype"
                )
        kept += avals[len(carry) :]
        if phase >= trip.hidden:
            results += carry
    return tuple(results)


# -- trips from trips ------------------------------------------------------------------------------------------------------


def _read(program: Program, outputs: Sequence[int]) -> set[int]:
    """The places of the inputs that variables depend on."""
    needed = set(outputs)
    for k in range(len(program.ops) - 1, -1, -1):
        if k in needed:
            needed.update(program.ops[k][1])
    return {place for place, i in enumerate(program.input_ids) if i in needed}


def _with_inputs(program: Program, inputs: Sequence[int | ShapeDtype], outputs: Sequence[int]) -> Program:
    """Return the part of a program that computes some of its variables, with inputs by place, and others that it does not
    read, by aval."""
    part = restrict(program, program.input_ids, outputs, keep=True).program
    write = Rewrite(part, inputs)
    return write.finish(write.keep_all())


def _pruned(trip: Trip, operands: Sequence[Any]) -> tuple[Trip, list[Any]]:
    """Leave out constants, carries, kept values and phases that no result needs."""
    fixed, groups = trip.groups(operands)
    phases, start = len(trip.bodies), trip.constants
    kept: set[tuple[int, int]] = set()
    carried: list[list[int]] = [[]] * phases
    asked = _read(trip.cond, trip.cond.output_ids)
    read = {k for k in asked if k < start}
    for phase in range(phases - 1, -1, -1):
        body, count = trip.bodies[phase], trip.carries[phase]
        wanted = set(range(count)) if phase >= trip.hidden else set[int]()
        if phase == 0:
            wanted.update([k - start for k in asked if k >= start])
        mine = [count + n for n in range(trip.kept(phase)) if (phase, n) in kept]
        while True:
            needed = _read(body, [body.output_ids[k] for k in [*sorted(wanted), *mine]])
            more = {k - start for k in needed if start <= k < start + count} - wanted
            if not more:
                break
            wanted |= more
        carried[phase] = sorted(wanted)
        read.update([k for k in needed if k < start])
        stacks = trip.stacks(phase)
        kept.update([stacks[k - start - count] for k in needed if k >= start + count])
    chosen = sorted(read)
    alive = [p for p in range(phases) if not p or p >= trip.hidden or carried[p] or any(j == p for j, _ in kept)]
    bodies: list[Program] = []
    for phase in alive:
        body, count = trip.bodies[phase], trip.carries[phase]
        mine = [count + n for n in range(trip.kept(phase)) if (phase, n) in kept]
        before = [start + count + k for k, stack in enumerate(trip.stacks(phase)) if stack in kept]
        inputs = [*chosen, *[start + k for k in carried[phase]], *before]
        if len(inputs) < len(body.input_ids) or len(carried[phase]) + len(mine) < len(body.output_ids):
            body = _with_inputs(body, inputs, [body.output_ids[k] for k in [*carried[phase], *mine]])
        bodies.append(body.interned())
    cond = _with_inputs(trip.cond, [*chosen, *[start + k for k in carried[0]]], trip.cond.output_ids)
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


# -- forward derivatives ---------------------------------------------------------------------------------------------------


class _Active(NamedTuple):
    """Which inputs of a phase's body have tangents, and its split."""

    inputs: list[bool]
    split: Split


def _activity(trip: Trip, tangents: Tangents) -> list[_Active]:
    """Find out what has tangents: a carry that gets one in a step has one from the start."""
    fixed, groups = trip.groups([t is not None for t in tangents])
    kept: list[bool] = []
    found: list[_Active] = []
    for phase, (body, carry) in enumerate(zip(trip.bodies, groups, strict=True)):
        while True:
            inputs = [*fixed, *carry, *kept]
            split = split_program(body, inputs, [*carry, *[False] * trip.kept(phase)])
            active = list(split.active[: len(carry)])
            if active == carry:
                break
            carry = active
        found.append(_Active(inputs, split))
        kept += split.active[len(carry) :]
    return found


def _starts(trip: Trip, tangents: Tangents, found: Sequence[_Active]) -> list[list[Any]]:
    """Of each phase, the tangents of the carry, zeros where one comes only later."""
    _, groups = trip.groups(tangents)
    made: list[list[Any]] = []
    for body, group, active in zip(trip.bodies, groups, found, strict=True):
        avals = output_avals(body)[: len(group)]
        flags = active.split.active
        made.append([zeros_of(a) if t is None else t for t, a, f in zip(group, avals, flags, strict=False) if f])
    return made


def _tangents_of(trip: Trip, found: Sequence[_Active], results: Sequence[Sequence[Any]]) -> list[Any]:
    """One tangent or ``None`` per result, from those of each phase that returns any."""
    made: list[Any] = []
    for phase, group in enumerate(results, trip.hidden):
        values = iter(group)
        flags = found[phase].split.active[: trip.carries[phase]]
        made += [next(values) if flag else None for flag in flags]
    return made


def _jvp(primals: Values, tangents: Tangents, *params: Param) -> Any:
    trip = Trip._make(params)
    found = _activity(trip, tangents)
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
        pushed = [outs[count + k] if flag else None for k, flag in enumerate(split.active)]
        chosen = [
            *outs[:carried], *[i for i in pushed[:carried] if i is not None],
            *outs[carried:count], *[i for i in pushed[carried:] if i is not None],
        ]  # fmt: skip
        bodies.append(_with_inputs(joint, order, chosen))
    start = trip.constants
    inputs = [*range(start), *map(aval_of, dots), *range(start, start + trip.carries[0]), *map(aval_of, starts[0])]
    made = trip._replace(
        cond=_with_inputs(trip.cond, inputs, trip.cond.output_ids),
        bodies=tuple(bodies),
        carries=tuple([n + len(s) for n, s in zip(trip.carries, starts, strict=True)]),
        constants=start + len(dots),
    )
    operands = [*fixed, *dots, *[x for pair in zip(groups, starts, strict=True) for group in pair for x in group]]
    results = iter(while_program(made, operands))
    outputs: list[Any] = []
    moved_results: list[list[Any]] = []
    for phase in range(trip.hidden, len(bodies)):
        outputs += [next(results) for _ in range(trip.carries[phase])]
        moved_results.append([next(results) for _ in starts[phase]])
    return outputs, _tangents_of(trip, found, moved_results)


def _linearize(primals: Values, tangents: Tangents, *params: Param) -> Any:
    trip = Trip._make(params)
    found = _activity(trip, tangents)
    fixed, groups = trip.groups(primals)
    dots = [t for t in tangents[: trip.constants] if t is not None]
    starts = _starts(trip, tangents, found)
    start, phases = trip.constants, range(len(trip.bodies))
    # Residuals that are the same at every step become constants; others are kept by step.
    same: list[Any] = []
    places: list[dict[int, Any]] = []  # of each phase's residuals: a place among `same`, or what is kept where
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
        stacks = trip.stacks(phase)
        for n in per_step:
            word, k = split.sources[n]
            if word == "input" and k >= start + carried:
                place[n] = stacks[k - start - carried]
            elif word == "output" and k >= carried:
                place[n] = (phase, k - carried)
            else:
                ids = forward.input_ids if word == "input" else forward.output_ids
                variable = ids[k + (count if word == "new" else 0)]
                if variable not in mine:
                    mine.append(variable)
                place[n] = (phase, trip.kept(phase) + mine.index(variable))
        places.append(place)
        extra.append(mine)
    unread = [*map(aval_of, same), *map(aval_of, dots)]
    bodies: list[Program] = []
    kept: list[tuple[tuple[int, int], ShapeDtype]] = []
    for phase in phases:
        forward, count, carried = found[phase].split.forward, len(trip.bodies[phase].output_ids), trip.carries[phase]
        at = {stack: start + carried + k for k, stack in enumerate(trip.stacks(phase))}
        inputs = [*range(start), *unread, *range(start, start + carried), *[at.get(stack, aval) for stack, aval in kept]]
        outputs = [*forward.output_ids[:count], *extra[phase]]
        bodies.append(without_kept(_with_inputs(forward, inputs, outputs)))
        kept += [((phase, n), forward.avals[i]) for n, i in enumerate(outputs[carried:])]
    moved: list[tuple[tuple[int, int], ShapeDtype]] = []
    for phase in phases:
        split = found[phase].split
        carried, linear = trip.carries[phase], split.linear
        build = Assembly()
        constants = [*[build.input(aval_of(x)) for x in fixed], *[build.input(aval) for aval in unread]]
        carry = [build.input(aval_of(x)) for x in starts[phase]]
        rows = {stack: build.input(aval) for stack, aval in kept}
        tangent_rows = {stack: build.input(aval) for stack, aval in moved}
        sources = [places[phase][n] for n in range(len(split.sources))]
        residuals = [constants[s] if isinstance(s, int) else rows[s] for s in sources]
        active_rows = [tangent_rows[s] for s in trip.stacks(phase) if s in tangent_rows]
        outputs = build.splice(linear, [*residuals, *constants[start + len(same) :], *carry, *active_rows])
        bodies.append(build.program(outputs, linear.name))
        active = [n for n, flag in enumerate(split.active[carried:]) if flag]
        moved += [((phase, n), linear.avals[i]) for n, i in zip(active, linear.output_ids[len(carry) :], strict=True)]
    inputs = [*range(start), *unread, *range(start, start + trip.carries[0])]
    made = Trip(
        _with_inputs(trip.cond, inputs, trip.cond.output_ids),
        tuple(bodies),
        (*trip.carries, *map(len, starts)),
        trip.reverse * 2,
        start + len(unread),
        len(phases) + trip.hidden,
        trip.most,
    )
    results = iter(while_program(made, [*fixed, *same, *dots, *chain(*groups, *starts)]))
    moved_results = [[next(results) for _ in starts[phase]] for phase in range(trip.hidden, len(phases))]
    if any(body.has_rules for body in trip.bodies):
        bodies = [as_differentiated(body, flags) for body, (flags, _) in zip(trip.bodies, found, strict=True)]
        trip = trip._replace(bodies=tuple([body.interned() for body in bodies]))
    return bind(while_p, primals, tuple(trip)), _tangents_of(trip, found, moved_results)


# -- the transpose ---------------------------------------------------------------------------------------------------------


class _Backward(NamedTuple):
    """One phase of a transposed trip.

    Args:
        phase: the one that it is the transpose of.
        made: from values that are not linear, by place, and cotangents to cotangents.
        values: the places of those values among the inputs of the phase's body.
        given: what of it has cotangents that were kept: places among what the phase keeps.
        sums: places of the constants whose cotangents it sums.
        carry: places, in its carry, of what is linear.
        keeps: of what earlier phases keep, that of which it keeps the cotangent.
        starts: of the carry's cotangents.
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
    """Of each phase's body, which inputs are linear."""
    fixed, groups = trip.groups([is_linear(x) for x in operands])
    kept: list[bool] = []
    found: list[list[bool]] = []
    for body, carry in zip(trip.bodies, groups, strict=True):
        while True:  # a carry that starts as a constant zero may become linear in a step
            outs = dependent_outputs(body, [*fixed, *carry, *kept])
            grown = [a or b for a, b in zip(carry, outs, strict=False)]
            if grown == carry:
                break
            carry = grown
        found.append([*fixed, *carry, *kept])
        kept += outs[len(carry) :]
    return found


def _backwards(trip: Trip, linear: list[list[bool]], cts: Tangents) -> list[_Backward]:
    """Transpose the linear part of each phase, from the last to the first, where it has cotangents."""
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
        needed = _read(part, part.output_ids)
        stacks = trip.stacks(phase)
        sums = [k for k in range(start) if flags[k] and k in needed]
        keeps = [s for k, s in enumerate(stacks, start + carried) if flags[k] and k in needed]
        by_place = dict(zip([k for k, flag in enumerate(flags) if flag], whole.output_ids, strict=True))
        at = {s: k for k, s in enumerate(stacks, start + carried)}
        chosen = [*[by_place[k] for k in sums], *[by_place[start + k] for k in carry], *[by_place[at[s]] for s in keeps]]
        others = [k for k, flag in enumerate(flags) if not flag]
        reads = _read(whole, chosen)
        values = [k for n, k in enumerate(others) if n in reads]
        inputs = [n for n in range(len(whole.input_ids)) if n >= len(others) or n in reads]
        made = _with_inputs(whole, inputs, chosen)
        avals = output_avals(body)
        starts = [zeros_of(avals[k]) if mine[k] is None else mine[k] for k in carry]
        found.append(_Backward(phase, made, values, given, sums, carry, keeps, starts))
        pulled.update(keeps)
    return found


def _transpose(cts: Tangents, *rest: Any) -> Any:
    trip = Trip._make(rest[-7:])
    operands: tuple[Operand, ...] = rest[:-7]
    linear = _linear_inputs(trip, operands)
    backwards = _backwards(trip, linear, cts)
    start, phases = trip.constants, range(len(trip.bodies))
    fixed, groups = trip.groups(operands)
    known = [k for k in range(start) if not linear[0][k]]
    # What is not linear runs ahead. Beside what it keeps anyway, it keeps the carries that a backward phase reads.
    before: dict[int, list[int]] = {
        b.phase: [k for k in b.values if start <= k < start + trip.carries[b.phase]] for b in backwards
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
        ids = [*[body.output_ids[k] for k in [*own, *[carried + n for n in keeps]]], *[body.input_ids[k] for k in ahead]]
        bodies.append(_with_inputs(body, inputs, ids))
        carries.append(len(own))
        starts += [groups[phase][k] for k in own]
        kept += zip(
            [(phase, n) for n in keeps] + [(phase, "before", k) for k in ahead], map(body.avals.__getitem__, ids[len(own) :])
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
        _with_inputs(trip.cond, inputs, trip.cond.output_ids),
        tuple(bodies),
        tuple(carries),
        (*trip.reverse, *[not trip.reverse[b.phase] for b in backwards]),
        len(known),
        len(phases),
        trip.most,
    )
    results = iter(while_program(made, [*[fixed[k] for k in known], *starts]) if backwards else [])
    found: list[Any] = [None] * len(operands)
    for b in backwards:
        for k in b.sums:
            ct = next(results)
            found[k] = ct if found[k] is None else add(found[k], ct)
        first = start + sum(trip.carries[: b.phase])
        for k in b.carry:
            found[first + k] = next(results)
    return tuple(found)


# -- batches ---------------------------------------------------------------------------------------------------------------


class _Mapped(NamedTuple):
    """Which inputs of each phase's body have a batch axis, which outputs, and whether examples stop one by one."""

    inputs: list[list[bool]]
    outputs: list[list[bool]]
    each: bool


def _mapped_flags(trip: Trip, is_batched: Sequence[bool]) -> _Mapped:
    fixed, groups = trip.groups(is_batched)
    inputs: list[list[bool]] = []
    outputs: list[list[bool]] = []
    kept: list[bool] = []
    each = False
    for phase, (body, carry) in enumerate(zip(trip.bodies, groups, strict=True)):
        while True:  # a carry that gets a batch axis in a step has it from the start
            outs = mapped_outputs(body, [*fixed, *carry, *kept])
            grown = [a or b for a, b in zip(carry, outs, strict=False)]
            if grown == carry:
                break
            carry = grown
        if not phase:
            each = any(mapped_outputs(trip.cond, [*fixed, *carry]))
        if each:
            carry, outs = [True] * len(carry), (True,) * len(outs)
        inputs.append([*fixed, *carry, *kept])
        outputs.append([*carry, *outs[len(carry) :]])
        kept += outs[len(carry) :]
    return _Mapped(inputs, outputs, each)


def _mapped(is_batched: Sequence[bool], *params: Param) -> list[bool]:
    trip = Trip._make(params)
    outputs = _mapped_flags(trip, is_batched).outputs
    return [flag for p in range(trip.hidden, len(trip.bodies)) for flag in outputs[p][: trip.carries[p]]]


def _batch(operands: Values, is_batched: Flags, *params: Param) -> Any:
    trip = Trip._make(params)
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
        bodies = [vmap_program(b, size, i, o) for b, i, o in zip(trip.bodies, mapped.inputs, mapped.outputs, strict=True)]
        made = trip._replace(cond=vmap_program(trip.cond, size, mapped.inputs[0], [False]), bodies=tuple(bodies))
        return tuple(while_program(made, [*constants, *chain(*carries)]))
    ask = vmap_program(trip.cond, size, mapped.inputs[0], [True]).interned()
    active = call_program(ask, [*constants, *carries[0]])[0]
    made = trip._replace(
        cond=_any_active(trip, mapped, size),
        bodies=tuple([_chosen(trip, mapped, size, phase, ask) for phase in range(len(trip.bodies))]),
        carries=(1 + trip.carries[0], *trip.carries[1:]),
    )
    results = while_program(made, [*constants, active, *chain(*carries)])
    return tuple(results if trip.hidden else results[1:])


def _stacked(aval: ShapeDtype, size: int) -> ShapeDtype:
    return ShapeDtype((size, *aval.shape), aval.dtype)


_FLAG = np.dtype(bool)


def _any_active(trip: Trip, mapped: _Mapped, size: int) -> Program:
    """The condition of a loop per example: whether any example is still at it."""
    into = Recording("vmap of a condition", keeps_source=False)
    given = [
        _stacked(trip.cond.avals[i], size) if f else trip.cond.avals[i]
        for i, f in zip(trip.cond.input_ids, mapped.inputs[0], strict=True)
    ]
    place = trip.constants
    active = [into.new_input(aval) for aval in [*given[:place], ShapeDtype((size,), _FLAG), *given[place:]]][place]
    result = bind(reduce_any_p, (active,), ((0,),))
    return finish(into, [operand_of(into, result, result.aval)], trip.cond, trip.cond.name)


def _chosen(trip: Trip, mapped: _Mapped, size: int, phase: int, ask: Program) -> Program:
    """The body of a phase of a loop per example: each example takes the step, or stays as it is."""
    body, flags, start, count = trip.bodies[phase], mapped.inputs[phase], trip.constants, trip.carries[phase]
    into = Recording(f"vmap of {body.name}", keeps_source=False)
    avals = [body.avals[i] for i in body.input_ids]
    shown = [_stacked(aval, size) if flag else aval for aval, flag in zip(avals, flags, strict=True)]
    place = start if not phase else start + count  # of the flag: first of the carry, or of what the first phase keeps
    given = [into.new_input(aval) for aval in [*shown[:place], ShapeDtype((size,), _FLAG), *shown[place:]]]
    active = given.pop(place)
    build = Assembly()
    inputs = [build.input(a) for a in avals]
    outs = output_avals(body)
    idle = [build.constant(zeros_of(a), a) for a in outs[count:]]
    stay = build.program([*inputs[start : start + count], *idle], "stay").interned()
    results = cond_program(active, given, [stay, body], tuple(flags))
    if not phase:
        again = call_program(ask, [*given[:start], *results[:count]])[0]
        results = [again, *results[:count], active, *results[count:]]
    return finish(into, [operand_of(into, r, aval_of(r)) for r in results], body, body.name)


# -- forms -----------------------------------------------------------------------------------------------------------------


def _written(write: Writer, _specs: Sequence[Spec], *params: Param) -> Spelling:
    """Spell the loop: a ``while`` statement, and a ``for`` statement over its steps for each further phase."""
    trip = Trip._make(params)
    ask = write.program(trip.cond, "goes_on")
    steps = [write.program(body, "step" if len(trip.bodies) == 1 else f"phase_{k}") for k, body in enumerate(trip.bodies)]
    rows, t = write.local("rows"), write.local("t")
    hidden = [[write.local(f"h{p}_{k}") for k in range(trip.carries[p])] for p in range(trip.hidden)]
    kept = [[write.local(f"r{n}") for n in range(trip.kept(p))] for p in range(len(trip.bodies))]

    def lines(inputs: Sequence[str], outputs: Sequence[str]) -> list[str]:
        fixed, groups = trip.groups(inputs)
        names, place = list(hidden), 0
        for count in trip.carries[trip.hidden :]:
            names.append(list(outputs[place : place + count]))
            place += count
        # A result may be called as an operand is that a later phase still starts with: so all start at once.
        starts = [x for group in groups for x in group]
        targets = [x for group in names for x in group]
        found = [f"{rows} = []"]
        if targets:
            found.append(f"{', '.join(targets)}, = {', '.join(starts)},")
        for phase, (step, carry, more) in enumerate(zip(steps, names, kept, strict=True)):
            given = ", ".join([*fixed, *carry, *([f"*{rows}[{t}]"] if phase and trip.stacks(phase) else [])])
            left = ", ".join([*carry, *more])
            row = f"({', '.join(more)}{',' if len(more) == 1 else ''})"
            if not phase:
                found.append(f"while {ask}({', '.join([*fixed, *carry])}):")
                if trip.most is not None:
                    found.append(f"    assert len({rows}) < {trip.most}, 'max_steps={trip.most}'")
            else:
                order = f"range(len({rows}))"
                found.append(f"for {t} in {f'reversed({order})' if trip.reverse[phase] else order}:")
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
    """One step: how many there are is not known."""
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
    """What hidden phases keep of each step, for the tangents: residuals."""
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
                (trip.bodies[p], trip.constants + trip.carries[p] + trip.stacks(p).index((phase, n)))
                for p in range(max(trip.hidden, phase + 1), len(trip.bodies))
            ]
            found.append((trip.bodies[phase], trip.carries[phase] + n, kinds, readers))
    return found


while_p = Primitive(
    "while_loop",
    eval=_eval,
    aval=_aval,
    jvp=Joint(jvp=_jvp, linearize=_linearize),
    transpose=_transpose,
    batch=_batch,
    params=Trip._fields,
    many=True,
    kept=holds_kept,
    holds=Holds(_runs, feeds=_feeds, keeps=_keeps, lowers=_lowers),
    written=_written,
    mapped=_mapped,
)
"""``while_loop c0 h0 {cond={…}, bodies=({…},), carries=(1,), reverse=(False,), constants=1, hidden=0, most=None}``: what the
loop carries in the end."""
