"""`Weibull`.

Layer: 9.
"""

from __future__ import annotations

from typing import Any, ClassVar

import functrace.torch as torch
from functrace.torch.distributions import constraints
from functrace.torch.distributions.exponential import Exponential
from functrace.torch.distributions.gumbel import EULER
from functrace.torch.distributions.kinds import Instance, Parameter, Sizes
from functrace.torch.distributions.transformed_distribution import TransformedDistribution
from functrace.torch.distributions.transforms import AffineTransform, PowerTransform
from functrace.torch.distributions.utils import broadcast_all
from functrace.torch.tensors.tensor import Tensor

__all__ = ["Weibull"]


class Weibull(TransformedDistribution):
    """The Weibull distribution.

    Args:
        scale: the scale.
        concentration: the shape parameter.
    """

    arg_constraints: ClassVar[Any] = {
        "scale": constraints.positive,
        "concentration": constraints.positive,
    }
    support = constraints.positive  # type: ignore[assignment]

    def __init__(
        self, scale: Parameter, concentration: Parameter, validate_args: bool | None = None
    ) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(torch.ones_like(self.scale), validate_args=validate_args)
        transforms = [
            PowerTransform(exponent=self.concentration_reciprocal),
            AffineTransform(loc=0, scale=self.scale),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    def expand(self, batch_shape: Sizes, _instance: Instance = None) -> Any:
        """Return the distribution with its batch broadcast to another shape."""
        made = self._get_checked_instance(Weibull, _instance)
        made.scale = self.scale.expand(batch_shape)
        made.concentration = self.concentration.expand(batch_shape)
        made.concentration_reciprocal = made.concentration.reciprocal()
        base = self.base_dist.expand(batch_shape)
        transforms = [
            PowerTransform(exponent=made.concentration_reciprocal),
            AffineTransform(loc=0, scale=made.scale),
        ]
        TransformedDistribution.__init__(made, base, transforms, validate_args=False)
        made._validate_args = self._validate_args
        return made

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.scale * torch.exp(torch.lgamma(1 + self.concentration_reciprocal))

    @property
    def mode(self) -> Tensor:
        """The mode."""
        k = self.concentration
        return self.scale * ((k - 1) / k) ** k.reciprocal()

    @property
    def variance(self) -> Tensor:
        """The variance."""
        inverse = self.concentration_reciprocal
        return self.scale.pow(2) * (
            torch.exp(torch.lgamma(1 + 2 * inverse)) - torch.exp(2 * torch.lgamma(1 + inverse))
        )

    def entropy(self) -> Tensor:
        """Return the entropy."""
        inverse = self.concentration_reciprocal
        return EULER * (1 - inverse) + torch.log(self.scale * inverse) + 1
