"""`Muon`: steps of momentum whose matrices are made orthogonal.

Layer: 9.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrace.torch.optim import errors
from functrace.torch.optim.arithmetic import Arithmetic, Operand
from functrace.torch.optim.optimizer import ParamsT, check_at_least_zero, check_tensor_lr
from functrace.torch.optim.stepping import PerParameter, hyper, plain, zeros_like
from functrace.torch.tensors.tensor import Tensor, fresh

__all__ = ["Muon"]

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)


class Muon(PerParameter):
    """Muon: momentum, and Newton-Schulz iterations that bring all singular values of the step near
    1; for matrices only.

    As in PyTorch, the iterations have the precision of bfloat16.

    Args:
        params: matrices, groups of them, or matrices with names.
        lr: learning rate; may be a tensor with one element.
        weight_decay: the parameter is first multiplied by ``1 - lr * weight_decay``.
        momentum: decay rate of the average gradient.
        nesterov: whether the step looks ahead along the average.
        ns_coefficients: coefficients of the iteration's polynomial, of powers 1, 3 and 5.
        eps: the smallest norm by which a matrix is divided.
        ns_steps: number of iterations.
        adjust_lr_fn: the scaling of ``lr`` by the shape: ``"original"``, the default, or
            ``"match_rms_adamw"``.

    Raises:
        ValueError: for settings out of range, and parameters that are no matrices.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.eye(2).requires_grad_()
        >>> optimizer = torch.optim.Muon([x], lr=0.1)
        >>> x.square().sum().backward()
        >>> optimizer.step()
        >>> x.round(decimals=1)
        tensor([[0.9000, 0.0000],
                [0.0000, 0.9000]], grad_fn=<RoundBackward1>)

    Source: K. Jordan, Muon: an optimizer for hidden layers in neural networks, 2024.
    """

    _elementwise = False
    _capturable = None

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = _COEFFICIENTS,
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_tensor_lr(lr)
        check_at_least_zero("Learning rate should be >= 0 but is", lr)
        check_at_least_zero("momentum should be >= 0 but is", momentum)
        check_at_least_zero("weight decay should be >= 0 but is", weight_decay)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(
            params,
            {
                "lr": lr,
                "weight_decay": weight_decay,
                "momentum": momentum,
                "nesterov": nesterov,
                "ns_coefficients": ns_coefficients,
                "eps": eps,
                "ns_steps": ns_steps,
                "adjust_lr_fn": adjust_lr_fn,
            },
        )
        self.defaults.setdefault("differentiable", False)
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(errors.muon_size(p.size()))

    def _start(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> None:
        self._check_group(group, p, state)
        state["momentum_buffer"] = zeros_like(p)

    def _check_group(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> None:
        if p.is_complex():
            raise RuntimeError(errors.MUON_COMPLEX)

    def _buffers(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> list[Tensor]:
        return [state["momentum_buffer"]]

    def _overwrites(self, group: dict[str, Any]) -> int:
        return 2

    def _advance(self, group: dict[str, Any], state: dict[str, Any]) -> tuple[Any, ...]:
        lr = hyper(group["lr"], False)
        return (
            lr,
            plain(1 - lr * group["weight_decay"]),
            group["momentum"],
            group["nesterov"],
            (group["ns_coefficients"], group["ns_steps"], group["eps"]),
            group["adjust_lr_fn"],
        )

    def _update(
        self,
        f: Arithmetic,
        numbers: tuple[Any, ...],
        param: Operand,
        grad: Operand,
        *buffers: Operand,
    ) -> None:
        lr, shrink, momentum, nesterov, iterations, adjusting = numbers
        (mean,) = buffers
        f.lerp_(mean, grad, 1 - momentum)
        step = f.lerp(grad, mean, momentum) if nesterov else mean
        if isinstance(step, Tensor):
            step = fresh(orthogonal(step.float().numpy(), *iterations)).to(param.dtype)
        else:
            step = orthogonal(step, *iterations).astype(param.dtype, copy=False)
        rows, columns = param.shape
        if adjusting == "match_rms_adamw":
            lr *= 0.2 * math.sqrt(max(rows, columns))
        else:
            lr *= math.sqrt(max(1, rows / columns))
        f.mul_(param, shrink)
        f.add_(param, step, plain(-lr))


def to_bfloat16(x: Any) -> Any:
    """Round float32 numbers to the precision of bfloat16: 8 binary digits, ties to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = (bits + (odd + np.uint32(0x7FFF))) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x), x, rounded.view(np.float32))


def orthogonal(
    matrix: Any, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Any:
    """Return a matrix with the singular vectors of another one, and singular values near 1.

    Args:
        matrix: shape (m, n).
        coefficients: of the polynomial that is applied to the singular values.
        steps: how often it is.
        eps: smallest norm by which the matrix is first divided.

    Raises:
        ValueError: for 100 steps or more, or another number of coefficients.
    """
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = to_bfloat16(matrix.T if is_tall else matrix)
    norm = to_bfloat16(np.sqrt(np.sum(np.square(x), dtype=np.float32)))
    x = to_bfloat16(x / max(norm, to_bfloat16(np.float32(eps))))
    for _ in range(steps):
        gram = to_bfloat16(x @ x.T)
        update = to_bfloat16(np.float32(b) * gram + np.float32(c) * (gram @ gram))
        x = to_bfloat16(np.float32(a) * x + update @ x)
    return x.T if is_tall else x
