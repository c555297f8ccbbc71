"""Checkpointed loops: ``scan`` and ``while_loop`` whose reverse pass keeps few carries, and runs
steps again.

Four operations, of which the first is what users apply:

* ``checkpointed_loop``: the loop. Without a derivative it runs as a plain one.
* ``checkpointed_forward``: the forward sweep: the results of the loop, then the carries that its
  schedule keeps, as stacks. Of a loop of unknown length also the number of steps, and the steps
  before which the carries were kept.
* ``checkpointed_tangents``: the linear part: the tangents, from the operands of the loop, the kept
  carries, loop-invariant residuals, and the tangents of the operands. It runs the loop once more.
* ``checkpointed_reverse`` (control/checkpointed_reverse.py): the transpose of that: the reverse
  pass, by the schedule (control/schedules.py). The programs of the steps are in
  control/checkpointed_steps.py.

Layer: 5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from functrace.control.call import at_places, call_p, check_operands, zeros_of
from functrace.control.carries import split_body
from functrace.control.checkpoint_expansion import plain_pairs
from functrace.control.checkpointed_forms import (
    applied_plainly,
    batched_loop,
    check_loop,
    computed_invariants,
    derived_program,
    examples_first,
    interned_loop,
    loop_avals,
    loop_of,
    mapped_results,
    plain_loop,
    plain_tangents,
    pushed_loop,
    reached_results,
    result_places,
)
from functrace.control.checkpointed_forward import checkpointed_forward_p
from functrace.control.checkpointed_reverse import checkpointed_reverse_p
from functrace.control.checkpointed_steps import (
    CheckpointedLoop,
    StepPrograms,
    extra_avals,
    step_programs,
)
from functrace.control.checkpointed_sweep import ReverseSweep
from functrace.control.while_trips import with_inputs
from functrace.ir.parts import Compiled, holds_kept, output_avals
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
from functrace.ir.structures import HostCall, Lowering
from functrace.ir.tape import Spec
from functrace.tracing.binding import bind
from functrace.transforms.preparing import BEFORE_REVERSE
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
    forward = loop._replace(body=step_programs(loop).step.interned(), active=())
    results = bind(checkpointed_forward_p, primals, tuple(forward))
    count = len(loop.body.output_ids)
    dots = [
        zeros_of(a) if t is None else t
        for t, a, flag in zip(tangents, loop_avals(loop), flags, strict=True)
        if flag
    ]
    fixed = computed_invariants(loop, primals)
    moved = iter(
        bind(checkpointed_tangents_p, (*primals, *results[count:], *fixed, *dots), tuple(loop))
    )
    return list(results[:count]), [next(moved) if flag else None for flag in split.active]


def _loop_transpose(cts: Tangents, *rest: RuleArgument) -> Any:
    loop, operands = loop_of(rest)
    found: Any = call_p.transpose
    return found.rule(cts, None, *operands, plain_loop(loop), ())


def _loop_batch(operands: Values, is_batched: Flags, *params: Param) -> Any:
    loop, values, _, outs = batched_loop(CheckpointedLoop._make(params), operands, is_batched)
    return tuple(examples_first(loop, checkpointed_loop(loop, values), outs))


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
    holds=SubPrograms(_loop_runs, called_program=_plain_of, depends=reached_results),
    written=_loop_written,
    mapped=mapped_results,
)
"""``checkpointed_loop c0 h0 xs {body={…}, cond=None, length=5, reverse=False, constants=1,
carries=1, most=None, schedule=("binomial", 3), active=()}``: final carry, stacked results.
"""


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
    extra = len(loop.active) + len(extra_avals(loop))
    count = extra + len(output_avals(step_programs(loop).invariants))
    if any(map(is_linear, operands[:count])):
        rule: Any = call_p.transpose
        return rule.rule(cts, None, *operands, derived_program(plain_tangents, loop), ())
    avals = output_avals(plain_loop(loop))
    given = [
        (k, zeros_of(avals[k]) if ct is None else ct)
        for k, ct in zip(step_programs(loop).active_outputs, cts, strict=True)
        if ct is not None or k < loop.carries
    ]
    programs = step_programs(loop, tuple([k for k, _ in given]))
    fixed = (*operands[: loop.constants], *operands[extra:count])
    carried = sum(k < loop.carries for k, _ in given)
    sweep = ReverseSweep(
        programs.record.interned(), programs.adjoint.interned(), _condition(loop, programs),
        loop.length, loop.reverse, len(fixed), loop.carries, len(programs.sums) + carried,
        len(loop.body.output_ids) - loop.carries, tuple(range(loop.constants)), loop.schedule, (), False,
    )  # fmt: skip
    results = bind(
        checkpointed_reverse_p,
        (
            *fixed, *operands[loop.constants : extra], *map(zeros_of, programs.sums),
            *[ct for _, ct in given],
        ),
        tuple(sweep),
    )  # fmt: skip
    return at_places(results, range(count, len(operands)), len(operands))


def _condition(loop: CheckpointedLoop, programs: StepPrograms) -> Program | None:
    """Return the condition of a loop with the invariants among its constants."""
    if loop.cond is None:
        return None
    invariants = output_avals(programs.invariants)
    inputs = [*range(loop.constants), *invariants, *range(loop.constants, len(loop.cond.input_ids))]
    return with_inputs(loop.cond, inputs, loop.cond.output_ids).interned()


def _tangents_mapped(is_batched: Sequence[bool], *params: Param) -> Sequence[bool]:
    return mapped_outputs(_tangents_of(*params), is_batched)


def _tangents_depends(flags: Sequence[bool], *params: Param) -> Sequence[bool]:
    return reached_outputs(_tangents_of(*params), flags)


def _tangents_runs(_inputs: object, *params: Param) -> Runs:
    return (((1, _tangents_of(*params)),),)


def _joined(runs: Sequence[Compiled]) -> Compiled:
    return runs[0]


def _tangents_lowers(_specs: Sequence[Spec], *params: Param) -> Lowering:
    return Lowering((_tangents_of(*params),), HostCall(_joined), fresh=True)


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
    # (not inlined: that would hide that its transpose reads the kept carries)
    holds=SubPrograms(_tangents_runs, depends=_tangents_depends, lowers=_tangents_lowers),
    written=_tangents_written,
    mapped=_tangents_mapped,
)
"""``checkpointed_tangents c0 h0 xs kept invariants c0_dot h0_dot {…}``: the tangents of active results."""

BEFORE_REVERSE[checkpointed_reverse_p] = plain_pairs
