"""Normalization within an example: of layers, of groups of channels, of neighbours.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrace.torch import namespace as torch
from functrace.torch.nn import init
from functrace.torch.nn.modules.module import Module
from functrace.torch.nn.modules.plain import F
from functrace.torch.nn.parameter import Parameter
from functrace.torch.tensors.device import DeviceLike
from functrace.torch.tensors.dtypes import dtype as Dtype
from functrace.torch.tensors.tensor import Tensor


class LocalResponseNorm(Module):
    """Divide each channel by a power of the mean square of its neighbours.

    Args:
        size: number of neighbours.
        alpha: factor of the mean square.
        beta: the power.
        k: added to the mean square.
    """

    __constants__ = ("size", "alpha", "beta", "k")

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        """Return the input, normalized."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """A `LocalResponseNorm` of images.

    PyTorch's counts the first channel for all later ones, and its gradient is that of other
    neighbours; here both are those of `LocalResponseNorm`.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)


class _LastAxes(Module):
    """The parameters of a normalization over the last axes."""

    __constants__ = ("normalized_shape", "eps", "elementwise_affine")
    weight: Any
    bias: Any

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float | None, elementwise_affine: bool
    ) -> None:
        super().__init__()
        one = isinstance(normalized_shape, int)
        self.normalized_shape = (normalized_shape,) if one else tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine

    def reset_parameters(self) -> None:
        """Set the weight to ones, and the bias to zeros."""
        if self.elementwise_affine:
            init.ones_(self.weight)
            if self._parameters.get("bias") is not None:
                init.zeros_(self.bias)


class LayerNorm(_LastAxes):
    """Normalize the last axes to mean 0 and variance 1.

    Args:
        normalized_shape: sizes of the last axes.
        eps: added to variances.
        elementwise_affine: whether there are weight and bias.
        bias: whether there is a bias.
        device: the CPU.
        dtype: element type of the parameters.
    """

    eps: float

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: Dtype | None = None,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine)
        for name, wanted in (("weight", True), ("bias", bias)):
            made = None
            if elementwise_affine and wanted:
                made = Parameter(torch.empty(self.normalized_shape, device=device, dtype=dtype))
            self.register_parameter(name, made)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        """Return the input, normalized."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(_LastAxes):
    """Divide by the root of the mean square of the last axes.

    Args:
        normalized_shape: sizes of the last axes.
        eps: added to the mean square; by default the dtype's epsilon.
        elementwise_affine: whether there is a weight.
        device: the CPU.
        dtype: element type of the weight.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: DeviceLike | None = None,
        dtype: Dtype | None = None,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine)
        made = None
        if elementwise_affine:
            made = Parameter(torch.empty(self.normalized_shape, device=device, dtype=dtype))
        self.register_parameter("weight", made)
        self.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        """Return the input, normalized."""
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(Module):
    """Normalize groups of channels to mean 0 and variance 1.

    Args:
        num_groups: number of groups.
        num_channels: number of channels, the second axis of the input.
        eps: added to variances.
        affine: whether there are weight and bias.
        device: the CPU.
        dtype: element type of the parameters.
        bias: whether there is a bias.

    Raises:
        ValueError: if groups do not divide the channels.
    """

    __constants__ = ("num_groups", "num_channels", "eps", "affine")
    weight: Any
    bias: Any

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: DeviceLike | None = None,
        dtype: Dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
            )
        self.num_groups, self.num_channels = num_groups, num_channels
        self.eps, self.affine = eps, affine
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            made = None
            if wanted:
                made = Parameter(torch.empty(num_channels, device=device, dtype=dtype))
            self.register_parameter(name, made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to ones, and the bias to zeros."""
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Return the input, normalized."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )
