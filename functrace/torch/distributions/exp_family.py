"""`ExponentialFamily`: densities ``exp(<t(x), theta> - F(theta) + k(x))``.

Layer: 9.
"""

from __future__ import annotations

from typing import Any

import functrace.torch as torch
from functrace.torch.distributions.distribution import Distribution
from functrace.torch.tensors.tensor import Tensor

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """A distribution of the exponential family; its entropy follows from the log-normalizer F.

    Source: F. Nielsen, R. Nock, "Entropies and cross-entropies of exponential families", 2010.
    """

    _mean_carrier_measure: Any = None
    """The mean of k(x)."""

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        """The natural parameters theta."""
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        """Return F(theta)."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """Return the entropy, F(theta) - <theta, grad F(theta)> - E k(x)."""
        mean_carrier = self._mean_carrier_measure
        if mean_carrier is None:
            raise NotImplementedError
        natural = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*natural)
        gradients = torch.autograd.grad(normalizer.sum(), natural, create_graph=True)
        result: Any = -mean_carrier + normalizer
        for p, gradient in zip(natural, gradients, strict=True):
            axes = len(p.shape) - len(self._batch_shape)
            part = p * gradient
            result = result - (part.flatten(len(self._batch_shape)).sum(-1) if axes else part)
        return result
