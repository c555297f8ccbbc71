"""Activation functions.

Layer: 9.
"""

from __future__ import annotations

import warnings
from typing import Any

from functrace.torch import namespace as torch
from functrace.torch.nn import init
from functrace.torch.nn.modules.attention import MultiheadAttention
from functrace.torch.nn.modules.module import Module
from functrace.torch.nn.modules.plain import F, Plain
from functrace.torch.nn.parameter import Parameter
from functrace.torch.tensors.device import DeviceLike
from functrace.torch.tensors.dtypes import dtype as Dtype
from functrace.torch.tensors.tensor import Tensor

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "SELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh",
    "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish", "MultiheadAttention", "PReLU", "RReLU",
    "ReLU", "ReLU6", "SiLU", "Sigmoid", "Softmax", "Softmax2d", "Softmin", "Softplus",
    "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold",
]  # fmt: skip


class _InPlace(Plain):
    """An activation whose only argument says whether it overwrites its input."""

    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace=inplace)


class ReLU(_InPlace):
    """Compute ``max(input, 0)``.

    Args:
        inplace: whether the input is overwritten.

    Example:
        >>> import functrace.torch as torch
        >>> torch.nn.ReLU()(torch.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.relu(input, inplace=True) if self.inplace else F.relu(input)


class SELU(_InPlace):
    """Compute the scaled exponential linear unit."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.selu(input, self.inplace)


class SiLU(_InPlace):
    """Compute ``input * sigmoid(input)``."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.silu(input, inplace=self.inplace)


class Mish(_InPlace):
    """Compute ``input * tanh(softplus(input))``."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.mish(input, inplace=self.inplace)


class Hardsigmoid(_InPlace):
    """Compute ``clamp(input / 6 + 1 / 2, 0, 1)``."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.hardsigmoid(input, self.inplace)


class Hardswish(_InPlace):
    """Compute ``input * hardsigmoid(input)``."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.hardswish(input, self.inplace)


class ELU(Plain):
    """Compute ``input``, or ``alpha * (exp(input) - 1)`` where it is negative."""

    alpha: float
    inplace: bool

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(alpha=alpha, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.elu(input, self.alpha, self.inplace)


class CELU(ELU):
    """Compute ``input``, or ``alpha * (exp(input / alpha) - 1)`` where it is negative."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.celu(input, self.alpha, self.inplace)


class LeakyReLU(Plain):
    """Compute ``input``, or ``negative_slope * input`` where it is negative."""

    negative_slope: float
    inplace: bool

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__(negative_slope=negative_slope, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)


class RReLU(Plain):
    """Compute a leaky ``relu`` with a slope that is random while training."""

    lower: float
    upper: float
    inplace: bool

    def __init__(
        self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
    ) -> None:
        super().__init__(lower=lower, upper=upper, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class Hardtanh(Plain):
    """Compute ``clamp(input, min_val, max_val)``.

    Args:
        min_val: lower bound.
        max_val: upper bound.
        inplace: whether the input is overwritten.
        min_value: ``min_val``, deprecated.
        max_value: ``max_val``, deprecated.
    """

    min_val: float
    max_val: float
    inplace: bool

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        for old, new, value in (
            ("min_value", "min_val", min_value), ("max_value", "max_val", max_value),
        ):  # fmt: skip
            if value is not None:
                warnings.warn(
                    f"keyword argument `{old}` is deprecated and renamed to `{new}`",
                    FutureWarning,
                    stacklevel=2,
                )
        min_val = min_val if min_value is None else min_value
        max_val = max_val if max_value is None else max_value
        super().__init__(min_val=min_val, max_val=max_val, inplace=inplace)
        if self.max_val <= self.min_val:
            raise AssertionError(f"max_val ({max_val}) must be greater than min_val ({min_val})")

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


class ReLU6(Hardtanh):
    """Compute ``clamp(input, 0, 6)``."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)
        self.__dict__["_shown"] = ("inplace",)


class Threshold(Plain):
    """Compute ``input``, or ``value`` where it is not larger than ``threshold``."""

    threshold: float
    value: float
    inplace: bool

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(threshold=threshold, value=value, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.threshold(input, self.threshold, self.value, self.inplace)


class Sigmoid(Module):
    """Compute ``1 / (1 + exp(-input))``."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return torch.sigmoid(input)


class Tanh(Module):
    """Compute the hyperbolic tangent."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return torch.tanh(input)


class LogSigmoid(Module):
    """Compute the log of the sigmoid."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.logsigmoid(input)


class Softsign(Module):
    """Compute ``input / (1 + |input|)``."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.softsign(input)


class Tanhshrink(Module):
    """Compute ``input - tanh(input)``."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.tanhshrink(input)


class GELU(Plain):
    """Compute ``input * Φ(input)``; ``approximate="tanh"`` by the formula with ``tanh``."""

    approximate: str

    def __init__(self, approximate: str = "none") -> None:
        super().__init__(approximate=approximate)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """Return the argument."""
        return f"approximate={self.approximate!r}"


class GLU(Plain):
    """Compute ``a * sigmoid(b)`` for the halves of the input along an axis."""

    dim: int

    def __init__(self, dim: int = -1) -> None:
        super().__init__(dim=dim)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.glu(input, self.dim)


class Softplus(Plain):
    """Compute ``log(1 + exp(beta * input)) / beta``; ``input`` above the threshold."""

    beta: float
    threshold: float

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__(beta=beta, threshold=threshold)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.softplus(input, self.beta, self.threshold)


class Hardshrink(Plain):
    """Compute ``input``, or 0 where it is at most ``lambd`` in magnitude."""

    lambd: float

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__(lambd=lambd)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Return the argument."""
        return f"{self.lambd}"


class Softshrink(Hardshrink):
    """Move each element by ``lambd`` towards 0."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Return the argument."""
        return str(self.lambd)


class PReLU(Module):
    """Compute ``input``, or ``weight * input`` where it is negative.

    Args:
        num_parameters: 1, or the number of channels, the second axis.
        init: first value of the weight.
        device: the CPU.
        dtype: element type of the weight.
    """

    __constants__ = ("num_parameters",)
    weight: Any

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        device: DeviceLike | None = None,
        dtype: Dtype | None = None,
    ) -> None:
        self.num_parameters = num_parameters
        super().__init__()
        self.init = init
        self.weight = Parameter(torch.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to its first value."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """Return the number of weights."""
        return f"num_parameters={self.num_parameters}"


class Softmin(Plain):
    """Compute the softmax of ``-input``."""

    dim: int | None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__(dim=dim)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.softmin(input, _axis("softmin", input, self.dim))


class Softmax(Softmin):
    """Compute ``exp(input) / sum(exp(input))`` along an axis."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.softmax(input, _axis("softmax", input, self.dim))


class LogSoftmax(Softmin):
    """Compute the log of the softmax along an axis."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.log_softmax(input, _axis("log_softmax", input, self.dim))


def _axis(name: str, input: Tensor, dim: int | None) -> int:
    """Return the axis of a softmax; without one, a warning, and the channels."""
    if dim is not None:
        return dim
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        stacklevel=4,
    )
    return 0 if input.ndim in (0, 1, 3) else 1


class Softmax2d(Module):
    """Compute the softmax over the channels of images."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function.

        Raises:
            ValueError: if the input has not three or four axes.
        """
        if input.dim() not in (3, 4):
            raise ValueError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead"
            )
        return F.softmax(input, -3)
