"""Distributions of positive numbers, a row each: see `functrace.scipy.stats.distribution`.

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import (
    betaln,
    chdtr,
    chdtrc,
    erfcx,
    fdtr,
    fdtrc,
    fdtri,
    gammainc,
    gammaincc,
    gammainccinv,
    gammaincinv,
    gammaln,
    log_ndtr,
    ndtr,
    ndtri,
    psi,
    xlogy,
)
from scipy.special import gamma as gamma_function

from functrace.ops.special.distributions import fisher_by_shapes
from functrace.ops.special.incomplete import by_shapes
from functrace.ops.special.tails import log_gammainc, log_gammaincc
from functrace.scipy.stats.continuous import EULER, LOG_2PI
from functrace.scipy.stats.distribution import Continuous, one, positive, zero
from functrace.scipy.stats.tails import log_expired, log_fisher, log_rest
from functrace.typing import Array


def _where_above(
    x: Array, least: float, formula: Callable[[Any], Any], otherwise: float = math.inf
) -> Any:
    """Return a moment that exists for shapes above a bound."""
    known = x > least
    return np.where(known, formula(np.where(known, x, least + 1.0)), otherwise)


gamma = Continuous(
    "gamma",
    ("a",),
    lambda x, a: xlogy(a - 1.0, x) - x - gammaln(a),
    lambda x, a: gammainc(a, x),
    lambda x, a: gammaincc(a, x),
    lambda q, a: gammaincinv(a, q),
    positive,
    zero,
    log_lower=lambda x, a: log_gammainc(a, x),
    log_upper=lambda x, a: log_gammaincc(a, x),
    upper_quantile=lambda q, a: gammainccinv(a, q),
    mean_formula=lambda a: a,
    var_formula=lambda a: a,
    entropy_formula=lambda a: psi(a) * (1.0 - a) + a + gammaln(a),
    moved=lambda z, a: (-by_shapes((1,), a, z),),
)
chi2 = Continuous(
    "chi2",
    ("df",),
    lambda x, df: xlogy(df / 2 - 1.0, x) - x / 2 - gammaln(df / 2) - math.log(2) * df / 2,
    lambda x, df: chdtr(df, x),
    lambda x, df: chdtrc(df, x),
    lambda q, df: 2.0 * gammaincinv(df / 2, q),
    positive,
    zero,
    log_lower=lambda x, df: log_gammainc(df / 2, x / 2),
    log_upper=lambda x, df: log_gammaincc(df / 2, x / 2),
    upper_quantile=lambda q, df: 2.0 * gammainccinv(df / 2, q),
    mean_formula=lambda df: df,
    var_formula=lambda df: 2.0 * df,
    entropy_formula=lambda df: (
        df / 2 + math.log(2) + gammaln(df / 2) + (1.0 - df / 2) * psi(df / 2)
    ),
    moved=lambda z, df: (-by_shapes((1,), 0.5 * df, 0.5 * z),),
)


def _inner(x: Array) -> tuple[Any, Any]:
    """Return which elements are neither 0 nor infinite, and safe values in place of the others."""
    some = (x > 0) & (x < math.inf)
    return some, np.where(some, x, 1.0)


def _invgamma(x: Array, a: Array) -> Any:
    some, x = _inner(x)
    return np.where(some, -(a + 1.0) * np.log(x) - gammaln(a) - 1.0 / x, -np.inf)


def _invgamma_entropy(a: Array) -> Any:
    is_large = a >= 200
    near, far = np.where(is_large, 1.0, a), np.where(is_large, a, 200.0)
    regular = near - (near + 1.0) * psi(near) + gammaln(near)
    series = 2 / (3 * far) + 1 / (12 * far**2) - 1 / (90 * far**3) - 1 / (120 * far**4)
    return np.where(is_large, (1.0 - 3.0 * np.log(far) + LOG_2PI) / 2 + series, regular)


invgamma = Continuous(
    "invgamma",
    ("a",),
    _invgamma,
    lambda x, a: gammaincc(a, 1.0 / x),
    lambda x, a: gammainc(a, 1.0 / x),
    lambda q, a: 1.0 / gammainccinv(a, q),
    positive,
    zero,
    log_lower=lambda x, a: log_gammaincc(a, 1.0 / x),
    log_upper=lambda x, a: np.where(x < 1e-100, 0.0, log_gammainc(a, 1.0 / np.maximum(x, 1e-100))),
    upper_quantile=lambda q, a: 1.0 / gammaincinv(a, q),
    mean_formula=lambda a: _where_above(a, 1.0, lambda a: 1.0 / (a - 1.0)),
    var_formula=lambda a: _where_above(a, 2.0, lambda a: 1.0 / ((a - 1.0) ** 2 * (a - 2.0))),
    entropy_formula=_invgamma_entropy,
    moved=lambda z, a: (z * z * by_shapes((1,), a, 1.0 / z),),
)
expon = Continuous(
    "expon",
    (),
    lambda x: -x,
    lambda x: -np.expm1(-x),
    lambda x: np.exp(-x),
    lambda q: -np.log1p(-q),
    low=zero,
    log_lower=lambda x: log_expired(np.log(x)),
    log_upper=lambda x: -x,
    upper_quantile=lambda q: -np.log(q),
    mean_formula=one,
    var_formula=one,
    entropy_formula=one,
)


def _lognorm(x: Array, s: Array) -> Any:
    some, x = _inner(x)
    return np.where(some, -0.5 * (np.log(x) / s) ** 2 - np.log(s * x) - 0.5 * LOG_2PI, -np.inf)


lognorm = Continuous(
    "lognorm",
    ("s",),
    _lognorm,
    lambda x, s: ndtr(np.log(x) / s),
    lambda x, s: ndtr(-np.log(x) / s),
    lambda q, s: np.exp(s * ndtri(q)),
    positive,
    zero,
    log_lower=lambda x, s: log_ndtr(np.log(x) / s),
    log_upper=lambda x, s: log_ndtr(-np.log(x) / s),
    upper_quantile=lambda q, s: np.exp(-s * ndtri(q)),
    mean_formula=lambda s: np.exp(0.5 * s * s),
    var_formula=lambda s: np.exp(s * s) * np.expm1(s * s),
    entropy_formula=lambda s: 0.5 * (1.0 + LOG_2PI) + np.log(s),
    moved=lambda z, s: (z * np.log(z) / s,),
)
pareto = Continuous(
    "pareto",
    ("b",),
    lambda x, b: np.log(b) - (b + 1.0) * np.log(x),
    lambda x, b: -np.expm1(-b * np.log(x)),
    lambda x, b: x**-b,
    lambda q, b: (1.0 - q) ** (-1.0 / b),
    positive,
    one,
    inside=2.0,
    log_lower=lambda x, b: log_expired(np.log(b) + np.log(np.log(x))),
    log_upper=lambda x, b: -b * np.log(x),
    upper_quantile=lambda q, b: q ** (-1.0 / b),
    mean_formula=lambda b: _where_above(b, 1.0, lambda b: b / (b - 1.0)),
    var_formula=lambda b: _where_above(b, 2.0, lambda b: b / (b - 2.0) / (b - 1.0) ** 2),
    entropy_formula=lambda b: 1.0 + 1.0 / b - np.log(b),
    moved=lambda z, b: (-z * np.log(z) / b,),
)


def _raised(x: Array, c: Array) -> Any:
    """Return x^c for non-negative x, without NaN in derivatives at 0."""
    some = x > 0
    return np.where(some, np.where(some, x, 1.0) ** c, 0.0)


def _weibull_var(c: Array) -> Any:
    mean = gamma_function(1.0 + 1.0 / c)
    return gamma_function(1.0 + 2.0 / c) - mean * mean


weibull_min = Continuous(
    "weibull_min",
    ("c",),
    lambda x, c: np.log(c) + xlogy(c - 1.0, x) - _raised(x, c),
    lambda x, c: -np.expm1(-_raised(x, c)),
    lambda x, c: np.exp(-_raised(x, c)),
    lambda q, c: (-np.log1p(-q)) ** (1.0 / c),
    positive,
    zero,
    log_lower=lambda x, c: log_expired(c * np.log(x)),
    log_upper=lambda x, c: -_raised(x, c),
    upper_quantile=lambda q, c: (-np.log(q)) ** (1.0 / c),
    mean_formula=lambda c: gamma_function(1.0 + 1.0 / c),
    var_formula=_weibull_var,
    entropy_formula=lambda c: -EULER / c - np.log(c) + EULER + 1.0,
    moved=lambda z, c: (-xlogy(z, z) / c,),
)


def _fisher_density(x: Array, n: Array, d: Array) -> Any:
    logs = xlogy(n / 2, n) + xlogy(d / 2, d) + xlogy(n / 2 - 1.0, x)
    return logs - (n + d) / 2 * np.log(d + n * x) - betaln(n / 2, d / 2)


def _fisher_var(n: Array, d: Array) -> Any:
    def known(d: Array) -> Any:
        return 2.0 * d * d * (n + d - 2.0) / (n * (d - 2.0) ** 2 * (d - 4.0))

    return _where_above(d, 4.0, known)


def _fisher_entropy(n: Array, d: Array) -> Any:
    half_n, half_d, whole = 0.5 * n, 0.5 * d, 0.5 * (n + d)
    logs = np.log(d) - np.log(n) + betaln(half_n, half_d)
    return logs + (1.0 - half_n) * psi(half_n) - (1.0 + half_d) * psi(half_d) + whole * psi(whole)


def _fisher_moved(z: Array, n: Array, d: Array) -> tuple[Any, Any]:
    by_first, by_second = fisher_by_shapes(n, d, z)
    return -by_first, -by_second


f = Continuous(
    "f",
    ("dfn", "dfd"),
    _fisher_density,
    lambda x, n, d: fdtr(n, d, x),
    lambda x, n, d: fdtrc(n, d, x),
    lambda q, n, d: fdtri(n, d, q),
    positive,
    zero,
    log_lower=lambda x, n, d: log_fisher(x, n, d, upper=False),
    log_upper=lambda x, n, d: log_fisher(x, n, d, upper=True),
    mean_formula=lambda n, d: _where_above(d, 2.0, lambda d: d / (d - 2.0)) + 0.0 * n,
    var_formula=_fisher_var,
    entropy_formula=_fisher_entropy,
    moved=_fisher_moved,
)


def _inverse_gaussian_tail(x: Array, mu: Array) -> tuple[Any, Any]:
    """Return the normal distribution's argument, and the logarithm of exp(2 / mu) ndtr(-(x + mu) /
    (mu sqrt(x)))."""
    root = 1.0 / np.sqrt(x)
    near, far = root * (x / mu - 1.0), root * (x / mu + 1.0)
    # ndtr(-far) = erfcx(far / sqrt(2)) exp(-far^2 / 2) / 2, and far^2 / 2 - 2 / mu = near^2 / 2
    return near, np.log(0.5 * erfcx(far * math.sqrt(0.5))) - 0.5 * near * near


def _inverse_gaussian_cdf(x: Array, mu: Array) -> Any:
    near, tail = _inverse_gaussian_tail(x, mu)
    return ndtr(near) + np.exp(tail)


def _inverse_gaussian_sf(x: Array, mu: Array) -> Any:
    near, tail = _inverse_gaussian_tail(x, mu)
    return ndtr(-near) - np.exp(tail)


def _inverse_gaussian_log_cdf(x: Array, mu: Array) -> Any:
    near, tail = _inverse_gaussian_tail(x, mu)
    return np.logaddexp(log_ndtr(near), tail)


def _inverse_gaussian_log_sf(x: Array, mu: Array) -> Any:
    near, tail = _inverse_gaussian_tail(x, mu)
    whole = log_ndtr(-near)
    return whole + log_rest(tail - whole)


def _inverse_gaussian(x: Array, mu: Array) -> Any:
    some, x = _inner(x)
    return np.where(
        some, -0.5 * LOG_2PI - 1.5 * np.log(x) - (x / mu - 1.0) ** 2 / (2.0 * x), -np.inf
    )


invgauss = Continuous(
    "invgauss",
    ("mu",),
    _inverse_gaussian,
    _inverse_gaussian_cdf,
    _inverse_gaussian_sf,
    allowed=positive,
    low=zero,
    log_lower=_inverse_gaussian_log_cdf,
    log_upper=_inverse_gaussian_log_sf,
    mean_formula=lambda mu: mu,
    var_formula=lambda mu: mu**3,
)

__all__ = [
    "chi2",
    "expon",
    "f",
    "gamma",
    "invgamma",
    "invgauss",
    "lognorm",
    "pareto",
    "weibull_min",
]
