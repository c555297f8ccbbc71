"""`Adamax`: Adam with a running maximum in place of the average of squares.

Layer: 9.
"""

from __future__ import annotations

from typing import Any, ClassVar

from functrace.torch.optim.arithmetic import Arithmetic, Operand
from functrace.torch.optim.optimizer import (
    ParamsT,
    check_at_least_zero,
    check_betas,
    check_tensor_lr,
)
from functrace.torch.optim.stepping import (
    PerParameter,
    advance,
    functional,
    hyper,
    plain,
    step_count,
    zeros_like,
)
from functrace.torch.tensors.tensor import Tensor

__all__ = ["Adamax", "adamax"]


class Adamax(PerParameter):
    """Adamax: ``p -= lr * m / u`` with the bias-corrected running average ``m`` of the gradient,
    and ``u = max(beta2 * u, abs(grad) + eps)``.

    Args:
        params: parameters, groups of them, or parameters with names.
        lr: learning rate; may be a tensor with one element.
        betas: decay rates of the average and of the maximum.
        eps: added to the size of the gradient.
        weight_decay: factor of the parameter that is added to its gradient.
        foreach: no effect.
        maximize: whether the objective grows.
        differentiable: whether gradients flow through the step.
        capturable: refused by ``step``, as on every CPU.

    Raises:
        ValueError: for settings out of range.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> optimizer = torch.optim.Adamax([x], lr=0.1)
        >>> x.square().sum().backward()
        >>> optimizer.step()
        >>> x
        tensor([0.9000, 1.9000], requires_grad=True)

    Source: D. P. Kingma, J. Ba, Adam: a method for stochastic optimization, 2014, section 7.
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
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_tensor_lr(lr)
        check_at_least_zero("Invalid learning rate", lr)
        check_at_least_zero("Invalid epsilon value", eps)
        check_betas(betas)
        check_at_least_zero("Invalid weight_decay value", weight_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def _start(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> None:
        state["step"] = step_count(group)
        state["exp_avg"] = zeros_like(p)
        state["exp_inf"] = zeros_like(p)

    def _buffers(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> list[Tensor]:
        return [state["exp_avg"], state["exp_inf"]]

    def _advance(self, group: dict[str, Any], state: dict[str, Any]) -> tuple[Any, ...]:
        step = advance(state["step"])
        lr = hyper(group["lr"], group["differentiable"])
        beta1, beta2 = group["betas"]
        rate = plain(-(lr / (1 - beta1**step)))
        return rate, 1 - beta1, beta2, group["eps"], group["weight_decay"], group["maximize"]

    def _update(
        self,
        f: Arithmetic,
        numbers: tuple[Any, ...],
        param: Operand,
        grad: Operand,
        *buffers: Operand,
    ) -> None:
        rate, weight, beta2, eps, weight_decay, maximize = numbers
        mean, largest = buffers
        if maximize:
            grad = f.neg(grad)
        if weight_decay != 0:
            grad = f.add(grad, param, weight_decay)
        f.lerp_(mean, grad, weight)
        f.mul_(largest, beta2)
        f.maximum_(largest, f.shift(f.abs(grad), eps))
        f.addcdiv_(param, mean, largest, rate)


adamax = functional(Adamax, ("exp_avg", "exp_inf", "step"), {"betas": ("beta1", "beta2")})
