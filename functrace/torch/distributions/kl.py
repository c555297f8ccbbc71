"""Kullback-Leibler divergences, by the classes of two distributions.

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import functrace.torch as torch
from functrace.torch import linalg, special
from functrace.torch.distributions.bernoulli import Bernoulli
from functrace.torch.distributions.beta import Beta
from functrace.torch.distributions.binomial import Binomial
from functrace.torch.distributions.categorical import Categorical
from functrace.torch.distributions.cauchy import Cauchy
from functrace.torch.distributions.dirichlet import Dirichlet
from functrace.torch.distributions.distribution import Distribution
from functrace.torch.distributions.exp_family import ExponentialFamily
from functrace.torch.distributions.exponential import Exponential
from functrace.torch.distributions.gamma import Gamma
from functrace.torch.distributions.geometric import Geometric
from functrace.torch.distributions.gumbel import EULER, Gumbel
from functrace.torch.distributions.half_normal import HalfNormal
from functrace.torch.distributions.independent import Independent
from functrace.torch.distributions.laplace import Laplace
from functrace.torch.distributions.multivariate_normal import (
    MultivariateNormal,
    batch_mahalanobis,
)
from functrace.torch.distributions.normal import Normal
from functrace.torch.distributions.one_hot_categorical import OneHotCategorical
from functrace.torch.distributions.pareto import Pareto
from functrace.torch.distributions.poisson import Poisson
from functrace.torch.distributions.transformed_distribution import TransformedDistribution
from functrace.torch.distributions.uniform import Uniform
from functrace.torch.distributions.utils import sum_rightmost
from functrace.torch.tensors.tensor import Tensor

__all__ = ["kl_divergence", "register_kl"]

Divergence = Callable[[Any, Any], Tensor]
_REGISTRY: dict[tuple[type[Any], type[Any]], Divergence] = {}
_FOUND: dict[tuple[type[Any], type[Any]], Any] = {}


def register_kl(type_p: type[Any], type_q: type[Any]) -> Callable[[Divergence], Divergence]:
    """Return a decorator that registers the divergence of two classes, and of their subclasses.

    Args:
        type_p: class of the first distribution.
        type_q: class of the second one.

    Raises:
        TypeError: if they are no subclasses of `Distribution`.

    Example:
        >>> import functrace.torch as torch
        >>> class Standard(torch.distributions.Normal):
        ...     def __init__(self):
        ...         super().__init__(0.0, 1.0)
        >>> @register_kl(Standard, Standard)
        ... def _(p, q):
        ...     return torch.tensor(0.0)
        >>> kl_divergence(Standard(), Standard())
        tensor(0.)
    """
    for kind, name in ((type_p, "type_p"), (type_q, "type_q")):
        if not (isinstance(kind, type) and issubclass(kind, Distribution)):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {kind}")

    def register(function: Divergence) -> Divergence:
        _REGISTRY[type_p, type_q] = function
        _FOUND.clear()
        return function

    return register


def _find(kinds: tuple[type[Any], type[Any]]) -> Divergence | None:
    """Return the divergence of the closest classes, the first distribution's before the second's."""
    best = None
    for pair in _REGISTRY:
        if issubclass(kinds[0], pair[0]) and issubclass(kinds[1], pair[1]):
            key = kinds[0].__mro__.index(pair[0]), kinds[1].__mro__.index(pair[1])
            if best is None or key < best[0]:
                best = key, _REGISTRY[pair]
    return None if best is None else best[1]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Return the Kullback-Leibler divergence, the mean of ``log p - log q`` over ``p``.

    Args:
        p: the first distribution.
        q: the second one.

    Returns:
        the divergence, in the shape of the batch.

    Raises:
        NotImplementedError: if none is registered.
    """
    kinds = type(p), type(q)
    if kinds not in _FOUND:
        _FOUND[kinds] = _find(kinds)
    function = _FOUND[kinds]
    if function is None:
        names = f"{type(p).__name__} and {type(q).__name__}"
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {names.replace(' and ', ' and q type ')}"
        )
    return function(p, q)


def _infinite_like(x: Tensor) -> Tensor:
    return torch.full_like(x, math.inf)


def _x_log_x(x: Tensor) -> Tensor:
    return special.xlogy(x, x)


# -- distributions of one class --------------------------------------------------------------------


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    softplus = torch.nn.functional.softplus
    first = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    first = torch.where(q.probs == 0, math.inf, first)
    first = torch.where(p.probs == 0, 0.0, first)
    second = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    second = torch.where(q.probs == 1, math.inf, second)
    second = torch.where(p.probs == 1, 0.0, second)
    return first + second


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    total_p = p.concentration1 + p.concentration0
    total_q = q.concentration1 + q.concentration0
    normalizer_q = q.concentration1.lgamma() + q.concentration0.lgamma() + total_p.lgamma()
    normalizer_p = p.concentration1.lgamma() + p.concentration0.lgamma() + total_q.lgamma()
    first = (p.concentration1 - q.concentration1) * torch.digamma(p.concentration1)
    second = (p.concentration0 - q.concentration0) * torch.digamma(p.concentration0)
    return (
        normalizer_q - normalizer_p + first + second + (total_q - total_p) * torch.digamma(total_p)
    )


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    found = p.total_count * (
        p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    )
    return torch.where(p.total_count > q.total_count, math.inf, found)


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = torch.where((q.probs == 0).expand_as(terms), math.inf, terms)
    terms = torch.where((p.probs == 0).expand_as(terms), 0.0, terms)
    return terms.sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot_categorical(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    total_p, total_q = p.concentration.sum(-1), q.concentration.sum(-1)
    first = total_p.lgamma() - total_q.lgamma()
    second = (p.concentration.lgamma() - q.concentration.lgamma()).sum(-1)
    offset = p.concentration - q.concentration
    slope = p.concentration.digamma() - total_p.digamma().unsqueeze(-1)
    return first - second + (offset * slope).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    return (
        q.concentration * (p.rate / q.rate).log()
        + torch.lgamma(q.concentration)
        - torch.lgamma(p.concentration)
        + (p.concentration - q.concentration) * torch.digamma(p.concentration)
        + (q.rate - p.rate) * (p.concentration / p.rate)
    )


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - torch.log1p(-q.probs) / p.probs - q.logits


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio = p.scale / q.scale
    offset, location = q.loc / q.scale, p.loc / q.scale
    first = -ratio.log() - offset + location
    tail = torch.exp(offset + (1 + ratio).lgamma() - location)
    return first + ratio * EULER + tail - (1 + EULER)


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio = p.scale / q.scale
    distance = (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * torch.exp(-distance / p.scale) - 1


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with                          different "
            "event shapes cannot be computed"
        )
    lower_p, lower_q = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    half = lower_q.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    half = half - lower_p.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    shape = torch.broadcast_shapes(tuple(lower_q.shape), tuple(lower_p.shape))
    n = p.event_shape[0]
    solved = linalg.solve_triangular(lower_q.expand(shape), lower_p.expand(shape), upper=False)
    trace = solved.pow(2).sum(-1).sum(-1)
    distance = batch_mahalanobis(lower_q, q.loc - p.loc)
    return half + 0.5 * (trace + distance - n)


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    distance = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + distance - 1 - ratio.log())


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    first = ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log()
    return first - (4 * p.scale * q.scale).log()


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    found = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return torch.where(p.support.lower_bound < q.support.lower_bound, math.inf, found)


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    found = ((q.high - q.low) / (p.high - p.low)).log()
    return torch.where((q.low > p.low) | (q.high < p.high), math.inf, found)


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    """Return the Bregman divergence of the log-normalizers."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot                 "
            "            be computed using Bregman divergences"
        )
    own = [x.detach().requires_grad_() for x in p._natural_params]
    other = q._natural_params
    normalizer = p._log_normalizer(*own)
    slopes = torch.autograd.grad(normalizer.sum(), own, create_graph=True)
    result = q._log_normalizer(*other) - normalizer
    for a, b, slope in zip(own, other, slopes, strict=True):
        result = result - sum_rightmost((b - a) * slope, len(q.event_shape))
    return result


# -- distributions of two classes ------------------------------------------------------------------


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, Exponential)
def _beta_exponential(p: Beta, q: Exponential) -> Tensor:
    total = p.concentration1 + p.concentration0
    return -p.entropy() - q.rate.log() + q.rate * (p.concentration1 / total)


@register_kl(Beta, Gamma)
def _beta_gamma(p: Beta, q: Gamma) -> Tensor:
    total = p.concentration1 + p.concentration0
    first = q.concentration.lgamma() - q.concentration * q.rate.log()
    second = (q.concentration - 1) * (p.concentration1.digamma() - total.digamma())
    return -p.entropy() + first - second + q.rate * p.concentration1 / total


@register_kl(Beta, Normal)
def _beta_normal(p: Beta, q: Normal) -> Tensor:
    mean = p.concentration1 / (p.concentration1 + p.concentration0)
    variance = q.scale.pow(2)
    first = 0.5 * (variance * 2 * math.pi).log()
    second = mean * (1 - mean) / (p.concentration1 + p.concentration0 + 1) + mean.pow(2)
    return -p.entropy() + first + (second * 0.5 - mean * q.loc + q.loc.pow(2) * 0.5) / variance


@register_kl(Beta, Uniform)
def _beta_uniform(p: Beta, q: Uniform) -> Tensor:
    found = -p.entropy() + (q.high - q.low).log()
    outside = (q.low > p.support.lower_bound) | (q.high < p.support.upper_bound)
    return torch.where(outside, math.inf, found)


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Exponential, q: Gamma) -> Tensor:
    ratio = q.rate / p.rate
    first = -q.concentration * torch.log(ratio)
    return first + ratio + q.concentration.lgamma() + q.concentration * EULER - (1 + EULER)


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Exponential, q: Gumbel) -> Tensor:
    product = p.rate * q.scale
    offset = q.loc / q.scale
    return (
        product.log()
        - 1
        + product.reciprocal()
        - offset
        + torch.exp(offset) * product / (product + 1)
    )


@register_kl(Exponential, Normal)
def _exponential_normal(p: Exponential, q: Normal) -> Tensor:
    variance, squares = q.scale.pow(2), p.rate.pow(2)
    first = 0.5 * torch.log(squares * variance * 2 * math.pi)
    second = squares.reciprocal() - q.loc / p.rate + q.loc.pow(2) / 2
    return first - 1 + second / variance


@register_kl(Gamma, Exponential)
def _gamma_exponential(p: Gamma, q: Exponential) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * p.concentration / p.rate


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Gamma, q: Gumbel) -> Tensor:
    product, offset = p.rate * q.scale, q.loc / q.scale
    first = (p.concentration - 1) * p.concentration.digamma() - p.concentration.lgamma()
    second = product.log() + p.concentration / product
    tail = torch.exp(offset) * (1 + product.reciprocal()).pow(-p.concentration)
    return first - p.concentration + second - offset + tail


@register_kl(Gamma, Normal)
def _gamma_normal(p: Gamma, q: Normal) -> Tensor:
    variance, squares = q.scale.pow(2), p.rate.pow(2)
    first = 0.5 * torch.log(squares * variance * 2 * math.pi)
    first = first - p.concentration - p.concentration.lgamma()
    second = 0.5 * (p.concentration.pow(2) + p.concentration) / squares
    second = second - q.loc * p.concentration / p.rate + 0.5 * q.loc.pow(2)
    return first + (p.concentration - 1) * p.concentration.digamma() + second / variance


@register_kl(Gumbel, Normal)
def _gumbel_normal(p: Gumbel, q: Normal) -> Tensor:
    ratio = p.scale / q.scale
    first = (ratio / math.sqrt(2 * math.pi)).log()
    second = (math.pi * ratio * 0.5).pow(2) / 3
    third = ((p.loc + p.scale * EULER - q.loc) / q.scale).pow(2) * 0.5
    return -first + second + third - (EULER + 1)


@register_kl(Laplace, Normal)
def _laplace_normal(p: Laplace, q: Normal) -> Tensor:
    variance = q.scale.pow(2)
    ratio = p.scale.pow(2) / variance
    first = 0.5 * torch.log(2 * ratio / math.pi)
    second = 0.5 * p.loc.pow(2) - p.loc * q.loc + 0.5 * q.loc.pow(2)
    return -first + ratio + second / variance - 1


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Normal, q: Gumbel) -> Tensor:
    location, squares, offset = p.loc / q.scale, (p.scale / q.scale).pow(2), q.loc / q.scale
    first = -squares.log() * 0.5
    return (
        first
        + location
        - offset
        + torch.exp(-location + 0.5 * squares + offset)
        - 0.5 * (1 + math.log(2 * math.pi))
    )


@register_kl(Normal, Laplace)
def _normal_laplace(p: Normal, q: Laplace) -> Tensor:
    offset = p.loc - q.loc
    ratio, inverse = p.scale / q.scale, offset / p.scale
    first = torch.log(ratio)
    second = math.sqrt(2 / math.pi) * p.scale * torch.exp(-0.5 * inverse.pow(2))
    third = offset * torch.erf(math.sqrt(0.5) * inverse)
    return -first + (second + third) / q.scale - (0.5 * (1 + math.log(0.5 * math.pi)))


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Pareto, q: Exponential) -> Tensor:
    product = p.scale * q.rate
    first = (p.alpha / product).log() - p.alpha.reciprocal()
    found = first + p.alpha * product / (p.alpha - 1) - 1
    return torch.where(p.alpha <= 1, math.inf, found)


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Pareto, q: Gamma) -> Tensor:
    logarithm = p.scale.log() + p.alpha.reciprocal()
    first = p.alpha.log() - logarithm + q.concentration.lgamma()
    first = first - q.concentration * q.rate.log() + (1 - q.concentration) * logarithm
    found = first + q.rate * p.alpha * p.scale / (p.alpha - 1) - 1
    return torch.where(p.alpha <= 1, math.inf, found)


@register_kl(Pareto, Normal)
def _pareto_normal(p: Pareto, q: Normal) -> Tensor:
    variance = 2 * q.scale.pow(2)
    mean = p.scale / (p.alpha - 1)
    first = (math.sqrt(2 * math.pi) * q.scale * p.alpha / p.scale).log()
    second = p.alpha * mean.pow(2) / (p.alpha - 2)
    third = (p.alpha * mean - q.loc).pow(2)
    found = first - p.alpha.reciprocal() + (second + third) / variance - 1
    return torch.where(p.alpha <= 2, math.inf, found)


@register_kl(Uniform, Beta)
def _uniform_beta(p: Uniform, q: Beta) -> Tensor:
    width = p.high - p.low
    first = torch.log(width)
    second = (q.concentration1 - 1) * (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    third = (q.concentration0 - 1) * (_x_log_x(1 - p.high) - _x_log_x(1 - p.low) + width) / width
    total = q.concentration1 + q.concentration0
    normalizer = q.concentration1.lgamma() + q.concentration0.lgamma() - total.lgamma()
    outside = (p.high > q.support.upper_bound) | (p.low < q.support.lower_bound)
    return torch.where(outside, math.inf, third - first + normalizer - second)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Uniform, q: Exponential) -> Tensor:
    found = q.rate * (p.high + p.low) / 2 - ((p.high - p.low) * q.rate).log()
    return torch.where(p.low < q.support.lower_bound, math.inf, found)


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Uniform, q: Gamma) -> Tensor:
    width = p.high - p.low
    first = width.log()
    second = q.concentration.lgamma() - q.concentration * q.rate.log()
    third = (1 - q.concentration) * (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    found = -first + second + third + q.rate * (p.high + p.low) / 2
    return torch.where(p.low < q.support.lower_bound, math.inf, found)


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Uniform, q: Gumbel) -> Tensor:
    ratio = q.scale / (p.high - p.low)
    high, low = (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
    first = ratio.log() + 0.5 * (high + low)
    return first - ratio * (torch.exp(-high) - torch.exp(-low))


@register_kl(Uniform, Normal)
def _uniform_normal(p: Uniform, q: Normal) -> Tensor:
    width = p.high - p.low
    first = (math.sqrt(math.pi * 2) * q.scale / width).log()
    second = width.pow(2) / 12
    third = ((p.high + p.low - 2 * q.loc) / 2).pow(2)
    return first + 0.5 * (second + third) / q.scale.pow(2)


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Uniform, q: Pareto) -> Tensor:
    width = p.high - p.low
    first = (q.alpha * q.scale.pow(q.alpha) * width).log()
    second = (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    found = second * (q.alpha + 1) - first
    return torch.where(p.low < q.support.lower_bound, math.inf, found)


# -- supports that do not fit ----------------------------------------------------------------------


def _never(attribute: str) -> Divergence:
    return lambda p, q: _infinite_like(getattr(p, attribute))


for _type_p, _attribute, _types_q in (
    (Beta, "concentration1", (Pareto,)),
    (Exponential, "rate", (Beta, Pareto, Uniform)),
    (Gamma, "concentration", (Beta, Pareto, Uniform)),
    (Gumbel, "loc", (Beta, Exponential, Gamma, Pareto, Uniform)),
    (Laplace, "loc", (Beta, Exponential, Gamma, Pareto, Uniform)),
    (Normal, "loc", (Beta, Exponential, Gamma, Pareto, Uniform)),
    (Pareto, "scale", (Beta, Uniform)),
    (Poisson, "rate", (Bernoulli, Binomial)),
):
    for _type_q in _types_q:
        register_kl(_type_p, _type_q)(_never(_attribute))
