"""Application of an op under a functional transform: to traced values, and tensors that hold them.

Layer: 9.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from functrace.ir.aval import ShapeDtype
from functrace.torch import errors
from functrace.torch.autograd.function_rules import _SingleLevelFunction
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.autograd.graph import OpNode, fitted, zeros_of
from functrace.torch.autograd.hooks import refuse_hooks
from functrace.torch.autograd.saved import SavedTensor
from functrace.torch.dispatch.numbers import number_of
from functrace.torch.dispatch.plans import PLANS, OpPlan
from functrace.torch.dispatch.recording import record
from functrace.torch.dispatch.sizes import make_plan
from functrace.torch.tensors.aliases import apart, in_grad_mode, shown, traced_of
from functrace.torch.tensors.storageless import KINDS, StoragelessArray
from functrace.torch.tensors.tensor import Tensor, array_of, view_of, wrap
from functrace.tracing import Tracer

if TYPE_CHECKING:
    from functrace.torch.dispatch.applying import Op

_ndarray = np.ndarray


def apply_traced(op: Op, operands: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Apply an op under a functional transform: to raw traced values, or tensors that hold them.

    Tensors that require grad here, in a graph of traced values, get a node as well.

    Returns:
        a tensor if a tensor holds a traced value, or there is nothing but tensors; otherwise a raw
        value.

    Raises:
        TypeError: for operands that are neither tensors nor arrays nor numbers.
    """
    if KINDS:
        for x in operands:
            if isinstance(x, Tensor) and type(x._array) is StoragelessArray:
                return x._array.handling.apply(op, operands, params)
    if MODES.pairs and is_packed(op, operands, params):
        return OpFunction.apply(op, params, *operands)
    values = traced_values(op, operands)
    results = compute_traced(op, values, params)
    inside = any(isinstance(x, Tensor) and isinstance(x._array, Tracer) for x in operands)
    shows = op.is_view and isinstance(
        base := operands[0]._array if isinstance(operands[0], Tensor) else operands[0], Tracer
    )
    if shows:
        results = shown(base, op.function, params)
    if not inside and any(isinstance(x, (Tracer, np.ndarray, np.generic)) for x in operands):
        return results
    if op.is_view:
        made: Any = view_of(operands[0], results, (op.function, params, op))
    else:
        made = tuple([wrap(r) for r in results]) if isinstance(results, tuple) else wrap(results)
    mask = wanting_traced(operands)
    if mask:
        record_traced(op, operands, params, mask, made)
    return made


def traced_values(op: Op, operands: tuple[Any, ...]) -> list[Any]:
    """Return the operands of the computation: arrays of tensors, constants under ``no_grad``, and
    numbers.
    """
    values = []
    for k, x in enumerate(operands):
        if isinstance(x, Tensor):
            values.append(array_of(x))
        elif isinstance(x, Tracer):
            values.append(in_grad_mode(x))
        elif isinstance(x, (np.ndarray, np.generic, bool, int, float, complex)):
            values.append(x if isinstance(x, np.generic) else number_of(x))
        else:
            raise TypeError(errors.argument_type(op.node, k, len(operands), x))
    return values


def compute_traced(op: Op, values: list[Any], params: tuple[Any, ...]) -> Any:
    """Return the result, or the tuple of results, of an op; none of them shares memory with an
    operand.
    """
    function = op.function
    if op.promote is not None:
        specs = tuple(
            (type(v), v) if isinstance(v, (bool, int, float, complex)) and not isinstance(v,
            np.generic)
            else ShapeDtype(v.shape, v.dtype)
            for v in values
        )  # fmt: skip
        function = op.promote(function, specs)
    results = function(*values, *params)
    if isinstance(results, tuple):
        return tuple([apart(result, values) for result in results])
    return apart(results, values)


def wanting_traced(operands: Sequence[Any]) -> int:
    """Return a bit mask of the operands that require grad in a graph of traced values.

    Under ``torch.func``, only tensors that hold traced values count: the others are replaced
    there.
    """
    mask = 0
    if MODES.recording:
        for k, x in enumerate(operands):
            if (
                isinstance(x, Tensor)
                and x.requires_grad
                and (MODES.lift is None or isinstance(x._array, Tracer))
            ):
                mask |= 1 << k
    return mask


def traced_plan(
    op: Op, operands: Sequence[Any], params: tuple[Any, ...], mask: int
) -> tuple[OpPlan, list[Any]]:
    """Return the plan of an op on traced values, from their shapes and dtypes, and the operands as
    tensors.
    """
    tensors = [wrap(x) if isinstance(x, (Tracer, np.ndarray, np.generic)) else x for x in operands]
    key: list[Any] = [op, params]
    for x in tensors:
        if isinstance(x, Tensor):
            key += [x._array.shape, x._array.dtype]
        else:
            key.append((type(x), x) if op.static_numbers else type(x))
    key.append(mask)
    found = tuple(key)
    return PLANS.get(found) or make_plan(found, tuple(tensors), mask), tensors


def record_traced(
    op: Op, operands: Sequence[Any], params: tuple[Any, ...], mask: int, made: Any
) -> None:
    """Make the node of an operation on traced values."""
    plan, tensors = traced_plan(op, operands, params, mask)
    if plan.derivation is not None:
        node = record(
            plan, tensors, [x._array if isinstance(x, Tensor) else x for x in tensors], made
        )
        node.__class__ = of_traced(op.node_class)


@functools.lru_cache(maxsize=1024)
def of_traced(node_class: type[OpNode]) -> type[OpNode]:
    """Return the class of an op's nodes in graphs of traced values."""
    return type(
        node_class.__name__, (TracedNode, node_class), {"__module__": node_class.__module__}
    )


class TracedNode(OpNode):
    """A node in a graph of traced values: its saved values are traced, so gradients must be,
    too.
    """

    def run(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        """Run the backward program, which is recorded."""
        arrays = [
            s._kept._array
            for s in self._saved or ()
            if isinstance(s, SavedTensor) and isinstance(s._kept, Tensor)
        ]
        known = next((a for a in arrays if isinstance(a, Tracer)), None)
        if known is not None and any(g is not None for g in grads):
            outputs = self._plan.outputs
            given = grads if len(outputs) == 1 else [
                g if g is not None else zeros_of(a) for g, a in itertools.zip_longest(grads,
                outputs)
            ]  # fmt: skip
            grads = [
                wrap(traced_of(g._array, known))
                if g is not None and type(g._array) is _ndarray
                else g
                for g in given
            ]
        return super().run(grads)


def is_packed(op: Op, operands: Sequence[Any], params: tuple[Any, ...]) -> bool:
    """Return True if saved-tensor hooks get the saved values of an op on traced values.

    Raises:
        RuntimeError: inside ``torch.func``, as in PyTorch.
    """
    if not MODES.recording:
        return False
    refuse_hooks()
    mask = 0
    for k, x in enumerate(operands):
        array = x._array if isinstance(x, Tensor) else x
        if (
            isinstance(array, Tracer)
            and array.ft_recording.serial > MODES.floor
            and array.dtype.kind in "fcV"
        ):
            mask |= 1 << k
    if not mask or op.is_view:
        return False
    plan, _ = traced_plan(op, operands, params, mask)
    return plan.derivation is not None and any(plan.derivation.unpacks)


# -- saved-tensor hooks ----------------------------------------------------------------------------


class _Context(Protocol):
    plan: OpPlan
    others: list[Any]
    """Saved numbers by position; ``None`` if a tensor is saved there."""
    needs_input_grad: tuple[bool, ...]
    saved_tensors: tuple[Tensor, ...]

    def save_for_backward(self, *tensors: Tensor) -> None: ...


class OpFunction(_SingleLevelFunction):
    """One operation on traced values as a `Function`, so that hooks get the same values as from
    PyTorch's node.
    """

    @staticmethod
    def forward(ctx: _Context, op: Op, params: tuple[Any, ...], *operands: Any) -> Any:
        """Compute the operation."""
        made = apply_traced(op, operands, params)
        mask = sum(1 << k for k, needs in enumerate(ctx.needs_input_grad[2:]) if needs)
        ctx.plan, tensors = traced_plan(op, operands, params, mask)
        results = made if isinstance(made, tuple) else (made,)
        saved = [results[~p] if p < 0 else tensors[p] for _, p in ctx.plan.derivation.saves]
        ctx.others = [None if isinstance(x, Tensor) else x for x in saved]
        ctx.save_for_backward(*[x for x in saved if isinstance(x, Tensor)])
        return made

    @staticmethod
    def backward(ctx: _Context, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Pull gradients back."""
        plan = ctx.plan
        tensors = iter(ctx.saved_tensors)
        values = [next(tensors)._array if other is None else other for other in ctx.others]
        found: list[Tensor | None] = [None] * len(plan.case.specs)
        for place, gradient in zip(plan.case.edges, plan.pull(values, grads), strict=True):
            if place is not None and gradient is not None:
                found[place] = fitted(gradient, plan.case.specs[place], plan.case.op.node, place)
        return None, None, *found
