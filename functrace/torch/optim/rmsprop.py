"""`RMSprop`: steps scaled by a running average of squared gradients.

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
    functional,
    hyper,
    plain,
    step_count,
    zeros_like,
)
from functrace.torch.tensors.tensor import Tensor

__all__ = ["RMSprop", "rmsprop"]


class RMSprop(PerParameter):
    """RMSprop: ``p -= lr * grad / (sqrt(v) + eps)`` with a running average ``v`` of squared
    gradients.

    Args:
        params: parameters, groups of them, or parameters with names.
        lr: learning rate; may be a tensor with one element.
        alpha: decay rate of the average.
        eps: added to the denominator.
        weight_decay: factor of the parameter that is added to its gradient.
        momentum: factor of the former step.
        centered: whether the square of the average gradient is subtracted from ``v``.
        capturable: refused by ``step``, as on every CPU.
        foreach: no effect.
        maximize: whether the objective grows.
        differentiable: whether gradients flow through the step.

    Raises:
        ValueError: for negative settings.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> optimizer = torch.optim.RMSprop([x], lr=0.01)
        >>> x.square().sum().backward()
        >>> optimizer.step()
        >>> x
        tensor([0.9000, 1.9000], requires_grad=True)

    Source: G. Hinton, Neural networks for machine learning, lecture 6; A. Graves, Generating
    sequences with recurrent neural networks, 2013, for the centered form.
    """

    _NUMBERS = ("step",)
    _ADDED: ClassVar[dict[str, Any]] = {
        "momentum": 0,
        "centered": False,
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
    }

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_tensor_lr(lr)
        check_at_least_zero("Invalid learning rate", lr)
        check_at_least_zero("Invalid epsilon value", eps)
        check_at_least_zero("Invalid momentum value", momentum)
        check_at_least_zero("Invalid weight_decay value", weight_decay)
        check_at_least_zero("Invalid alpha value", alpha)
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "alpha": alpha,
                "eps": eps,
                "centered": centered,
                "weight_decay": weight_decay,
                "capturable": capturable,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
            },
        )

    def _start(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> None:
        state["step"] = step_count(group)
        state["square_avg"] = zeros_like(p)
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros_like(p)
        if group["centered"]:
            state["grad_avg"] = zeros_like(p)

    def _buffers(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> list[Tensor]:
        buffers = [state["square_avg"]]
        if group["momentum"] > 0:
            buffers.append(state["momentum_buffer"])
        if group["centered"]:
            buffers.append(state["grad_avg"])
        return buffers

    def _advance(self, group: dict[str, Any], state: dict[str, Any]) -> tuple[Any, ...]:
        advance(state["step"])
        return (
            -plain(hyper(group["lr"], group["differentiable"])),
            group["alpha"],
            group["eps"],
            group["weight_decay"],
            group["momentum"],
            group["centered"],
            group["maximize"],
        )

    def _update(
        self,
        f: Arithmetic,
        numbers: tuple[Any, ...],
        param: Operand,
        grad: Operand,
        *buffers: Operand,
    ) -> None:
        rate, alpha, eps, weight_decay, momentum, centered, maximize = numbers
        square = buffers[0]
        if maximize:
            grad = f.neg(grad)
        if weight_decay != 0:
            grad = f.add(grad, param, weight_decay)
        f.mul_(square, alpha)
        f.addcmul_(square, grad, grad, 1 - alpha)
        if centered:
            mean = buffers[-1]
            f.lerp_(mean, grad, 1 - alpha)
            square = f.sub(square, f.square(mean))
        scale = f.shift(f.sqrt(square), eps)
        if momentum > 0:
            f.mul_(buffers[1], momentum)
            f.addcdiv_(buffers[1], grad, scale)
            f.add_(param, buffers[1], rate)
        else:
            f.addcdiv_(param, grad, scale, rate)


rmsprop = functional(RMSprop, ("square_avg", "grad_avg", "momentum_buffer", "step"))
