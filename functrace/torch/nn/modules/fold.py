"""Blocks of images as columns, and back.

Layer: 9.
"""

from __future__ import annotations

from typing import Any

from functrace.torch.nn.modules.plain import F, Plain
from functrace.torch.nn.modules.utils import Sizes
from functrace.torch.tensors.tensor import Tensor


class Unfold(Plain):
    """Blocks of images as columns.

    Args:
        kernel_size: size of a block, by axis.
        dilation: distance of a block's elements.
        padding: zeros added on both sides.
        stride: distance of blocks.
    """

    kernel_size: Any
    dilation: Any
    padding: Any
    stride: Any

    def __init__(
        self, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
    ) -> None:
        super().__init__(kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride)

    def forward(self, input: Tensor) -> Tensor:
        """Return (batch, channels · block, blocks)."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)


class Fold(Plain):
    """Images as sums of blocks, which are columns.

    Args:
        output_size: sizes of an image.
        kernel_size: size of a block, by axis.
        dilation: distance of a block's elements.
        padding: elements that the images have not, on both sides.
        stride: distance of blocks.
    """

    output_size: Any
    kernel_size: Any
    dilation: Any
    padding: Any
    stride: Any

    def __init__(
        self,
        output_size: Sizes,
        kernel_size: Sizes,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        stride: Sizes = 1,
    ) -> None:
        super().__init__(
            output_size=output_size, kernel_size=kernel_size, dilation=dilation,
            padding=padding, stride=stride,
        )  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        """Return the images."""
        return F.fold(
            input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
        )
