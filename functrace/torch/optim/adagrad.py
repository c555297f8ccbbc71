"""`Adagrad`: steps scaled by the sum of squared gradients.

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
    hyper,
    plain,
    step_count,
)
from functrace.torch.tensors.tensor import Tensor

__all__ = ["Adagrad", "adagrad"]


class Adagrad(PerParameter):
    """Adagrad: ``p -= lr * grad / (sqrt(s) + eps)`` with the sum ``s`` of squared gradients.

    Args:
        params: parameters, groups of them, or parameters with names.
        lr: learning rate; may be a tensor with one element.
        lr_decay: step k uses ``lr / (1 + k * lr_decay)``, from k = 0.
        weight_decay: factor of the parameter that is added to its gradient.
        initial_accumulator_value: first value of the sum.
        eps: added to the denominator.
        foreach: no effect.
        maximize: whether the objective grows.
        differentiable: whether gradients flow through the step.
        fused: no effect, but for the dtype of step counts.

    Raises:
        ValueError: for negative settings.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> optimizer = torch.optim.Adagrad([x], lr=0.1)
        >>> x.square().sum().backward()
        >>> optimizer.step()
        >>> x
        tensor([0.9000, 1.9000], requires_grad=True)

    Source: J. Duchi, E. Hazan, Y. Singer, Adaptive subgradient methods for online learning and
    stochastic optimization, 2011.
    """

    _NUMBERS = ("step",)
    _ADDED: ClassVar[dict[str, Any]] = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "fused": None,
    }

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_tensor_lr(lr)
        check_at_least_zero("Invalid learning rate", lr)
        check_at_least_zero("Invalid lr_decay value", lr_decay)
        check_at_least_zero("Invalid weight_decay value", weight_decay)
        check_at_least_zero("Invalid initial_accumulator_value value", initial_accumulator_value)
        check_at_least_zero("Invalid epsilon value", eps)
        super().__init__(
            params,
            {
                "lr": lr,
                "lr_decay": lr_decay,
                "eps": eps,
                "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "fused": fused,
            },
        )
        for group in self.param_groups:
            for p in group["params"]:
                self._start(group, p, self.state[p])

    def _start(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> None:
        state["step"] = step_count(group)
        state["sum"] = complex_filled(p, self.defaults["initial_accumulator_value"])

    def share_memory(self) -> None:
        """Move the sums to shared memory, where all memory of threads is."""
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["sum"].share_memory_()

    def _buffers(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> list[Tensor]:
        return [state["sum"]]

    def _advance(self, group: dict[str, Any], state: dict[str, Any]) -> tuple[Any, ...]:
        step = advance(state["step"])
        lr = hyper(group["lr"], group["differentiable"])
        rate = lr / (1 + (step - 1) * group["lr_decay"])
        return plain(-rate), group["weight_decay"], group["eps"], group["maximize"]

    def _update(
        self,
        f: Arithmetic,
        numbers: tuple[Any, ...],
        param: Operand,
        grad: Operand,
        *buffers: Operand,
    ) -> None:
        rate, weight_decay, eps, maximize = numbers
        (total,) = buffers
        if maximize:
            grad = f.neg(grad)
        if weight_decay != 0:
            grad = f.add(grad, param, weight_decay)
        f.addcmul_(total, grad, grad)
        f.addcdiv_(param, grad, f.shift(f.sqrt(total), eps), rate)


adagrad = functional(Adagrad, ("sum", "step"))
