"""`SparseAdam`: Adam for sparse gradients, which do not exist here.

Layer: 9.
"""

from __future__ import annotations

from typing import Any

from functrace.torch.optim import errors
from functrace.torch.optim.optimizer import (
    Closure,
    Optimizer,
    ParamsT,
    check_betas,
    check_tensor_lr,
    loss_of,
    without_recording,
)
from functrace.torch.tensors.tensor import Tensor

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam for sparse gradients. Its ``step`` refuses dense gradients, as PyTorch's does.

    Args:
        params: parameters, groups of them, or parameters with names.
        lr: learning rate.
        betas: decay rates of the averages of the gradient and its square.
        eps: added to the denominator.
        maximize: whether the objective grows.

    Raises:
        ValueError: for settings out of range, and complex parameters.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.ones(2, requires_grad=True)
        >>> optimizer = torch.optim.SparseAdam([x])
        >>> x.sum().backward()
        >>> optimizer.step()
        Traceback (most recent call last):
            ...
        RuntimeError: SparseAdam does not support dense gradients, please consider Adam instead
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check_tensor_lr(lr)
        if not lr > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        at = [
            [k, n]
            for k, group in enumerate(self.param_groups)
            for n, p in enumerate(group["params"])
            if p.is_complex()
        ]
        if at:
            raise ValueError(
                f"Complex params at indices {at}: SparseAdam does not support complex parameters"
            )

    @without_recording
    def step(self, closure: Closure = None) -> Any:
        """Refuse gradients: all are dense here.

        Args:
            closure: computes the loss and its gradients.

        Raises:
            RuntimeError: if a parameter has a gradient.
        """
        loss = loss_of(closure)
        for group in self.param_groups:
            if any(p.grad is not None for p in group["params"]):
                raise RuntimeError(errors.SPARSE_ADAM_DENSE)
        return loss
