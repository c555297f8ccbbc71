"""`MixtureSameFamily`.

Layer: 9.
"""

from __future__ import annotations

from typing import Any, ClassVar

import functrace.torch as torch
from functrace.torch.distributions import constraints
from functrace.torch.distributions.categorical import Categorical
from functrace.torch.distributions.distribution import Distribution
from functrace.torch.distributions.kinds import Instance, Sizes, Values
from functrace.torch.tensors.size import Size
from functrace.torch.tensors.tensor import Tensor

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """A mixture of distributions of one family.

    Args:
        mixture_distribution: the weights, a `Categorical`.
        component_distribution: the components, along the last axis of its batch.
    """

    arg_constraints: ClassVar[Any] = {}

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Instance,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an  instance of "
                "torch.distributions.Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution need to be an instance of "
                "torch.distributions.Distribution"
            )
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        mixed = mixture_distribution.batch_shape
        parts = component_distribution.batch_shape[:-1]
        for a, b in zip(reversed(mixed), reversed(parts), strict=False):
            if a != 1 and b != 1 and a != b:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixed}) is not compatible with "
                    "`component_distribution.batch_shape`"
                    f"({parts})"
                )
        count = mixture_distribution.logits.shape[-1]
        if count != component_distribution.batch_shape[-1]:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal "
                "`component_distribution.batch_shape[-1]` "
                f"({component_distribution.batch_shape[-1]})"
            )
        self._num_component = count
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(parts, event_shape, validate_args=validate_args)

    def _expand_rest(self, made: Instance, shape: Size) -> None:
        made._component_distribution = self._component_distribution.expand(
            (*shape, self._num_component)
        )
        made._num_component = self._num_component
        made._event_ndims = self._event_ndims
        made._mixture_distribution = self._mixture_distribution.expand(shape)

    @constraints.dependent_property
    def support(self) -> Any:  # type: ignore[override]
        """The set of samples."""
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """The weights."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components."""
        return self._component_distribution

    def _padded(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-1 - self._event_ndims)

    @property
    def _weights(self) -> Tensor:
        probs = self._mixture_distribution.probs
        return probs.reshape((*probs.shape, *([1] * self._event_ndims)))

    @property
    def mean(self) -> Tensor:
        """The mean."""
        axis = -1 - self._event_ndims
        return (self._weights * self._component_distribution.mean).sum(dim=axis)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        axis = -1 - self._event_ndims
        within = (self._weights * self._component_distribution.variance).sum(dim=axis)
        offset = self._component_distribution.mean - self._padded(self.mean)
        return within + (self._weights * offset.pow(2.0)).sum(dim=axis)

    def cdf(self, value: Values) -> Tensor:
        """Return the cumulative distribution function."""
        found = self._component_distribution.cdf(self._padded(value))
        return (found * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Values) -> Tensor:
        """Return the logarithm of the density or probability."""
        value = self._padded(self._checked(value))
        found = self._component_distribution.log_prob(value)
        weights = torch.log_softmax(self._mixture_distribution.logits, dim=-1)
        return torch.logsumexp(found + weights, dim=-1)

    def sample(self, sample_shape: Sizes = ()) -> Tensor:
        """Return samples."""
        sample_shape = Size(sample_shape)
        with torch.no_grad():
            axis = len(sample_shape) + len(self.batch_shape)
            chosen = self._mixture_distribution.sample(sample_shape)
            shape = (*chosen.shape, *([1] * (self._event_ndims + 1)))
            drawn = self._component_distribution.sample(sample_shape)
            places = chosen.reshape(shape).expand((*chosen.shape, 1, *self._event_shape))
            return torch.gather(drawn, axis, places).squeeze(axis)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"
