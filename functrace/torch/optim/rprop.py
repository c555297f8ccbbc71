"""`Rprop`: steps by the signs of gradients.

Layer: 9.
"""

from __future__ import annotations

from typing import Any, ClassVar

from functrace.torch.optim.arithmetic import Arithmetic, Operand
from functrace.torch.optim.optimizer import (
    ParamsT,
    check_at_least_zero,
    check_tensor_lr,
)
from functrace.torch.optim.stepping import (
    PerParameter,
    advance,
    complex_filled,
    functional,
    step_count,
    zeros_like,
)
from functrace.torch.tensors.tensor import Tensor

__all__ = ["Rprop", "rprop"]


class Rprop(PerParameter):
    """Resilient propagation: every element has a step size of its own, which grows while the sign
    of its gradient stays, and shrinks when it changes.

    Args:
        params: parameters, groups of them, or parameters with names.
        lr: first step size; may be a tensor with one element.
        etas: factors by which step sizes shrink and grow.
        step_sizes: the smallest and the largest step size.
        capturable: refused by ``step``, as on every CPU.
        foreach: no effect.
        maximize: whether the objective grows.
        differentiable: whether gradients flow through the step.

    Raises:
        ValueError: for a negative learning rate, or factors on the wrong side of 1.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.tensor([1.0, -2.0], requires_grad=True)
        >>> optimizer = torch.optim.Rprop([x], lr=0.1)
        >>> x.square().sum().backward()
        >>> optimizer.step()
        >>> x
        tensor([ 0.9000, -1.9000], requires_grad=True)

    Source: M. Riedmiller, H. Braun, A direct adaptive method for faster backpropagation learning:
    the RPROP algorithm, 1993.
    """

    _NUMBERS = ("step",)
    _ADDED: ClassVar[dict[str, Any]] = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
    }

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_tensor_lr(lr)
        check_at_least_zero("Invalid learning rate", lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(
            params,
            {
                "lr": lr,
                "etas": etas,
                "step_sizes": step_sizes,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def _start(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> None:
        state["step"] = step_count(group)
        state["prev"] = zeros_like(p)
        state["step_size"] = complex_filled(p, group["lr"])

    def _buffers(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> list[Tensor]:
        return [state["prev"], state["step_size"]]

    def _advance(self, group: dict[str, Any], state: dict[str, Any]) -> tuple[Any, ...]:
        advance(state["step"])
        return *group["etas"], *group["step_sizes"], group["maximize"]

    def _update(
        self,
        f: Arithmetic,
        numbers: tuple[Any, ...],
        param: Operand,
        grad: Operand,
        *buffers: Operand,
    ) -> None:
        shrink, grow, smallest, largest, maximize = numbers
        before, size = buffers
        if maximize:
            grad = f.neg(grad)
        factor = f.by_sign(f.product(grad, before), grow, shrink)
        f.mul_(size, factor)
        f.clamp_(size, smallest, largest)
        grad = f.zeroed(grad, factor, shrink)
        f.addcmul_(param, f.sign(grad), size, -1)
        f.copy_(before, grad)


rprop = functional(
    Rprop,
    ("prev", "step_size", "step"),
    {"etas": ("etaminus", "etaplus"), "step_sizes": ("step_size_min", "step_size_max")},
)
