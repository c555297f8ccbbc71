"""``checkpointed_reverse``: the reverse pass of a checkpointed loop, as one operation.

Note [Derivatives of a reverse pass]
    A reverse pass is a loop over the steps of another one, last step first: it gets the residuals of
    a step by running that step again from a kept carry. Its jvp is a reverse pass of the same form:
    its forward loop is that of values and tangents, whose residuals have tangents; its step is the
    jvp of the step. So values and tangents are computed by the same operations as those of a loop
    that keeps all residuals, and have the same bits; and so with vmap. A reverse pass of a reverse
    pass has no schedule: its linear part keeps the residuals of all steps (`plain_sweep`).

Layer: 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from functrace.control.call import call_p, call_program, zeros_of
from functrace.control.carries import settled, split_body
from functrace.control.checkpointed_forms import (
    active_examples,
    any_example,
    chosen_step,
    recorded,
)
from functrace.control.checkpointed_sweep import (
    ReverseSweep,
    SweepOperands,
    operand_avals_of,
    reverse_lowering,
    work_bytes,
)
from functrace.control.joining import evaluate_lowered
from functrace.control.scan import pushed_scan, scan_program
from functrace.control.schedules import runs_of_schedule
from functrace.control.while_loop import while_program
from functrace.control.while_trips import Trip, with_inputs
from functrace.errors import ShapeError
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.ir.parts import output_avals, reordered, restrict, without_kept
from functrace.ir.primitive import (
    Flags,
    Operand,
    Primitive,
    ReplacingJvp,
    RuleArgument,
    SubPrograms,
    Tangents,
    Values,
)
from functrace.ir.program import Program
from functrace.ir.structures import Lowering
from functrace.ir.tape import Spec
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.ops.shaping import broadcast_to, moveaxis
from functrace.tracing.binding import bind
from functrace.transforms.building import finish, operand_of
from functrace.transforms.vmap import batch_size, mapped_outputs, reached_outputs, vmap_program

if TYPE_CHECKING:
    from collections.abc import Callable

    from functrace.ir.numpy_source import SourceWriter, Spelling
    from functrace.ir.primitive import Runs
    from functrace.ir.program import Param

_PARAMS = len(ReverseSweep._fields)


def _sweep_of(rest: Sequence[Any]) -> tuple[ReverseSweep, tuple[Any, ...]]:
    return ReverseSweep._make(rest[-_PARAMS:]), tuple(rest[:-_PARAMS])


def kept_places(sweep: ReverseSweep) -> range:
    """Return the places of the kept carries among the operands of a reverse pass."""
    start = len(sweep.record.input_ids) + (2 if sweep.length is None else 0)
    return range(start, start + sweep.carries)


def _aval(*rest: RuleArgument) -> Any:
    sweep, specs = _sweep_of(rest)
    avals = operand_avals_of(sweep)
    if len(specs) != len(avals):
        raise ShapeError(
            f"checkpointed_reverse: {len(specs)} operands for {len(avals)}", fix="give one for each"
        )
    for spec, aval in zip(specs, avals, strict=True):
        if spec is not aval:
            raise ShapeError(
                f"checkpointed_reverse: an operand is {spec}, not {aval}", fix="convert it"
            )
    states = sweep.groups(avals).states
    outs = output_avals(sweep.adjoint)
    if list(outs[: sweep.states]) != states:
        raise ShapeError(
            "checkpointed_reverse: a state changes its shape or dtype in a step",
            fix="keep its shape and dtype",
        )
    length = sweep.length or 0
    return (*states, *[ShapeDtype((length, *a.shape), a.dtype) for a in outs[sweep.states :]])


def _lowers(_specs: Sequence[Spec], *params: Param) -> Lowering:
    return reverse_lowering(ReverseSweep._make(params))


def _eval(*rest: RuleArgument) -> Any:
    sweep, operands = _sweep_of(rest)
    return evaluate_lowered(reverse_lowering(sweep), operands)


# -- derivatives -----------------------------------------------------------------------------------


def _taken(found: list[Any]) -> Callable[..., list[Any]]:
    """Return a function in place of `scan_program` that keeps its arguments."""

    def take(body: Program, operands: Sequence[Any], *rest: Any) -> list[Any]:
        found.extend([body, list(operands), *rest])
        return [np.zeros((1, 1))] * len(body.output_ids)

    return take


def _jvp(primals: Values, tangents: Tangents, *params: Param) -> Any:
    sweep = ReverseSweep._make(params)
    values, dots = sweep.groups(primals), sweep.groups(tangents)
    record, constants, carries = sweep.record, sweep.constants, sweep.carries
    avals = [record.avals[i] for i in record.input_ids]
    # A carry has a tangent if its kept values have one.
    starts = [
        zeros_of(a) if dot is None and kept is not None else dot
        for dot, kept, a in zip(dots.carry, dots.kept, avals[constants:], strict=False)
    ]
    moving = [*dots.constants, *starts, *dots.arrays]
    flags, split = split_body(record, [t is not None for t in moving], constants, carries)
    made: list[Any] = []
    pushed_scan(
        (*values.constants, *values.carry, *values.arrays), tuple(moving), record,
        sweep.length or 0, sweep.reverse, constants, carries, apply=_taken(made),
    )  # fmt: skip
    step, joint, _, _, new_constants, new_carries = made
    kept = [
        zeros_of(aval_of(x)) if t is None else t
        for x, t, flag in zip(values.kept, dots.kept, flags[constants:], strict=False)
        if flag
    ]
    # Its outputs: carry, results and residuals, with the tangents of each group.
    begin = carries + sweep.results
    outs = _grouped(new_carries, [split.active[carries:begin], split.active[begin:]])
    step = restrict(step, step.input_ids, [step.output_ids[k] for k in outs], keep=True).program
    moved_residuals = split.active[begin:]
    new_results = sweep.results + sum(split.active[carries:begin])
    residuals = [record.avals[i] for i in record.output_ids[begin:]]
    groups: list[list[tuple[Any, Any]]] = [
        [(a, a if flag else None) for a, flag in zip(residuals, moved_residuals, strict=True)],
        list(zip(values.arrays, dots.arrays, strict=True)),
        list(zip(values.own_arrays, dots.own_arrays, strict=True)),
    ]
    pairs = [pair for group in groups for pair in group]
    made = []
    adjoint = sweep.adjoint
    active = [
        *[t is not None for t in dots.constants],
        *[t is not None for t in dots.states],
        *[t is not None for _, t in pairs],
    ]
    pushed_scan(
        (*values.constants, *values.states, *[x for x, _ in pairs]),
        (*dots.constants, *dots.states, *[t for _, t in pairs]),
        adjoint, sweep.length or 0, not sweep.reverse, constants, sweep.states, apply=_taken(made),
    )  # fmt: skip
    back, operands, _, _, _, new_states = made
    first = new_constants + new_states
    order = _grouped(first, [[t is not None for _, t in group] for group in groups])
    moved = iter(range(constants, new_constants))
    dot_of = [None if t is None else next(moved) for t in dots.constants]
    shared = (*sweep.shared, *[d for k in sweep.shared if (d := dot_of[k]) is not None])
    own = [*values.own_arrays, *[t for t in dots.own_arrays if t is not None]]
    cond = sweep.cond
    if cond is not None:
        extra = [aval_of(t) for t in dots.constants if t is not None]
        more = [aval_of(x) for x in joint[new_constants + carries : new_constants + new_carries]]
        inputs = [*range(constants), *extra, *range(constants, constants + carries), *more]
        cond = with_inputs(cond, inputs, cond.output_ids).interned()
    pushed = ReverseSweep(
        step.interned(), reordered(back, order).interned(), cond, sweep.length, sweep.reverse,
        new_constants, new_carries, new_states, new_results, shared, sweep.schedule,
        sweep.lead, False,
    )  # fmt: skip
    results = bind(
        checkpointed_reverse_p,
        (
            *joint, *values.numbers, *values.kept, *kept, *operands[new_constants:first], *own,
        ),
        tuple(pushed),
    )  # fmt: skip
    outs = split_body(adjoint, active, constants, sweep.states)[1].active
    states = sweep.states
    carried = sum(outs[:states])
    rest = len(outs) - states
    start = states + carried
    outputs = [*results[:states], *results[start : start + rest]]
    found = iter([*results[states:start], *results[start + rest :]])
    return outputs, [next(found) if flag else None for flag in outs]


def _grouped(first: int, groups: Sequence[Sequence[bool]]) -> list[int]:
    """Return an order in which the tangents of each group follow its values.

    Args:
        first: number of things before the groups, which stay.
        groups: values in their order; True for one that has a tangent. All tangents come after all
            values.
    """
    order, place = list(range(first)), first
    dot = first + sum(map(len, groups))
    for group in groups:
        order += range(place, place + len(group))
        order += range(dot, dot + sum(group))
        place, dot = place + len(group), dot + sum(group)
    return order


def _linearize(primals: Values, tangents: Tangents, *params: Param) -> Any:
    results = bind(checkpointed_reverse_p, primals, (*params[:-1], False))
    rule: Any = call_p.jvp
    plain = without_kept(
        plain_sweep(ReverseSweep._make(params))
    ).interned()  # its values are dropped
    _, moved = rule.linearize(primals, tangents, plain, ())
    return list(results), moved


def _transpose(cts: Tangents, *rest: tuple[*tuple[Operand, ...], Any]) -> Any:
    sweep, operands = _sweep_of(rest)
    rule: Any = call_p.transpose
    return rule.rule(cts, None, *operands, plain_sweep(sweep), ())


def plain_sweep(sweep: ReverseSweep) -> Program:
    """Return the program of a reverse pass that keeps the residuals of all steps."""
    key = (plain_sweep, sweep._replace(owned=False))
    found = sweep.record.derived.get(key)
    if found is None:
        found = sweep.record.derived[key] = _plain_sweep(sweep).interned()
    return found


def _plain_sweep(sweep: ReverseSweep) -> Program:
    record, adjoint = without_kept(sweep.record), sweep.adjoint
    outs = record.output_ids
    chosen = [*outs[: sweep.carries], *outs[sweep.carries + sweep.results :]]
    record = restrict(record, record.input_ids, chosen, keep=True).program
    into = ArrayRecording(adjoint.name, keeps_source=False)
    given = sweep.groups([into.new_input(aval) for aval in operand_avals_of(sweep)])
    if sweep.length is None:
        assert sweep.cond is not None, "a loop of unknown length has a condition"
        trip = Trip(
            sweep.cond, (record, adjoint), (sweep.carries, sweep.states), (False, True),
            sweep.constants, 1, None,
        )  # fmt: skip
        results = while_program(trip, [*given.constants, *given.carry, *given.states])
    else:
        length, constants = sweep.length, sweep.constants
        stacks = scan_program(
            record, [*given.constants, *given.carry, *given.arrays], length, sweep.reverse,
            constants, sweep.carries,
        )[sweep.carries :]  # fmt: skip
        results = scan_program(
            adjoint,
            [*given.constants, *given.states, *stacks, *given.arrays, *given.own_arrays],
            length, not sweep.reverse, constants, sweep.states,
        )  # fmt: skip
    return finish(into, [operand_of(into, r, aval_of(r)) for r in results], adjoint, adjoint.name)


# -- vmap ------------------------------------------------------------------------------------------


@final
class _BatchedFlags(NamedTuple):
    """Flags of batched inputs and outputs of both programs; ``each`` is True if examples stop one
    by one.
    """

    record: list[bool]
    recorded: list[bool]
    adjoint: list[bool]
    outputs: list[bool]
    each: bool


def _batched_flags(
    sweep: ReverseSweep,
    flags: Sequence[bool],
    flagged: Callable[[Program, Sequence[bool]], Sequence[bool]] = mapped_outputs,
) -> _BatchedFlags:
    given = sweep.groups(flags)
    constants, carries, states = sweep.constants, sweep.carries, sweep.states
    carry = [a or b for a, b in zip(given.carry, given.kept, strict=True)]
    ins, outs = settled(
        flagged, sweep.record, [*given.constants, *carry, *given.arrays], constants, carries
    )
    each = sweep.cond is not None and any(flagged(sweep.cond, ins))
    if each:
        ins, outs = [*given.constants, *[True] * carries], [True] * len(outs)
    adjoint = [
        *given.constants, *given.states, *outs[carries + sweep.results :], *given.arrays,
        *given.own_arrays,
    ]  # fmt: skip
    adjoint, results = settled(flagged, sweep.adjoint, adjoint, constants, states)
    if each or sweep.lead or any(given.numbers):
        adjoint = [*given.constants, *[True] * states, *adjoint[constants + states :]]
        results = [True] * len(results)
    return _BatchedFlags(ins, outs, adjoint, results, each)


def _mapped(is_batched: Sequence[bool], *params: Param) -> list[bool]:
    return _batched_flags(ReverseSweep._make(params), is_batched).outputs


def _depends(flags: Sequence[bool], *params: Param) -> list[bool]:
    return _batched_flags(ReverseSweep._make(params), flags, reached_outputs).outputs


def _batch(operands: Values, is_batched: Flags, *params: Param) -> Any:
    sweep = ReverseSweep._make(params)
    size, flags = batch_size(operands, is_batched), _batched_flags(sweep, is_batched)
    values, was, avals = (sweep.groups(x) for x in (operands, is_batched, operand_avals_of(sweep)))
    constants, carries, states = sweep.constants, sweep.carries, sweep.states
    carried = flags.record[constants : constants + carries]

    def wide(
        xs: Sequence[Any], old: Sequence[bool], new: Sequence[bool], like: Sequence[ShapeDtype]
    ) -> list[Any]:
        return [
            broadcast_to(x, (size, *a.shape)) if n and not o else x
            for x, o, n, a in zip(xs, old, new, like, strict=True)
        ]

    def second(xs: Sequence[Any], which: Sequence[bool]) -> list[Any]:
        return [moveaxis(x, 0, 1) if flag else x for x, flag in zip(xs, which, strict=True)]

    kept = wide(values.kept, was.kept, carried, avals.kept)
    numbers, lead = values.numbers, sweep.lead
    if lead or any(was.numbers):
        lead = (size, *lead)
        numbers = wide(numbers, was.numbers, [True, True], avals.numbers)
    given = SweepOperands(
        values.constants,
        wide(values.carry, was.carry, carried, avals.carry),
        second(values.arrays, was.arrays),
        numbers,
        second(kept, carried),
        wide(
            values.states, was.states, flags.adjoint[constants : constants + states], avals.states
        ),
        second(values.own_arrays, was.own_arrays),
    )
    made = _sweep_of_each(sweep, size, flags) if flags.each else sweep._replace(
        record=vmap_program(sweep.record, size, flags.record, flags.recorded).interned(),
        adjoint=vmap_program(sweep.adjoint, size, flags.adjoint, flags.outputs).interned(),
        cond=None if sweep.cond is None else vmap_program(
            sweep.cond, size, flags.record, [False]
        ).interned(),
    )  # fmt: skip
    results = bind(
        checkpointed_reverse_p, tuple(given.joined()), tuple(made._replace(lead=lead, owned=False))
    )
    return tuple([
        moveaxis(x, 1, 0) if flag and k >= states else x
        for k, (x, flag) in enumerate(zip(results, flags.outputs, strict=True))
    ])  # fmt: skip


def _sweep_of_each(sweep: ReverseSweep, size: int, flags: _BatchedFlags) -> ReverseSweep:
    """Return the reverse pass of a loop in which examples stop one by one.

    A step is reversed for the examples that have taken it; their mask is a residual.
    """
    assert sweep.cond is not None, "examples stop by a condition"
    record, adjoint, constants = sweep.record, sweep.adjoint, sweep.constants
    carries, states = sweep.carries, sweep.states
    condition = active_examples(sweep.cond, size, flags.record)

    def step(given: list[Any]) -> list[Any]:
        active = call_program(condition, given)[0]
        results = chosen_step(active, given, record, constants, carries, flags.record)
        begin = carries + sweep.results
        return [*results[:begin], active, *results[begin:]]

    into = ArrayRecording(f"vmap of {adjoint.name}", keeps_source=False)
    avals = [
        ShapeDtype((size, *adjoint.avals[i].shape), adjoint.avals[i].dtype) if flag
        else adjoint.avals[i]
        for i, flag in zip(adjoint.input_ids, flags.adjoint, strict=True)
    ]  # fmt: skip
    place = constants + states
    shown = [*avals[:place], ShapeDtype((size,), np.dtype(bool)), *avals[place:]]
    given = [into.new_input(aval) for aval in shown]
    active = given.pop(place)
    results = chosen_step(active, given, adjoint, constants, states, flags.adjoint)
    back = finish(into, [operand_of(into, r, aval_of(r)) for r in results], adjoint, adjoint.name)
    return sweep._replace(
        record=recorded(record, size, flags.record, step).interned(),
        adjoint=back.interned(),
        cond=any_example(condition, sweep.cond.name).interned(),
    )


# -- properties ------------------------------------------------------------------------------------


def _keeps(_record: Program, adjoint: Program, *_: object) -> bool:
    return adjoint.keeps  # (the steps run again without their side effects)


def _runs(_inputs: object, *params: Param) -> Runs:
    sweep = ReverseSweep._make(params)
    if sweep.length is None:
        return (((2, sweep.record), (1, sweep.adjoint)),)
    again = runs_of_schedule(sweep.schedule, sweep.length)
    return (((again, sweep.record), (sweep.length, sweep.adjoint)),)


def _written(write: SourceWriter, _specs: Sequence[Spec], *params: Param) -> Spelling:
    return write.call(plain_sweep(ReverseSweep._make(params)))


checkpointed_reverse_p = Primitive(
    "checkpointed_reverse",
    eval=_eval,
    aval=_aval,
    jvp=ReplacingJvp(jvp=_jvp, linearize=_linearize),
    transpose=_transpose,
    batch=_batch,
    params=ReverseSweep._fields,
    many=True,
    kept=_keeps,
    holds=SubPrograms(_runs, depends=_depends, lowers=_lowers),
    written=_written,
    mapped=_mapped,
    scratch=work_bytes,
)
"""``checkpointed_reverse c0 h0 xs kept h_bar {record={…}, adjoint={…}, cond=None, length=5,
reverse=False, constants=1, carries=1, states=1, results=0,
shared=(0,), schedule=("binomial", 3), lead=(), owned=False}``: the final
states, stacked results.
"""
