"""`NAdam`: Adam with Nesterov's momentum.

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
    number_tensor,
)
from functrace.torch.optim.stepping import (
    PerParameter,
    advance,
    functional,
    hyper,
    overwrite_number,
    plain,
    step_count,
    zeros_like,
)
from functrace.torch.tensors.tensor import Tensor

__all__ = ["NAdam", "nadam"]


class NAdam(PerParameter):
    """Adam whose step looks ahead along the average gradient, with a momentum that grows.

    Args:
        params: parameters, groups of them, or parameters with names.
        lr: learning rate; may be a tensor with one element.
        betas: decay rates of the averages of the gradient and its square.
        eps: added to the denominator.
        weight_decay: factor of the parameter that is added to its gradient.
        momentum_decay: momentum of step k is ``beta1 * (1 - 0.5 * 0.96 ** (k * momentum_decay))``.
        decoupled_weight_decay: whether weight decay shrinks the parameter itself, as in `AdamW`.
        foreach: no effect.
        maximize: whether the objective grows.
        capturable: refused by ``step``, as on every CPU.
        differentiable: whether gradients flow through the step.

    Raises:
        ValueError: for settings out of range.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> optimizer = torch.optim.NAdam([x], lr=0.1)
        >>> x.square().sum().backward()
        >>> optimizer.step()
        >>> x
        tensor([0.8944, 1.8944], requires_grad=True)

    Source: T. Dozat, Incorporating Nesterov momentum into Adam, 2016.
    """

    _capturable = ("params, mu_products and state_steps", True)
    _NUMBERS = ("step", "mu_product")
    _ADDED: ClassVar[dict[str, Any]] = {
        "maximize": False,
        "foreach": None,
        "capturable": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
    }

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_tensor_lr(lr)
        check_at_least_zero("Invalid learning rate", lr)
        check_at_least_zero("Invalid epsilon value", eps)
        check_betas(betas)
        check_at_least_zero("Invalid weight_decay value", weight_decay)
        check_at_least_zero("Invalid momentum_decay value", momentum_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "momentum_decay": momentum_decay,
                "decoupled_weight_decay": decoupled_weight_decay,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "differentiable": differentiable,
            },
        )

    def _start(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> None:
        state["step"] = step_count(group)
        state["mu_product"] = number_tensor(1.0)
        state["exp_avg"] = zeros_like(p)
        state["exp_avg_sq"] = zeros_like(p)

    def _buffers(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> list[Tensor]:
        return [state["exp_avg"], state["exp_avg_sq"]]

    def _overwrites(self, group: dict[str, Any]) -> int:
        return 2 + (group["decoupled_weight_decay"] and group["weight_decay"] != 0)

    def _advance(self, group: dict[str, Any], state: dict[str, Any]) -> tuple[Any, ...]:
        step = advance(state["step"])
        differentiable = group["differentiable"]
        lr = hyper(group["lr"], differentiable)
        beta1, beta2 = group["betas"]
        decay = group["momentum_decay"]
        mu = beta1 * (1.0 - 0.5 * (0.96 ** (step * decay)))
        mu_next = beta1 * (1.0 - 0.5 * (0.96 ** ((step + 1) * decay)))
        overwrite_number(state["mu_product"], state["mu_product"].mul(mu)._array)
        product = state["mu_product"].item()
        weight_decay = group["weight_decay"]
        shrink = None
        if weight_decay != 0 and group["decoupled_weight_decay"]:
            shrink, weight_decay = plain(1 - lr * weight_decay), 0
        return (
            1 - beta1,
            beta2,
            1 - beta2**step,
            group["eps"],
            plain(-lr * (1.0 - mu) / (1.0 - product)),
            plain(-lr * mu_next / (1.0 - product * mu_next)),
            weight_decay,
            shrink,
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
        weight, beta2, correction, eps, rate, ahead, weight_decay, shrink, maximize = numbers
        mean, square = buffers
        if maximize:
            grad = f.neg(grad)
        if shrink is not None:
            f.mul_(param, shrink)
        elif weight_decay != 0:
            grad = f.add(grad, param, weight_decay)
        f.lerp_(mean, grad, weight)
        f.mul_(square, beta2)
        f.addcmul_(square, grad, grad, 1 - beta2)
        scale = f.shift(f.sqrt(f.div(square, correction)), eps)
        f.addcdiv_(param, grad, scale, rate)
        f.addcdiv_(param, mean, scale, ahead)


nadam = functional(
    NAdam, ("exp_avg", "exp_avg_sq", "mu_product", "step"), {"betas": ("beta1", "beta2")}
)
