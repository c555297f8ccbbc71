"""`Adafactor`: steps scaled by averages of squares that are kept as rows and columns.

Layer: 9.
"""

from __future__ import annotations

from typing import Any, ClassVar

from functrace.torch.optim import errors
from functrace.torch.optim.arithmetic import Arithmetic, Operand
from functrace.torch.optim.optimizer import ParamsT, check_at_least_zero, check_tensor_lr
from functrace.torch.optim.stepping import (
    PerParameter,
    advance,
    functional,
    hyper,
    plain,
    step_count,
    zeros_like,
)
from functrace.torch.tensors.dtypes import limits_of
from functrace.torch.tensors.tensor import Tensor

__all__ = ["Adafactor", "adafactor"]


class Adafactor(PerParameter):
    """Adafactor: the average of squared gradients of a matrix is the product of its rows' and
    columns' averages, which take less memory.

    Args:
        params: parameters, groups of them, or parameters with names.
        lr: learning rate; may be a tensor with one element.
        beta2_decay: step k moves the averages by ``k ** beta2_decay`` of the way.
        eps: the smallest average of squares (None: the dtype's resolution), and the smallest size
            of a parameter, by which steps are scaled.
        d: steps of larger root mean square are scaled down to it.
        weight_decay: the parameter is first multiplied by ``1 - lr * weight_decay``.
        foreach: no effect.
        maximize: whether the objective grows.

    Raises:
        ValueError: for settings out of range.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.tensor([[1.0, 2.0]], requires_grad=True)
        >>> optimizer = torch.optim.Adafactor([x], lr=0.1)
        >>> x.square().sum().backward()
        >>> optimizer.step()
        >>> x
        tensor([[0.8419, 1.8419]], requires_grad=True)

    Source: N. Shazeer, M. Stern, Adafactor: adaptive learning rates with sublinear memory cost,
    2018.
    """

    _elementwise = False
    _capturable = None
    _NUMBERS = ("step",)
    _ADDED: ClassVar[dict[str, Any]] = {"foreach": None}

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_tensor_lr(lr)
        check_at_least_zero("Learning rate should be >= 0 but is", lr)
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None:
            check_at_least_zero("epsilon1 should be >= 0 but is", eps[0])
        check_at_least_zero("epsilon2 should be >= 0 but is", eps[1])
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        check_at_least_zero("weight_decay should be >= 0 but is", weight_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "beta2_decay": beta2_decay,
                "eps": eps,
                "d": d,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
            },
        )
        self.defaults.setdefault("differentiable", False)

    def _check_group(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> None:
        if p.is_complex():
            raise RuntimeError(errors.ADAFACTOR_COMPLEX)

    def _start(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> None:
        self._check_group(group, p, state)
        state["step"] = step_count(group)
        if p.dim() > 1:
            *outer, rows, columns = p.shape
            state["row_var"] = p.new_zeros([*outer, rows, 1])
            state["col_var"] = p.new_zeros([*outer, 1, columns])
        else:
            state["variance"] = zeros_like(p)

    def _buffers(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> list[Tensor]:
        if "variance" in state:
            return [state["variance"]]
        return [state["row_var"], state["col_var"]]

    def _overwrites(self, group: dict[str, Any]) -> int:
        return 1 + (group["weight_decay"] != 0)

    def _advance(self, group: dict[str, Any], state: dict[str, Any]) -> tuple[Any, ...]:
        step = advance(state["step"])
        lr = hyper(group["lr"], False)
        weight_decay = group["weight_decay"]
        return (
            step ** group["beta2_decay"],
            min(lr, 1 / (step**0.5)),
            group["eps"],
            group["d"],
            plain(1 - lr * weight_decay) if weight_decay != 0 else None,
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
        weight, rate, (floor, smallest), d, shrink, maximize = numbers
        count = grad.numel() if isinstance(grad, Tensor) else grad.size
        if floor is None:
            dtype = grad.dtype.numpy if isinstance(grad, Tensor) else grad.dtype
            floor = float(limits_of(dtype).eps)
        if maximize:
            grad = f.neg(grad)
        scale = max(smallest, f.norm(param) / (count**0.5)) * rate
        if shrink is not None:
            f.mul_(param, shrink)
        if len(buffers) == 2:
            rows, columns = buffers
            for average, axis in ((rows, -1), (columns, -2)):
                f.lerp_(average, f.div(f.square(f.norms(grad, axis)), grad.shape[axis]), weight)
            squares = f.div(f.matmul(rows, columns), f.at_least(f.mean(rows, -2), floor))
        else:
            f.lerp_(buffers[0], f.square(grad), weight)
            squares = buffers[0]
        step = f.mul(f.rsqrt(f.at_least(squares, floor * floor)), grad)
        larger = max(1.0, f.norm(step) / ((count**0.5) * d))
        f.add_(param, step, plain(-scale / larger))


adafactor = functional(
    Adafactor, ("row_var", "col_var", "variance", "step"), {"eps": ("eps1", "eps2")}
)
