"""Recording of custom rules: the programs in `custom_vjp` and `custom_jvp` operations, from the
user's functions.

An error that a rule raises while it is recorded is raised where the derivative is computed
(`FailedRule`).

Layer: 8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, final

import numpy as np

from functrace.api.capture.record import Called, Operands, RecordedCall
from functrace.control.custom import FailedRule, Rule
from functrace.errors import ArgumentError
from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import Rewrite, closed_over, reordered, restrict, with_inputs
from functrace.ir.program import Program
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.numpy.arrays.traced_number import DTYPES, TracedNumber
from functrace.tracing.binding import BODY
from functrace.tracing.capture import own_constants
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer
from functrace.transforms import is_differentiable
from functrace.transforms.transpose import linear_variables
from functrace.tree import unflatten


@final
@dataclass(frozen=True, slots=True)
class SymbolicZero:
    """Tangent or cotangent that is known to be zero, in rules with ``symbolic_zeros=True``.

    Args:
        aval: its shape and dtype.

    Example:
        >>> import functrace as ft
        >>> from functrace.custom_derivatives import SymbolicZero
        >>> @ft.custom_jvp
        ... def product(x, y):
        ...     return x * y
        >>> @lambda rule: product.defjvp(rule, symbolic_zeros=True)
        ... def rule(primals, tangents):
        ...     (x, y), (x_dot, y_dot) = primals, tangents
        ...     skipped = isinstance(y_dot, SymbolicZero)
        ...     return x * y, x_dot * y if skipped else x_dot * y + x * y_dot
        >>> ft.grad(product)(2.0, 3.0)
        np.float64(3.0)

    Source:
        ``jax.custom_derivatives.SymbolicZero``.
    """

    aval: ShapeDtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self.aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Its dtype."""
        return self.aval.dtype


@final
@dataclass(frozen=True, slots=True)
class CustomVJPPrimal:
    """Argument leaf in a forward rule with ``symbolic_zeros=True``.

    Args:
        value: the leaf.
        perturbed: True if the derivative by it is needed.

    Example:
        >>> import functrace as ft
        >>> @ft.custom_vjp
        ... def product(x, y):
        ...     return x * y
        >>> def fwd(x, y):  # CustomVJPPrimal each
        ...     return x.value * y.value, (x.value if y.perturbed else None, y.value if x.perturbed else None)
        >>> def bwd(residuals, z_bar):
        ...     x, y = residuals
        ...     return None if y is None else z_bar * y, None if x is None else z_bar * x
        >>> product.defvjp(fwd, bwd, symbolic_zeros=True)
        >>> ft.grad(product)(2.0, 3.0)
        np.float64(3.0)

    Source:
        ``jax.custom_derivatives.CustomVJPPrimal``.
    """

    value: Any
    perturbed: bool


class RuleOperands(Protocol):
    """Operands that a rule is recorded on: `Operands`, or an object with the same two members."""

    avals: list[ShapeDtype]

    def inputs(self, recording: Recording) -> Called:
        """Make the operands inputs of a recording; return the arguments of the forward function."""
        ...


class VjpRule(NamedTuple):
    """Result of `record_vjp`.

    Args:
        forward: a closed program from operands to outputs and residuals, or the exception that
            recording raised.
        backward: a closed program from residuals and cotangents to cotangents.
        captured: values that the rules captured.
        ``reads_values``: True if they read concrete values.
    """

    forward: Rule
    backward: Rule
    captured: list[Any]
    reads_values: bool = False


class JvpRule(NamedTuple):
    """Result of `record_jvp`.

    Args:
        program: closed, from operands, captured values and tangents, to outputs, then tangents; or
            the exception that recording raised.
        captured: values that the rule captured.
        ``reads_values``: True if it read concrete values.
    """

    program: Rule
    captured: list[Any]
    reads_values: bool = False


def record_vjp(
    forward: Callable[..., Any],
    backward: Callable[..., Any] | None,
    operands: RuleOperands,
    name: str,
    *,
    closed: bool = True,
    is_function: bool = False,
) -> VjpRule:
    """Record a forward and a backward function as the rule of a function.

    The backward function is recorded while the forward recording is still open: every forward value
    that it reads becomes a residual, whether it is in ``residuals`` or not.

    Args:
        forward: from the arguments to ``(result, residuals)``.
        backward: from ``(residuals, cotangent)`` to a list with a cotangent or ``None`` per
            operand; ``None`` to record only the forward program. The cotangents of outputs without
            derivative are zeros.
        operands: of the call.
        name: of the function.
        closed: whether captured values become inputs; otherwise they are constants, and may not be
            traced.
        is_function: whether the forward function is the function itself, as in PyTorch, and not a
            separate rule: then its exceptions are raised here.
    """
    word = "{} of {}" if is_function else "the {} rule of {}"
    residuals: Any = None

    def pushed(*args: object, **kwargs: object) -> Any:
        nonlocal residuals
        result, residuals = forward(*args, **kwargs)
        return result

    try:
        with ArrayRecording(word.format("forward", name), scope=BODY) as recording:
            outer = RecordedCall(recording, pushed, operands.inputs)
            pulled, kept, backward_reads = _record_backward(
                backward, outer, lambda: residuals, operands.avals, name, word
            )
            if isinstance(pulled, FailedRule) and not is_function:
                return VjpRule(pulled, pulled, [])
            saved = [recording.operand(value)[0] for value in kept]
            made = outer.program(name if is_function else f"forward_of_{name}", saved)
            made, captured = _finished(made, name, closed)
            reads_values = backward_reads or recording.values.evaluation is not None
    except Exception as error:
        if is_function:
            raise
        return VjpRule(FailedRule(error), FailedRule(error), [])
    return VjpRule(made, pulled, captured, reads_values)


def _record_backward(
    backward: Callable[..., Any] | None,
    outer: RecordedCall,
    residuals: Callable[[], Any],
    avals: Sequence[ShapeDtype],
    name: str,
    word: str,
) -> tuple[Rule, list[Any], bool]:
    """Record a backward function, on top of a forward one.

    Returns:
        its program, the forward values that it read, which are its first inputs, and whether it
        read concrete values.
    """
    if backward is None:
        return FailedRule(NotImplementedError()), [], False

    def inputs(recording: Recording) -> Called:
        cotangents = [_direction(recording, aval) for aval in outer.out_avals]
        return (residuals(), unflatten(outer.out_tree, cotangents)), {}

    def pulled(*args: object) -> list[Any]:
        pairs = zip(backward(*args), avals, strict=True)
        return [_zeros(aval) if ct is None else ct for ct, aval in pairs if is_differentiable(aval)]

    try:
        with ArrayRecording(word.format("backward", name), scope=BODY) as recording:
            call = RecordedCall(recording, pulled, inputs)
            made, kept = closed_over(call.program(f"backward_of_{name}"))
            reads_values = recording.values.evaluation is not None
    except Exception as error:
        return FailedRule(error), [], False
    count = len(made.input_ids) - len(kept)
    return reordered(made, [*range(count, count + len(kept)), *range(count)]), kept, reads_values


def record_jvp(
    rule: Callable[[Any, Any], tuple[Sequence[Any], Sequence[Any]]],
    operands: Operands,
    name: str,
    out_avals: Sequence[ShapeDtype],
    active: Sequence[bool] | None = None,
) -> JvpRule:
    """Record a jvp rule.

    Args:
        rule: from the tuples of arguments and tangents to the leaves of the result and of its
            tangent.
        operands: of the call.
        name: of the function.
        out_avals: of its results.
        active: which operands have a tangent, for a rule with symbolic zeros: the others get a
            `SymbolicZero`.
    """

    def inputs(recording: Recording) -> Called:
        primals, _ = operands.inputs(recording)
        recording.arguments = ()  # a rule may write into its own arguments
        leaves = list(map(_no_tangent if active is None else _symbolic, operands.leaves))
        for k, (place, aval) in enumerate(zip(operands.places, operands.avals, strict=True)):
            leaves[place] = _direction(recording, aval)
            if active is not None and not (active[k] and is_differentiable(aval)):
                leaves[place] = SymbolicZero(aval)
        return (primals, unflatten(operands.tree, leaves)[0]), {}

    def pushed(primals: object, tangents: object) -> list[Any]:
        outs, moved = rule(primals, tangents)
        return [
            *outs,
            *[t for t, aval in zip(moved, out_avals, strict=True) if is_differentiable(aval)],
        ]

    try:
        with ArrayRecording(f"the jvp rule of {name}", scope=BODY) as recording:
            call = RecordedCall(recording, pushed, inputs)
            made, captured = closed_over(call.program(f"jvp_of_{name}"))
            reads_values = recording.values.evaluation is not None
    except Exception as error:
        return JvpRule(FailedRule(error), [])
    explicit, total = len(operands.avals), len(made.input_ids)
    end = total - len(captured)
    return JvpRule(
        reordered(made, [*range(explicit), *range(end, total), *range(explicit, end)]),
        captured,
        reads_values,
    )


def record_push(
    push: Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]], operands: RuleOperands, name: str
) -> Rule:
    """Record a function from arguments and tangents to results and tangents, on abstract operands.

    Args:
        push: gets ``None`` for the tangent of an operand without derivative.
        operands: of the call.
        name: of the function.
    """

    def inputs(recording: Recording) -> Called:
        primals, _ = operands.inputs(recording)
        tangents = [
            recording.new_input(a) if is_differentiable(a) else None for a in operands.avals
        ]
        return (list(primals), tangents), {}

    try:
        with ArrayRecording(f"the jvp of {name}", scope=BODY) as recording:
            call = RecordedCall(recording, push, inputs)
            return _finished(call.program(f"jvp_of_{name}"), name, False)[0]
    except Exception as error:
        return FailedRule(error)


def with_captured(rule: Rule, explicit: int, captured: Sequence[Any]) -> Rule:
    """Add the function's captured values as inputs of a rule, after its explicit operands."""
    return with_inputs(rule, explicit, captured, ()) if isinstance(rule, Program) else rule


def taking_results(rule: Rule, place: int, count: int) -> Rule:
    """Let a rule take the results of its function instead of computing them; see Note [Rules that
    take the results].

    Args:
        rule: a program whose first outputs are the results.
        place: index of the inputs that replace them.
        count: number of results.
    """
    if not isinstance(rule, Program):
        return rule
    ids, outs = rule.input_ids, rule.output_ids
    given = [i for i in dict.fromkeys(outs[:count]) if i not in ids]
    later = linear_variables(rule.ops, ids[place:])  # effects of the function must not run twice
    done = [k for k, (primitive, _, params) in enumerate(rule.ops)
            if k in later and primitive.kept is not None and primitive.kept(*params)]  # fmt: skip
    part = restrict(rule, [*ids, *given], [*outs[count:], *done], keep=True, effects=False).program
    places = {i: len(ids) + k for k, i in enumerate(given)}
    taken = [places.pop(i, rule.avals[i]) for i in outs[:count]]
    write = Rewrite(part, [*range(place), *taken, *range(place, len(ids))])
    return write.finish(write.keep_all()[: len(outs) - count])


def _finished(program: Program, name: str, closed: bool) -> tuple[Program, list[Any]]:
    """Return the program of a rule, and its captured values, if they become its inputs."""
    made, captured = closed_over(program) if closed else (program, [])
    if any(
        isinstance(value, Tracer) for value in made.constant_values.values()
    ):  # of a transform that ends earlier
        raise ArgumentError(
            f"the rule of {name} calls {name}, and closes over a traced value",
            fix="pass the value as an argument",
        )
    return own_constants(made), captured


def _direction(recording: Recording, aval: ShapeDtype) -> Any:
    """Return a tangent or cotangent: an input, or zeros where there is no derivative."""
    return recording.new_input(aval) if is_differentiable(aval) else _zeros(aval)


def _symbolic(x: object) -> Any:
    if isinstance(x, TracedNumber):
        return SymbolicZero(x.aval)
    return SymbolicZero(ShapeDtype((), DTYPES[type(x)])) if type(x) in DTYPES else x


def _zeros(aval: ShapeDtype) -> Any:
    return np.zeros(aval.shape, aval.dtype)[()]


def _no_tangent(x: object) -> Any:
    """Return the tangent of an argument's leaf that is not an array: zero for numbers, traced or
    not."""
    if isinstance(x, TracedNumber):
        return x.kind(0)
    return DTYPES[type(x)].type(0).item() if type(x) in DTYPES else x
