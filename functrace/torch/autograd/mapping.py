"""Custom batching rules: the ``vmap`` static method of a Function, recorded when a transform maps
the Function.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from functrace.control.custom import DeferredBatchRule, custom_batch_program
from functrace.errors import ArgumentError
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.ir.program import Program
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.ops.shaping import broadcast_to, permute
from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.tensors.tensor import Tensor, wrap
from functrace.tracing.binding import BODY
from functrace.tracing.capture import own_constants
from functrace.tracing.tracer import Tracer

if TYPE_CHECKING:
    from functrace.torch.autograd.custom import FunctionBase


class VmapInfo(NamedTuple):
    """First argument of a ``vmap`` static method: the batch size, and the treatment of random
    numbers.
    """

    batch_size: int
    randomness: str


def mapped_by_rule(
    function: type[FunctionBase],
    args: Sequence[Any],
    places: Sequence[int],
    slots: Sequence[int],
    apply: Callable[[Sequence[Any]], Sequence[Any]],
    operands: Sequence[Any],
) -> list[Any]:
    """Apply a Function that has a ``vmap`` rule.

    Args:
        function: the Function.
        args: its arguments.
        places: indices of the traced arguments.
        slots: indices of the outputs that are tensors.
        apply: applies the Function's derivative rules to operands; returns the arrays of those
            outputs.
        operands: the values of the traced arguments, then the values captured by the Function.
    """
    name = function.__name__
    with ArrayRecording(name, keeps_source=False) as recording:
        given = [recording.new_input(aval_of(value)) for value in operands]
        outputs = [recording.operand(value)[0] for value in apply(given)]
        program = recording.program(tuple(outputs), name=name)
    avals = [aval_of(value) for value in operands]
    plain = [None if k in places else a for k, a in enumerate(args)]  # the rule outlives this call

    def record(size: int, is_batched: tuple[bool, ...]) -> Program:
        if function.generate_vmap_rule:
            raise RuntimeError(errors.both_vmap_rules(name))
        if any(is_batched[len(places) :]):
            raise ArgumentError(
                f"{name} has its own vmap rule, and closes over a value that is mapped",
                fix="pass it as an argument",
            )
        return _recorded(function, plain, places, slots, avals, size, is_batched)

    return custom_batch_program(program, DeferredBatchRule(record), operands)


def _recorded(
    function: type[FunctionBase],
    args: Sequence[Any],
    places: Sequence[int],
    slots: Sequence[int],
    avals: Sequence[ShapeDtype],
    size: int,
    is_batched: tuple[bool, ...],
) -> Program:
    """Run the user's rule on arguments with a leading batch axis; returns the program of its
    results.
    """
    with ArrayRecording(f"the vmap rule of {function.__name__}", scope=BODY) as recording:
        given = [wrap(a) if isinstance(a, (np.ndarray, np.generic)) else a for a in args]
        dims: list[int | None] = [None] * len(given)
        for k, (aval, batched) in enumerate(zip(avals, is_batched, strict=True)):
            value = recording.new_input(
                ShapeDtype((size, *aval.shape), aval.dtype) if batched else aval
            )
            if k < len(places):
                given[places[k]] = wrap(value)
                dims[places[k]] = 0 if batched else None
        found = function.vmap(VmapInfo(size, MODES.randomness), tuple(dims), *given)
        if not isinstance(found, tuple):
            raise RuntimeError(errors.vmap_returned(f"Got a {type(found)} instead"))
        if len(found) != 2:
            raise RuntimeError(errors.vmap_returned(f"Got {len(found)} returns instead"))
        outputs, out_dims = found
        several = outputs if isinstance(outputs, tuple) else (outputs,)
        each = out_dims if isinstance(out_dims, (tuple, list)) else (out_dims,) * len(several)
        results = [recording.operand(_in_front(several[k], each[k], size))[0] for k in slots]
        made = recording.program(tuple(results), name=f"vmap_of_{function.__name__}")
    if any(isinstance(value, Tracer) for value in made.constant_values.values()):
        raise ArgumentError(
            f"the vmap rule of {function.__name__} closes over a traced value",
            fix="pass it as an argument of the Function",
        )
    return own_constants(made)


def _in_front(output: Tensor, dim: int | None, size: int) -> Any:
    """Return an output with its batch axis first; an output without one is broadcast."""
    array = output._array
    if dim is None:
        return broadcast_to(array, (size, *array.shape))
    axes = list(range(array.ndim))
    axes.insert(0, axes.pop(dim))
    return permute(array, tuple(axes))
