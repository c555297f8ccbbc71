"""Pooling layers.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrace.torch.nn.modules.module import Module
from functrace.torch.nn.modules.plain import F, Plain
from functrace.torch.nn.modules.utils import Sizes, per_axis
from functrace.torch.tensors.tensor import Tensor


class _MaxPoolNd(Plain):
    """Maxima of windows.

    Args:
        kernel_size: size of a window, by axis.
        stride: distance of windows; by default their size.
        padding: elements of ``-inf`` added on both sides.
        dilation: distance of a window's elements.
        return_indices: whether the positions of the maxima are returned, too.
        ceil_mode: whether windows may begin in the input and end outside of it.
    """

    kernel_size: Any
    stride: Any
    padding: Any
    dilation: Any
    ceil_mode: bool

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__(
            kernel_size=kernel_size,
            stride=kernel_size if stride is None else stride,
            padding=padding,
            dilation=dilation,
            ceil_mode=ceil_mode,
        )
        self.return_indices = return_indices

    def _pooled(self, pool: Any, input: Tensor) -> Any:
        return pool(
            input, self.kernel_size, self.stride, self.padding, self.dilation,
            ceil_mode=self.ceil_mode, return_indices=self.return_indices,
        )  # fmt: skip


class MaxPool1d(_MaxPoolNd):
    """Maxima of windows over one axis; see `MaxPool2d`."""

    def forward(self, input: Tensor) -> Any:
        """Return the maxima; their positions, too, with ``return_indices``."""
        return self._pooled(F.max_pool1d, input)


class MaxPool2d(_MaxPoolNd):
    """Maxima of windows over two axes.

    Args:
        kernel_size: size of a window, by axis.
        stride: distance of windows; by default their size.
        padding: elements of ``-inf`` added on both sides.
        dilation: distance of a window's elements.
        return_indices: whether the positions of the maxima are returned, too.
        ceil_mode: whether windows may begin in the input and end outside of it.
    """

    def forward(self, input: Tensor) -> Any:
        """Return the maxima; their positions, too, with ``return_indices``."""
        return self._pooled(F.max_pool2d, input)


class MaxPool3d(_MaxPoolNd):
    """Maxima of windows over three axes; see `MaxPool2d`."""

    def forward(self, input: Tensor) -> Any:
        """Return the maxima; their positions, too, with ``return_indices``."""
        return self._pooled(F.max_pool3d, input)


class _MaxUnpoolNd(Plain):
    """Put maxima back to their positions, among zeros."""

    _axes = 0
    kernel_size: Any
    stride: Any
    padding: Any

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        n = self._axes
        super().__init__(
            kernel_size=per_axis(kernel_size, n),
            stride=per_axis(kernel_size if stride is None else stride, n),
            padding=per_axis(padding, n),
        )

    def forward(
        self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        """Return zeros, and the input at the indices."""
        unpool = (F.max_unpool1d, F.max_unpool2d, F.max_unpool3d)[self._axes - 1]
        return unpool(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool1d(_MaxUnpoolNd):
    """Put maxima of `MaxPool1d` back to their positions, among zeros."""

    _axes = 1


class MaxUnpool2d(_MaxUnpoolNd):
    """Put maxima of `MaxPool2d` back to their positions, among zeros."""

    _axes = 2


class MaxUnpool3d(_MaxUnpoolNd):
    """Put maxima of `MaxPool3d` back to their positions, among zeros."""

    _axes = 3


class _AvgPoolNd(Plain):
    """Means of windows."""

    kernel_size: Any
    stride: Any
    padding: Any

    def _set(self, ceil_mode: bool, count_include_pad: bool) -> None:
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad


class AvgPool1d(_AvgPoolNd):
    """Means of windows over one axis.

    Args:
        kernel_size: size of a window.
        stride: distance of windows; by default their size.
        padding: zeros added on both sides.
        ceil_mode: whether windows may begin in the input and end outside of it.
        count_include_pad: whether means count the added zeros.
    """

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        stride = kernel_size if stride is None else stride
        super().__init__(
            kernel_size=per_axis(kernel_size, 1),
            stride=per_axis(stride, 1),
            padding=per_axis(padding, 1),
        )
        self._set(ceil_mode, count_include_pad)

    def forward(self, input: Tensor) -> Tensor:
        """Return the means."""
        return F.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad,
        )  # fmt: skip


class AvgPool2d(_AvgPoolNd):
    """Means of windows over two axes.

    Args:
        kernel_size: size of a window, by axis.
        stride: distance of windows; by default their size.
        padding: zeros added on both sides.
        ceil_mode: whether windows may begin in the input and end outside of it.
        count_include_pad: whether means count the added zeros.
        divisor_override: number by which sums are divided; by default the size of a window.
    """

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        stride = kernel_size if stride is None else stride
        super().__init__(kernel_size=kernel_size, stride=stride, padding=padding)
        self._set(ceil_mode, count_include_pad)
        self.divisor_override = divisor_override

    def _pooled(self, pool: Any, input: Tensor) -> Tensor:
        return pool(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad, self.divisor_override,
        )  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        """Return the means."""
        return self._pooled(F.avg_pool2d, input)


class AvgPool3d(AvgPool2d):
    """Means of windows over three axes; see `AvgPool2d`."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the means."""
        return self._pooled(F.avg_pool3d, input)


class _FractionalMaxPool(Module):
    """Maxima of windows at random positions."""

    _axes = 0
    __constants__ = ("kernel_size", "return_indices", "output_size", "output_ratio")

    def __init__(
        self,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        n = self._axes
        self.kernel_size = per_axis(kernel_size, n)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else per_axis(output_size, n)
        self.output_ratio = None if output_ratio is None else per_axis(output_ratio, n)
        name = type(self).__name__
        if output_size is None and output_ratio is None:
            raise ValueError(
                f"{name} requires specifying either an output size, or a pooling ratio"
            )
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        """Return the maxima; their positions, too, with ``return_indices``."""
        pool = F.fractional_max_pool2d if self._axes == 2 else F.fractional_max_pool3d
        return pool(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
            _random_samples=self._random_samples,
        )  # fmt: skip


class FractionalMaxPool2d(_FractionalMaxPool):
    """Maxima of windows at random positions, over two axes.

    Args:
        kernel_size: size of a window, by axis.
        output_size: sizes of the output.
        output_ratio: or their ratio to the sizes of the input.
        return_indices: whether the positions of the maxima are returned, too.
    """

    _axes = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """Maxima of windows at random positions, over three axes; see `FractionalMaxPool2d`."""

    _axes = 3


class _LPPoolNd(Plain):
    """Norms of windows.

    Args:
        norm_type: order of the norm.
        kernel_size: size of a window, by axis.
        stride: distance of windows; by default their size.
        ceil_mode: whether windows may begin in the input and end outside of it.
    """

    norm_type: float
    kernel_size: Any
    stride: Any
    ceil_mode: bool

    def __init__(
        self,
        norm_type: float,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__(
            norm_type=norm_type, kernel_size=kernel_size, stride=stride, ceil_mode=ceil_mode
        )

    def _pooled(self, pool: Any, input: Tensor) -> Tensor:
        return pool(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool1d(_LPPoolNd):
    """Norms of windows over one axis."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the norms."""
        return self._pooled(F.lp_pool1d, input)


class LPPool2d(_LPPoolNd):
    """Norms of windows over two axes."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the norms."""
        return self._pooled(F.lp_pool2d, input)


class LPPool3d(_LPPoolNd):
    """Norms of windows over three axes."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the norms."""
        return self._pooled(F.lp_pool3d, input)


class _AdaptiveAvgPoolNd(Plain):
    """Means of as many windows as the output has elements."""

    output_size: Any

    def __init__(self, output_size: object) -> None:
        super().__init__(output_size=output_size)


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Means of windows, whose number is given, over one axis."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the means."""
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Means of windows, whose number is given, over two axes."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the means."""
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Means of windows, whose number is given, over three axes."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the means."""
        return F.adaptive_avg_pool3d(input, self.output_size)


class _AdaptiveMaxPoolNd(Plain):
    """Maxima of as many windows as the output has elements."""

    output_size: Any

    def __init__(self, output_size: object, return_indices: bool = False) -> None:
        super().__init__(output_size=output_size)
        self.return_indices = return_indices


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Maxima of windows, whose number is given, over one axis."""

    def forward(self, input: Tensor) -> Any:
        """Return the maxima; their positions, too, with ``return_indices``."""
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Maxima of windows, whose number is given, over two axes."""

    def forward(self, input: Tensor) -> Any:
        """Return the maxima; their positions, too, with ``return_indices``."""
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Maxima of windows, whose number is given, over three axes."""

    def forward(self, input: Tensor) -> Any:
        """Return the maxima; their positions, too, with ``return_indices``."""
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)
