"""`Function.apply` among traced values: the user's forward and backward become a custom rule of the program.

Both are staged at the call. Forward sees tensors over tracers of one recording; while that is still open, backward runs on
tracers of a newer one. What it reads of the forward values, whether through ``ctx.saved_tensors``, an attribute of ``ctx``
or a closure, is captured by the newer recording: these are the residuals. The result is one ``custom_vjp`` operation.

Floor: 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from functrace.api.calls import call, output_variable
from functrace.api.keys import static_key
from functrace.api.staging import identifier, with_inputs
from functrace.control.custom import Deferred, Failed, Rule, custom_vjp_program
from functrace.errors import ArgumentError
from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import closed_over, reordered, restrict
from functrace.ir.program import Program
from functrace.torch.autograd.custom import BackwardCFunction
from functrace.torch.autograd.grad_mode import no_grad
from functrace.torch.tensor import Tensor, wrap
from functrace.tracing.recording import BODY, Recording, Tracer
from functrace.transforms import is_differentiable

if TYPE_CHECKING:
    from functrace.torch.autograd.function import Function

ARRAYS = (np.ndarray, np.generic)

_running: ContextVar[tuple[Any, ...]] = ContextVar("Functions whose backward is being staged", default=())
"""A backward may apply its own Function, whose rule is then deferred: staged only if it is differentiated in turn."""


def kind_of(args: Sequence[Any]) -> str:
    """Return ``"traced"`` if an argument is, ``"arrays"`` if there are arrays and no tensors, otherwise ``"tensors"``."""
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


def apply_to_arrays(cls: type[Function], args: tuple[Any, ...]) -> Any:
    """Run forward on plain arrays, as when a function that is otherwise traced is just called; returns arrays."""
    result = cls.apply(*[wrap(a) if isinstance(a, ARRAYS) else a for a in args])
    if isinstance(result, tuple):
        return tuple([_array(v) for v in result])
    return _array(result)


def apply(cls: type[Function], args: tuple[Any, ...]) -> Any:
    """Record a custom rule; see the module.

    Returns:
        what forward returned, with traced arrays in it (tensors over them, if tensors over traced values came in).
    """
    made = Application(cls, args)
    is_nested = cls in _running.get()
    staged = made.stage(made.values, with_backward=not is_nested)
    forward: Rule = staged.forward
    backward: Rule = staged.backward
    if is_nested:
        forward = backward = Deferred(made.key(), lambda: made.stage_later(staged.captured))
    whole = staged.forward
    program = restrict(whole, whole.input_ids, whole.output_ids[: len(staged.slots)], keep=True).program
    operands = [*made.values, *staged.captured]
    return made.results(staged, custom_vjp_program(program, forward, backward, operands, len(made.values)))


class Staged(NamedTuple):
    """What `Application.stage` returns.

    Args:
        forward: from the traced arguments, then what was captured, to the tensors returned, then residuals.
        captured: values of the latter.
        backward: from residuals and cotangents to cotangents of the traced arguments.
        result: what the user's forward returned.
        slots: places of the tensors in it.
        dirty: by slot, the argument that was overwritten.
    """

    forward: Program
    captured: list[Any]
    backward: Rule
    result: Any
    slots: list[int]
    dirty: dict[int, int]


class Application:
    """One application of a Function to arguments some of which are traced.

    Args:
        function: the Function.
        args: its arguments; those that are traced are the operands.
    """

    def __init__(self, function: type[Function], args: tuple[Any, ...]) -> None:
        self.function = function
        self.args = args
        self.places = [k for k, a in enumerate(args) if isinstance(_array(a), Tracer)]
        self.values: list[Any] = [_array(args[k]) for k in self.places]
        self.avals: list[ShapeDtype] = [value.aval for value in self.values]

    def stage(self, values: Sequence[Any], *, with_backward: bool, closed: bool = True) -> Staged:
        """Run the user's forward, and on top of it backward, in recordings of their own.

        Args:
            values: of the operands, or ``None`` where they are not known.
            with_backward: whether the rule is wanted.
            closed: whether captured values become inputs; otherwise they stay constants.
        """
        name = self.function.__name__
        owner = f"forward of {name}"
        ctx = self.function._backward_cls()
        with Recording(owner, scope=BODY) as recording, no_grad():
            given = [wrap(a) if isinstance(a, ARRAYS) else a for a in self.args]
            for k, aval, value in zip(self.places, self.avals, values, strict=True):
                given[k] = wrap(recording.new_input(aval, value))
                given[k]._requires = is_differentiable(aval)
            ctx._begin(given, in_graph=False)
            result = call(recording, self.function._run, (ctx, tuple(given)), {})
            several = result if isinstance(result, tuple) else (result,)
            slots = [k for k, v in enumerate(several) if isinstance(v, Tensor)]
            dirty = ctx._finish_traced(given, several)
            self._refuse_overwritten(recording, given, dirty)
            outputs = [output_variable(recording, several[k]._array, owner) for k in slots]
            backward: Rule = Failed(NotImplementedError())
            kept: list[Any] = []
            if with_backward:
                backward, kept = self._stage_backward(ctx, [recording.avals[i] for i in outputs], slots, len(several))
            residuals = [recording.operand(value)[0] for value in kept]
            forward = recording.program((*outputs, *residuals), name=identifier(name))
        forward, captured = closed_over(forward) if closed else (forward, [])
        return Staged(forward, captured, backward, result, slots, dirty)

    def _stage_backward(
        self, ctx: BackwardCFunction, avals: Sequence[ShapeDtype], slots: Sequence[int], count: int
    ) -> tuple[Rule, list[Any]]:
        """Run the user's backward on tracers; returns the program, and what it captured, which are its first inputs.

        What it raises is raised where the derivative is asked for.
        """
        owner = f"backward of {self.function.__name__}"
        token = _running.set((*_running.get(), self.function))
        try:
            with Recording(owner, scope=BODY) as recording:
                grads: list[Tensor | None] = [None] * count
                for k, aval in zip(slots, avals, strict=True):
                    if is_differentiable(aval):
                        cotangent = recording.new_input(aval)
                        grads[k] = None if k in ctx._constant else wrap(cotangent)
                found = call(recording, ctx.run, (grads,), {})
                tensors = [k for k, aval in enumerate(ctx._inputs) if aval is not None]
                by_place = dict(zip(tensors, found, strict=True))
                outputs = []
                for k, aval in zip(self.places, self.avals, strict=True):
                    if is_differentiable(aval):
                        gradient = by_place[k]
                        value = np.zeros(aval.shape, aval.dtype)[()] if gradient is None else gradient._array
                        outputs.append(output_variable(recording, value, owner))
                program = recording.program(tuple(outputs), name=identifier(f"backward_of_{self.function.__name__}"))
        except Exception as error:
            return Failed(error), []
        finally:
            _running.reset(token)
        program, kept = closed_over(program)
        inputs = len(program.input_ids) - len(kept)
        return reordered(program, [*range(inputs, inputs + len(kept)), *range(inputs)]), kept

    def stage_later(self, captured: Sequence[Any]) -> tuple[Program | Failed, ...]:
        """Stage a rule that was deferred, for operands whose values are not known; ``captured`` are read no more."""
        staged = self.stage([None] * len(self.places), with_backward=True, closed=False)
        if any(isinstance(value, Tracer) for value in staged.forward.constant_values.values()):
            name = self.function.__name__
            raise ArgumentError(
                f"backward of {name} applies {name}, which closes over a traced value", fix="pass the value as an argument"
            )
        assert not isinstance(staged.backward, Deferred)
        return with_inputs(staged.forward, len(self.places), captured, ()), staged.backward

    def key(self) -> Any:
        """What tells a deferred rule from others: all that forward and backward are called with."""
        chosen = set(self.places)
        static = tuple(static_key(a) for k, a in enumerate(self.args) if k not in chosen)
        return self.function, tuple(self.places), tuple(self.avals), static

    def results(self, staged: Staged, values: Sequence[Any]) -> Any:
        """Return what the user's forward returned, with the operation's results in it."""
        is_inside = any(isinstance(a, Tensor) and isinstance(a._array, Tracer) for a in self.args)
        several = list(staged.result) if isinstance(staged.result, tuple) else [staged.result]
        for k, value in zip(staged.slots, values, strict=True):
            place = staged.dirty.get(k)
            if place is None:
                several[k] = wrap(value) if is_inside else value
                continue
            argument = several[k] = self.args[place]
            if isinstance(argument, Tensor):
                argument._array = value
            else:
                argument[...] = value
        return tuple(several) if isinstance(staged.result, tuple) else several[0]

    def _refuse_overwritten(self, recording: Recording, given: Sequence[Any], dirty: dict[int, int]) -> None:
        """Refuse an overwrite that was not declared: the caller's value would not change."""
        marked = set(dirty.values())
        for k, variable in zip(self.places, recording.inputs, strict=True):
            if given[k]._array._id != variable and k not in marked:
                raise ArgumentError(
                    f"forward of {self.function.__name__} overwrites argument {k} in place",
                    fix="call ctx.mark_dirty on it and return it, or write to a clone",
                )


def _array(value: Any) -> Any:
    return value._array if isinstance(value, Tensor) else value
