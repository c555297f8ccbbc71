"""The Function that module hooks use; see utils/hooks.py.

Layer: 9.
"""

from __future__ import annotations

from typing import Protocol

from functrace.torch.autograd.function import Function
from functrace.torch.tensors.tensor import Tensor


class _Context(Protocol):
    def mark_non_differentiable(self, *tensors: Tensor) -> None: ...


class BackwardHookFunction(Function):
    """Identity on tensors, as one node for all their gradients."""

    @staticmethod
    def forward(ctx: _Context, *args: Tensor) -> tuple[Tensor, ...]:
        """Return the tensors."""
        ctx.mark_non_differentiable(*[x for x in args if not x.requires_grad])
        return args

    @staticmethod
    def backward(ctx: _Context, *args: Tensor | None) -> tuple[Tensor | None, ...]:
        """Return their gradients."""
        return args
