"""`MultivariateNormal`.

Layer: 9.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import functrace.torch as torch
from functrace.torch import linalg
from functrace.torch.distributions import constraints
from functrace.torch.distributions.distribution import Distribution
from functrace.torch.distributions.kinds import Instance, Sizes, Values
from functrace.torch.distributions.utils import lazy_property, standard_normal
from functrace.torch.tensors.tensor import Tensor

__all__ = ["MultivariateNormal"]


def batch_mahalanobis(lower: Tensor, x: Tensor) -> Tensor:
    """Return ``x.T @ inv(L @ L.T) @ x``.

    Args:
        lower: L, lower triangular, shape (..., n, n).
        x: shape (..., n).
    """
    solved = linalg.solve_triangular(lower, x.unsqueeze(-1), upper=False)
    return solved.pow(2).sum(-2).squeeze(-1)


_batch_mahalanobis = batch_mahalanobis


def precision_to_scale_tril(precision: Tensor) -> Tensor:
    """Return the lower triangular factor of the inverse of matrices."""
    flipped = linalg.cholesky(torch.flip(precision, (-2, -1)))
    inverse = torch.transpose(torch.flip(flipped, (-2, -1)), -2, -1)
    identity = torch.eye(precision.shape[-1], dtype=precision.dtype)
    return linalg.solve_triangular(inverse, identity, upper=False)


_precision_to_scale_tril = precision_to_scale_tril


class MultivariateNormal(Distribution):
    """The normal distribution of vectors.

    Args:
        loc: the mean, shape (..., n).
        covariance_matrix: shape (..., n, n).
        precision_matrix: its inverse, instead.
        scale_tril: its lower triangular factor, instead.
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {
            "scale_tril": scale_tril,
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
        }
        named = [(name, matrix) for name, matrix in given.items() if matrix is not None]
        if len(named) != 1:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be "
                "specified."
            )
        ((name, matrix),) = named
        if matrix.dim() < 2:
            called = "scale_tril matrix" if name == "scale_tril" else name
            raise ValueError(
                f"{called} must be at least two-dimensional, with optional leading batch dimensions"
            )
        batch = torch.broadcast_shapes(tuple(matrix.shape[:-2]), tuple(loc.shape[:-1]))
        vars(self)[name] = matrix.expand((*batch, -1, -1))
        self.loc = loc.expand((*batch, -1))
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        if scale_tril is not None:
            self._unbroadcasted_scale_tril = scale_tril
        elif covariance_matrix is not None:
            self._unbroadcasted_scale_tril = linalg.cholesky(covariance_matrix)
        else:
            self._unbroadcasted_scale_tril = precision_to_scale_tril(matrix)

    def expand(self, batch_shape: Sizes, _instance: Instance = None) -> Any:
        """Return the distribution with its batch broadcast to another shape."""
        made = self._get_checked_instance(MultivariateNormal, _instance)
        shape = tuple(batch_shape)
        made.loc = self.loc.expand((*shape, *self.event_shape))
        made._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        for name in ("covariance_matrix", "scale_tril", "precision_matrix"):
            if name in vars(self):
                value = vars(self)[name]
                vars(made)[name] = value.expand((*shape, *self.event_shape, *self.event_shape))
        Distribution.__init__(made, shape, self.event_shape, validate_args=False)
        made._validate_args = self._validate_args
        return made

    def _whole(self, matrix: Tensor) -> Tensor:
        return matrix.expand((*self._batch_shape, *self._event_shape, *self._event_shape))

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower triangular factor of the covariance."""
        return self._whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        lower = self._unbroadcasted_scale_tril
        return self._whole(torch.matmul(lower, lower.mT))

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        lower = self._unbroadcasted_scale_tril
        identity = torch.eye(lower.shape[-1], dtype=lower.dtype)
        inverse = linalg.solve_triangular(lower, identity, upper=False)
        return self._whole(torch.matmul(inverse.mT, inverse))

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The mode."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The variances of the elements."""
        squares = self._unbroadcasted_scale_tril.pow(2).sum(-1)
        return squares.expand((*self._batch_shape, *self._event_shape))

    def rsample(self, sample_shape: Sizes = ()) -> Tensor:
        """Return samples with gradients by the parameters."""
        eps = standard_normal(self._extended_shape(sample_shape), self.loc.dtype)
        moved = torch.matmul(self._unbroadcasted_scale_tril, eps.unsqueeze(-1)).squeeze(-1)
        return self.loc + moved

    def _half_log_det(self) -> Tensor:
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Values) -> Tensor:
        """Return the logarithm of the density."""
        offset = self._checked(value) - self.loc
        distance = batch_mahalanobis(self._unbroadcasted_scale_tril, offset)
        count = self._event_shape[0]
        return -0.5 * (count * math.log(2 * math.pi) + distance) - self._half_log_det()

    def entropy(self) -> Tensor:
        """Return the entropy."""
        count = self._event_shape[0]
        value = 0.5 * count * (1.0 + math.log(2 * math.pi)) + self._half_log_det()
        return value.expand(self._batch_shape) if self._batch_shape else value
