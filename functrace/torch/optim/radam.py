"""`RAdam`: Adam that waits until its average of squares is certain.

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

__all__ = ["RAdam", "radam"]


class RAdam(PerParameter):
    """Rectified Adam: the first steps follow the average gradient alone; later ones are those of
    Adam, times a factor for the uncertainty of the average of squares.

    Args:
        params: parameters, groups of them, or parameters with names.
        lr: learning rate; may be a tensor with one element.
        betas: decay rates of the averages of the gradient and its square.
        eps: added to the denominator.
        weight_decay: factor of the parameter that is added to its gradient.
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
        >>> optimizer = torch.optim.RAdam([x], lr=0.1)
        >>> x.square().sum().backward()
        >>> optimizer.step()
        >>> x
        tensor([0.8000, 1.6000], requires_grad=True)

    Source: L. Liu and others, On the variance of the adaptive learning rate and beyond, 2019.
    """

    _NUMBERS = ("step",)
    _ADDED: ClassVar[dict[str, Any]] = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
        "capturable": False,
    }

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
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
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "decoupled_weight_decay": decoupled_weight_decay,
                "differentiable": differentiable,
            },
        )

    def _start(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> None:
        state["step"] = step_count(group)
        state["exp_avg"] = zeros_like(p)
        state["exp_avg_sq"] = zeros_like(p)

    def _buffers(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> list[Tensor]:
        return [state["exp_avg"], state["exp_avg_sq"]]

    def _overwrites(self, group: dict[str, Any]) -> int:
        return 1 + (group["decoupled_weight_decay"] and group["weight_decay"] != 0)

    def _advance(self, group: dict[str, Any], state: dict[str, Any]) -> tuple[Any, ...]:
        step = advance(state["step"])
        lr = hyper(group["lr"], group["differentiable"])
        beta1, beta2 = group["betas"]
        correction = 1 - beta2**step
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * step * (beta2**step) / correction
        rectified = None
        if length > 5.0:
            rectified = (
                (length - 4) * (length - 2) * longest
                / ((longest - 4) * (longest - 2) * length)
            ) ** 0.5  # fmt: skip
        weight_decay = group["weight_decay"]
        shrink = None
        if weight_decay != 0 and group["decoupled_weight_decay"]:
            shrink, weight_decay = plain(1 - lr * weight_decay), 0
        return (
            plain(lr),
            1 - beta1,
            1 - beta1**step,
            beta2,
            correction**0.5,
            rectified,
            group["eps"],
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
        lr, weight, correction1, beta2, root, rectified, eps, weight_decay, shrink, up = numbers
        mean, square = buffers
        if up:
            grad = f.neg(grad)
        if shrink is not None:
            f.mul_(param, shrink)
        elif weight_decay != 0:
            grad = f.add(grad, param, weight_decay)
        f.lerp_(mean, grad, weight)
        f.mul_(square, beta2)
        f.addcmul_(square, grad, grad, 1 - beta2)
        step = f.mul(f.div(mean, correction1), lr)
        if rectified is not None:
            scale = f.over(root, f.shift(f.sqrt(square), eps))
            step = f.mul(f.mul(step, scale), rectified)
        f.add_(param, step, -1)


radam = functional(RAdam, ("exp_avg", "exp_avg_sq", "step"), {"betas": ("beta1", "beta2")})
