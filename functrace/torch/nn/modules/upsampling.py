"""Layers that enlarge images.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from functrace.torch.nn.modules.module import Module
from functrace.torch.nn.modules.plain import F
from functrace.torch.nn.modules.utils import Sizes
from functrace.torch.tensors.tensor import Tensor


class Upsample(Module):
    """Interpolate to another size.

    Args:
        size: sizes of the output.
        scale_factor: or their ratio to the sizes of the input.
        mode: ``"nearest"``, ``"linear"``, ``"bilinear"``, ``"bicubic"`` or ``"trilinear"``.
        align_corners: whether the corners' centres, not their edges, are aligned.
        recompute_scale_factor: whether the ratio is that of the rounded sizes.
    """

    __constants__ = (
        "size", "scale_factor", "mode", "align_corners", "name", "recompute_scale_factor",
    )  # fmt: skip
    scale_factor: Any

    def __init__(
        self,
        size: Sizes | None = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, Iterable):
            self.scale_factor = tuple(float(factor) for factor in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode, self.align_corners = mode, align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Return the interpolated input."""
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """Return size and mode."""
        size = (
            f"scale_factor={self.scale_factor!r}"
            if self.scale_factor is not None
            else f"size={self.size!r}"
        )
        return f"{size}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Repeat the nearest elements of images."""

    def __init__(self, size: Sizes | None = None, scale_factor: object = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Interpolate images bilinearly; corners are aligned."""

    def __init__(self, size: Sizes | None = None, scale_factor: object = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
