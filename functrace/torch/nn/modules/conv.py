"""Convolutions, transposed ones, and lazy ones.

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from functrace.torch import namespace as torch
from functrace.torch.nn import init
from functrace.torch.nn.modules.lazy import LazyModuleMixin
from functrace.torch.nn.modules.module import Module
from functrace.torch.nn.modules.plain import F
from functrace.torch.nn.modules.utils import Sizes, _reverse_repeat_tuple, per_axis
from functrace.torch.nn.parameter import Parameter, UninitializedParameter
from functrace.torch.tensors.device import DeviceLike
from functrace.torch.tensors.dtypes import dtype as Dtype
from functrace.torch.tensors.tensor import Tensor

PADDING_MODES = {"zeros", "reflect", "replicate", "circular"}


class _ConvNd(Module):
    """The parameters and arguments of a convolution.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: size of the kernel, by axis.
        stride: distance of the kernel's positions.
        padding: elements added on both sides; ``"valid"`` for none, ``"same"`` for as many as keep
            the size.
        dilation: distance of the kernel's elements.
        transposed: whether it is a transposed one.
        output_padding: elements added to the output of a transposed one, on one side.
        groups: number of groups of channels; each reads its own.
        bias: whether there is a bias.
        padding_mode: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        device: the CPU.
        dtype: element type of the parameters.

    Raises:
        ValueError: for channels that are no multiple of ``groups``, and unknown paddings.
    """

    _axes: ClassVar[int] = 0
    __constants__ = (
        "stride", "padding", "dilation", "groups", "padding_mode", "output_padding", "in_channels",
        "out_channels", "kernel_size",
    )  # fmt: skip
    weight: Any
    bias: Any

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: str | tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: DeviceLike | None = None,
        dtype: Dtype | None = None,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(
                    f"Invalid padding string {padding!r}, should be one of {{'valid', 'same'}}"
                )
            if padding == "same" and any(s != 1 for s in stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in PADDING_MODES:
            raise ValueError(
                f"padding_mode must be one of {PADDING_MODES}, but got "
                f"padding_mode='{padding_mode}'"
            )
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.dilation, self.transposed, self.output_padding = dilation, transposed, output_padding
        self.groups, self.padding_mode = groups, padding_mode
        self._reversed_padding_repeated_twice = self._both_sides()
        first, second = in_channels, out_channels // groups
        if not transposed:
            first, second = out_channels, in_channels // groups
        self.weight = Parameter(
            torch.empty((first, second, *kernel_size), device=device, dtype=dtype)
        )
        if bias:
            self.bias = Parameter(torch.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _both_sides(self) -> list[int]:
        """Return the padding of both sides of every axis, last axis first."""
        if not isinstance(self.padding, str):
            return list(_reverse_repeat_tuple(self.padding, 2))
        if self.padding == "valid":
            return [0] * (2 * len(self.kernel_size))
        found = []
        for step, n in zip(reversed(self.dilation), reversed(self.kernel_size)):
            total = step * (n - 1)
            found += [total // 2, total - total // 2]
        return found

    def reset_parameters(self) -> None:
        """Draw weight and bias uniformly from ±1/√(inputs of an output)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        """Return the arguments that are not the usual ones."""
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        for name, usual in (("padding", 0), ("dilation", 1), ("output_padding", 0)):
            value = getattr(self, name)
            if value != (usual,) * len(value):
                text += f", {name}={value}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")


class _Conv(_ConvNd):
    """A convolution over as many axes as its class says."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: str | Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: DeviceLike | None = None,
        dtype: Dtype | None = None,
    ) -> None:
        n = self._axes
        super().__init__(
            in_channels,
            out_channels,
            per_axis(kernel_size, n),
            per_axis(stride, n),
            padding if isinstance(padding, str) else per_axis(padding, n),
            per_axis(dilation, n),
            False,
            per_axis(0, n),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = (0,) * self._axes
        convolve = (F.conv1d, F.conv2d, F.conv3d)[self._axes - 1]
        return convolve(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        """Return the convolution with the weight."""
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """A convolution over one axis; see `Conv2d`."""

    _axes = 1

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if self.padding_mode != "zeros":
            return super()._conv_forward(input, weight, bias)
        return F.conv1d(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)


class Conv2d(_Conv):
    """A convolution over two axes.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: size of the kernel, by axis.
        stride: distance of the kernel's positions.
        padding: elements added on both sides; ``"valid"`` for none, ``"same"`` for as many as keep
            the size.
        dilation: distance of the kernel's elements.
        groups: number of groups of channels; each reads its own.
        bias: whether there is a bias.
        padding_mode: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        device: the CPU.
        dtype: element type of the parameters.

    Example:
        >>> import functrace.torch as torch
        >>> torch.nn.Conv2d(3, 8, 3, padding=1)
        Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))
    """

    _axes = 2

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if self.padding_mode != "zeros":
            return super()._conv_forward(input, weight, bias)
        return F.conv2d(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)


class Conv3d(_Conv):
    """A convolution over three axes; see `Conv2d`."""

    _axes = 3


class _ConvTransposeNd(_ConvNd):
    """A transposed convolution over as many axes as its class says."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: DeviceLike | None = None,
        dtype: Dtype | None = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        n = self._axes
        super().__init__(
            in_channels,
            out_channels,
            per_axis(kernel_size, n),
            per_axis(stride, n),
            per_axis(padding, n),
            per_axis(dilation, n),
            True,
            per_axis(output_padding, n),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(self, input: Tensor, output_size: Sequence[int] | None) -> Any:
        """Return the padding with which the output has a size."""
        n = self._axes
        if output_size is None:
            return per_axis(self.output_padding, n)
        extra = input.dim() - n
        wanted = list(output_size)
        if len(wanted) == input.dim():
            wanted = wanted[extra:]
        if len(wanted) != n:
            raise ValueError(
                f"ConvTranspose{n}D: for {input.dim()}D input, output_size must have {n} or "
                f"{input.dim()} elements (got {len(wanted)})"
            )
        padding: Any = self.padding
        low = [
            (input.size(k + extra) - 1) * self.stride[k]
            - 2 * padding[k]
            + self.dilation[k] * (self.kernel_size[k] - 1)
            + 1
            for k in range(n)
        ]
        high = [low[k] + self.stride[k] - 1 for k in range(n)]
        if any(not low[k] <= wanted[k] <= high[k] for k in range(n)):
            raise ValueError(
                f"requested an output size of {output_size}, but valid sizes range "
                f"from {low} to {high} (for an input of {input.size()[2:]})"
            )
        return [wanted[k] - low[k] for k in range(n)]

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Return the transposed convolution.

        Args:
            input: (batch, channels, *sizes), or without a batch.
            output_size: sizes of the output, where the stride leaves a choice.
        """
        n = self._axes
        convolve = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[n - 1]
        return convolve(
            input, self.weight, self.bias, self.stride, self.padding,
            self._output_padding(input, output_size), self.groups, self.dilation,
        )  # fmt: skip


class ConvTranspose1d(_ConvTransposeNd):
    """A transposed convolution over one axis; see `ConvTranspose2d`."""

    _axes = 1


class ConvTranspose2d(_ConvTransposeNd):
    """A transposed convolution over two axes.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: size of the kernel, by axis.
        stride: distance of the kernel's positions in the output.
        padding: elements removed on both sides.
        output_padding: elements added on one side.
        groups: number of groups of channels; each reads its own.
        bias: whether there is a bias.
        dilation: distance of the kernel's elements.
        padding_mode: ``"zeros"``.
        device: the CPU.
        dtype: element type of the parameters.
    """

    _axes = 2


class ConvTranspose3d(_ConvTransposeNd):
    """A transposed convolution over three axes; see `ConvTranspose2d`."""

    _axes = 3


class _LazyConvXdMixin(LazyModuleMixin):
    """The part of a lazy convolution that reads the channels from its first input."""

    def __init__(self: Any, out_channels: int, kernel_size: Sizes, *args: Any, **kwargs: Any):
        device, dtype = kwargs.get("device"), kwargs.get("dtype")
        names = ("stride", "padding", "dilation", "groups", "bias")
        if isinstance(self, _ConvTransposeNd):
            names = ("stride", "padding", "output_padding", "groups", "bias", "dilation")
        kwargs.update(zip(names, args))
        bias = kwargs.pop("bias", True)
        super().__init__(0, 0, kernel_size, bias=False, **kwargs)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self: Any) -> None:
        """Draw the parameters, once they have a shape."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # pyright: ignore[reportAttributeAccessIssue]

    def initialize_parameters(self: Any, input: Tensor, *args: object, **kwargs: object) -> None:
        """Give the parameters their shapes."""
        if not self.has_uninitialized_params():
            return
        n = self._axes
        if input.dim() not in (n + 1, n + 2):
            raise RuntimeError(
                f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {input.shape}"
            )
        channels = self.in_channels = input.shape[-n - 1]
        if channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        first, second = self.out_channels, channels // self.groups
        if self.transposed:
            first, second = channels, self.out_channels // self.groups
        self.weight.materialize((first, second, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


class LazyConv1d(_LazyConvXdMixin, Conv1d):
    """A `Conv1d` whose ``in_channels`` are those of its first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConvXdMixin, Conv2d):
    """A `Conv2d` whose ``in_channels`` are those of its first input."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyConvXdMixin, Conv3d):
    """A `Conv3d` whose ``in_channels`` are those of its first input."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvXdMixin, ConvTranspose1d):
    """A `ConvTranspose1d` whose ``in_channels`` are those of its first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvXdMixin, ConvTranspose2d):
    """A `ConvTranspose2d` whose ``in_channels`` are those of its first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvXdMixin, ConvTranspose3d):
    """A `ConvTranspose3d` whose ``in_channels`` are those of its first input."""

    cls_to_become = ConvTranspose3d
