"""`Independent`.

Layer: 9.
"""

from __future__ import annotations

from typing import Any, ClassVar

from functrace.torch.distributions import constraints
from functrace.torch.distributions.distribution import Distribution
from functrace.torch.distributions.kinds import Instance, Sizes, Values
from functrace.torch.distributions.utils import sum_rightmost
from functrace.torch.tensors.size import Size
from functrace.torch.tensors.tensor import Tensor

__all__ = ["Independent"]


class Independent(Distribution):
    """A distribution whose batch is, in part, one sample.

    Args:
        base_distribution: the distribution.
        reinterpreted_batch_ndims: number of axes of its batch that belong to a sample.

    Example:
        >>> import functrace.torch as torch
        >>> normal = torch.distributions.Normal(torch.zeros(3), 1.0)
        >>> torch.distributions.Independent(normal, 1).log_prob(torch.zeros(3))
        tensor(-2.7568)
    """

    arg_constraints: ClassVar[Any] = {}
    base_dist: Distribution

    def __init__(
        self,
        base_distribution: Instance,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        given = len(base_distribution.batch_shape)
        if reinterpreted_batch_ndims > given:
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {given}"
            )
        shape = (*base_distribution.batch_shape, *base_distribution.event_shape)
        event_dim = reinterpreted_batch_ndims + len(base_distribution.event_shape)
        cut = len(shape) - event_dim
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def _expand_rest(self, made: Instance, shape: Size) -> None:
        own = tuple(self.event_shape)[: self.reinterpreted_batch_ndims]
        made.base_dist = self.base_dist.expand((*shape, *own))
        made.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """True if samples have gradients."""
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        """True if all values can be listed."""
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:  # type: ignore[override]
        """The set of samples."""
        result = self.base_dist.support
        if self.reinterpreted_batch_ndims:
            return constraints.independent(result, self.reinterpreted_batch_ndims)
        return result

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        """The mode."""
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.base_dist.variance

    def sample(self, sample_shape: Sizes = ()) -> Tensor:
        """Return samples without gradients."""
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sizes = ()) -> Tensor:
        """Return samples with gradients by the parameters."""
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Values) -> Tensor:
        """Return the logarithm of the density or probability."""
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all values.

        Raises:
            NotImplementedError: if axes of the batch belong to a sample.
        """
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"
