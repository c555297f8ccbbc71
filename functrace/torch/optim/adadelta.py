"""`Adadelta`: steps scaled by running averages of squared steps and gradients.

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

__all__ = ["Adadelta", "adadelta"]


class Adadelta(PerParameter):
    """Adadelta: ``p -= lr * d`` with ``d = grad * sqrt(u + eps) / sqrt(v + eps)``, and running
    averages ``v`` of squared gradients and ``u`` of squared ``d``.

    Args:
        params: parameters, groups of them, or parameters with names.
        lr: learning rate; may be a tensor with one element.
        rho: decay rate of both averages, from 0 to 1.
        eps: added inside both roots.
        weight_decay: factor of the parameter that is added to its gradient.
        foreach: no effect.
        capturable: refused by ``step``, as on every CPU.
        maximize: whether the objective grows.
        differentiable: whether gradients flow through the step.

    Raises:
        ValueError: for settings out of range.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> optimizer = torch.optim.Adadelta([x], lr=10)
        >>> x.square().sum().backward()
        >>> optimizer.step()
        >>> x
        tensor([0.9684, 1.9684], requires_grad=True)

    Source: M. D. Zeiler, ADADELTA: an adaptive learning rate method, 2012.
    """

    _capturable = ("params and state_steps", False)
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
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_tensor_lr(lr)
        check_at_least_zero("Invalid learning rate", lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_at_least_zero("Invalid epsilon value", eps)
        check_at_least_zero("Invalid weight_decay value", weight_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "rho": rho,
                "eps": eps,
                "weight_decay": weight_decay,
                "maximize": maximize,
                "capturable": capturable,
                "foreach": foreach,
                "differentiable": differentiable,
            },
        )

    def _start(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> None:
        state["step"] = step_count(group)
        state["square_avg"] = zeros_like(p)
        state["acc_delta"] = zeros_like(p)

    def _buffers(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> list[Tensor]:
        return [state["square_avg"], state["acc_delta"]]

    def _advance(self, group: dict[str, Any], state: dict[str, Any]) -> tuple[Any, ...]:
        advance(state["step"])
        lr = plain(hyper(group["lr"], group["differentiable"]))
        return -lr, group["rho"], group["eps"], group["weight_decay"], group["maximize"]

    def _update(
        self,
        f: Arithmetic,
        numbers: tuple[Any, ...],
        param: Operand,
        grad: Operand,
        *buffers: Operand,
    ) -> None:
        rate, rho, eps, weight_decay, maximize = numbers
        square, deltas = buffers
        if maximize:
            grad = f.neg(grad)
        if weight_decay != 0:
            grad = f.add(grad, param, weight_decay)
        f.mul_(square, rho)
        f.addcmul_(square, grad, grad, 1 - rho)
        scale = f.sqrt(f.plus(square, eps))
        delta = f.mul(f.div(f.sqrt(f.plus(deltas, eps)), scale), grad)
        f.mul_(deltas, rho)
        f.addcmul_(deltas, delta, delta, 1 - rho)
        f.add_(param, delta, rate)


adadelta = functional(Adadelta, ("square_avg", "acc_delta", "step"))
