"""`SGD`: gradient descent, with momentum.

Layer: 9.
"""

from __future__ import annotations

from typing import Any, ClassVar

from functrace.torch.optim import errors
from functrace.torch.optim.arithmetic import Arithmetic, Operand
from functrace.torch.optim.optimizer import ParamsT, check_tensor_lr
from functrace.torch.optim.stepping import PerParameter, functional, hyper, plain, zeros_like
from functrace.torch.tensors.tensor import Tensor

__all__ = ["SGD", "sgd"]


class SGD(PerParameter):
    """Gradient descent: ``p -= lr * v`` with ``v = momentum * v + (1 - dampening) * grad``.

    Args:
        params: parameters, groups of them, or parameters with names.
        lr: learning rate; may be a tensor with one element.
        momentum: factor of the former direction.
        dampening: part of the gradient that momentum leaves out, after the first step.
        weight_decay: factor of the parameter that is added to its gradient.
        nesterov: whether the step looks ahead along the new direction.
        maximize: whether the objective grows.
        foreach: no effect.
        differentiable: whether gradients flow through the step; as in PyTorch, not through the
            first direction of momentum.
        fused: no effect.

    Raises:
        ValueError: for negative settings, or Nesterov's form without momentum or with dampening.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> optimizer = torch.optim.SGD([x], lr=0.1, momentum=0.9)
        >>> for _ in range(2):
        ...     optimizer.zero_grad()
        ...     x.square().sum().backward()
        ...     optimizer.step()
        >>> x
        tensor([0.4600, 0.9200], requires_grad=True)
    """

    _ADDED: ClassVar[dict[str, Any]] = {
        "nesterov": False,
        "maximize": False,
        "foreach": None,
        "differentiable": False,
        "fused": False,
    }

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_tensor_lr(lr)
        for label, value in (
            ("Invalid learning rate", lr),
            ("Invalid momentum value", momentum),
            ("Invalid weight_decay value", weight_decay),
        ):
            if value < 0.0:
                raise ValueError(f"{label}: {value}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError(errors.NESTEROV)
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
                "maximize": maximize,
                "foreach": foreach,
                "differentiable": differentiable,
                "fused": fused,
            },
        )

    def _state_of(self, group: dict[str, Any], p: Tensor) -> dict[str, Any]:
        return self.state[p] if group["momentum"] != 0 else {}

    def _advance(self, group: dict[str, Any], state: dict[str, Any]) -> tuple[Any, ...]:
        lr, weight_decay = group["lr"], group["weight_decay"]
        if type(lr) is not float:
            lr = plain(hyper(lr, group["differentiable"]))
        if isinstance(weight_decay, Tensor):
            weight_decay = plain(hyper(weight_decay, group["differentiable"]))
        momentum = group["momentum"]
        return (
            lr,
            momentum,
            group["dampening"],
            weight_decay,
            group["nesterov"],
            group["maximize"],
            momentum != 0 and state.get("momentum_buffer") is None,
        )

    def _buffers(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> list[Tensor]:
        if group["momentum"] == 0:
            return []
        if state.get("momentum_buffer") is None:
            state["momentum_buffer"] = zeros_like(p)
        return [state["momentum_buffer"]]

    def _update(
        self,
        f: Arithmetic,
        numbers: tuple[Any, ...],
        param: Operand,
        grad: Operand,
        *buffers: Operand,
    ) -> None:
        lr, momentum, dampening, weight_decay, nesterov, maximize, first = numbers
        if maximize:
            grad = f.neg(grad)
        if type(weight_decay) is Tensor or weight_decay != 0:
            grad = f.add(grad, param, weight_decay)
        if momentum != 0:
            (buffer,) = buffers
            if first:
                f.copy_(buffer, f.detach(grad))
            else:
                f.mul_(buffer, momentum)
                f.add_(buffer, grad, 1 - dampening)
            grad = f.add(grad, buffer, momentum) if nesterov else buffer
        f.add_(param, grad, -lr)


sgd = functional(SGD, ("momentum_buffer",))
