"""`LogisticNormal`.

Layer: 9.
"""

from __future__ import annotations

from typing import Any, ClassVar

from functrace.torch.distributions import constraints
from functrace.torch.distributions.kinds import Instance, Parameter, Sizes
from functrace.torch.distributions.normal import Normal
from functrace.torch.distributions.transformed_distribution import TransformedDistribution
from functrace.torch.distributions.transforms import StickBreakingTransform
from functrace.torch.tensors.tensor import Tensor

__all__ = ["LogisticNormal"]


class LogisticNormal(TransformedDistribution):
    """The distribution of points of a simplex that are made of normal numbers.

    Args:
        loc: the means, shape (..., n).
        scale: the standard deviations.
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex  # type: ignore[assignment]
    has_rsample = True  # type: ignore[assignment]

    def __init__(self, loc: Parameter, scale: Parameter, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Sizes, _instance: Instance = None) -> Any:
        """Return the distribution with its batch broadcast to another shape."""
        return super().expand(batch_shape, self._get_checked_instance(LogisticNormal, _instance))

    @property
    def loc(self) -> Tensor:
        """The means."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviations."""
        return self.base_dist.base_dist.scale
