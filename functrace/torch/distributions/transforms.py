"""Transforms: invertible functions, with the logarithm of the determinant of their Jacobian.

Layer: 9.
"""

from __future__ import annotations

import math
import operator
import weakref
from collections.abc import Sequence
from functools import reduce
from typing import Any

import functrace.torch as torch
from functrace.torch import linalg
from functrace.torch.distributions import constraints
from functrace.torch.distributions.kinds import Instance, Parameter, Sizes, Values
from functrace.torch.distributions.utils import (
    broadcast_all,
    lazy_property,
    sum_rightmost,
    tril_matrix_to_vec,
    vec_to_tril_matrix,
)
from functrace.torch.tensors.size import Size
from functrace.torch.tensors.tensor import Tensor

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]


class Transform:
    """An invertible function.

    Args:
        cache_size: 1 to store the last argument and result, which `inv` then returns.

    Attributes:
        bijective: True if it has an inverse; otherwise `inv` has one of the arguments.
        domain: the set of arguments.
        codomain: the set of results.
    """

    bijective = False
    domain: Any
    codomain: Any
    _inv: Any = None

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._cached_x_y: tuple[Any, Any] = (None, None)
        super().__init__()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_inv": None}

    @property
    def event_dim(self) -> int:
        """Number of axes of one argument."""
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self) -> Transform:
        """The inverse."""
        made = None if self._inv is None else self._inv()
        if made is None:
            made = _InverseTransform(self)
            self._inv = weakref.ref(made)
        return made

    @property
    def sign(self) -> Any:
        """The sign of the derivative, for functions of one number."""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the transform with another size of its cache."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return id(self)

    def __call__(self, x: Values) -> Any:
        """Return the result for an argument."""
        if not self._cache_size:
            return self._call(x)
        before, result = self._cached_x_y
        if x is before:
            return result
        result = self._call(x)
        self._cached_x_y = x, result
        return result

    def _inv_call(self, y: Values) -> Any:
        """Return the argument of a result."""
        if not self._cache_size:
            return self._inverse(y)
        argument, before = self._cached_x_y
        if y is before:
            return argument
        argument = self._inverse(y)
        self._cached_x_y = argument, y
        return argument

    def _call(self, x: Values) -> Any:
        raise NotImplementedError

    def _inverse(self, y: Values) -> Any:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Values, y: Values) -> Any:
        """Return the logarithm of the absolute determinant of the Jacobian.

        Args:
            x: the argument.
            y: the result.
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.__class__.__name__ + "()"

    def forward_shape(self, shape: Sizes) -> Any:
        """Return the shape of the result for one of the argument."""
        return shape

    def inverse_shape(self, shape: Sizes) -> Any:
        """Return the shape of the argument for one of the result."""
        return shape


class _InverseTransform(Transform):
    """The inverse of a transform."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv: Any = transform

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:  # type: ignore[override]
        return self._inv.codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:  # type: ignore[override]
        return self._inv.domain

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return self._inv.bijective

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Transform:
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self.inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__ = Transform.__hash__

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self._inv!r})"

    def __call__(self, x: Values) -> Any:
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x: Values, y: Values) -> Any:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Sizes) -> Any:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Sizes) -> Any:
        return self._inv.forward_shape(shape)


class ComposeTransform(Transform):
    """Several transforms, one after the other.

    Args:
        parts: the transforms; the first is applied first.
        cache_size: see `Transform`.
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        given = list(parts)
        self.parts = [part.with_cache(cache_size) for part in given] if cache_size else given
        super().__init__(cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = Transform.__hash__

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:  # type: ignore[override]
        """The set of arguments."""
        if not self.parts:
            return constraints.real
        domain = self.parts[0].domain
        event_dim = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            event_dim += part.domain.event_dim - part.codomain.event_dim
            event_dim = max(event_dim, part.domain.event_dim)
        extra = event_dim - domain.event_dim
        return constraints.independent(domain, extra) if extra > 0 else domain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:  # type: ignore[override]
        """The set of results."""
        if not self.parts:
            return constraints.real
        codomain = self.parts[-1].codomain
        event_dim = self.parts[0].domain.event_dim
        for part in self.parts:
            event_dim += part.codomain.event_dim - part.domain.event_dim
            event_dim = max(event_dim, part.codomain.event_dim)
        extra = event_dim - codomain.event_dim
        return constraints.independent(codomain, extra) if extra > 0 else codomain

    @lazy_property
    def bijective(self) -> bool:  # type: ignore[override]
        """True if it has an inverse."""
        return all(part.bijective for part in self.parts)

    @lazy_property
    def sign(self) -> Any:  # type: ignore[override]
        """The sign of the derivative."""
        return reduce(operator.mul, [part.sign for part in self.parts], 1)

    @property
    def inv(self) -> Transform:
        """The inverse."""
        made = None if self._inv is None else self._inv()
        if made is None:
            made = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv = weakref.ref(made)
            made._inv = weakref.ref(self)
        return made

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the transform with another size of its cache."""
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    def __call__(self, x: Values) -> Any:
        """Return the result for an argument."""
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Values, y: Values) -> Any:
        """Return the logarithm of the absolute determinant of the Jacobian."""
        if not self.parts:
            return torch.zeros_like(x)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        terms: list[Any] = []
        event_dim = self.domain.event_dim
        for part, a, b in zip(self.parts, values[:-1], values[1:], strict=True):
            count = event_dim - part.domain.event_dim
            terms.append(sum_rightmost(part.log_abs_det_jacobian(a, b), count))
            event_dim += part.codomain.event_dim - part.domain.event_dim
        return reduce(operator.add, terms)

    def forward_shape(self, shape: Sizes) -> Any:
        """Return the shape of the result."""
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Sizes) -> Any:
        """Return the shape of the argument."""
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        parts = ",\n    ".join(repr(part) for part in self.parts)
        return f"{self.__class__.__name__}(\n    {parts}\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform whose arguments are arrays, element by element.

    Args:
        base_transform: the transform of elements.
        reinterpreted_batch_ndims: number of axes of an array, besides those of an element.
        cache_size: see `Transform`.
    """

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the transform with another size of its cache."""
        if self._cache_size == cache_size:
            return self
        count = self.reinterpreted_batch_ndims
        return IndependentTransform(self.base_transform, count, cache_size=cache_size)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:  # type: ignore[override]
        """The set of arguments."""
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:  # type: ignore[override]
        """The set of results."""
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """True if it has an inverse."""
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        """The sign of the derivative."""
        return self.base_transform.sign

    def _call(self, x: Values) -> Any:
        if x.dim() < self.domain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform(x)

    def _inverse(self, y: Values) -> Any:
        if y.dim() < self.codomain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Values, y: Values) -> Any:
        """Return the logarithm of the absolute determinant of the Jacobian."""
        found = self.base_transform.log_abs_det_jacobian(x, y)
        return sum_rightmost(found, self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        name = self.__class__.__name__
        return f"{name}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape: Sizes) -> Any:
        """Return the shape of the result."""
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Sizes) -> Any:
        """Return the shape of the argument."""
        return self.base_transform.inverse_shape(shape)


class ReshapeTransform(Transform):
    """Another shape of the elements.

    Args:
        in_shape: shape of an argument.
        out_shape: shape of a result.
        cache_size: see `Transform`.
    """

    bijective = True

    def __init__(self, in_shape: Sizes, out_shape: Sizes, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self) -> Any:  # type: ignore[override]
        """The set of arguments."""
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Any:  # type: ignore[override]
        """The set of results."""
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the transform with another size of its cache."""
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x: Values) -> Any:
        batch = tuple(x.shape)[: x.dim() - len(self.in_shape)]
        return x.reshape((*batch, *self.out_shape))

    def _inverse(self, y: Values) -> Any:
        batch = tuple(y.shape)[: y.dim() - len(self.out_shape)]
        return y.reshape((*batch, *self.in_shape))

    def log_abs_det_jacobian(self, x: Values, y: Values) -> Any:
        """Return zeros."""
        batch = tuple(x.shape)[: x.dim() - len(self.in_shape)]
        return x.new_zeros(batch)

    def forward_shape(self, shape: Sizes) -> Any:
        """Return the shape of the result."""
        return _replaced(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sizes) -> Any:
        """Return the shape of the argument."""
        return _replaced(shape, self.out_shape, self.in_shape)


def _replaced(shape: Sizes, last: Size, by: Size) -> Size:
    """Return a shape with other last axes."""
    if len(shape) < len(last):
        raise ValueError("Too few dimensions on input")
    cut = len(shape) - len(last)
    if tuple(shape[cut:]) != tuple(last):
        raise ValueError(f"Shape mismatch: expected {tuple(shape[cut:])} but got {last}")
    return Size((*shape[:cut], *by))


class _Plain(Transform):
    """A transform without parameters."""

    bijective = True

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    __hash__ = Transform.__hash__


class ExpTransform(_Plain):
    """``exp(x)``."""

    domain = constraints.real
    codomain = constraints.positive
    sign = +1  # type: ignore[assignment]

    def _call(self, x: Values) -> Any:
        return x.exp()

    def _inverse(self, y: Values) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Values, y: Values) -> Any:
        """Return the logarithm of the absolute derivative."""
        return x


class PowerTransform(Transform):
    """``x**exponent``.

    Args:
        exponent: the exponent.
        cache_size: see `Transform`.
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Parameter, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the transform with another size of its cache."""
        if self._cache_size == cache_size:
            return self
        return PowerTransform(self.exponent, cache_size=cache_size)

    @lazy_property
    def sign(self) -> Any:  # type: ignore[override]
        """The sign of the derivative."""
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool(
            self.exponent.eq(other.exponent).all().item()
        )

    __hash__ = Transform.__hash__

    def _call(self, x: Values) -> Any:
        return x.pow(self.exponent)

    def _inverse(self, y: Values) -> Any:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Values, y: Values) -> Any:
        """Return the logarithm of the absolute derivative."""
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Sizes) -> Any:
        """Return the shape of the result."""
        return torch.broadcast_shapes(tuple(shape), tuple(self.exponent.shape))

    def inverse_shape(self, shape: Sizes) -> Any:
        """Return the shape of the argument."""
        return torch.broadcast_shapes(tuple(shape), tuple(self.exponent.shape))


def _clipped_sigmoid(x: Tensor) -> Tensor:
    limits = torch.finfo(x.dtype)
    return torch.clamp(torch.sigmoid(x), min=limits.tiny, max=1.0 - limits.eps)


class SigmoidTransform(_Plain):
    """``sigmoid(x)``."""

    domain = constraints.real
    codomain = constraints.unit_interval
    sign = +1  # type: ignore[assignment]

    def _call(self, x: Values) -> Any:
        return _clipped_sigmoid(x)

    def _inverse(self, y: Values) -> Any:
        limits = torch.finfo(y.dtype)
        y = y.clamp(min=limits.tiny, max=1.0 - limits.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Values, y: Values) -> Any:
        """Return the logarithm of the absolute derivative."""
        softplus = torch.nn.functional.softplus
        return -softplus(-x) - softplus(x)


class SoftplusTransform(_Plain):
    """``log(1 + exp(x))``."""

    domain = constraints.real
    codomain = constraints.positive
    sign = +1  # type: ignore[assignment]

    def _call(self, x: Values) -> Any:
        return torch.nn.functional.softplus(x)

    def _inverse(self, y: Values) -> Any:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Values, y: Values) -> Any:
        """Return the logarithm of the absolute derivative."""
        return -torch.nn.functional.softplus(-x)


class TanhTransform(_Plain):
    """``tanh(x)``."""

    domain = constraints.real
    codomain = constraints.interval(-1.0, 1.0)
    sign = +1  # type: ignore[assignment]

    def _call(self, x: Values) -> Any:
        return x.tanh()

    def _inverse(self, y: Values) -> Any:
        return torch.atanh(y)

    def log_abs_det_jacobian(self, x: Values, y: Values) -> Any:
        """Return the logarithm of the absolute derivative."""
        return 2.0 * (math.log(2.0) - x - torch.nn.functional.softplus(-2.0 * x))


class AbsTransform(_Plain):
    """``|x|``; the inverse is the identity."""

    bijective = False
    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Values) -> Any:
        return x.abs()

    def _inverse(self, y: Values) -> Any:
        return y


class AffineTransform(Transform):
    """``loc + scale * x``.

    Args:
        loc: the offset.
        scale: the factor.
        event_dim: number of axes of one argument.
        cache_size: see `Transform`.
    """

    bijective = True

    def __init__(
        self, loc: Parameter, scale: Parameter, event_dim: int = 0, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.loc, self.scale = loc, scale
        self._event_dim = event_dim

    @property
    def event_dim(self) -> int:
        """Number of axes of one argument."""
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:  # type: ignore[override]
        """The set of arguments."""
        if not self.event_dim:
            return constraints.real
        return constraints.independent(constraints.real, self.event_dim)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:  # type: ignore[override]
        """The set of results."""
        if not self.event_dim:
            return constraints.real
        return constraints.independent(constraints.real, self.event_dim)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the transform with another size of its cache."""
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, AffineTransform)
            and _is_same(self.loc, other.loc)
            and _is_same(self.scale, other.scale)
        )

    __hash__ = Transform.__hash__

    @property
    def sign(self) -> Any:
        """The sign of the derivative."""
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return 1 if float(self.scale) > 0 else -1 if float(self.scale) < 0 else 0

    def _call(self, x: Values) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Values) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Values, y: Values) -> Any:
        """Return the logarithm of the absolute determinant of the Jacobian."""
        if isinstance(self.scale, Tensor):
            result = torch.abs(self.scale).log()
        else:
            result = torch.full_like(x, math.log(abs(self.scale)))
        shape = tuple(x.shape)
        if self.event_dim:
            result = result.view((*tuple(result.shape)[: -self.event_dim], -1)).sum(-1)
            shape = shape[: -self.event_dim]
        return result.expand(shape)

    def _shape(self, shape: Sizes) -> Any:
        own = [tuple(getattr(x, "shape", ())) for x in (self.loc, self.scale)]
        return torch.broadcast_shapes(tuple(shape), *own)

    def forward_shape(self, shape: Sizes) -> Any:
        """Return the shape of the result."""
        return self._shape(shape)

    def inverse_shape(self, shape: Sizes) -> Any:
        """Return the shape of the argument."""
        return self._shape(shape)


def _is_same(a: Values, b: Values) -> bool:
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a == b
    return bool((a == b).all().item())


class SoftmaxTransform(_Plain):
    """``softmax(x)``; the inverse is the logarithm."""

    bijective = False
    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Values) -> Any:
        probs = (x - x.max(-1, True)[0]).exp()
        return probs / probs.sum(-1, True)

    def _inverse(self, y: Values) -> Any:
        return y.log()

    def forward_shape(self, shape: Sizes) -> Any:
        """Return the shape of the result."""
        return _at_least(shape, 1)

    def inverse_shape(self, shape: Sizes) -> Any:
        """Return the shape of the argument."""
        return _at_least(shape, 1)


def _at_least(shape: Sizes, count: int) -> Any:
    if len(shape) < count:
        raise ValueError("Too few dimensions on input")
    return shape


class StickBreakingTransform(_Plain):
    """From n numbers to a point of the simplex with n + 1 elements."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _offsets(self, x: Values) -> Tensor:
        return x.shape[-1] + 1 - x.new_ones(x.shape[-1]).cumsum(-1)

    def _call(self, x: Values) -> Any:
        z = _clipped_sigmoid(x - self._offsets(x).log())
        rest = (1 - z).cumprod(-1)
        pad = torch.nn.functional.pad
        return pad(z, [0, 1], value=1) * pad(rest, [1, 0], value=1)

    def _inverse(self, y: Values) -> Any:
        cropped = y[..., :-1]
        offsets = y.shape[-1] - cropped.new_ones(cropped.shape[-1]).cumsum(-1)
        rest = torch.clamp(1 - cropped.cumsum(-1), min=torch.finfo(y.dtype).tiny)
        return cropped.log() - rest.log() + offsets.log()

    def log_abs_det_jacobian(self, x: Values, y: Values) -> Any:
        """Return the logarithm of the absolute determinant of the Jacobian."""
        x = x - self._offsets(x).log()
        return (-x + torch.nn.functional.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Sizes) -> Any:
        """Return the shape of the result."""
        return Size((*_at_least(shape, 1)[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Sizes) -> Any:
        """Return the shape of the argument."""
        return Size((*_at_least(shape, 1)[:-1], shape[-1] - 1))


class LowerCholeskyTransform(_Plain):
    """From matrices to lower triangular ones with a positive diagonal."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Values) -> Any:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Values) -> Any:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_Plain):
    """From matrices to positive definite ones."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Values) -> Any:
        lower = LowerCholeskyTransform()(x)
        return lower @ lower.mT

    def _inverse(self, y: Values) -> Any:
        return LowerCholeskyTransform().inv(linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """From n (n - 1) / 2 numbers to the Cholesky factor of a correlation matrix.

    Source: Stan reference manual, "Cholesky factors of correlation matrices".
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Values) -> Any:
        x = torch.tanh(x)
        eps = torch.finfo(x.dtype).eps
        r = vec_to_tril_matrix(x.clamp(min=-1 + eps, max=1 - eps), diag=-1)
        rest = (1 - r**2).sqrt().cumprod(-1)
        r = r + torch.eye(r.shape[-1], dtype=r.dtype)
        return r * torch.nn.functional.pad(rest[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Values) -> Any:
        rest = 1 - torch.cumsum(y * y, dim=-1)
        shifted = torch.nn.functional.pad(rest[..., :-1], [1, 0], value=1)
        elements = tril_matrix_to_vec(y, diag=-1)
        t = elements / tril_matrix_to_vec(shifted, diag=-1).sqrt()
        return (t.log1p() - t.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Values, y: Values, intermediates: Values = None) -> Any:
        """Return the logarithm of the absolute determinant of the Jacobian."""
        rest = 1 - (y * y).cumsum(dim=-1)
        below = tril_matrix_to_vec(rest, diag=-2)
        log_rest = 0.5 * below.log().sum(-1)
        softplus = torch.nn.functional.softplus
        tanh_terms = -2 * (x + softplus(-2 * x) - math.log(2.0)).sum(dim=-1)
        return log_rest + tanh_terms

    def forward_shape(self, shape: Sizes) -> Any:
        """Return the shape of the result."""
        count = _at_least(shape, 1)[-1]
        n = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != count:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], n, n))

    def inverse_shape(self, shape: Sizes) -> Any:
        """Return the shape of the argument."""
        n = _at_least(shape, 2)[-1]
        if shape[-2] != n:
            raise ValueError("Input is not square")
        return Size((*shape[:-2], n * (n - 1) // 2))


class CatTransform(Transform):
    """Transforms of the parts along an axis.

    Args:
        tseq: the transforms.
        dim: the axis.
        lengths: lengths of the parts.
        cache_size: see `Transform`.
    """

    transforms: list[Transform]

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        self.dim = dim

    @property
    def event_dim(self) -> int:
        """Number of axes of one argument."""
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """Sum of the lengths."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the transform with another size of its cache."""
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, x: Values) -> list[Any]:
        if x.size(self.dim) != self.length:
            raise ValueError(
                f"the axis {self.dim} has {x.size(self.dim)} elements, not {self.length}"
            )
        return list(torch.split(x, self.lengths, dim=self.dim))

    def _call(self, x: Values) -> Any:
        found = [t(part) for t, part in zip(self.transforms, self._parts(x), strict=True)]
        return torch.cat(found, dim=self.dim)

    def _inverse(self, y: Values) -> Any:
        found = [t.inv(part) for t, part in zip(self.transforms, self._parts(y), strict=True)]
        return torch.cat(found, dim=self.dim)

    def log_abs_det_jacobian(self, x: Values, y: Values) -> Any:
        """Return the logarithm of the absolute determinant of the Jacobian."""
        terms = []
        for t, a, b in zip(self.transforms, self._parts(x), self._parts(y), strict=True):
            term = t.log_abs_det_jacobian(a, b)
            count = self.event_dim - t.event_dim
            terms.append(sum_rightmost(term, count) if count else term)
        dim = self.dim if self.dim < 0 else self.dim - x.dim()
        dim += self.event_dim
        return torch.cat(terms, dim=dim) if dim < 0 else sum(terms)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """True if it has an inverse."""
        return all(t.bijective for t in self.transforms)

    @constraints.dependent_property
    def domain(self) -> Any:  # type: ignore[override]
        """The set of arguments."""
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:  # type: ignore[override]
        """The set of results."""
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(Transform):
    """Transforms of the slices along an axis.

    Args:
        tseq: the transforms.
        dim: the axis.
        cache_size: see `Transform`.
    """

    transforms: list[Transform]

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the transform with another size of its cache."""
        if self._cache_size == cache_size:
            return self
        return StackTransform(self.transforms, self.dim, cache_size)

    def _slices(self, x: Values) -> list[Any]:
        return [x.select(self.dim, k) for k in range(x.size(self.dim))]

    def _call(self, x: Values) -> Any:
        found = [t(part) for t, part in zip(self.transforms, self._slices(x), strict=True)]
        return torch.stack(found, dim=self.dim)

    def _inverse(self, y: Values) -> Any:
        found = [t.inv(part) for t, part in zip(self.transforms, self._slices(y), strict=True)]
        return torch.stack(found, dim=self.dim)

    def log_abs_det_jacobian(self, x: Values, y: Values) -> Any:
        """Return the logarithm of the absolute determinant of the Jacobian."""
        pairs = zip(self.transforms, self._slices(x), self._slices(y), strict=True)
        return torch.stack([t.log_abs_det_jacobian(a, b) for t, a, b in pairs], dim=self.dim)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """True if it has an inverse."""
        return all(t.bijective for t in self.transforms)

    @constraints.dependent_property
    def domain(self) -> Any:  # type: ignore[override]
        """The set of arguments."""
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:  # type: ignore[override]
        """The set of results."""
        return constraints.stack([t.codomain for t in self.transforms], self.dim)


class CumulativeDistributionTransform(Transform):
    """The cumulative distribution function of a distribution.

    Args:
        distribution: the distribution.
        cache_size: see `Transform`.
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = +1  # type: ignore[assignment]

    def __init__(self, distribution: Instance, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:  # type: ignore[override]
        """The set of arguments."""
        return self.distribution.support

    def _call(self, x: Values) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Values) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Values, y: Values) -> Any:
        """Return the logarithm of the density."""
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the transform with another size of its cache."""
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)
