"""`Dirichlet`.

Layer: 9.
"""

from __future__ import annotations

from typing import Any, ClassVar

import functrace.torch as torch
from functrace.torch.autograd.function import Function, once_differentiable
from functrace.torch.distributions import constraints
from functrace.torch.distributions.exp_family import ExponentialFamily
from functrace.torch.distributions.kinds import Parameter, Sizes, Values
from functrace.torch.tensors.tensor import Tensor

__all__ = ["Dirichlet"]


class _Point(Function):
    """A random point of the simplex, with its implicit derivative."""

    @staticmethod
    def forward(ctx: Parameter, concentration: Tensor) -> Tensor:  # type: ignore[override]
        point = torch._sample_dirichlet(concentration)
        ctx.save_for_backward(point, concentration)
        return point

    @staticmethod
    @once_differentiable
    def backward(ctx: Parameter, grad_output: Tensor) -> Tensor:  # type: ignore[override]
        point, concentration = ctx.saved_tensors
        total = concentration.sum(-1, True).expand_as(concentration)
        slope = torch._dirichlet_grad(point, concentration, total)
        return slope * (grad_output - (point * grad_output).sum(-1, True))


class Dirichlet(ExponentialFamily):
    """Dirichlet's distribution of points of a simplex.

    Args:
        concentration: shape (..., n).
    """

    arg_constraints: ClassVar[Any] = {
        "concentration": constraints.independent(constraints.positive, 1)
    }
    support = constraints.simplex
    has_rsample = True
    parameters: ClassVar[dict[str, int]] = {"concentration": 1}
    concentration: Tensor

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Sizes = ()) -> Tensor:
        """Return samples with gradients by the parameters."""
        return _Point.apply(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Values) -> Tensor:
        """Return the logarithm of the density."""
        value = self._checked(value)
        return (
            torch.xlogy(self.concentration - 1.0, value).sum(-1)
            + torch.lgamma(self.concentration.sum(-1))
            - torch.lgamma(self.concentration).sum(-1)
        )

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        """The mode: the corner of the greatest concentration, if all are below 1."""
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        is_corner = (self.concentration < 1).all(dim=-1)
        corner = torch.nn.functional.one_hot(mode.argmax(-1), above.shape[-1]).to(mode.dtype)
        return torch.where(is_corner.unsqueeze(-1), corner, mode)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        total = self.concentration.sum(-1, True)
        rest = total - self.concentration
        return self.concentration * rest / (total.pow(2) * (total + 1))

    def entropy(self) -> Tensor:
        """Return the entropy."""
        count = self.concentration.size(-1)
        total = self.concentration.sum(-1)
        return (
            torch.lgamma(self.concentration).sum(-1)
            - torch.lgamma(total)
            - (count - total) * torch.digamma(total)
            - ((self.concentration - 1.0) * torch.digamma(self.concentration)).sum(-1)
        )

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return x.lgamma().sum(-1) - torch.lgamma(x.sum(-1))
