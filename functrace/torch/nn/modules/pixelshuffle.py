"""Channels as pixels, and back.

Layer: 9.
"""

from __future__ import annotations

from functrace.torch.nn.modules.plain import F, Plain
from functrace.torch.tensors.tensor import Tensor


class PixelShuffle(Plain):
    """Images of r times the sizes, from channels: (..., C · r², H, W) to (..., C, H · r, W · r).

    Args:
        upscale_factor: the factor r.
    """

    upscale_factor: int

    def __init__(self, upscale_factor: int) -> None:
        super().__init__(upscale_factor=upscale_factor)

    def forward(self, input: Tensor) -> Tensor:
        """Return the larger images."""
        return F.pixel_shuffle(input, self.upscale_factor)


class PixelUnshuffle(Plain):
    """The inverse of `PixelShuffle`.

    Args:
        downscale_factor: the factor r.
    """

    downscale_factor: int

    def __init__(self, downscale_factor: int) -> None:
        super().__init__(downscale_factor=downscale_factor)

    def forward(self, input: Tensor) -> Tensor:
        """Return the smaller images."""
        return F.pixel_unshuffle(input, self.downscale_factor)
