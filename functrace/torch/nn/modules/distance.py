"""Distances of vectors.

Layer: 9.
"""

from __future__ import annotations

from functrace.torch.nn.modules.module import Module
from functrace.torch.nn.modules.plain import F
from functrace.torch.tensors.tensor import Tensor


class PairwiseDistance(Module):
    """The norm of differences.

    Args:
        p: order of the norm.
        eps: added to differences.
        keepdim: whether the last axis stays, with size 1.
    """

    __constants__ = ("norm", "eps", "keepdim")

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return the norm of each pair's difference."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """The cosine of vectors along an axis.

    Args:
        dim: the axis.
        eps: least product of norms.
    """

    __constants__ = ("dim", "eps")

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return the cosine of each pair."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
