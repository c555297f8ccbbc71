"""`ASGD`: gradient descent, with averages of the parameters.

Layer: 9.
"""

from __future__ import annotations

from typing import Any, ClassVar

from functrace.torch.optim.arithmetic import Arithmetic, Operand
from functrace.torch.optim.optimizer import (
    ParamsT,
    check_at_least_zero,
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

__all__ = ["ASGD", "asgd"]


class ASGD(PerParameter):
    """Averaged gradient descent: the state's ``"ax"`` is the average of the parameter since step
    ``t0``.

    Args:
        params: parameters, groups of them, or parameters with names.
        lr: learning rate; may be a tensor with one element.
        lambd: the parameter is multiplied by ``1 - lambd * eta`` in every step.
        alpha: power of the decay of the rate: ``eta = lr / (1 + lambd * lr * step) ** alpha``.
        t0: the step at which averaging begins.
        weight_decay: factor of the parameter that is added to its gradient.
        foreach: no effect.
        maximize: whether the objective grows.
        differentiable: whether gradients flow through the step.
        capturable: refused by ``step``, as on every CPU.

    Raises:
        ValueError: for negative settings.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> optimizer = torch.optim.ASGD([x], lr=0.1, t0=0)
        >>> for _ in range(2):
        ...     optimizer.zero_grad()
        ...     x.square().sum().backward()
        ...     optimizer.step()
        >>> optimizer.state[x]["ax"]
        tensor([0.6400, 1.2800])

    Source: B. T. Polyak, A. B. Juditsky, Acceleration of stochastic approximation by averaging,
    1992.
    """

    _capturable = ("params, mus, etas, and state_steps", True)
    _NUMBERS = ("step", "eta", "mu")
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
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_tensor_lr(lr)
        check_at_least_zero("Invalid learning rate", lr)
        check_at_least_zero("Invalid weight_decay value", weight_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "lambd": lambd,
                "alpha": alpha,
                "t0": t0,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def _start(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> None:
        state["step"] = step_count(group)
        state["eta"] = number_tensor(plain(hyper(group["lr"], False)))
        state["mu"] = number_tensor(1.0)
        state["ax"] = zeros_like(p)

    def _buffers(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> list[Tensor]:
        return [state["ax"]]

    def _overwrites(self, group: dict[str, Any]) -> int:
        return 2

    def _advance(self, group: dict[str, Any], state: dict[str, Any]) -> tuple[Any, ...]:
        step = advance(state["step"])
        eta, mu = state["eta"].item(), state["mu"].item()
        lr, lambd = hyper(group["lr"], False), group["lambd"]
        overwrite_number(state["eta"], lr / ((1 + lambd * lr * step) ** group["alpha"]))
        overwrite_number(state["mu"], 1 / max(1, step - group["t0"]))
        return eta, mu, 1 - lambd * eta, group["weight_decay"], group["maximize"]

    def _update(
        self,
        f: Arithmetic,
        numbers: tuple[Any, ...],
        param: Operand,
        grad: Operand,
        *buffers: Operand,
    ) -> None:
        eta, mu, shrink, weight_decay, maximize = numbers
        (average,) = buffers
        if maximize:
            grad = f.neg(grad)
        if weight_decay != 0:
            grad = f.add(grad, param, weight_decay)
        f.mul_(param, shrink)
        f.add_(param, grad, -eta)
        if mu == 1:
            f.copy_(average, param)
        else:
            f.add_(average, f.mul(f.sub(param, average), mu))


asgd = functional(ASGD, ("ax", "mu", "eta", "step"))
