"""`StudentT`.

Layer: 9.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import functrace.torch as torch
from functrace.torch.distributions import constraints
from functrace.torch.distributions.chi2 import Chi2
from functrace.torch.distributions.distribution import Distribution
from functrace.torch.distributions.kinds import Instance, Parameter, Sizes, Values
from functrace.torch.distributions.utils import broadcast_all, standard_normal
from functrace.torch.tensors.size import Size
from functrace.torch.tensors.tensor import Tensor

__all__ = ["StudentT"]


class StudentT(Distribution):
    """Student's t-distribution.

    Args:
        df: degrees of freedom.
        loc: the location.
        scale: the scale.
    """

    arg_constraints: ClassVar[Any] = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True
    parameters: ClassVar[dict[str, int]] = {"df": 0, "loc": 0, "scale": 0}
    df: Tensor
    loc: Tensor
    scale: Tensor

    def __init__(
        self,
        df: Parameter,
        loc: Parameter = 0.0,
        scale: Parameter = 1.0,
        validate_args: bool | None = None,
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.size(), validate_args=validate_args)

    def _expand_rest(self, made: Instance, shape: Size) -> None:
        made._chi2 = self._chi2.expand(shape)

    @property
    def mean(self) -> Tensor:
        """The mean; nan, if there is none."""
        made = self.loc.clone()
        made[self.df <= 1] = math.nan
        return made

    @property
    def mode(self) -> Tensor:
        """The mode."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The variance; infinite or nan, if there is none."""
        made = self.df.clone()
        above = self.df > 2
        made[above] = self.scale[above].pow(2) * self.df[above] / (self.df[above] - 2)
        made[(self.df <= 2) & (self.df > 1)] = math.inf
        made[self.df <= 1] = math.nan
        return made

    def rsample(self, sample_shape: Sizes = ()) -> Tensor:
        """Return samples with gradients by the parameters."""
        shape = self._extended_shape(sample_shape)
        normal = standard_normal(shape, self.df.dtype)
        squares = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * (normal * torch.rsqrt(squares / self.df))

    def log_prob(self, value: Values) -> Tensor:
        """Return the logarithm of the density."""
        value = self._checked(value)
        y = (value - self.loc) / self.scale
        normalizer = (
            self.scale.log()
            + 0.5 * self.df.log()
            + 0.5 * math.log(math.pi)
            + torch.lgamma(0.5 * self.df)
            - torch.lgamma(0.5 * (self.df + 1.0))
        )
        return -0.5 * (self.df + 1.0) * torch.log1p(y**2.0 / self.df) - normalizer

    def entropy(self) -> Tensor:
        """Return the entropy."""
        half = 0.5 * (self.df + 1)
        log_beta = torch.lgamma(0.5 * self.df) + math.lgamma(0.5) - torch.lgamma(half)
        return (
            self.scale.log()
            + half * (torch.digamma(half) - torch.digamma(0.5 * self.df))
            + 0.5 * self.df.log()
            + log_beta
        )
