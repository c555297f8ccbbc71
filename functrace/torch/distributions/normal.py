"""`Normal`.

Layer: 9.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import functrace.torch as torch
from functrace.torch.distributions import constraints
from functrace.torch.distributions.exp_family import ExponentialFamily
from functrace.torch.distributions.kinds import Parameter, Sizes, Values
from functrace.torch.distributions.utils import broadcast_all, standard_normal
from functrace.torch.tensors.tensor import Tensor

__all__ = ["Normal"]


class Normal(ExponentialFamily):
    """The normal distribution.

    Args:
        loc: the mean.
        scale: the standard deviation.

    Example:
        >>> import functrace.torch as torch
        >>> _ = torch.manual_seed(0)
        >>> torch.distributions.Normal(0.0, 1.0).sample((2,))
        tensor([ 1.5410, -0.2934])
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    parameters: ClassVar[dict[str, int]] = {"loc": 0, "scale": 0}
    _mean_carrier_measure = 0
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Parameter, scale: Parameter, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The mode."""
        return self.loc

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.stddev.pow(2)

    def sample(self, sample_shape: Sizes = ()) -> Tensor:
        """Return samples without gradients."""
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            return torch.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Sizes = ()) -> Tensor:
        """Return samples with gradients by the parameters."""
        shape = self._extended_shape(sample_shape)
        return self.loc + standard_normal(shape, self.loc.dtype) * self.scale

    def log_prob(self, value: Values) -> Tensor:
        """Return the logarithm of the density."""
        value = self._checked(value)
        variance = self.scale**2
        squares = (value - self.loc) ** 2
        return -squares / (2 * variance) - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value: Values) -> Tensor:
        """Return the cumulative distribution function."""
        value = self._checked(value)
        return 0.5 * (1 + torch.erf((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value: Values) -> Tensor:
        """Return the inverse of the cumulative distribution function."""
        return self.loc + self.scale * torch.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return 0.5 + 0.5 * math.log(2 * math.pi) + torch.log(self.scale)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.loc / self.scale.pow(2), -0.5 * self.scale.pow(2).reciprocal()

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        return -0.25 * x.pow(2) / y + 0.5 * torch.log(-math.pi / y)
