"""`Function.apply` on traced values: the user's forward and backward become a custom rule of the
program.

Both are staged at the call. Forward runs on tensors over tracers of one recording; while that is
still open, backward runs on tracers of a newer one. Forward values that backward reads, through
``ctx.saved_tensors``, an attribute of ``ctx`` or a closure, are captured by the newer recording:
they are the residuals. The result is one ``custom_vjp`` operation, whose rule takes the results of
forward: see Note [Rules that take the results] in control/custom.py.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functrace.api.capture.record import Called
from functrace.api.custom_rules.recursion import is_in_own_rule, recording_rule
from functrace.api.custom_rules.rules import (
    VjpRule,
    record_push,
    record_vjp,
    taking_results,
    with_captured,
)
from functrace.control.custom import (
    DeferredRule,
    FailedRule,
    Rule,
    custom_derivative_program,
    custom_vjp_program,
)
from functrace.errors import ArgumentError
from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import restrict
from functrace.ir.program import Program
from functrace.numpy.arrays.views import owned
from functrace.ops.elementwise import conj, stop_gradient
from functrace.ops.shaping import convert
from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES, without_graph
from functrace.torch.autograd.hooks import refuse_hooks, saving_with
from functrace.torch.autograd.local import join
from functrace.torch.autograd.mapping import mapped_by_rule
from functrace.torch.autograd.pushing import defined, pushed_by, tangent_or_zeros
from functrace.torch.dispatch.dual import DUALS
from functrace.torch.tensors.aliases import replace
from functrace.torch.tensors.tensor import Tensor, count_write, wrap
from functrace.tracing.binding import STARTED
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer
from functrace.transforms import is_differentiable
from functrace.typing import Array

if TYPE_CHECKING:
    from functrace.torch.autograd.custom import FunctionBase

ARRAYS = (np.ndarray, np.generic)


def kind_of(args: Sequence[Any]) -> str:
    """Return ``"traced"`` if an argument is traced, ``"arrays"`` if there are arrays and no
    tensors, else ``"tensors"``.
    """
    tensors = arrays = False
    for a in args:
        if isinstance(a, Tensor):
            if isinstance(a._array, Tracer):
                return "traced"
            tensors = True
        elif isinstance(a, Tracer):
            return "traced"
        elif isinstance(a, ARRAYS):
            arrays = True
    return "arrays" if arrays and not tensors else "tensors"


def apply_to_arrays(cls: type[FunctionBase], args: tuple[Any, ...]) -> Any:
    """Run forward on plain arrays, when the Function is called on arrays outside of tracing;
    returns arrays.
    """
    result = cls.apply(*[wrap(a) if isinstance(a, ARRAYS) else a for a in args])
    if isinstance(result, tuple):
        return tuple([_array(v) for v in result])
    return _array(result)


def apply(cls: type[FunctionBase], args: tuple[Any, ...]) -> Any:
    """Record a custom rule; see the module.

    Returns:
        the result of forward, with traced arrays in it (tensors, if an argument was a tensor over
        traced values).
    """
    if MODES.pairs:
        refuse_hooks()
    if DUALS.level is not None and DUALS.level.concerns(args):
        raise NotImplementedError(errors.DUAL_IN_TRANSFORM)
    wanting = (
        [a for a in args if isinstance(a, Tensor) and a.requires_grad] if MODES.recording else []
    )
    given = [snapshot(a) for a in args] if wanting else []
    made = FunctionApplication(cls, args)
    is_nested = is_in_own_rule(cls)
    whole, backward, captured, _ = made.rule(with_backward=not is_nested)
    assert isinstance(whole, Program)
    program = restrict(
        whole, whole.input_ids, whole.output_ids[: len(made.slots)], keep=True
    ).program
    forward: Rule = whole
    if cls._rule_at_every_order:
        forward = taking_results(whole, len(whole.input_ids), len(made.slots))
    # A rule recorded later may read state that has changed by then, so it never compares equal
    # (`object()`).
    if is_nested:  # staged only if it is differentiated again
        still = FunctionApplication(cls, args, with_values=False)
        forward = backward = DeferredRule(object(), lambda: still.deferred(captured))
    push: Rule | None = None
    if cls._has_jvp():
        pushing = FunctionApplication(cls, args, with_values=False)
        push = DeferredRule(object(), lambda: (pushing.pushed(captured),))
    elif not cls._has_backward():  # then there is no fallback
        push = FailedRule(NotImplementedError(errors.NO_JVP))

    def applied(operands: Sequence[Any]) -> list[Any]:
        if push is None:
            return custom_vjp_program(program, forward, backward, operands, len(made.values))
        return custom_derivative_program(
            program, forward, backward, push, operands, len(made.values)
        )

    operands = [*made.values, *captured]
    if cls._has_vmap():
        values = mapped_by_rule(cls, args, made.places, made.slots, applied, operands)
    else:
        values = applied(operands)
    results = made.results(values)
    if wanting:
        made.join_graph(given, results)
    return results


class FunctionApplication:
    """One application of a Function to arguments some of which are traced.

    Args:
        function: the Function.
        args: its arguments; the traced ones are the operands.
        with_values: True if concrete values of the operands may be read.
    """

    result: Any
    """Result of the user's forward."""
    slots: list[int]
    """Indices of the tensors in it."""
    dirty: dict[int, int]
    """The overwritten argument of each output, by index."""
    recording: Recording
    """The recording of forward."""
    begun: int
    """The newest recording when forward began; see `functrace.torch.autograd.grad_mode.Modes`."""

    def __init__(
        self, function: type[FunctionBase], args: tuple[Any, ...], *, with_values: bool = True
    ) -> None:
        self.function = function
        self.args = args
        self.places = [k for k, a in enumerate(args) if isinstance(_array(a), Tracer)]
        values = [_array(args[k]) for k in self.places]
        self.avals: list[ShapeDtype] = [value.aval for value in values]
        self.values = values if with_values else [None] * len(values)
        self.pairs = MODES.pairs

    def rule(self, *, with_backward: bool, closed: bool = True) -> VjpRule:
        """Record the user's forward and then backward; exceptions of backward are raised on
        differentiation.
        """
        backward = self._backward if with_backward else None
        return record_vjp(
            self._forward, backward, self, self.function.__name__, closed=closed, is_function=True
        )

    def deferred(self, captured: Sequence[Any]) -> tuple[Rule, ...]:
        """Return the rule for abstract operands; ``captured`` become its trailing operands."""
        rule = self.rule(with_backward=True, closed=False)
        forward = rule.forward
        if self.function._rule_at_every_order:
            forward = taking_results(forward, len(self.places), len(self.slots))
        return with_captured(forward, len(self.places), captured), rule.backward

    def pushed(self, captured: Sequence[Any]) -> Rule:
        """Return the program of the user's ``jvp``: from operands and tangents to results and
        tangents.
        """
        rule = record_push(self.push, self, self.function.__name__)
        rule = (
            taking_results(rule, len(self.places), len(self.slots))
            if isinstance(rule, Program)
            else rule
        )
        return with_captured(rule, len(self.places), captured)

    def inputs(self, recording: Recording) -> Called:
        """Make the operands inputs of a recording; returns the arguments of the user's forward, as
        tensors.
        """
        self.recording = recording
        given = [wrap(a) if isinstance(a, ARRAYS) else a for a in self.args]
        for k, aval, value in zip(self.places, self.avals, self.values, strict=True):
            given[k] = wrap(recording.new_input(aval, value))
            given[k]._requires = is_differentiable(aval)
        return given, {}

    def _forward(self, *given: Any, keeps: bool = False) -> tuple[list[Any], FunctionBase]:
        """Run the user's forward; returns the arrays of the returned tensors, and ``ctx``.

        Args:
            given: its arguments.
            keeps: True if ``ctx`` keeps the tensors saved for ``jvp``, in place of those saved for
                backward.
        """
        variables = [given[k]._array.ft_variable for k in self.places]
        ctx = self.function._backward_cls()
        self.begun = STARTED.newest
        with without_graph(self.begun), saving_with(self.pairs):
            ctx._begin(given, in_graph=False)
            result = self.result = self.function._run(ctx, given)
            several = result if isinstance(result, tuple) else (result,)
            self.slots = [k for k, v in enumerate(several) if isinstance(v, Tensor)]
            several = self._as_results(ctx, given, variables, several)
            self.dirty = ctx._finish_traced(given, several)
        if not keeps:
            ctx.saved_for_forward = None
        self._refuse_overwritten(variables, given)
        return [several[k]._array for k in self.slots], ctx

    def _as_results(
        self,
        ctx: FunctionBase,
        given: Sequence[Any],
        variables: Sequence[int],
        outputs: tuple[Any, ...],
    ) -> tuple[Any, ...]:
        """Return outputs as distinct variables: a constant, or a view of an argument, is covered
        by the rule too.
        """
        taken = {id(a) for a in given}
        own: dict[int, Tensor] = {}
        for k in self.slots:
            array = outputs[k]._array
            if id(outputs[k]) not in taken and (
                not isinstance(array, Tracer) or array.ft_variable in variables
            ):
                own[id(outputs[k])] = wrap(self.recording.record(stop_gradient, (array,), ()))
        if not own:
            return outputs
        for word in ("to_save", "saved_for_forward", "non_differentiable"):
            named = getattr(ctx, word)
            if named is not None:
                setattr(ctx, word, tuple([own.get(id(v), v) for v in named]))
        return tuple([own.get(id(v), v) for v in outputs])

    def _backward(self, ctx: FunctionBase, cotangents: Sequence[Any]) -> list[Any]:
        """Run the user's backward; returns the cotangents of the operands, the conjugates of its
        gradients.
        """
        grads: list[Tensor | None] = [None] * len(ctx._outputs)
        for k, cotangent in zip(self.slots, cotangents, strict=True):
            if isinstance(cotangent, Tracer) and k not in ctx._constant:
                grads[k] = wrap(_conjugated(cotangent))
        with recording_rule(self.function), without_graph(self.begun):
            found = ctx.run(grads)
        tensors = [k for k, aval in enumerate(ctx._inputs) if aval is not None]
        by_place = dict(zip(tensors, found, strict=True))
        return [_conjugated(_array(by_place[k])) for k in self.places]

    def push(self, given: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """Run the user's forward and ``jvp``; returns the results, then one tangent per result that
        has a derivative.
        """
        arrays, ctx = self._forward(*given, keeps=True)
        by_place = dict(zip(self.places, tangents, strict=True))
        several = self.result if isinstance(self.result, tuple) else (self.result,)
        with recording_rule(self.function), without_graph(self.begun):
            found = pushed_by(
                ctx, [tangent_or_zeros(ctx, a, by_place.get(k)) for k, a in enumerate(given)]
            )
        if len(found) != len(several):
            raise RuntimeError(errors.jvp_count(len(several), len(found)))
        moved: list[Any] = []
        for k, array in zip(self.slots, arrays, strict=True):
            tangent = found[k]
            if k in ctx._constant or array.dtype.kind not in "fcV":
                if tangent is not None:
                    raise RuntimeError(errors.jvp_of_constant(k))
                tangent = wrap(np.zeros(array.shape, array.dtype))
            moved.append(_like(array, defined(tangent)))
        return [*arrays, *[t for t, a in zip(moved, arrays, strict=True) if a.dtype.kind in "fcV"]]

    def results(self, values: Sequence[Any]) -> Any:
        """Return the result of the user's forward, with the operation's results in it."""
        is_inside = any(isinstance(a, Tensor) and isinstance(a._array, Tracer) for a in self.args)
        several = list(self.result) if isinstance(self.result, tuple) else [self.result]
        for k, value in zip(self.slots, values, strict=True):
            place = self.dirty.get(k)
            if place is None:
                several[k] = wrap(value) if is_inside else value
                continue
            argument = several[k] = self.args[place]
            if isinstance(argument, Tensor):
                replace(argument._array, value)
                count_write(argument)
            else:
                argument[...] = value
        return tuple(several) if isinstance(self.result, tuple) else several[0]

    def join_graph(self, given: Sequence[Any], results: Any) -> None:
        """Give the results a node in a graph of traced values; its backward is the core's pullback
        of the operation.
        """
        several = results if isinstance(results, tuple) else (results,)
        places = [k for k, a in enumerate(given) if isinstance(a, Tensor)]
        outputs = [several[k] for k in self.slots]

        def whole(*arrays: Array) -> list[Any]:
            args = list(given)
            for k, array in zip(places, arrays, strict=True):
                args[k] = wrap(array)
            found = self.function.apply(*args)
            found = found if isinstance(found, tuple) else (found,)
            return [_array(found[k]) for k in self.slots]

        overwritten = [k for k, place in enumerate(self.slots) if place in self.dirty]
        join(
            whole, [self.args[k] for k in places], [given[k] for k in places], outputs, overwritten
        )

    def _refuse_overwritten(self, variables: Sequence[int], given: Sequence[Any]) -> None:
        """Refuse an undeclared overwrite: the caller's value would not change."""
        marked = set(self.dirty.values())
        for k, variable in zip(self.places, variables, strict=True):
            if given[k]._array.ft_variable != variable and k not in marked:
                raise ArgumentError(
                    f"forward of {self.function.__name__} overwrites argument {k} in place",
                    fix="call ctx.mark_dirty on it and return it, or write to a clone",
                )


def _like(array: Any, tangent: Tensor) -> Any:
    """Return the array of a tangent, in the dtype of its primal.

    Raises:
        RuntimeError: if it has another shape.
    """
    found = tangent._array
    if found.shape != array.shape:
        raise RuntimeError(errors.tangent_size(array.shape, found.shape))
    return found if found.dtype == array.dtype else convert(found, array.dtype)


def snapshot(argument: Any) -> Any:
    """Return a tensor that keeps the value of an argument across later writes; other objects
    unchanged.
    """
    if not isinstance(argument, Tensor) or not isinstance(argument._array, Tracer):
        return argument
    return wrap(owned(argument._array))


def _array(value: Any) -> Any:
    return value._array if isinstance(value, Tensor) else value


def _conjugated(value: Any) -> Any:
    return conj(value) if value is not None and value.dtype.kind == "c" else value
