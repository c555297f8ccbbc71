"""`RelaxedBernoulli`.

Layer: 9.
"""

from __future__ import annotations

from typing import Any, ClassVar

import functrace.torch as torch
from functrace.torch.distributions import constraints
from functrace.torch.distributions.distribution import Distribution
from functrace.torch.distributions.kinds import Instance, Parameter, Sizes, Values
from functrace.torch.distributions.transformed_distribution import TransformedDistribution
from functrace.torch.distributions.transforms import SigmoidTransform
from functrace.torch.distributions.utils import (
    broadcast_all,
    clamp_probs,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)
from functrace.torch.tensors.size import Size
from functrace.torch.tensors.tensor import Tensor

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(Distribution):
    """The log-odds of a relaxed 0 or 1.

    Args:
        temperature: the temperature.
        probs: the probability of 1.
        logits: its log-odds, instead.

    Source: C. Maddison, A. Mnih, Y. W. Teh, "The concrete distribution", 2017.
    """

    arg_constraints: ClassVar[Any] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.real
    parameters: ClassVar[dict[str, int]] = {"probs": 0, "logits": 0, "_param": 0}

    def __init__(
        self,
        temperature: Parameter,
        probs: Parameter = None,
        logits: Parameter = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        if probs is not None:
            (self.probs,) = broadcast_all(probs)
        else:
            (self.logits,) = broadcast_all(logits)
        self._param: Any = self.logits if probs is None else self.probs
        super().__init__(self._param.size(), validate_args=validate_args)

    def _expand_rest(self, made: Instance, shape: Size) -> None:
        made.temperature = self.temperature

    @lazy_property
    def logits(self) -> Tensor:
        """The log-odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self) -> Any:
        """Shape of the parameter."""
        return self._param.size()

    def rsample(self, sample_shape: Sizes = ()) -> Tensor:
        """Return samples with gradients by the parameters."""
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(torch.rand(shape, dtype=probs.dtype))
        odds = u.log() - (-u).log1p() + probs.log() - (-probs).log1p()
        return odds / self.temperature

    def log_prob(self, value: Values) -> Tensor:
        """Return the logarithm of the density."""
        value = self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        offset = logits - value.mul(self.temperature)
        return self.temperature.log() + offset - 2 * offset.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """A relaxed 0 or 1: a number between, with gradients by the probability.

    Args:
        temperature: the temperature: a tensor.
        probs: the probability of 1.
        logits: its log-odds, instead.
    """

    arg_constraints: ClassVar[Any] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.unit_interval  # type: ignore[assignment]
    has_rsample = True  # type: ignore[assignment]
    base_dist: LogitRelaxedBernoulli

    def __init__(
        self,
        temperature: Parameter,
        probs: Parameter = None,
        logits: Parameter = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Sizes, _instance: Instance = None) -> Any:
        """Return the distribution with its batch broadcast to another shape."""
        return super().expand(batch_shape, self._get_checked_instance(RelaxedBernoulli, _instance))

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The log-odds."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self.base_dist.probs
