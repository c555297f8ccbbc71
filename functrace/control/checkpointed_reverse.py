"""``checkpointed_reverse``: the reverse pass of a checkpointed loop, as one operation.

Note [Derivatives of a reverse pass]
    The tangent of a pullback is a pullback of the tangents: with ``P'(x, x_dot) = (P(x), J x_dot)``,
    the pullback of ``P'`` at the cotangents ``(y_bar_dot, y_bar)`` is ``(x_bar_dot, x_bar)``. So the
    jvp of a reverse pass is the reverse pass of the loop of values and tangents, with the same
    schedule. A reverse pass of a reverse pass has no schedule: it keeps all carries
    (`plain_reverse`).

Layer: 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from functrace.control.call import call_p, check_operands, zeros_of
from functrace.control.checkpointed_forms import (
    batched_loop,
    derived_program,
    interned_loop,
    joint_active,
    loop_avals,
    loop_of,
    operand_places,
    plain_loop,
    plain_reverse,
    pushed_loop,
    result_places,
)
from functrace.control.checkpointed_steps import (
    CheckpointedLoop,
    extra_avals,
    reverse_lowering,
    sweep_programs,
)
from functrace.control.joining import evaluate_lowered
from functrace.control.schedules import actions_of, steps_run
from functrace.ir.aval import aval_of
from functrace.ir.parts import holds_kept, output_avals
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
from functrace.ir.structures import Lowering
from functrace.ir.tape import Spec
from functrace.ops.shaping import broadcast_to, moveaxis
from functrace.tracing.binding import bind
from functrace.transforms.vmap import batch_size, reached_outputs

if TYPE_CHECKING:
    from functrace.ir.numpy_source import SourceWriter, Spelling
    from functrace.ir.primitive import Runs
    from functrace.ir.program import Param

# -- the reverse pass ------------------------------------------------------------------------------


def _reverse_of(rest: Sequence[Any]) -> tuple[CheckpointedLoop, tuple[int, ...], tuple[Any, ...]]:
    loop, operands = loop_of(rest[:-2])
    return loop, rest[-2], operands


def reverse_params(params: Sequence[Any]) -> tuple[CheckpointedLoop, tuple[int, ...], bool]:
    """Return the loop of a reverse pass, the indices of its outputs that have a cotangent, and if
    it owns the kept carries.
    """
    return CheckpointedLoop._make(params[:-2]), params[-2], params[-1]


def kept_places(params: Sequence[Any]) -> range:
    """Return the places of the kept carries among the operands of a reverse pass."""
    loop, _, _ = reverse_params(params)
    start, plain = len(loop.active), 2 if loop.length is None else 0
    return range(start + plain, start + len(extra_avals(loop)))


def _reverse_aval(*rest: RuleArgument) -> Any:
    loop, given, specs = _reverse_of(rest)
    program = derived_program(plain_reverse, loop, given)
    check_operands("checkpointed_reverse", program, specs)
    return output_avals(program)


def _reverse_lowers(_specs: Sequence[Spec], *params: Param) -> Lowering:
    return reverse_lowering(*reverse_params(params))


def _reverse_eval(*rest: RuleArgument) -> Any:
    loop, given, operands = _reverse_of(rest)
    return evaluate_lowered(reverse_lowering(loop, given, rest[-1]), operands)


def _reverse_jvp(primals: Values, tangents: Tangents, *params: Param) -> Any:
    loop, given, _ = reverse_params(params)
    count, extra = len(loop.active), len(extra_avals(loop))
    avals = loop_avals(loop)
    # An active operand needs a tangent, for the cotangent of that: see Note [Derivatives of a
    # reverse pass].
    moving = tuple([
        zeros_of(a) if t is None and flag else t
        for t, a, flag in zip(tangents[:count], avals, loop.active, strict=True)
    ])  # fmt: skip
    made, operands, flags = pushed_loop(loop, primals[:count], moving)
    places, outs = operand_places(loop, flags), result_places(loop, flags)
    made = made._replace(active=joint_active(loop, made, places))
    plain = 2 if loop.length is None else 0
    kept: list[Any] = [None] * made.carries
    for k, (value, dot) in enumerate(
        zip(outs.values[: loop.carries], outs.dots[: loop.carries], strict=True)
    ):
        stack, moved = primals[count + plain + k], tangents[count + plain + k]
        kept[value] = stack
        if dot is not None:
            kept[dot] = zeros_of(aval_of(stack)) if moved is None else moved
    cts: dict[int, Any] = {}
    for n, k in enumerate(given, count + extra):
        dot = outs.dots[k]
        assert dot is not None, "an active result has a tangent"
        cts[dot] = primals[n]
        cts[outs.values[k]] = zeros_of(aval_of(primals[n])) if tangents[n] is None else tangents[n]
    chosen = tuple(sorted(cts))
    results = bind(
        checkpointed_reverse_p,
        (*operands, *primals[count : count + plain], *kept, *[cts[k] for k in chosen]),
        (*interned_loop(made), chosen, False),
    )
    numbers = {k: n for n, k in enumerate(k for k, flag in enumerate(made.active) if flag)}
    active = [k for k, flag in enumerate(loop.active) if flag]
    return (
        [results[numbers[places.dots[k]]] for k in active],  # type: ignore[index]
        [results[numbers[places.values[k]]] for k in active],
    )


def _reverse_linearize(primals: Values, tangents: Tangents, *params: Param) -> Any:
    loop, given, _ = reverse_params(params)
    results = bind(checkpointed_reverse_p, primals, (*params[:-1], False))
    rule: Any = call_p.jvp
    _, moved = rule.linearize(primals, tangents, derived_program(plain_reverse, loop, given), ())
    return list(results), moved


def _reverse_transpose(cts: Tangents, *rest: tuple[*tuple[Operand, ...], Any]) -> Any:
    loop, given, operands = _reverse_of(rest)
    rule: Any = call_p.transpose
    return rule.rule(cts, None, *operands, derived_program(plain_reverse, loop, given), ())


def _reverse_batch(operands: Values, is_batched: Flags, *params: Param) -> Any:
    """Batch the loop. All active operands get the axis of examples: each example has its own
    cotangent of a constant.
    """
    loop, given, _ = reverse_params(params)
    count, extra = len(loop.active), len(extra_avals(loop))
    size, avals = batch_size(operands, is_batched), loop_avals(loop)
    wide = [was or flag for was, flag in zip(is_batched, loop.active, strict=False)]
    first = [
        broadcast_to(x, (size, *a.shape)) if flag and not was else x
        for x, a, flag, was in zip(operands, avals, wide, is_batched, strict=False)
    ]
    made, values, flags, outs = batched_loop(loop, first, wide)
    plain = 2 if loop.length is None else 0
    kept: list[Any] = []
    for x, was, flag, aval in zip(
        operands[count + plain : count + extra], is_batched[count + plain : count + extra],
        outs, extra_avals(loop)[plain:], strict=False,
    ):  # fmt: skip
        wider = broadcast_to(x, (size, *aval.shape)) if flag and not was else x
        kept.append(moveaxis(wider, 0, 1) if flag else wider)
    found = output_avals(plain_loop(loop))
    cts: list[Any] = []
    for k, x, was in zip(
        given, operands[count + extra :], is_batched[count + extra :], strict=True
    ):
        wider = x if was else broadcast_to(x, (size, *found[k].shape))
        cts.append(wider if k < loop.carries else moveaxis(wider, 0, 1))
    results = bind(
        checkpointed_reverse_p,
        (*values, *operands[count : count + plain], *kept, *cts),
        (*made._replace(active=loop.active), given, False),
    )
    active = [k for k, flag in enumerate(loop.active) if flag]
    middle = loop.constants + loop.carries
    assert all(flags[k] for k in active), "active operands are batched"
    return tuple(
        [moveaxis(x, 1, 0) if k >= middle else x for k, x in zip(active, results, strict=True)]
    )


def _reverse_runs(_inputs: object, *params: Param) -> Runs:
    loop, given, _ = reverse_params(params)
    programs = sweep_programs(loop, given)
    if loop.length is None:
        return (((1, programs.advance), (1, programs.turn)),)
    actions = actions_of(loop.schedule, loop.length)
    again = steps_run(actions) - loop.length
    return (((again, programs.advance), (loop.length, programs.turn)),)


def _reverse_depends(flags: Sequence[bool], *params: Param) -> Sequence[bool]:
    loop, given, _ = reverse_params(params)
    return reached_outputs(derived_program(plain_reverse, loop, given), flags)


def _reverse_written(write: SourceWriter, _specs: Sequence[Spec], *params: Param) -> Spelling:
    loop, given, _ = reverse_params(params)
    return write.call(derived_program(plain_reverse, loop, given))


checkpointed_reverse_p = Primitive(
    "checkpointed_reverse",
    eval=_reverse_eval,
    aval=_reverse_aval,
    jvp=ReplacingJvp(jvp=_reverse_jvp, linearize=_reverse_linearize),
    transpose=_reverse_transpose,
    batch=_reverse_batch,
    params=(*CheckpointedLoop._fields, "given", "owned"),
    many=True,
    kept=holds_kept,
    holds=SubPrograms(_reverse_runs, depends=_reverse_depends, lowers=_reverse_lowers),
    written=_reverse_written,
)
"""``checkpointed_reverse c0 h0 xs kept ct_h {…, given=(0,), owned=False}``: the cotangents of active
operands. ``owned``: see control/checkpoint_ownership.py.
"""
