"""`Poisson`.

Layer: 9.
"""

from __future__ import annotations

from typing import Any, ClassVar

import functrace.torch as torch
from functrace.torch.distributions import constraints
from functrace.torch.distributions.exp_family import ExponentialFamily
from functrace.torch.distributions.kinds import Parameter, Sizes, Values
from functrace.torch.distributions.utils import broadcast_all
from functrace.torch.tensors.tensor import Tensor

__all__ = ["Poisson"]


class Poisson(ExponentialFamily):
    """The Poisson distribution.

    Args:
        rate: the mean.
    """

    arg_constraints: ClassVar[Any] = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    parameters: ClassVar[dict[str, int]] = {"rate": 0}
    rate: Tensor

    def __init__(self, rate: Parameter, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.rate

    @property
    def mode(self) -> Tensor:
        """The mode."""
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.rate

    def sample(self, sample_shape: Sizes = ()) -> Tensor:
        """Return samples."""
        with torch.no_grad():
            return torch.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Values) -> Tensor:
        """Return the logarithm of the probability."""
        value = self._checked(value)
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (torch.log(self.rate),)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return torch.exp(x)
