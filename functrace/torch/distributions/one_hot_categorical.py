"""`OneHotCategorical`.

Layer: 9.
"""

from __future__ import annotations

from typing import Any, ClassVar

import functrace.torch as torch
from functrace.torch.distributions import constraints
from functrace.torch.distributions.categorical import Categorical
from functrace.torch.distributions.distribution import Distribution
from functrace.torch.distributions.kinds import Instance, Parameter, Sizes, Values
from functrace.torch.tensors.size import Size
from functrace.torch.tensors.tensor import Tensor

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(Distribution):
    """The distribution of unit vectors.

    Args:
        probs: the probabilities up to a factor, shape (..., n).
        logits: their logarithms up to a constant, instead.
    """

    arg_constraints: ClassVar[Any] = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self, probs: Parameter = None, logits: Parameter = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(self._categorical.batch_shape, shape[-1:], validate_args=validate_args)

    def _expand_rest(self, made: Instance, shape: Size) -> None:
        made._categorical = self._categorical.expand(shape)

    @property
    def _param(self) -> Tensor:
        return self._categorical._param

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The mode."""
        return self._unit(self._categorical.mode).to(self.probs)

    def _unit(self, places: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(places, self._categorical._num_events)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.probs * (1 - self.probs)

    @property
    def param_shape(self) -> Any:
        """Shape of the parameter."""
        return self._categorical.param_shape

    def sample(self, sample_shape: Sizes = ()) -> Tensor:
        """Return samples."""
        return self._unit(self._categorical.sample(sample_shape)).to(self.probs)

    def log_prob(self, value: Values) -> Tensor:
        """Return the logarithm of the probability."""
        return self._categorical.log_prob(self._checked(value).max(-1)[1])

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all unit vectors."""
        n = self.event_shape[0]
        values = torch.eye(n, dtype=self._param.dtype)
        values = values.view((n, *([1] * len(self.batch_shape)), n))
        return values.expand((n, *self.batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """Unit vectors whose gradients are those of the probabilities."""

    has_rsample = True

    def rsample(self, sample_shape: Sizes = ()) -> Tensor:
        """Return samples, with the gradients of the probabilities."""
        return self.sample(sample_shape) + (self.probs - self.probs.detach())
