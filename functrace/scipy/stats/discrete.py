"""Distributions of integers, a row each: see `functrace.scipy.stats.distribution`.

Layer: 9.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import betainc, betaincc, betaln, entr, gammaln, pdtr, pdtrc, xlog1py, xlogy

from functrace.ops.special.tails import log_betainc, log_betaincc, log_gammainc, log_gammaincc
from functrace.scipy.kinds import where
from functrace.scipy.stats.distribution import Discrete, one, zero
from functrace.scipy.stats.tails import kept, log_expired
from functrace.typing import Array


def _probability(p: Array) -> Any:
    return (p >= 0) & (p <= 1)


def _binom(k: Array, n: Array, p: Array) -> Any:
    count = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    return count + xlogy(k, p) + xlog1py(n - k, -p)


def _nbinom(k: Array, n: Array, p: Array) -> Any:
    return gammaln(n + k) - gammaln(k + 1.0) - gammaln(n) + n * np.log(p) + xlog1py(k, -p)


def _betabinom(k: Array, n: Array, a: Array, b: Array) -> Any:
    return -np.log(n + 1.0) - betaln(n - k + 1.0, k + 1.0) + betaln(k + a, n - k + b) - betaln(a, b)


def _betabinom_var(n: Array, a: Array, b: Array) -> Any:
    total = a + b
    return n * (total + n) * (a / total) * (b / total) / (total + 1.0)


def _geom_sf(k: Array, p: Array) -> Any:
    """Return the survival function: a power, by logarithms if inaccurate and ``p < 1``."""
    is_low = p < 0.5
    return where(
        is_low, np.exp(xlog1py(k, -kept(is_low, p, 0.25))), (1.0 - kept(~is_low, p, 0.75)) ** k
    )


def _geom_cdf(k: Array, p: Array) -> Any:
    is_low = p < 0.5
    return where(
        is_low,
        -np.expm1(xlog1py(k, -kept(is_low, p, 0.25))),
        1.0 - (1.0 - kept(~is_low, p, 0.75)) ** k,
    )


def _geom_log_cdf(k: Array, p: Array) -> Any:
    is_low = p < 0.5
    low = log_expired(np.log(-xlog1py(k, -kept(is_low, p, 0.25))))
    return where(is_low, low, np.log1p(-((1.0 - kept(~is_low, p, 0.75)) ** k)))


poisson = Discrete(
    "poisson",
    ("mu",),
    lambda k, mu: xlogy(k, mu) - gammaln(k + 1.0) - mu,
    lambda k, mu: pdtr(k, mu),
    lambda k, mu: pdtrc(k, mu),
    allowed=lambda mu: mu >= 0,
    low=zero,
    inside=1.0,
    log_lower=lambda k, mu: log_gammaincc(k + 1.0, mu),
    log_upper=lambda k, mu: log_gammainc(k + 1.0, mu),
    mean_formula=lambda mu: mu,
    var_formula=lambda mu: mu,
    is_scaled=False,
)
binom = Discrete(
    "binom",
    ("n", "p"),
    _binom,
    lambda k, n, p: betaincc(k + 1.0, np.maximum(n - k, 0.5), p),
    lambda k, n, p: betainc(k + 1.0, np.maximum(n - k, 0.5), p),
    allowed=lambda n, p: (n >= 0) & (np.floor(n) == n) & _probability(p),
    low=zero,
    high=lambda n, p: n,
    inside=0.0,
    harmless=(1.0, 0.5),
    log_lower=lambda k, n, p: log_betaincc(k + 1.0, np.maximum(n - k, 0.5), p),
    log_upper=lambda k, n, p: log_betainc(k + 1.0, np.maximum(n - k, 0.5), p),
    mean_formula=lambda n, p: n * p,
    var_formula=lambda n, p: n * p * (1.0 - p),
    is_scaled=False,
)
bernoulli = Discrete(
    "bernoulli",
    ("p",),
    lambda k, p: xlogy(k, p) + xlog1py(1.0 - k, -p),
    lambda k, p: 1.0 - p,
    lambda k, p: 1.0 * p,
    allowed=_probability,
    low=zero,
    high=one,
    inside=0.0,
    harmless=(0.5,),
    mean_formula=lambda p: p,
    var_formula=lambda p: p * (1.0 - p),
    entropy_formula=lambda p: entr(p) + entr(1.0 - p),
    is_scaled=False,
)
nbinom = Discrete(
    "nbinom",
    ("n", "p"),
    _nbinom,
    lambda k, n, p: betainc(n, k + 1.0, p),
    lambda k, n, p: betaincc(n, k + 1.0, p),
    allowed=lambda n, p: (n > 0) & (p > 0) & (p <= 1),
    low=zero,
    inside=1.0,
    harmless=(1.0, 0.5),
    log_lower=lambda k, n, p: log_betainc(n, k + 1.0, p),
    log_upper=lambda k, n, p: log_betaincc(n, k + 1.0, p),
    mean_formula=lambda n, p: n * (1.0 - p) / p,
    var_formula=lambda n, p: n * (1.0 - p) / (p * p),
    is_scaled=False,
)
geom = Discrete(
    "geom",
    ("p",),
    lambda k, p: xlog1py(k - 1.0, -p) + np.log(p),
    _geom_cdf,
    _geom_sf,
    allowed=lambda p: (p > 0) & (p <= 1),
    low=one,
    inside=1.0,
    harmless=(0.5,),
    log_lower=_geom_log_cdf,
    log_upper=lambda k, p: xlog1py(k, -p),
    mean_formula=lambda p: 1.0 / p,
    var_formula=lambda p: (1.0 - p) / (p * p),
    entropy_formula=lambda p: (entr(p) + entr(1.0 - p)) / p,
    is_scaled=False,
)
betabinom = Discrete(
    "betabinom",
    ("n", "a", "b"),
    _betabinom,
    allowed=lambda n, a, b: (n >= 0) & (np.floor(n) == n) & (a > 0) & (b > 0),
    low=zero,
    high=lambda n, a, b: n,
    inside=0.0,
    mean_formula=lambda n, a, b: n * a / (a + b),
    var_formula=_betabinom_var,
    is_scaled=False,
)
