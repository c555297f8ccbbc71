"""`HalfNormal`.

Layer: 9.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import functrace.torch as torch
from functrace.torch.distributions import constraints
from functrace.torch.distributions.kinds import Instance, Parameter, Sizes, Values
from functrace.torch.distributions.normal import Normal
from functrace.torch.distributions.transformed_distribution import TransformedDistribution
from functrace.torch.distributions.transforms import AbsTransform
from functrace.torch.tensors.tensor import Tensor

__all__ = ["HalfNormal"]


class HalfNormal(TransformedDistribution):
    """The distribution of the absolute value of a normal number of mean 0.

    Args:
        scale: the standard deviation of the normal number.
    """

    arg_constraints: ClassVar[Any] = {"scale": constraints.positive}
    support = constraints.nonnegative  # type: ignore[assignment]
    has_rsample = True  # type: ignore[assignment]
    base_dist: Normal

    def __init__(self, scale: Parameter, validate_args: bool | None = None) -> None:
        base = Normal(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Sizes, _instance: Instance = None) -> Any:
        """Return the distribution with its batch broadcast to another shape."""
        return super().expand(batch_shape, self._get_checked_instance(HalfNormal, _instance))

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the normal number."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self) -> Tensor:
        """The mode."""
        return torch.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.scale.pow(2) * (1 - 2 / math.pi)

    def log_prob(self, value: Values) -> Tensor:
        """Return the logarithm of the density."""
        log_prob = self.base_dist.log_prob(self._checked(value)) + math.log(2)
        return torch.where(value >= 0, log_prob, -math.inf)

    def cdf(self, value: Values) -> Tensor:
        """Return the cumulative distribution function."""
        return 2 * self.base_dist.cdf(self._checked(value)) - 1

    def icdf(self, value: Values) -> Tensor:
        """Return the inverse of the cumulative distribution function."""
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return self.base_dist.entropy() - math.log(2)
