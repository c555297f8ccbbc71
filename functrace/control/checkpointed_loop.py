"""Checkpointed loops: ``scan`` and ``while_loop`` whose reverse pass keeps few carries, and runs
steps again.

Four operations, of which the first is what users apply:

* ``checkpointed_loop``: the loop. Without a derivative it runs as a plain one.
* ``checkpointed_forward``: the forward sweep: the results of the loop, then the carries that its
  schedule keeps, as stacks. Of a loop of unknown length also the number of steps, and the steps
  before which the carries were kept.
* ``checkpointed_tangents``: the linear part: the tangents, from the operands of the loop, the kept
  carries, and the tangents of the operands. It runs the loop once more.
* ``checkpointed_reverse``: the transpose of that: the reverse pass, by the schedule
  (control/schedules.py). Its programs are in control/checkpointed_steps.py.

Layer: 5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from functrace.control.call import at_places, call_p, check_operands, zeros_of
from functrace.control.carries import settled, split_body
from functrace.control.checkpointed_forms import (
    applied_plainly,
    batched_loop,
    check_loop,
    derived_program,
    examples_first,
    interned_loop,
    joint_active,
    loop_avals,
    loop_of,
    operand_places,
    plain_forward,
    plain_loop,
    plain_tangents,
    pushed_loop,
    result_places,
    stops_each,
)
from functrace.control.checkpointed_reverse import checkpointed_reverse_p
from functrace.control.checkpointed_steps import (
    CheckpointedLoop,
    extra_avals,
    forward_lowering,
    sweep_programs,
    trip_of,
)
from functrace.control.joining import evaluate_lowered
from functrace.errors import ProgramError
from functrace.ir.parts import holds_kept, output_avals
from functrace.ir.primitive import (
    Flags,
    Primitive,
    ReplacingJvp,
    RuleArgument,
    SubPrograms,
    Tangents,
    Values,
    is_linear,
)
from functrace.ir.program import Program
from functrace.ir.structures import Lowering
from functrace.ir.tape import Spec
from functrace.ops.shaping import moveaxis
from functrace.tracing.binding import bind
from functrace.transforms.vmap import mapped_outputs, reached_outputs

if TYPE_CHECKING:
    from functrace.ir.numpy_source import SourceWriter, Spelling
    from functrace.ir.primitive import Runs
    from functrace.ir.program import Param


def checkpointed_loop(loop: CheckpointedLoop, operands: Sequence[Any]) -> list[Any]:
    """Apply a checkpointed loop; returns the final carry and the stacked results.

    Args:
        loop: the loop, without ``active``.
        operands: constants, initial carry, arrays with a first axis of ``length``.
    """
    return list(bind(checkpointed_loop_p, tuple(operands), tuple(interned_loop(loop))))


# -- the loop --------------------------------------------------------------------------------------


def _loop_aval(*rest: RuleArgument) -> Any:
    loop, specs = loop_of(rest)
    check_loop(loop, specs, "checkpointed_loop")
    return output_avals(plain_loop(loop))


def _loop_eval(*rest: RuleArgument) -> Any:
    loop, operands = loop_of(rest)
    return tuple(applied_plainly(loop, operands))


def _loop_jvp(primals: Values, tangents: Tangents, *params: Param) -> Any:
    loop = CheckpointedLoop._make(params)
    made, operands, flags = pushed_loop(loop, primals, tangents)
    results, places = checkpointed_loop(made, operands), result_places(loop, flags)
    return (
        [results[k] for k in places.values],
        [None if k is None else results[k] for k in places.dots],
    )


def _loop_linearize(primals: Values, tangents: Tangents, *params: Param) -> Any:
    loop = CheckpointedLoop._make(params)
    flags, split = split_body(
        loop.body, [t is not None for t in tangents], loop.constants, loop.carries
    )
    loop = loop._replace(active=tuple(flags))
    results = bind(checkpointed_forward_p, primals, tuple(loop))
    count = len(loop.body.output_ids)
    dots = [
        zeros_of(a) if t is None else t
        for t, a, flag in zip(tangents, loop_avals(loop), flags, strict=True)
        if flag
    ]
    moved = iter(bind(checkpointed_tangents_p, (*primals, *results[count:], *dots), tuple(loop)))
    return list(results[:count]), [next(moved) if flag else None for flag in split.active]


def _loop_transpose(cts: Tangents, *rest: RuleArgument) -> Any:
    loop, operands = loop_of(rest)
    found: Any = call_p.transpose
    return found.rule(cts, None, *operands, plain_loop(loop), ())


def _loop_batch(operands: Values, is_batched: Flags, *params: Param) -> Any:
    loop, values, _, outs = batched_loop(CheckpointedLoop._make(params), operands, is_batched)
    return tuple(examples_first(loop, checkpointed_loop(loop, values), outs))


def _loop_mapped(is_batched: Sequence[bool], *params: Param) -> list[bool]:
    loop = CheckpointedLoop._make(params)
    flags, outs = settled(mapped_outputs, loop.body, is_batched, loop.constants, loop.carries)
    return [True] * len(outs) if stops_each(loop, flags) else outs


def _loop_depends(flags: Sequence[bool], *params: Param) -> list[bool]:
    loop = CheckpointedLoop._make(params)
    ins, outs = settled(reached_outputs, loop.body, flags, loop.constants, loop.carries)
    if loop.length is None and any(reached_outputs(trip_of(loop).cond, ins)):
        return [True] * len(outs)
    return outs


def _plain_of(*params: Param) -> Program:
    return plain_loop(CheckpointedLoop._make(params))


def _loop_runs(_inputs: object, *params: Param) -> Runs:
    return (((1, plain_loop(CheckpointedLoop._make(params))),),)


def _loop_written(write: SourceWriter, _specs: Sequence[Spec], *params: Param) -> Spelling:
    return write.call(plain_loop(CheckpointedLoop._make(params)))


checkpointed_loop_p = Primitive(
    "checkpointed_loop",
    eval=_loop_eval,
    aval=_loop_aval,
    jvp=ReplacingJvp(jvp=_loop_jvp, linearize=_loop_linearize),
    transpose=_loop_transpose,
    batch=_loop_batch,
    params=CheckpointedLoop._fields,
    many=True,
    kept=holds_kept,
    holds=SubPrograms(_loop_runs, called_program=_plain_of, depends=_loop_depends),
    written=_loop_written,
    mapped=_loop_mapped,
)
"""``checkpointed_loop c0 h0 xs {body={…}, cond=None, length=5, reverse=False, constants=1,
carries=1, most=None, schedule=("binomial", 3), active=()}``: final carry, stacked results.
"""


# -- the forward sweep -----------------------------------------------------------------------------


def _forward_aval(*rest: RuleArgument) -> Any:
    loop, specs = loop_of(rest)
    check_loop(loop, specs, "checkpointed_forward")
    return (*output_avals(plain_loop(loop)), *extra_avals(loop))


def _forward_lowers(_specs: Sequence[Spec], *params: Param) -> Lowering:
    return forward_lowering(CheckpointedLoop._make(params))


def _forward_eval(*rest: RuleArgument) -> Any:
    loop, operands = loop_of(rest)
    return evaluate_lowered(forward_lowering(loop), operands)


def _forward_jvp(primals: Values, tangents: Tangents, *params: Param) -> Any:
    loop = CheckpointedLoop._make(params)
    made, operands, flags = pushed_loop(loop, primals, tangents)
    active = operand_places(loop, flags)
    made = made._replace(active=joint_active(loop, made, active))
    results = bind(checkpointed_forward_p, tuple(operands), tuple(made))
    places = result_places(loop, flags)
    start = len(made.body.output_ids)
    plain = 2 if loop.length is None else 0  # count and steps carry no derivative
    stacks = start + plain
    outs = [results[k] for k in places.values]
    dots = [None if k is None else results[k] for k in places.dots]
    outs += [*results[start:stacks], *[results[stacks + k] for k in places.values[: loop.carries]]]
    moved = [None if k is None else results[stacks + k] for k in places.dots[: loop.carries]]
    return outs, [*dots, *[None] * plain, *moved]


def _forward_linearize(primals: Values, tangents: Tangents, *params: Param) -> Any:
    # The kept carries get no tangents: `plain_reverse` does not read them.
    loop = CheckpointedLoop._make(params)
    results = bind(checkpointed_forward_p, primals, params)
    rule: Any = call_p.jvp
    _, moved = rule.linearize(primals, tangents, plain_loop(loop), ())
    return list(results), [*moved, *[None] * len(extra_avals(loop))]


def _forward_transpose(cts: Tangents, *rest: RuleArgument) -> Any:
    loop, operands = loop_of(rest)
    rule: Any = call_p.transpose
    count = len(loop.body.output_ids)
    return rule.rule(cts[:count], None, *operands, plain_loop(loop), ())


def _forward_batch(operands: Values, is_batched: Flags, *params: Param) -> Any:
    loop = CheckpointedLoop._make(params)
    made, values, _, outs = batched_loop(loop, operands, is_batched)
    results = bind(checkpointed_forward_p, tuple(values), tuple(made))
    count = len(outs)
    start = count + (2 if loop.length is None else 0)
    stacks = [
        moveaxis(x, 1, 0) if flag else x
        for x, flag in zip(results[start:], outs[: loop.carries], strict=True)
    ]
    return (*examples_first(loop, results[:count], outs), *results[count:start], *stacks)


def _forward_mapped(is_batched: Sequence[bool], *params: Param) -> list[bool]:
    loop = CheckpointedLoop._make(params)
    outs = _loop_mapped(is_batched, *params)
    return [*outs, *([False] * 2 if loop.length is None else []), *outs[: loop.carries]]


def _forward_depends(flags: Sequence[bool], *params: Param) -> list[bool]:
    loop = CheckpointedLoop._make(params)
    outs = _loop_depends(flags, *params)
    found = any(outs) if loop.length is None else False
    return [*outs, *([found] * 2 if loop.length is None else []), *outs[: loop.carries]]


def _forward_written(write: SourceWriter, _specs: Sequence[Spec], *params: Param) -> Spelling:
    loop = CheckpointedLoop._make(params)
    if loop.length is None:
        raise ProgramError(
            "a checkpointed while_loop chooses what it keeps as it runs, which has no NumPy source",
            fix="write the source of the loop without checkpoint=",
        )
    return write.call(derived_program(plain_forward, loop))


def _forward_runs(_inputs: object, *params: Param) -> Runs:
    loop = CheckpointedLoop._make(params)
    return (((loop.length or 1, sweep_programs(loop).step),),)


checkpointed_forward_p = Primitive(
    "checkpointed_forward",
    eval=_forward_eval,
    aval=_forward_aval,
    jvp=ReplacingJvp(jvp=_forward_jvp, linearize=_forward_linearize),
    transpose=_forward_transpose,
    batch=_forward_batch,
    params=CheckpointedLoop._fields,
    many=True,
    kept=holds_kept,
    holds=SubPrograms(_forward_runs, depends=_forward_depends, lowers=_forward_lowers),
    written=_forward_written,
    mapped=_forward_mapped,
)
"""``checkpointed_forward c0 h0 xs {…}``: the results of ``checkpointed_loop``, then kept carries."""


# -- the linear part -------------------------------------------------------------------------------


def _tangents_of(*params: Param) -> Program:
    return derived_program(plain_tangents, CheckpointedLoop._make(params))


def _tangents_aval(*rest: RuleArgument) -> Any:
    loop, specs = loop_of(rest)
    program = derived_program(plain_tangents, loop)
    check_operands("checkpointed_tangents", program, specs)
    return output_avals(program)


def _called(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Return a rule of the plain program of the linear part."""

    def applied(first: RuleArgument, second: RuleArgument, *params: Param) -> Any:
        return rule(first, second, _tangents_of(*params), ())

    return applied


def _tangents_eval(*rest: RuleArgument) -> Any:
    loop, operands = loop_of(rest)
    return call_p.eval(*operands, derived_program(plain_tangents, loop), ())


def _tangents_transpose(cts: Tangents, *rest: RuleArgument) -> Any:
    loop, operands = loop_of(rest)
    count = len(loop.active) + len(extra_avals(loop))
    if any(map(is_linear, operands[:count])):
        rule: Any = call_p.transpose
        return rule.rule(cts, None, *operands, derived_program(plain_tangents, loop), ())
    outs = sweep_programs(loop).active_outputs
    avals = output_avals(plain_loop(loop))
    given = [
        (k, zeros_of(avals[k]) if ct is None else ct)
        for k, ct in zip(outs, cts, strict=True)
        if ct is not None or k < loop.carries
    ]
    results = bind(
        checkpointed_reverse_p,
        (*operands[:count], *[ct for _, ct in given]),
        (*loop, tuple([k for k, _ in given]), False),
    )
    return at_places(results, range(count, len(operands)), len(operands))


def _tangents_mapped(is_batched: Sequence[bool], *params: Param) -> Sequence[bool]:
    return mapped_outputs(_tangents_of(*params), is_batched)


def _tangents_depends(flags: Sequence[bool], *params: Param) -> Sequence[bool]:
    return reached_outputs(_tangents_of(*params), flags)


def _tangents_runs(_inputs: object, *params: Param) -> Runs:
    return (((1, _tangents_of(*params)),),)


def _tangents_written(write: SourceWriter, _specs: Sequence[Spec], *params: Param) -> Spelling:
    return write.call(_tangents_of(*params))


_call_jvp: Any = call_p.jvp
_call_batch: Any = call_p.batch

checkpointed_tangents_p = Primitive(
    "checkpointed_tangents",
    eval=_tangents_eval,
    aval=_tangents_aval,
    jvp=ReplacingJvp(jvp=_called(_call_jvp.jvp), linearize=_called(_call_jvp.linearize)),
    transpose=_tangents_transpose,
    batch=_called(_call_batch),
    params=CheckpointedLoop._fields,
    many=True,
    kept=holds_kept,
    holds=SubPrograms(_tangents_runs, called_program=_tangents_of, depends=_tangents_depends),
    written=_tangents_written,
    mapped=_tangents_mapped,
)
"""``checkpointed_tangents c0 h0 xs kept c0_dot h0_dot {…}``: the tangents of active results."""
