"""Dropout layers, which return the input when not training.

Layer: 9.
"""

from __future__ import annotations

from functrace.torch.nn.modules.module import Module
from functrace.torch.nn.modules.plain import F
from functrace.torch.tensors.tensor import Tensor


class _DropoutNd(Module):
    """Zero elements at random.

    Args:
        p: probability of zero.
        inplace: whether the input is overwritten.

    Raises:
        ValueError: if ``p`` is no probability.
    """

    __constants__ = ("p", "inplace")

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Zero elements at random; the others grow by ``1 / (1 - p)``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with zeros."""
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Zero whole channels of sequences at random."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with zeros."""
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Zero whole channels of images at random."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with zeros."""
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Zero whole channels of volumes at random."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with zeros."""
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Mask elements at random, so that mean and variance stay; for `SELU`."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the masked input."""
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """Mask whole channels at random, so that mean and variance stay; for `SELU`."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the masked input."""
        return F.feature_alpha_dropout(input, self.p, self.training)
