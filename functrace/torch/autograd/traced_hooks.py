"""Hooks on tensors that functrace traces: they apply to gradients of uses after the registration.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, NoReturn, Protocol, TypeAlias

from functrace.torch import errors
from functrace.torch.autograd.engine import hook_result
from functrace.torch.autograd.function import Function
from functrace.torch.autograd.handles import HookDict, RemovableHandle
from functrace.torch.tensors.tensor import Tensor, wrap
from functrace.tracing import Tracer

Hook: TypeAlias = Callable[[Tensor], Tensor | None]


class Hooks(NamedTuple):
    """The hooks registered on a traced value: the value without them, with them, and the hooks."""

    before: Tracer
    after: Tracer
    hooks: tuple[Hook, ...]


class _Context(Protocol):
    hooks: tuple[Hook, ...]


class Hooked(Function):
    """Identity whose gradient the hooks get: that of the innermost transform, as in PyTorch."""

    _rule_at_every_order = False

    @staticmethod
    def forward(ctx: _Context, x: Tensor, hooks: tuple[Hook, ...]) -> Tensor:
        """Return a copy."""
        ctx.hooks = hooks
        return x.clone()

    @staticmethod
    def backward(ctx: _Context, grad: Tensor | None) -> tuple[Tensor | None, None]:
        """Call the hooks in registration order."""
        for hook in ctx.hooks:
            grad = hook_result(hook, grad)
        return grad, None


class RecordedHandle(RemovableHandle):
    """Handle of a hook on a traced value: the hook is part of the recording, and cannot be
    removed.
    """

    def remove(self) -> NoReturn:
        """Raise."""
        raise RuntimeError(errors.RECORDED_HOOK)


def register_traced(tensor: Tensor, hook: Hook) -> RemovableHandle:
    """Register a hook on a tensor that holds a traced value.

    Raises:
        RuntimeError: if the value has been used already (that part of its gradient would not pass
            the hook), or has no gradient.
    """
    array: Tracer = tensor._array
    if array.dtype.kind not in "fcV":
        raise RuntimeError(errors.HOOK_WITHOUT_GRAD)
    variable = array.ft_variable
    if any(variable in operands for _, operands, _ in array.ft_recording.ops[variable + 1 :]):
        raise RuntimeError(errors.HOOK_AFTER_USE)
    known = tensor._traced_hooks
    before, hooks = (
        (known.before, known.hooks) if known is not None and known.after is array else (array, ())
    )
    hooks = (*hooks, hook)
    after = Hooked.apply(wrap(before), hooks)._array
    tensor._array, tensor._traced_hooks = after, Hooks(before, after, hooks)
    return RecordedHandle(HookDict())
