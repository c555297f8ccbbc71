"""`Pareto`.

Layer: 9.
"""

from __future__ import annotations

from typing import Any, ClassVar

from functrace.torch.distributions import constraints
from functrace.torch.distributions.exponential import Exponential
from functrace.torch.distributions.kinds import Instance, Parameter, Sizes
from functrace.torch.distributions.transformed_distribution import TransformedDistribution
from functrace.torch.distributions.transforms import AffineTransform, ExpTransform
from functrace.torch.distributions.utils import broadcast_all
from functrace.torch.tensors.tensor import Tensor

__all__ = ["Pareto"]


class Pareto(TransformedDistribution):
    """The Pareto distribution.

    Args:
        scale: the least sample.
        alpha: the exponent.
    """

    arg_constraints: ClassVar[Any] = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(
        self, scale: Parameter, alpha: Parameter, validate_args: bool | None = None
    ) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        transforms = [ExpTransform(), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, transforms, validate_args=validate_args)

    def expand(self, batch_shape: Sizes, _instance: Instance = None) -> Any:
        """Return the distribution with its batch broadcast to another shape."""
        made = self._get_checked_instance(Pareto, _instance)
        made.scale = self.scale.expand(batch_shape)
        made.alpha = self.alpha.expand(batch_shape)
        return super().expand(batch_shape, made)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        alpha = self.alpha.clamp(min=1)
        return alpha * self.scale / (alpha - 1)

    @property
    def mode(self) -> Tensor:
        """The mode."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """The variance."""
        alpha = self.alpha.clamp(min=2)
        return self.scale.pow(2) * alpha / ((alpha - 1).pow(2) * (alpha - 2))

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        """The set of samples."""
        return constraints.greater_than_eq(self.scale)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())
