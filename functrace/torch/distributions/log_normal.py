"""`LogNormal`.

Layer: 9.
"""

from __future__ import annotations

from typing import Any, ClassVar

from functrace.torch.distributions import constraints
from functrace.torch.distributions.kinds import Instance, Parameter, Sizes
from functrace.torch.distributions.normal import Normal
from functrace.torch.distributions.transformed_distribution import TransformedDistribution
from functrace.torch.distributions.transforms import ExpTransform
from functrace.torch.tensors.tensor import Tensor

__all__ = ["LogNormal"]


class LogNormal(TransformedDistribution):
    """The distribution whose logarithm is normal.

    Args:
        loc: the mean of the logarithm.
        scale: the standard deviation of the logarithm.
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive  # type: ignore[assignment]
    has_rsample = True  # type: ignore[assignment]
    base_dist: Normal

    def __init__(self, loc: Parameter, scale: Parameter, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Sizes, _instance: Instance = None) -> Any:
        """Return the distribution with its batch broadcast to another shape."""
        return super().expand(batch_shape, self._get_checked_instance(LogNormal, _instance))

    @property
    def loc(self) -> Tensor:
        """The mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self) -> Tensor:
        """The mode."""
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        """The variance."""
        squares = self.scale.pow(2)
        return squares.expm1() * (2 * self.loc + squares).exp()

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return self.base_dist.entropy() + self.loc
