"""Functions with custom derivatives: ``custom_jvp``, ``custom_vjp``, and the linear operation of
the latter.

The user's rule is a program, recorded at the call together with the function: ``custom_jvp`` has
one from primals and tangents to outputs and tangents; ``custom_vjp`` has one from operands to
outputs and residuals, and one from residuals and cotangents to cotangents. Without differentiation,
only the function itself runs.

The tangent of a ``custom_vjp`` is a ``pushforward``, which is linear, and whose transpose is the
user's backward program. In forward mode it runs the transpose of that program: so forward mode
works too, if the backward program is linear in the cotangents. `linear_part` separates its other
computations.

Note [Rules that take the results]
    As in JAX, a rule recomputes the results of the function, and second derivatives differentiate
    that computation: a rule that calls its function has the rule again. In PyTorch, the computation
    in forward is never differentiated: its results have the rule of the Function at every order,
    and so do saved results. Such a rule takes the results of the function, after the operands, and
    returns only residuals (or tangents); the results come from the operation itself.

Layer: 5.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np

from functrace.control.call import (
    SAVE,
    at_places,
    call_p,
    call_program,
    check_operands,
    evaluate_fresh,
    itself,
    reached_by,
    run_once,
    written,
)
from functrace.errors import ArgumentError, NotDifferentiableError, ProgramError, ShapeError
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.ir.parts import Assembly, Rewrite, holds_kept, output_avals, restrict
from functrace.ir.primitive import (
    Flags,
    NoRule,
    Operand,
    Primitive,
    ReplacingJvp,
    RuleArgument,
    SubPrograms,
    Tangents,
    Values,
    is_linear,
)
from functrace.ir.program import Program
from functrace.ir.tape import Spec
from functrace.ops.elementwise import add
from functrace.ops.foreign import unknown_transpose
from functrace.ops.reductions import reduce_sum_p
from functrace.tracing.binding import bind
from functrace.tracing.evaluate import evaluate_program
from functrace.transforms.building import is_differentiable, remembered
from functrace.transforms.linear_part import is_mixed, linear_part, transposed_part
from functrace.transforms.vmap import batch_size, reached_outputs, vmap_program

if TYPE_CHECKING:
    from functrace.ir.numpy_source import SourceWriter, Spelling
    from functrace.ir.primitive import JointRule


@final
@dataclass(frozen=True, slots=True, eq=False)
class FailedRule:
    """Placeholder for a rule that failed during recording: the user's exception is raised when the
    derivative is computed.
    """

    error: Exception

    def __reduce__(self) -> Any:
        raise _in_this_process_only("could not be recorded")


def _in_this_process_only(what: str) -> ProgramError:
    return ProgramError(
        f"a program contains a custom rule that {what}, so it cannot be pickled",
        fix="pickle the function, by its module-level name, and trace it again where it is needed",
    )


@final
@dataclass(frozen=True, slots=True)
class DeferredRule:
    """Placeholder for the rule of a function that its own rule calls: recorded if that call is
    differentiated in turn.

    Args:
        key: two such rules with equal keys are equal.
        record: records the programs, with captured values as constants.
    """

    key: Hashable
    record: Callable[[], tuple[Rule, ...]] = field(compare=False)

    def __reduce__(self) -> Any:
        raise _in_this_process_only("calls its own function, and so is recorded on demand")


@final
@dataclass(frozen=True, slots=True)
class SymbolicZerosRule:
    """A rule that depends on which tangents are zero; it is recorded when the function is
    differentiated.

    Args:
        record: from flags (which explicit operands have a tangent) to the programs, with the usual
            inputs and outputs.
        key: two such rules with equal keys are equal; by default keys are unique.
    """

    record: Callable[[tuple[bool, ...]], tuple[Rule, ...]] = field(compare=False)
    key: Hashable = field(default_factory=object)

    def __reduce__(self) -> Any:
        raise _in_this_process_only("depends on which tangents are zero")


Rule = Program | FailedRule | DeferredRule | SymbolicZerosRule
_of_call: Any = call_p.jvp
_HOLDS = SubPrograms(run_once, called_program=itself, depends=reached_by)
"""The function is what runs; the rules determine which results depend on tangents."""


def _check_rules(name: str, program: Program, explicit: int, *rules: object) -> None:
    """Check the types of rules, and the number of explicit operands."""
    if not all(
        isinstance(rule, Program | FailedRule | DeferredRule | SymbolicZerosRule) for rule in rules
    ):
        raise ArgumentError(
            f"{name}: a rule is not a program",
            fix="use functrace.custom_jvp or functrace.custom_vjp",
        )
    if explicit > len(program.input_ids):
        raise ArgumentError(
            f"{name}: {explicit} explicit operands of a program with {len(program.input_ids)} "
            "inputs",
            fix="count operands",
        )


def _ready(tangents: Sequence[Any], *rules: Rule) -> tuple[Program, ...]:
    """Return the programs of rules; deferred ones are recorded now.

    Args:
        tangents: of the explicit operands, ``None`` for none.
        rules: the rules.
    """
    first = rules[0]
    if isinstance(first, DeferredRule):
        rules = first.record()
    elif isinstance(first, SymbolicZerosRule):
        rules = first.record(tuple([t is not None for t in tangents]))
    for rule in rules:
        if isinstance(rule, FailedRule):
            raise rule.error
    return rules  # type: ignore[return-value]


def _mapped(
    rules: tuple[Rule, ...], change: Callable[..., tuple[Program, ...]], key: Hashable
) -> tuple[Rule, ...]:
    """Return rules batched by vmap; deferred ones are batched when they are recorded, failed ones
    never.
    """
    first = rules[0]
    if isinstance(first, DeferredRule):
        return (DeferredRule((first.key, key), lambda: change(*_ready((), first))),) * len(rules)
    if isinstance(first, SymbolicZerosRule):
        record = first.record
        return (
            SymbolicZerosRule(
                lambda active: _mapped(record(active), change, key), (first.key, key)
            ),
        ) * len(rules)
    return rules if any(isinstance(rule, FailedRule) for rule in rules) else change(*rules)


def custom_jvp_program(
    program: Program, rule: Rule, operands: Sequence[Any], explicit: int
) -> list[Any]:
    """Apply a function with a custom jvp.

    Args:
        program: the function; closed.
        rule: from its operands, then one tangent per differentiable explicit operand, to its
            outputs, then one tangent per differentiable output.
        operands: the explicit ones, then values that function and rule captured.
        explicit: number of explicit operands.
    """
    rule = rule.interned() if isinstance(rule, Program) else rule
    return list(bind(custom_jvp_p, tuple(operands), (program.interned(), rule, explicit)))


def custom_vjp_program(
    program: Program, forward: Rule, backward: Rule, operands: Sequence[Any], explicit: int
) -> list[Any]:
    """Apply a function with a custom vjp.

    Args:
        program: the function; closed.
        forward: from its operands to its outputs, then residuals.
        backward: from the residuals, then one cotangent per differentiable output, to one cotangent
            per differentiable explicit operand.
        operands: the explicit ones, then values that function and rules captured.
        explicit: number of explicit operands.
    """
    parts = [p.interned() if isinstance(p, Program) else p for p in (program, forward, backward)]
    return list(bind(custom_vjp_p, tuple(operands), (*parts, explicit)))


def _refuse_captured(tangents: Sequence[Any], explicit: int, name: str) -> None:
    if any(t is not None for t in tangents[explicit:]):
        raise NotDifferentiableError(
            f"{name}: the function closes over a differentiated value; its rule has arguments only",
            fix="pass the value as an argument (or through functrace.stop_gradient)",
        )


def _eval(*rest: RuleArgument, others: int) -> Any:
    """Run the function itself; ``others`` is the number of params after it."""
    count = len(rest) - others - 1
    return evaluate_fresh(rest[count], rest[:count])


def _and_results(rule: Program, others: int, program: Program) -> bool:
    """Return True if a rule takes the results of the function after its operands, besides
    ``others`` inputs.
    """
    return len(rule.input_ids) > len(program.input_ids) + others


def _zeros(aval: ShapeDtype) -> Any:
    return np.zeros(aval.shape, aval.dtype)[()]


def _filled(tangents: Sequence[Any], avals: Sequence[ShapeDtype]) -> list[Any]:
    """Return one tangent per differentiable aval, zeros for missing ones."""
    return [
        _zeros(aval) if t is None else t
        for t, aval in zip(tangents, avals, strict=True)
        if is_differentiable(aval)
    ]


def _dots(is_batched: Sequence[bool], program: Program, explicit: int) -> list[bool]:
    """Return the flags of the differentiable explicit operands."""
    avals = [program.avals[i] for i in program.input_ids[:explicit]]
    return [flag for flag, aval in zip(is_batched, avals, strict=False) if is_differentiable(aval)]


def _spread(found: Sequence[Any], avals: Sequence[ShapeDtype]) -> list[Any]:
    """Return the tangents of differentiable outputs at their indices, ``None`` at the others."""
    rest = iter(found)
    return [next(rest) if is_differentiable(aval) else None for aval in avals]


# -- custom_jvp ------------------------------------------------------------------------------------


def _custom_jvp_aval(*rest: *tuple[*tuple[ShapeDtype, ...], Program, Rule, int]) -> Any:
    *operands, program, rule, explicit = rest
    check_operands("custom_jvp", program, operands)
    _check_rules("custom_jvp", program, explicit, rule)
    outs = output_avals(program)
    if isinstance(rule, Program):
        moved = list(filter(is_differentiable, operands[:explicit]))
        given = outs if _and_results(rule, len(moved), program) else ()
        check_operands("the rule of custom_jvp", rule, [*operands, *given, *moved])
        _check_results(
            "the rule of custom_jvp",
            rule,
            [*(() if given else outs), *filter(is_differentiable, outs)],
        )
    return outs


def _check_results(name: str, program: Program, wanted: Sequence[ShapeDtype]) -> None:
    """Check the first outputs of a rule."""
    found = output_avals(program)
    if list(found[: len(wanted)]) != list(wanted):
        raise ShapeError(
            f"{name}: {program.name} returns {_listed(found)}, not {_listed(wanted)}",
            fix="return these avals, in order",
        )


def _listed(avals: Sequence[ShapeDtype]) -> str:
    return f"({', '.join(map(repr, avals))})"


def _custom_jvp_rule(
    primals: Values, tangents: Tangents, program: Program, rule: Rule, explicit: int
) -> Any:
    _refuse_captured(tangents, explicit, "custom_jvp")
    avals = [program.avals[i] for i in program.input_ids]
    moved = _filled(tangents[:explicit], avals[:explicit])
    # Bound equation by equation: the recording_serial separates the primal part from the linear part.
    results = evaluate_program(_ready(tangents[:explicit], rule)[0], [*primals, *moved])
    count = len(program.output_ids)
    return results[:count], _spread(results[count:], output_avals(program))


_linearized_now: ContextVar[tuple[Program, ...]] = ContextVar(
    "jvp rules being linearized in their tangents", default=()
)


def _custom_jvp_linearized(
    primals: Values, tangents: Tangents, program: Program, rule: Rule, explicit: int
) -> Any:
    (made,) = _ready(tangents[:explicit], rule)
    # its own function applied to a tangent: linear by its operations
    if made in _linearized_now.get():
        return _of_call.linearize(primals, tangents, program, SAVE)
    _refuse_captured(tangents, explicit, "custom_jvp")
    places = [
        k for k, i in enumerate(program.input_ids[:explicit]) if is_differentiable(program.avals[i])
    ]
    moving = [tangents[k] is not None for k in places]
    flags = [*[False] * len(primals), *moving]
    if not is_mixed(made, flags):
        return _custom_jvp_rule(primals, tangents, program, made, explicit)
    token = _linearized_now.set((*_linearized_now.get(), made))
    try:
        part = linear_part(made, flags, len(program.output_ids), effects=True)
    finally:
        _linearized_now.reset(token)
    if part is None:
        raise NotDifferentiableError(
            f"the rule of custom_jvp {program.name} is not linear in its tangents: its derivative "
            "by them depends on them",
            fix="make it linear in the tangents, or use it in forward mode only",
        )
    still = [
        _zeros(program.avals[program.input_ids[k]])
        for k, flag in zip(places, moving, strict=True)
        if not flag
    ]
    results = evaluate_program(part.known, [*primals, *still])
    count = len(program.output_ids)
    moved = [tangents[k] for k, flag in zip(places, moving, strict=True) if flag]
    found = iter(evaluate_program(part.linear, [*results[count:], *moved]))
    pushed = [next(found) if flag else None for flag in part.active]
    return results[:count], _spread(pushed, output_avals(program))


def _custom_jvp_batch(
    operands: Values, is_batched: Flags, program: Program, rule: Rule, explicit: int
) -> Any:
    size = batch_size(operands, is_batched)
    mapped = vmap_program(program, size, is_batched)
    (rule,) = _mapped_rule(rule, size, is_batched, _dots(is_batched, program, explicit))
    return tuple(custom_jvp_program(mapped, rule, operands, explicit))


def _mapped_rule(
    rule: Rule, size: int, is_batched: Flags, dots: Sequence[bool]
) -> tuple[Rule, ...]:
    def change(rule: Program) -> tuple[Program, ...]:
        results = [True] * (len(rule.input_ids) - len(is_batched) - len(dots))
        return (vmap_program(rule, size, [*is_batched, *results, *dots]),)

    return _mapped((rule,), change, (size, tuple(is_batched)))


def _custom_jvp_eval(*rest: RuleArgument) -> Any:
    return _eval(*rest, others=2)


def _custom_jvp_transpose(cts: RuleArgument, *rest: RuleArgument) -> Any:
    return _transposed(custom_jvp_p, cts, rest[:-3], rest[-3:])


custom_jvp_p = Primitive(
    "custom_jvp",
    eval=_custom_jvp_eval,
    aval=_custom_jvp_aval,
    jvp=ReplacingJvp(jvp=_custom_jvp_rule, linearize=_custom_jvp_linearized),
    transpose=_custom_jvp_transpose,
    batch=_custom_jvp_batch,
    params=("program", "rule", "explicit"),
    many=True,
    written=written,
    kept=holds_kept,
    holds=_HOLDS,
    by_rule=True,
)
"""``custom_jvp x {program={…}, rule={…}, explicit=1}``: the outputs of a function with a custom
jvp.
"""


def _transposed(
    primitive: Primitive, cts: Tangents, operands: Sequence[Operand], params: tuple[Any, ...]
) -> Any:
    """Transpose an operation that is linear in some operands, by its rules: its derivative in them
    is the operation.
    """
    if _lacks_transpose(params[0], [is_linear(x) for x in operands]):
        if primitive is custom_jvp_p:
            raise unknown_transpose()
        program, forward, backward, *_, explicit = params
        return _transposed_by_vjp(cts, operands, program, forward, backward, explicit)
    build = Assembly()
    inputs = [build.input(aval_of(x)) for x in operands]
    first = build.place(primitive, tuple(inputs), params)
    alone = build.program(range(first, first + len(cts)), params[0].name)
    linear = [is_linear(x) for x in operands]
    back = transposed_part(alone, linear)
    known = [x for x, flag in zip(operands, linear, strict=True) if not flag]
    given = [
        _zeros(a) if ct is None else ct for ct, a in zip(cts, output_avals(alone), strict=True)
    ]
    results = call_program(back.interned(), [*known, *given])
    return at_places(results, [k for k, flag in enumerate(linear) if flag], len(operands))


def _transposed_by_vjp(
    cts: Tangents,
    operands: Sequence[Operand],
    program: Program,
    forward: Rule,
    backward: Rule,
    explicit: int,
) -> Any:
    """Transpose linear foreign code: its vjp is its transpose."""
    linear = [is_linear(x) for x in operands]
    forward, backward = _ready(
        [x if flag else None for x, flag in zip(operands, linear, strict=True)], forward, backward
    )
    count = len(program.output_ids)
    takes_results = _and_results(forward, 0, program)
    kept = reached_outputs(forward, [*linear, *[True] * count * takes_results])[
        0 if takes_results else count :
    ]
    avals = output_avals(program)
    given = [
        _zeros(a) if ct is None else ct
        for ct, a in zip(cts, avals, strict=True)
        if is_differentiable(a)
    ]
    inputs = [program.avals[i] for i in program.input_ids]
    places = [k for k, aval in enumerate(inputs[:explicit]) if is_differentiable(aval)]
    depends = reached_outputs(backward, [*kept, *[False] * len(given)])
    if any(linear[k] and flag for k, flag in zip(places, depends, strict=True)):
        raise NotDifferentiableError(
            f"{program.name} is transposed as a linear function, but its backward rule depends on "
            "its arguments",
            fix="use it in reverse mode only, or give it a jvp rule too",
        )
    values = [
        _zeros(aval) if flag else x for x, flag, aval in zip(operands, linear, inputs, strict=True)
    ]
    given_too = call_program(program.interned(), values) if takes_results else ()
    residuals = call_program(forward.interned(), [*values, *given_too])[
        0 if takes_results else count :
    ]
    pulled = reached_outputs(
        backward, [False] * len(residuals) + [True] * len(given)
    )  # the others have zeros
    results = call_program(backward.interned(), [*residuals, *given])
    found = {k: ct for k, ct, flag in zip(places, results, pulled, strict=True) if flag}
    return [found.get(k) if flag else None for k, flag in enumerate(linear)]


def _lacks_transpose(program: Program, linear: Sequence[bool]) -> bool:
    """Return True if an operation without a transpose depends on linear inputs."""
    reached = {i for i, flag in zip(program.input_ids, linear, strict=True) if flag}
    for k, _ in program.schedule:
        primitive, operands, params = program.ops[k]
        if not reached.isdisjoint(operands):
            bodies = (
                [p for p in params if isinstance(p, Program)] if primitive.holds is not None else []
            )
            if isinstance(primitive.transpose, NoRule) or any(
                _lacks_transpose(p, [True] * len(p.input_ids)) for p in bodies
            ):
                return True
            reached.update(range(k, k + program.result_count(k)))
    return False


# -- custom_vjp ------------------------------------------------------------------------------------


def _custom_vjp_aval(*rest: *tuple[*tuple[ShapeDtype, ...], Program, Rule, Rule, int]) -> Any:
    *operands, program, forward, backward, explicit = rest
    check_operands("custom_vjp", program, operands)
    _check_rules("custom_vjp", program, explicit, forward, backward)
    outs = output_avals(program)
    if isinstance(forward, Program) and isinstance(backward, Program):
        given = outs if _and_results(forward, 0, program) else ()
        check_operands("the forward rule of custom_vjp", forward, [*operands, *given])
        if not given:
            _check_results("the forward rule of custom_vjp", forward, outs)
        residuals = output_avals(forward)[0 if given else len(outs) :]
        check_operands(
            "the backward rule of custom_vjp",
            backward,
            [*residuals, *filter(is_differentiable, outs)],
        )
        _check_results(
            "the backward rule of custom_vjp",
            backward,
            list(filter(is_differentiable, operands[:explicit])),
        )
    return outs


def _custom_vjp_rule(
    primals: Values,
    tangents: Tangents,
    program: Program,
    forward: Rule,
    backward: Rule,
    explicit: int,
) -> Any:
    _refuse_captured(tangents, explicit, "custom_vjp")
    params = program, forward, backward, explicit
    return _by_vjp(
        primals,
        tangents[:explicit],
        program,
        forward,
        backward,
        lambda: bind(custom_vjp_p, primals, params),
    )


def _by_vjp(
    primals: Values,
    tangents: Tangents,
    program: Program,
    forward: Rule,
    backward: Rule,
    again: Callable[[], Sequence[Any]],
) -> Any:
    """Return results and tangents by the rule; ``again`` applies the operation itself."""
    forward, backward = _ready(tangents, forward, backward)
    count = len(program.output_ids)
    if _and_results(forward, 0, program):
        outputs = again()
        residuals = call_program(forward.interned(), [*primals, *outputs])
    else:
        results = call_program(forward.interned(), primals)
        outputs, residuals = results[:count], results[count:]
    return outputs, _pulled_back(tangents, residuals, program, backward)


def _pulled_back(
    tangents: Tangents, residuals: Sequence[Any], program: Program, backward: Program
) -> list[Any]:
    """Return the tangents of a function by the transpose of its backward rule, restricted to inputs
    that have tangents.
    """
    inputs = program.input_ids[: len(tangents)]
    wanted = [
        t is not None
        for t, i in zip(tangents, inputs, strict=True)
        if is_differentiable(program.avals[i])
    ]
    part, places = remembered(_backward_part, backward, wanted, len(residuals))
    found = bind(
        pushforward_p,
        (*[residuals[k] for k in places], *[t for t in tangents if t is not None]),
        (part, len(places)),
    )
    return _spread(found, output_avals(program))


def _backward_part(
    backward: Program, wanted: Sequence[bool], residuals: int
) -> tuple[Program, tuple[int, ...]]:
    """Return the part of a backward program that computes the wanted cotangents, and the indices of
    its residuals.
    """
    if all(wanted):
        return backward.interned(), tuple(range(residuals))
    outputs = [i for i, flag in zip(backward.output_ids, wanted, strict=True) if flag]
    used = restrict(backward, backward.input_ids, outputs, effects=True).used
    kept, given = backward.input_ids[:residuals], backward.input_ids[residuals:]
    places = tuple([k for k, i in enumerate(kept) if i in used])
    inputs = [*[kept[k] for k in places], *given]
    return restrict(backward, inputs, outputs, keep=True).program.interned(), places


def _custom_vjp_batch(
    operands: Values,
    is_batched: Flags,
    program: Program,
    forward: Rule,
    backward: Rule,
    explicit: int,
) -> Any:
    size = batch_size(operands, is_batched)
    mapped = vmap_program(program, size, is_batched)
    rules = _mapped_rules(forward, backward, size, is_batched, _dots(is_batched, program, explicit))
    return tuple(custom_vjp_program(mapped, *rules, operands, explicit))


def _mapped_rules(
    forward: Rule, backward: Rule, size: int, is_batched: Flags, dots: Sequence[bool]
) -> tuple[Rule, Rule]:
    def change(forward: Program, backward: Program) -> tuple[Program, ...]:
        flags = [True] * len(backward.input_ids)
        ahead = [*is_batched, *[True] * (len(forward.input_ids) - len(is_batched))]
        return vmap_program(forward, size, ahead), _mapped_backward(backward, size, flags, dots)

    forward, backward = _mapped((forward, backward), change, (size, tuple(is_batched)))
    return forward, backward


def _mapped_backward(
    backward: Program, size: int, flags: Sequence[bool], dots: Sequence[bool]
) -> Program:
    """Batch a backward program; sum cotangents of operands without batch axis over it."""
    write = Rewrite(vmap_program(backward, size, flags))
    outputs = zip(write.keep_all(), dots, strict=True)
    return write.finish(
        [i if flag else write.place(reduce_sum_p, (i,), ((0,),)) for i, flag in outputs]
    )


def _custom_vjp_eval(*rest: RuleArgument) -> Any:
    return _eval(*rest, others=3)


def _custom_vjp_transpose(cts: RuleArgument, *rest: RuleArgument) -> Any:
    return _transposed(custom_vjp_p, cts, rest[:-4], rest[-4:])


custom_vjp_p = Primitive(
    "custom_vjp",
    eval=_custom_vjp_eval,
    aval=_custom_vjp_aval,
    jvp=ReplacingJvp(jvp=_custom_vjp_rule, linearize=_custom_vjp_rule),
    transpose=_custom_vjp_transpose,
    batch=_custom_vjp_batch,
    params=("program", "forward", "backward", "explicit"),
    many=True,
    written=written,
    kept=holds_kept,
    holds=_HOLDS,
    by_rule=True,
)
"""``custom_vjp x {program={…}, forward={…}, backward={…}, explicit=1}``: the outputs of a function
with a custom vjp.
"""


# -- custom_jvp and custom_vjp ---------------------------------------------------------------------


def custom_derivative_program(
    program: Program,
    forward: Rule,
    backward: Rule,
    rule: Rule,
    operands: Sequence[Any],
    explicit: int,
) -> list[Any]:
    """Apply a function with a custom jvp and a custom vjp; see `custom_jvp_program` and
    `custom_vjp_program`.
    """
    parts = [
        p.interned() if isinstance(p, Program) else p for p in (program, forward, backward, rule)
    ]
    return list(bind(custom_derivative_p, tuple(operands), (*parts, explicit)))


def _custom_derivative_aval(
    *rest: *tuple[*tuple[ShapeDtype, ...], Program, Rule, Rule, Rule, int],
) -> Any:
    *operands, program, forward, backward, rule, explicit = rest
    _custom_jvp_aval(*operands, program, rule, explicit)
    return _custom_vjp_aval(*operands, program, forward, backward, explicit)


def _custom_derivative_pushed(
    primals: Values,
    tangents: Tangents,
    program: Program,
    forward: Rule,
    backward: Rule,
    rule: Rule,
    explicit: int,
) -> Any:
    (made,) = _ready(tangents[:explicit], rule)
    moved = _filled(tangents[:explicit], [program.avals[i] for i in program.input_ids[:explicit]])
    if not _and_results(made, len(moved), program):
        return _custom_jvp_rule(primals, tangents, program, made, explicit)
    _refuse_captured(tangents, explicit, "custom_jvp")
    outputs = bind(custom_derivative_p, primals, (program, forward, backward, rule, explicit))
    return outputs, _spread(
        evaluate_program(made, [*primals, *outputs, *moved]), output_avals(program)
    )


def _custom_derivative_linearized(
    primals: Values,
    tangents: Tangents,
    program: Program,
    forward: Rule,
    backward: Rule,
    rule: Rule,
    explicit: int,
) -> Any:
    _refuse_captured(tangents, explicit, "custom_vjp")
    params = program, forward, backward, rule, explicit
    return _by_vjp(
        primals,
        tangents[:explicit],
        program,
        forward,
        backward,
        lambda: bind(custom_derivative_p, primals, params),
    )


def _custom_derivative_batch(
    operands: Values,
    is_batched: Flags,
    program: Program,
    forward: Rule,
    backward: Rule,
    rule: Rule,
    explicit: int,
) -> Any:
    size = batch_size(operands, is_batched)
    dots = _dots(is_batched, program, explicit)
    mapped = _mapped_rules(forward, backward, size, is_batched, dots)
    (pushed,) = _mapped_rule(rule, size, is_batched, dots)
    return tuple(
        custom_derivative_program(
            vmap_program(program, size, is_batched), *mapped, pushed, operands, explicit
        )
    )


def _custom_derivative_eval(*rest: RuleArgument) -> Any:
    return _eval(*rest, others=4)


def _custom_derivative_transpose(cts: RuleArgument, *rest: RuleArgument) -> Any:
    return _transposed(custom_derivative_p, cts, rest[:-5], rest[-5:])


custom_derivative_p = Primitive(
    "custom_derivative",
    eval=_custom_derivative_eval,
    aval=_custom_derivative_aval,
    jvp=ReplacingJvp(jvp=_custom_derivative_pushed, linearize=_custom_derivative_linearized),
    transpose=_custom_derivative_transpose,
    batch=_custom_derivative_batch,
    params=("program", "forward", "backward", "rule", "explicit"),
    many=True,
    written=written,
    kept=holds_kept,
    holds=_HOLDS,
    by_rule=True,
)
"""``custom_derivative x {program={…}, forward={…}, backward={…}, rule={…}, explicit=1}``: the
outputs of a function with a custom jvp, for forward mode, and a custom vjp, for reverse mode.
"""


# -- batch rules -----------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True, eq=False)
class DeferredBatchRule:
    """Placeholder for a custom batch rule: recorded when `vmap` needs it, so equal to no other.

    Args:
        record: from the size of the batch axis, and flags of the operands that have it (in front),
            to the program of the results, which all have it in front.
    """

    record: Callable[[int, tuple[bool, ...]], Program]

    def __reduce__(self) -> Any:
        raise _in_this_process_only("defines its batching")


def custom_batch_program(
    program: Program, rule: DeferredBatchRule, operands: Sequence[Any]
) -> list[Any]:
    """Apply a closed program that has a custom batch rule."""
    return list(bind(custom_batch_p, tuple(operands), (program.interned(), rule)))


def _custom_batch_aval(*rest: *tuple[*tuple[ShapeDtype, ...], Program, DeferredBatchRule]) -> Any:
    *operands, program, rule = rest
    if type(rule) is not DeferredBatchRule:  # a text can name a ufunc here
        raise ProgramError(
            "custom_batch: the rule is no rule for vmap", fix="use functrace.custom_vmap"
        )
    check_operands("custom_batch", program, operands)
    return output_avals(program)


def _custom_batch_batch(
    operands: Values, is_batched: Flags, program: Program, rule: DeferredBatchRule
) -> Any:
    size = batch_size(operands, is_batched)
    made = rule.record(size, tuple(is_batched))
    wanted = [ShapeDtype((size, *aval.shape), aval.dtype) for aval in output_avals(program)]
    check_operands("a rule for vmap", made, [aval_of(x) for x in operands])
    _check_results("a rule for vmap", made, wanted)
    return tuple(call_program(made.interned(), operands))


def _custom_batch_pushed(
    primals: Values, tangents: Tangents, program: Program, rule: DeferredBatchRule
) -> Any:
    return _of_call.jvp(primals, tangents, program, SAVE)


def _custom_batch_linearized(
    primals: Values, tangents: Tangents, program: Program, rule: DeferredBatchRule
) -> Any:
    return _of_call.linearize(primals, tangents, program, SAVE)


def _custom_batch_eval(*rest: RuleArgument) -> Any:
    return _eval(*rest, others=1)


def _custom_batch_transpose(cts: RuleArgument, *rest: RuleArgument) -> Any:
    return call_p.transpose(cts, *rest[:-1], SAVE)


custom_batch_p = Primitive(
    "custom_batch",
    eval=_custom_batch_eval,
    aval=_custom_batch_aval,
    jvp=ReplacingJvp(jvp=_custom_batch_pushed, linearize=_custom_batch_linearized),
    transpose=_custom_batch_transpose,
    batch=_custom_batch_batch,
    params=("program", "rule"),
    many=True,
    written=written,
    kept=holds_kept,
    holds=call_p.holds,
)
"""``custom_batch x {program={…}, rule=…}``: the outputs of a function with a custom batch rule."""


# -- the linear operation --------------------------------------------------------------------------


def pushed(backward: Program, residuals: int) -> Program:
    """Return the program from residuals and tangents to tangents: the memoized transpose of the
    backward program.

    Raises:
        NotDifferentiableError: if the backward program is not linear in the cotangents.
    """
    linear = [False] * residuals + [True] * (len(backward.input_ids) - residuals)
    return remembered(transposed_part, backward, linear)


def _pushforward_aval(*rest: *tuple[*tuple[ShapeDtype, ...], Program, int]) -> Any:
    *operands, backward, residuals = rest
    values = [backward.avals[i] for i in backward.input_ids[:residuals]]
    if list(operands) != [*values, *output_avals(backward)]:
        wanted = _listed([*values, *output_avals(backward)])
        raise ShapeError(
            f"pushforward of {backward.name} takes {wanted}, not {_listed(operands)}",
            fix="pass these avals",
        )
    return tuple([backward.avals[i] for i in backward.input_ids[residuals:]])


def _pushforward_differentiated(through: JointRule) -> JointRule:
    def rule(
        primals: Values, tangents: Tangents, backward: Program, residuals: int
    ) -> tuple[Any, Any]:
        outputs = bind(pushforward_p, tuple(primals), (backward, residuals))
        kept, directions = tangents[:residuals], tangents[residuals:]
        moved: Sequence[Any] = [None] * len(outputs)
        if any(t is not None for t in directions):
            avals = [backward.avals[i] for i in backward.output_ids]
            filled = [_zeros(a) if t is None else t for t, a in zip(directions, avals, strict=True)]
            moved = bind(pushforward_p, (*primals[:residuals], *filled), (backward, residuals))
        # the residuals have tangents, too: differentiate the operations on them
        if any(t is not None for t in kept):
            still = [None] * len(directions)
            _, found = through(primals, (*kept, *still), pushed(backward, residuals), SAVE)
            moved = [
                t if ct is None else ct if t is None else add(t, ct)
                for t, ct in zip(moved, found, strict=True)
            ]
        return outputs, moved

    return rule


def _pushforward_transpose(cts: Tangents, *rest: *tuple[*tuple[Operand, ...], Program, int]) -> Any:
    *operands, backward, residuals = rest
    avals = [backward.avals[i] for i in backward.input_ids[residuals:]]
    given = [_zeros(a) if ct is None else ct for ct, a in zip(cts, avals, strict=True)]
    linear = [k for k, x in enumerate(operands) if is_linear(x)]
    # residuals are linear, too, and tangents are not: transpose the operations
    if linear[0] < residuals:
        return call_p.transpose(cts, *operands, pushed(backward, residuals), ())
    wanted = [backward.output_ids[k - residuals] for k in linear]
    part = restrict(backward, backward.input_ids, wanted, keep=True).program
    results = call_program(part.interned(), [*operands[:residuals], *given])
    return at_places(results, linear, len(operands))


def _pushforward_batch(
    operands: Values, is_batched: Flags, backward: Program, residuals: int
) -> Any:
    size = batch_size(operands, is_batched)
    flags = [*is_batched[:residuals], *[True] * (len(backward.input_ids) - residuals)]
    mapped = _mapped_backward(backward, size, flags, is_batched[residuals:])
    return bind(pushforward_p, operands, (mapped.interned(), residuals))


def _pushforward_written(
    write: SourceWriter, specs: Sequence[Spec], backward: Program, residuals: int
) -> Spelling:
    return written(write, specs, pushed(backward, residuals))


def _pushforward_depends(
    flags: Sequence[bool], backward: Program, residuals: int
) -> Sequence[bool]:
    return reached_outputs(pushed(backward, residuals), flags)


def _pushforward_eval(*rest: RuleArgument) -> Any:
    return evaluate_fresh(pushed(rest[-2], rest[-1]), rest[:-2])


pushforward_p = Primitive(
    "pushforward",
    eval=_pushforward_eval,
    aval=_pushforward_aval,
    jvp=ReplacingJvp(
        jvp=_pushforward_differentiated(_of_call.jvp),
        linearize=_pushforward_differentiated(_of_call.linearize),
    ),
    transpose=_pushforward_transpose,
    batch=_pushforward_batch,
    params=("backward", "residuals"),
    many=True,
    kept=holds_kept,
    holds=SubPrograms(run_once, called_program=pushed, depends=_pushforward_depends),
    written=_pushforward_written,
)
"""``pushforward r x_dot {backward={…}, residuals=1}``: the tangents whose transpose is a custom
backward program.
"""
