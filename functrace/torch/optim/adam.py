"""`Adam`: steps scaled by running averages of the gradient and its square.

Layer: 9.
"""

from __future__ import annotations

from typing import Any, ClassVar

from functrace.torch.optim import errors
from functrace.torch.optim.arithmetic import Arithmetic, Operand
from functrace.torch.optim.optimizer import (
    ParamsT,
    _to_scalar,
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

__all__ = ["Adam", "adam"]


class Adam(PerParameter):
    """Adam: ``p -= lr * m / (sqrt(v) + eps)`` with bias-corrected running averages ``m`` of the
    gradient and ``v`` of its square.

    Args:
        params: parameters, groups of them, or parameters with names.
        lr: learning rate; may be a tensor with one element.
        betas: decay rates of both averages: two floats, or two tensors with one element.
        eps: added to the denominator.
        weight_decay: factor of the parameter that is added to its gradient.
        amsgrad: whether the denominator has the largest ``v`` so far.
        foreach: no effect.
        maximize: whether the objective grows.
        capturable: refused by ``step``, as on every CPU.
        differentiable: whether gradients flow through the step.
        fused: no effect, but for the dtype of step counts.
        decoupled_weight_decay: whether weight decay shrinks the parameter itself, as in `AdamW`.

    Raises:
        ValueError: for settings out of range.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> optimizer = torch.optim.Adam([x], lr=0.1)
        >>> x.square().sum().backward()
        >>> optimizer.step()
        >>> x
        tensor([0.9000, 1.9000], requires_grad=True)

    Source: D. P. Kingma, J. Ba, Adam: a method for stochastic optimization, 2014; S. J. Reddi,
    S. Kale, S. Kumar, On the convergence of Adam and beyond, 2018.
    """

    _NUMBERS = ("step",)
    _ADDED: ClassVar[dict[str, Any]] = {
        "amsgrad": False,
        "maximize": False,
        "foreach": None,
        "capturable": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
        "fused": None,
    }

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        in_lists = foreach and not capturable
        if isinstance(lr, Tensor) and in_lists:
            raise ValueError(errors.TENSOR_LR_FOREACH)
        check_tensor_lr(lr)
        check_at_least_zero("Invalid learning rate", lr)
        check_at_least_zero("Invalid epsilon value", eps)
        check_betas(betas)
        check_at_least_zero("Invalid weight_decay value", weight_decay)
        if not any(all(isinstance(b, kind) for b in betas[:2]) for kind in (float, Tensor)):
            raise ValueError(errors.BETAS_KINDS)
        for k, beta in enumerate(betas[:2]):
            if isinstance(beta, Tensor) and in_lists:
                raise ValueError(errors.TENSOR_LR_FOREACH.replace("lr", f"betas[{k}]", 1))
            if isinstance(beta, Tensor) and beta.numel() != 1:
                raise ValueError(f"Tensor betas[{k}] must be 1-element")
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": tuple(map(_to_scalar, betas)),
                "eps": eps,
                "weight_decay": weight_decay,
                "amsgrad": amsgrad,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "differentiable": differentiable,
                "fused": fused,
                "decoupled_weight_decay": decoupled_weight_decay,
            },
        )

    def _start(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> None:
        state["step"] = step_count(group)
        state["exp_avg"] = zeros_like(p)
        state["exp_avg_sq"] = zeros_like(p)
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_like(p)

    def _check_group(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> None:
        if group["differentiable"] and state["step"].requires_grad:
            raise RuntimeError(errors.STEP_REQUIRES_GRAD)
        if group["foreach"] and isinstance(group["lr"], Tensor) and not group["capturable"]:
            raise RuntimeError(errors.TENSOR_LR_FOREACH)

    def _buffers(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> list[Tensor]:
        buffers = [state["exp_avg"], state["exp_avg_sq"]]
        if group["amsgrad"]:
            buffers.append(state["max_exp_avg_sq"])
        return buffers

    def _overwrites(self, group: dict[str, Any]) -> int:
        return 1 + (group["decoupled_weight_decay"] and group["weight_decay"] != 0)

    def _advance(self, group: dict[str, Any], state: dict[str, Any]) -> tuple[Any, ...]:
        differentiable = group["differentiable"]
        step: Any = advance(state["step"])
        if differentiable:  # PyTorch corrects the bias in the precision of the count then
            step = state["step"]._array.dtype.type(step)
        lr = hyper(group["lr"], differentiable)
        beta1, beta2 = group["betas"]
        if type(beta1) is not float:
            beta1, beta2 = hyper(beta1, differentiable), hyper(beta2, differentiable)
        weight_decay = group["weight_decay"]
        shrink = None
        if weight_decay != 0 and group["decoupled_weight_decay"]:
            shrink, weight_decay = plain(1 - lr * weight_decay), 0
        return (
            plain(1 - beta1),
            plain(beta2),
            plain(1 - beta2),
            plain((1 - beta2**step) ** 0.5),
            plain(-(lr / plain(1 - beta1**step))),
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
        weight1, beta2, weight2, correction, step_size, eps, weight_decay, shrink, up = numbers
        mean, square = buffers[0], buffers[1]
        if up:
            grad = f.neg(grad)
        if shrink is not None:
            f.mul_(param, shrink)
        elif type(weight_decay) is not int or weight_decay:
            grad = f.add(grad, param, weight_decay)
        f.lerp_(mean, grad, weight1)
        f.mul_(square, beta2)
        f.addcmul_(square, grad, grad, weight2)
        if len(buffers) == 3:
            f.maximum_(buffers[2], square)
            square = buffers[2]
        f.addcdiv_(param, mean, f.shift(f.div(f.sqrt(square), correction), eps), step_size)


adam = functional(
    Adam, ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step"), {"betas": ("beta1", "beta2")}
)
