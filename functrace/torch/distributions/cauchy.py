"""`Cauchy`.

Layer: 9.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import functrace.torch as torch
from functrace.torch.distributions import constraints
from functrace.torch.distributions.distribution import Distribution
from functrace.torch.distributions.kinds import Parameter, Sizes, Values
from functrace.torch.distributions.utils import broadcast_all
from functrace.torch.tensors.tensor import Tensor

__all__ = ["Cauchy"]


class Cauchy(Distribution):
    """The Cauchy distribution.

    Args:
        loc: the median.
        scale: half the width at half the maximum.
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    parameters: ClassVar[dict[str, int]] = {"loc": 0, "scale": 0}
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Parameter, scale: Parameter, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """There is none: nan."""
        return torch.full(self._extended_shape(), math.nan, dtype=self.loc.dtype)

    @property
    def mode(self) -> Tensor:
        """The mode."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The variance: infinite."""
        return torch.full(self._extended_shape(), math.inf, dtype=self.loc.dtype)

    def rsample(self, sample_shape: Sizes = ()) -> Tensor:
        """Return samples with gradients by the parameters."""
        shape = self._extended_shape(sample_shape)
        return self.loc + torch.zeros(shape, dtype=self.loc.dtype).cauchy_() * self.scale

    def log_prob(self, value: Values) -> Tensor:
        """Return the logarithm of the density."""
        value = self._checked(value)
        ratio = (value - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - (ratio**2).log1p()

    def cdf(self, value: Values) -> Tensor:
        """Return the cumulative distribution function."""
        return torch.atan((self._checked(value) - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Values) -> Tensor:
        """Return the inverse of the cumulative distribution function."""
        return torch.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return math.log(4 * math.pi) + self.scale.log()
