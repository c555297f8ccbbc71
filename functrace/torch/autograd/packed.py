"""Saved-tensor hooks among traced values: an operation that saves something becomes a `Function`, which they see save it.

Floor: 8.
"""

from __future__ import annotations

from typing import Any, Protocol

from functrace.torch.applying_traced import PACKED, apply_traced, traced_plan
from functrace.torch.autograd.function import Function
from functrace.torch.autograd.graph import fitted
from functrace.torch.op import Op
from functrace.torch.plans import Plan
from functrace.torch.tensor import Tensor


class _Context(Protocol):
    plan: Plan
    others: list[Any]
    """By place: None for what is saved as a tensor, otherwise the number."""
    needs_input_grad: tuple[bool, ...]
    saved_tensors: tuple[Tensor, ...]

    def save_for_backward(self, *tensors: Tensor) -> None: ...


class Packed(Function):
    """One operation; it saves what its node saves in PyTorch."""

    @staticmethod
    def forward(ctx: _Context, op: Op, params: tuple[Any, ...], *operands: Any) -> Any:
        """Compute it."""
        made = apply_traced(op, operands, params)
        mask = sum(1 << k for k, needs in enumerate(ctx.needs_input_grad[2:]) if needs)
        ctx.plan, tensors = traced_plan(op, operands, params, mask)
        results = made if isinstance(made, tuple) else (made,)
        saved = [results[~p] if p < 0 else tensors[p] for _, p in ctx.plan.saves]
        ctx.others = [None if isinstance(x, Tensor) else x for x in saved]
        ctx.save_for_backward(*[x for x in saved if isinstance(x, Tensor)])
        return made

    @staticmethod
    def backward(ctx: _Context, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Pull gradients back."""
        plan = ctx.plan
        tensors = iter(ctx.saved_tensors)
        values = [next(tensors)._array if other is None else other for other in ctx.others]
        found: list[Tensor | None] = [None] * len(plan.specs)
        for place, gradient in zip(plan.edge_positions, plan.pull(values, grads), strict=True):
            if place is not None and gradient is not None:
                found[place] = fitted(gradient, plan.specs[place], plan.op.node, place)
        return None, None, *found


PACKED.append(Packed.apply)
