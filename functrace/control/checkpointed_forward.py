"""``checkpointed_forward``: the forward sweep of a checkpointed loop, as one operation.

Its body is the step as when it is differentiated. It returns the results of the loop, then the
carries that its schedule keeps, as stacks; of a loop of unknown length the number of steps, and the
steps before which the carries were kept, in between.

Layer: 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from functrace.control.call import call_p
from functrace.control.checkpointed_forms import (
    batched_loop,
    check_loop,
    derived_program,
    examples_first,
    loop_of,
    mapped_results,
    plain_forward,
    plain_loop,
    pushed_loop,
    reached_results,
    result_places,
)
from functrace.control.checkpointed_steps import (
    CheckpointedLoop,
    extra_avals,
    forward_lowering,
)
from functrace.control.joining import evaluate_lowered
from functrace.control.residuals import PACKING
from functrace.control.schedules import saved_on_disk
from functrace.errors import ProgramError
from functrace.ir.parts import holds_kept, output_avals, without_kept
from functrace.ir.primitive import (
    Flags,
    Primitive,
    ReplacingJvp,
    RuleArgument,
    SubPrograms,
    Tangents,
    Values,
)
from functrace.ir.structures import Lowering
from functrace.ir.tape import Spec
from functrace.ops.elementwise import mul
from functrace.ops.shaping import broadcast_to, moveaxis
from functrace.tracing.binding import bind

if TYPE_CHECKING:
    from functrace.ir.numpy_source import SourceWriter, Spelling
    from functrace.ir.primitive import Runs
    from functrace.ir.program import Param


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
    # Kept carries have tangents wherever the jvp rule gives them one: loops and calls decide by one
    # rule which results of their bodies have tangents, and apply the other.
    loop = CheckpointedLoop._make(params)
    results = bind(checkpointed_forward_p, primals, params)
    rule: Any = call_p.jvp
    is_known = loop.length is not None
    plain = derived_program(plain_forward, loop) if is_known else plain_loop(loop)
    plain = without_kept(plain).interned()  # its values are dropped
    _, moved = rule.linearize(primals, tangents, plain, ())
    if is_known:
        return list(results), moved
    # Nothing reads these: the linear part of the reverse pass runs the loop again.
    rows = extra_avals(loop)[2:]
    kept = [
        None if dot is None else broadcast_to(mul(0.0, dot), aval.shape)
        for dot, aval in zip(moved, rows, strict=True)
    ]
    return list(results), [*moved, None, None, *kept]


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
    outs = mapped_results(is_batched, *params)
    return [*outs, *([False] * 2 if loop.length is None else []), *outs[: loop.carries]]


def _forward_depends(flags: Sequence[bool], *params: Param) -> list[bool]:
    loop = CheckpointedLoop._make(params)
    outs = reached_results(flags, *params)
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
    return (((loop.length or 1, loop.body),),)


def _packing(*params: Param) -> bool:
    loop = CheckpointedLoop._make(params)
    return loop.length is not None and bool(saved_on_disk(loop.schedule, loop.length))


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

PACKING[checkpointed_forward_p] = _packing
