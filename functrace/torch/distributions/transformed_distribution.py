"""`TransformedDistribution`: the distribution of transformed samples.

Layer: 9.
"""

from __future__ import annotations

from typing import Any, ClassVar

import functrace.torch as torch
from functrace.torch.distributions import constraints
from functrace.torch.distributions.distribution import Distribution
from functrace.torch.distributions.independent import Independent
from functrace.torch.distributions.kinds import Instance, Sizes, Values
from functrace.torch.distributions.transforms import ComposeTransform, Transform
from functrace.torch.distributions.utils import sum_rightmost
from functrace.torch.tensors.size import Size
from functrace.torch.tensors.tensor import Tensor

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The distribution of transformed samples of another one.

    Args:
        base_distribution: the distribution of the samples.
        transforms: the transform, or several, of which the first is applied first.

    Raises:
        ValueError: if the shapes do not fit, or ``transforms`` are none.
    """

    arg_constraints: ClassVar[Any] = {}

    def __init__(
        self, base_distribution: Instance, transforms: Instance, validate_args: bool | None = None
    ) -> None:
        if isinstance(transforms, Transform):
            self.transforms: list[Transform] = [transforms]
        elif isinstance(transforms, list):
            if not all(isinstance(t, Transform) for t in transforms):
                raise ValueError("transforms must be a Transform or a list of Transforms")
            self.transforms = transforms
        else:
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        whole = ComposeTransform(self.transforms)
        base_shape = (*base_distribution.batch_shape, *base_distribution.event_shape)
        if len(base_shape) < whole.domain.event_dim:
            raise ValueError(
                "base_distribution needs to have shape with size at least "
                f"{whole.domain.event_dim}, but got {Size(base_shape)}."
            )
        forward_shape = whole.forward_shape(base_shape)
        expanded = tuple(whole.inverse_shape(forward_shape))
        if base_shape != expanded:
            batch = expanded[: len(expanded) - len(base_distribution.event_shape)]
            base_distribution = base_distribution.expand(batch)
        missing = whole.domain.event_dim - len(base_distribution.event_shape)
        if missing > 0:
            base_distribution = Independent(base_distribution, missing)
        self.base_dist = base_distribution
        gained = whole.codomain.event_dim - whole.domain.event_dim
        event_dim = max(whole.codomain.event_dim, len(base_distribution.event_shape) + gained)
        cut = len(forward_shape) - event_dim
        super().__init__(forward_shape[:cut], forward_shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Sizes, _instance: Instance = None) -> Any:
        """Return the distribution with its batch broadcast to another shape."""
        made = self._get_checked_instance(TransformedDistribution, _instance)
        made.transforms = self.transforms
        shape = (*Size(batch_shape), *self.event_shape)
        for t in reversed(self.transforms):
            shape = t.inverse_shape(shape)
        cut = len(shape) - len(self.base_dist.event_shape)
        made.base_dist = self.base_dist.expand(shape[:cut])
        Distribution.__init__(made, batch_shape, self.event_shape, validate_args=False)
        made._validate_args = self._validate_args
        return made

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:  # type: ignore[override]
        """The set of samples."""
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        extra = len(self.event_shape) - support.event_dim
        return constraints.independent(support, extra) if extra > 0 else support

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """True if samples have gradients."""
        return self.base_dist.has_rsample

    def sample(self, sample_shape: Sizes = ()) -> Tensor:
        """Return samples without gradients."""
        with torch.no_grad():
            x = self.base_dist.sample(sample_shape)
            for t in self.transforms:
                x = t(x)
            return x

    def rsample(self, sample_shape: Sizes = ()) -> Tensor:
        """Return samples with gradients by the parameters."""
        x = self.base_dist.rsample(sample_shape)
        for t in self.transforms:
            x = t(x)
        return x

    def log_prob(self, value: Values) -> Tensor:
        """Return the logarithm of the density."""
        y = self._checked(value)
        event_dim = len(self.event_shape)
        total: Any = 0.0
        for t in reversed(self.transforms):
            x = t.inv(y)
            event_dim += t.domain.event_dim - t.codomain.event_dim
            count = event_dim - t.domain.event_dim
            total = total - sum_rightmost(t.log_abs_det_jacobian(x, y), count)
            y = x
        count = event_dim - len(self.base_dist.event_shape)
        return total + sum_rightmost(self.base_dist.log_prob(y), count)

    def _oriented(self, value: Values) -> Any:
        """Return probabilities, reflected where the transforms decrease."""
        sign: Any = 1
        for t in self.transforms:
            sign = sign * t.sign
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value: Values) -> Tensor:
        """Return the cumulative distribution function."""
        for t in reversed(self.transforms):
            value = t.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._oriented(self.base_dist.cdf(value))

    def icdf(self, value: Values) -> Tensor:
        """Return the inverse of the cumulative distribution function."""
        value = self.base_dist.icdf(self._oriented(value))
        for t in self.transforms:
            value = t(value)
        return value
