"""`AdamW`: Adam, with weight decay of the parameter itself.

Layer: 9.
"""

from __future__ import annotations

from typing import Any

from functrace.torch.optim.adam import Adam
from functrace.torch.optim.optimizer import ParamsT
from functrace.torch.optim.stepping import functional
from functrace.torch.tensors.tensor import Tensor

__all__ = ["AdamW", "adamw"]


class AdamW(Adam):
    """`Adam` whose weight decay shrinks the parameter, and stays out of the averages.

    Args:
        params: parameters, groups of them, or parameters with names.
        lr: learning rate; may be a tensor with one element.
        betas: decay rates of the averages of the gradient and its square.
        eps: added to the denominator.
        weight_decay: the parameter is first multiplied by ``1 - lr * weight_decay``.
        amsgrad: whether the denominator has the largest average so far.
        maximize: whether the objective grows.
        foreach: no effect.
        capturable: refused by ``step``, as on every CPU.
        differentiable: whether gradients flow through the step.
        fused: no effect, but for the dtype of step counts.

    Raises:
        ValueError: for settings out of range.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> optimizer = torch.optim.AdamW([x], lr=0.1, weight_decay=0.5)
        >>> x.square().sum().backward()
        >>> optimizer.step()
        >>> x
        tensor([0.8500, 1.8000], requires_grad=True)

    Source: I. Loshchilov, F. Hutter, Decoupled weight decay regularization, 2017.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


adamw = functional(
    AdamW,
    ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step"),
    {"betas": ("beta1", "beta2")},
    decoupled_weight_decay=True,
)
