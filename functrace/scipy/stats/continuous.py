"""Distributions on the whole line and on intervals, a row each: see
`functrace.scipy.stats.distribution`.

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import (
    betainc,
    betaincc,
    betaincinv,
    betaln,
    cosm1,
    gammainc,
    gammaincc,
    gammainccinv,
    gammaincinv,
    gammaln,
    i0e,
    i1e,
    log_expit,
    log_ndtr,
    logit,
    ndtr,
    ndtri,
    ndtri_exp,
    poch,
    psi,
    stdtr,
    stdtrit,
    xlog1py,
    xlogy,
)
from scipy.special import expit as logistic_function

from functrace.ops.elementwise import stop_gradient
from functrace.ops.special.distributions import student_by_df
from functrace.ops.special.incomplete import by_shapes
from functrace.ops.special.tails import log_betainc, log_betaincc, log_gammainc, log_gammaincc
from functrace.scipy.kinds import where
from functrace.scipy.stats.distribution import Continuous, one, positive, zero
from functrace.scipy.stats.tails import kept, log1p_square, log_expired, log_fisher
from functrace.typing import Array

LOG_2PI = math.log(2 * math.pi)
EULER = 0.5772156649015329


def _nan(*_shapes: object) -> float:
    return math.nan


norm = Continuous(
    "norm",
    (),
    lambda x: -0.5 * x * x - 0.5 * LOG_2PI,
    ndtr,
    lambda x: ndtr(-x),
    ndtri,
    log_lower=log_ndtr,
    log_upper=lambda x: log_ndtr(-x),
    upper_quantile=lambda q: -ndtri(q),
    mean_formula=zero,
    var_formula=one,
    entropy_formula=lambda: 0.5 * (LOG_2PI + 1.0),
)


def _t_mean(df: Array) -> Any:
    return where(df > 1, 0.0 * df, np.inf)


def _t_var(df: Array) -> Any:
    known = df > 2
    return where(known, df / (where(known, df, 3.0) - 2.0), where(df > 1, np.inf, np.nan))


def _t_entropy(df: Array) -> Any:
    half = (df + 1.0) / 2
    return half * (psi(half) - psi(df / 2)) + np.log(df) / 2 + betaln(df / 2, 0.5)


def _t_density(x: Array, df: Array) -> Any:
    scale = np.log(poch(0.5 * df, 0.5)) - 0.5 * np.log(
        df * math.pi
    )  # the difference of gammaln loses digits to large df
    return scale - (df + 1) / 2 * log1p_square(x / np.sqrt(df))


def _t_log_cdf(x: Array, df: Array) -> Any:
    is_left, is_right = x < -1.0, x > 0.0
    size = -kept(is_left, x, -1.0)
    near = kept(size < 1e30, size, 1e30)  # beyond, a power
    left = (
        math.log(0.5)
        + log_fisher(near * near, near / near, df, upper=True)
        - df * np.log(size / near)
    )
    middle = np.log(stdtr(df, kept(~is_left & ~is_right, x, -0.5)))
    return where(
        is_left, left, where(is_right, np.log1p(-stdtr(df, -kept(is_right, x, 1.0))), middle)
    )


t = Continuous(
    "t",
    ("df",),
    _t_density,
    lambda x, df: stdtr(df, x),
    lambda x, df: stdtr(df, -x),
    lambda q, df: stdtrit(df, q),
    positive,
    log_lower=_t_log_cdf,
    log_upper=lambda x, df: _t_log_cdf(-x, df),
    upper_quantile=lambda q, df: -stdtrit(df, q),
    mean_formula=_t_mean,
    var_formula=_t_var,
    entropy_formula=_t_entropy,
    moved=lambda z, df: (-student_by_df(df, z),),
)


def _laplace_cdf(x: Array) -> Any:
    half = 0.5 * np.exp(-np.abs(x))
    return where(x > 0, 1.0 - half, half)


def _laplace_ppf(q: Array) -> Any:
    return where(q > 0.5, -np.log(2 * (1 - q)), np.log(2 * q))


laplace = Continuous(
    "laplace",
    (),
    lambda x: -np.abs(x) - math.log(2),
    _laplace_cdf,
    lambda x: _laplace_cdf(-x),
    _laplace_ppf,
    log_lower=lambda x: where(x > 0, np.log1p(-0.5 * np.exp(-np.abs(x))), x - math.log(2)),
    log_upper=lambda x: where(x < 0, np.log1p(-0.5 * np.exp(-np.abs(x))), -x - math.log(2)),
    upper_quantile=lambda q: -_laplace_ppf(q),
    mean_formula=zero,
    var_formula=lambda: 2.0,
    entropy_formula=lambda: math.log(2) + 1.0,
)


def _side(kappa: Array) -> tuple[Any, Any]:
    """Return the probabilities of an asymmetric Laplace distribution left and right of 0."""
    both = kappa + 1.0 / kappa
    return kappa / both, 1.0 / (kappa * both)


def _asymmetric(x: Array, kappa: Array, upper: bool) -> Any:
    left, right = _side(kappa)
    above, below = (
        right * np.exp(-np.maximum(x, 0.0) * kappa),
        left * np.exp(np.minimum(x, 0.0) / kappa),
    )
    return where(x >= 0, above, 1.0 - below) if upper else where(x >= 0, 1.0 - above, below)


def _asymmetric_log(x: Array, kappa: Array, upper: bool) -> Any:
    left, right = _side(kappa)
    above, below = (
        np.log(right) - np.maximum(x, 0.0) * kappa,
        np.log(left) + np.minimum(x, 0.0) / kappa,
    )
    far, near = (above, below) if upper else (below, above)
    is_far = (x >= 0) if upper else (x < 0)
    return where(is_far, far, np.log1p(-np.exp(near)))


def _asymmetric_quantile(p: Array, rest: Array, kappa: Array) -> Any:
    left, right = _side(kappa)
    is_right = p >= left
    return where(
        is_right, -np.log(where(is_right, rest, right) / right) / kappa, np.log(p / left) * kappa
    )


laplace_asymmetric = Continuous(
    "laplace_asymmetric",
    ("kappa",),
    lambda x, kappa: x * where(x >= 0, -kappa, 1.0 / kappa) - np.log(kappa + 1.0 / kappa),
    lambda x, kappa: _asymmetric(x, kappa, upper=False),
    lambda x, kappa: _asymmetric(x, kappa, upper=True),
    lambda q, kappa: _asymmetric_quantile(q, 1.0 - q, kappa),
    positive,
    log_lower=lambda x, kappa: _asymmetric_log(x, kappa, upper=False),
    log_upper=lambda x, kappa: _asymmetric_log(x, kappa, upper=True),
    upper_quantile=lambda q, kappa: _asymmetric_quantile(1.0 - q, q, kappa),
    mean_formula=lambda kappa: 1.0 / kappa - kappa,
    var_formula=lambda kappa: 1.0 / (kappa * kappa) + kappa * kappa,
    entropy_formula=lambda kappa: 1.0 + np.log(kappa + 1.0 / kappa),
)
cauchy = Continuous(
    "cauchy",
    (),
    lambda x: -math.log(math.pi) - log1p_square(x),
    lambda x: np.arctan2(1.0, -x) / math.pi,
    lambda x: np.arctan2(1.0, x) / math.pi,
    lambda q: where(q < 0.5, -1.0, 1.0) / np.tan(math.pi * np.minimum(q, 1.0 - q)),
    upper_quantile=lambda q: where(q < 0.5, 1.0, -1.0) / np.tan(math.pi * np.minimum(q, 1.0 - q)),
    mean_formula=_nan,
    var_formula=_nan,
    entropy_formula=lambda: math.log(4 * math.pi),
)
logistic = Continuous(
    "logistic",
    (),
    lambda x: -np.abs(x) - 2.0 * np.log1p(np.exp(-np.abs(x))),
    logistic_function,
    lambda x: logistic_function(-x),
    logit,
    log_lower=log_expit,
    log_upper=lambda x: log_expit(-x),
    upper_quantile=lambda q: -logit(q),
    mean_formula=zero,
    var_formula=lambda: math.pi**2 / 3,
    entropy_formula=lambda: 2.0,
)
gumbel_r = Continuous(
    "gumbel_r",
    (),
    lambda x: -x - np.exp(-x),
    lambda x: np.exp(-np.exp(-x)),
    lambda x: -np.expm1(-np.exp(-x)),
    lambda q: -np.log(-np.log(q)),
    log_lower=lambda x: -np.exp(-x),
    log_upper=lambda x: log_expired(-x),
    upper_quantile=lambda q: -np.log(-np.log1p(-q)),
    mean_formula=lambda: EULER,
    var_formula=lambda: math.pi**2 / 6,
    entropy_formula=lambda: EULER + 1.0,
)
gumbel_l = Continuous(
    "gumbel_l",
    (),
    lambda x: x - np.exp(x),
    lambda x: -np.expm1(-np.exp(x)),
    lambda x: np.exp(-np.exp(x)),
    lambda q: np.log(-np.log1p(-q)),
    log_lower=log_expired,
    log_upper=lambda x: -np.exp(x),
    upper_quantile=lambda q: np.log(-np.log(q)),
    mean_formula=lambda: -EULER,
    var_formula=lambda: math.pi**2 / 6,
    entropy_formula=lambda: EULER + 1.0,
)


def _power(x: Array, beta: Array) -> Any:
    """Return |x|^beta, with 0 at 0."""
    is_zero = x == 0
    return where(is_zero, 0.0, where(is_zero, 1.0, np.abs(x)) ** beta)


def _gennorm_size(x: Array, beta: Array) -> tuple[Any, Any]:
    """Return where the distribution function is linear (near 0), and the power elsewhere."""
    size = _power(x, beta)
    is_near = size < 1e-17
    return is_near, kept(~is_near, size, 1.0)


def _gennorm_sf(x: Array, beta: Array) -> Any:
    is_near, size = _gennorm_size(x, beta)
    far = where(x > 0, 0.5 * gammaincc(1.0 / beta, size), 0.5 + 0.5 * gammainc(1.0 / beta, size))
    return where(is_near, 0.5 - 0.5 * x * np.exp(-gammaln(1.0 + 1.0 / beta)), far)


def _gennorm_log_sf(x: Array, beta: Array) -> Any:
    is_near, size = _gennorm_size(x, beta)
    tail = math.log(0.5) + log_gammaincc(1.0 / beta, size)
    near = np.log(0.5 - 0.5 * kept(is_near, x, 0.0) * np.exp(-gammaln(1.0 + 1.0 / beta)))
    return where(is_near, near, where(x > 0, tail, np.log1p(-np.exp(tail))))


def _gennorm_isf(q: Array, beta: Array) -> Any:
    middle = q == 0.5  # there, where the power has no derivative, the tangent: 1 / pdf(0)
    low = where(middle, 0.25, np.minimum(q, 1.0 - q))
    size = gammainccinv(1.0 / beta, 2.0 * low) ** (1.0 / beta)
    return where(
        middle, (0.5 - q) * 2.0 * np.exp(gammaln(1.0 / beta)) / beta, where(q < 0.5, size, -size)
    )


gennorm = Continuous(
    "gennorm",
    ("beta",),
    lambda x, beta: np.log(0.5 * beta) - gammaln(1.0 / beta) - _power(x, beta),
    lambda x, beta: _gennorm_sf(-x, beta),
    _gennorm_sf,
    lambda q, beta: -_gennorm_isf(q, beta),
    positive,
    log_lower=lambda x, beta: _gennorm_log_sf(-x, beta),
    log_upper=_gennorm_log_sf,
    upper_quantile=_gennorm_isf,
    mean_formula=zero,
    var_formula=lambda beta: np.exp(gammaln(3.0 / beta) - gammaln(1.0 / beta)),
    entropy_formula=lambda beta: 1.0 / beta - np.log(0.5 * beta) + gammaln(1.0 / beta),
)


def _loggamma_log_cdf(x: Array, c: Array) -> Any:
    is_far = x < -40.0  # where the incomplete gamma function is a power
    return where(is_far, c * x - gammaln(c + 1.0), log_gammainc(c, np.exp(kept(~is_far, x, 0.0))))


loggamma = Continuous(
    "loggamma",
    ("c",),
    lambda x, c: c * x - np.exp(x) - gammaln(c),
    lambda x, c: gammainc(c, np.exp(x)),
    lambda x, c: gammaincc(c, np.exp(x)),
    lambda q, c: np.log(gammaincinv(c, q)),
    positive,
    log_lower=_loggamma_log_cdf,
    log_upper=lambda x, c: log_gammaincc(c, np.exp(x)),
    upper_quantile=lambda q, c: np.log(gammainccinv(c, q)),
    mean_formula=psi,
    moved=lambda z, c: (-by_shapes((1,), c, np.exp(z)) * np.exp(-z),),
)

# -- intervals -------------------------------------------------------------------------------------

uniform = Continuous(
    "uniform",
    (),
    lambda x: 0.0 * x,
    lambda x: x,
    lambda x: 1.0 - x,
    lambda q: q,
    low=zero,
    high=one,
    upper_quantile=lambda q: 1.0 - q,
    mean_formula=lambda: 0.5,
    var_formula=lambda: 1.0 / 12,
    entropy_formula=zero,
)


def _beta_entropy(a: Array, b: Array) -> Any:
    return betaln(a, b) - (a - 1.0) * psi(a) - (b - 1.0) * psi(b) + (a + b - 2.0) * psi(a + b)


beta = Continuous(
    "beta",
    ("a", "b"),
    lambda x, a, b: xlog1py(b - 1.0, -x) + xlogy(a - 1.0, x) - betaln(a, b),
    lambda x, a, b: betainc(a, b, x),
    lambda x, a, b: betaincc(a, b, x),
    lambda q, a, b: betaincinv(a, b, q),
    positive,
    zero,
    one,
    log_lower=lambda x, a, b: log_betainc(a, b, x),
    log_upper=lambda x, a, b: log_betaincc(a, b, x),
    upper_quantile=lambda q, a, b: 1.0 - betaincinv(b, a, q),
    mean_formula=lambda a, b: a / (a + b),
    var_formula=lambda a, b: a * b / ((a + b) ** 2 * (a + b + 1.0)),
    entropy_formula=_beta_entropy,
    moved=lambda z, a, b: (-by_shapes((1, 0), a, b, z), -by_shapes((0, 1), a, b, z)),
)


def _bounded(x: Array) -> Any:
    """Replace an infinite bound by a distant number: its derivative is 0 there."""
    return where(np.isinf(x), np.copysign(1e10, x), x)


def _log_difference(p: Array, q: Array) -> Any:
    return p + np.log(-np.expm1(q - p))


def _log_mass(a: Array, b: Array) -> Any:
    """Return the logarithm of the standard normal probability between bounds."""
    is_left, is_right = b <= 0, a > 0
    is_central = ~is_left & ~is_right
    left = _log_difference(log_ndtr(where(is_left, b, -1.0)), log_ndtr(where(is_left, a, -2.0)))
    right = _log_difference(log_ndtr(-where(is_right, a, 1.0)), log_ndtr(-where(is_right, b, 2.0)))
    central = np.log1p(-ndtr(where(is_central, a, -1.0)) - ndtr(-where(is_central, b, 1.0)))
    return where(is_left, left, where(is_right, right, central))


def _truncated(lower: bool) -> Any:
    """Return the log of a truncated normal distribution function, or of its complement."""

    def formula(x: Array, a: Array, b: Array) -> Any:
        a, b = _bounded(a), _bounded(b)
        whole = _log_mass(a, b)
        parts = _log_mass(a, x) - whole, _log_mass(x, b) - whole
        part, rest = parts if lower else parts[::-1]
        is_most = part > -0.1
        return where(is_most, np.log1p(-np.exp(where(is_most, rest, -1.0))), part)

    return formula


def _truncated_ppf(q: Array, a: Array, b: Array) -> Any:
    a, b = _bounded(a), _bounded(b)
    whole, is_left = _log_mass(a, b), a < 0
    left = ndtri_exp(
        np.logaddexp(log_ndtr(where(is_left, a, -1.0)), where(is_left, np.log(q) + whole, -3.0))
    )
    right = -ndtri_exp(
        np.logaddexp(log_ndtr(-where(is_left, 1.0, b)), where(is_left, -3.0, np.log1p(-q) + whole))
    )
    return where(is_left, left, right)


def _truncated_isf(q: Array, a: Array, b: Array) -> Any:
    a, b = _bounded(a), _bounded(b)
    whole, is_left = _log_mass(a, b), b < 0
    left = _log_difference(
        log_ndtr(where(is_left, b, -1.0)), where(is_left, np.log(q) + whole, -4.0)
    )
    right = _log_difference(
        log_ndtr(-where(is_left, 1.0, a)), where(is_left, -4.0, np.log1p(-q) + whole)
    )
    return where(is_left, ndtri_exp(left), -ndtri_exp(right))


def _truncated_moments(a: Array, b: Array) -> tuple[Any, Any]:
    a, b = _bounded(a), _bounded(b)
    whole = _log_mass(a, b)
    at_a, at_b = (np.exp(-0.5 * x * x - 0.5 * LOG_2PI - whole) for x in (a, b))
    mean = at_a - at_b
    return mean, 1.0 + at_a * (a - mean) - at_b * (b - mean)


def _truncated_entropy(a: Array, b: Array) -> Any:
    a, b = _bounded(a), _bounded(b)
    whole = _log_mass(a, b)
    at_a, at_b = (x * np.exp(-0.5 * x * x - 0.5 * LOG_2PI - whole) for x in (a, b))
    return 0.5 * (LOG_2PI + 1.0) + whole + 0.5 * (at_a - at_b)


def _between(a: Array, b: Array) -> Any:
    """Return a point between bounds that may be infinite."""
    a, b = (
        where(np.isinf(x), where(np.isinf(y), 0.0, y) + np.copysign(1.0, x), x)
        for x, y in ((a, b), (b, a))
    )
    return 0.5 * (a + b)


truncnorm = Continuous(
    "truncnorm",
    ("a", "b"),
    lambda x, a, b: -0.5 * x * x - 0.5 * LOG_2PI - _log_mass(_bounded(a), _bounded(b)),
    lambda x, a, b: np.exp(_truncated(True)(x, a, b)),
    lambda x, a, b: np.exp(_truncated(False)(x, a, b)),
    _truncated_ppf,
    lambda a, b: a < b,
    lambda a, b: a,
    lambda a, b: b,
    _between,
    (-1.0, 1.0),
    log_lower=_truncated(True),
    log_upper=_truncated(False),
    upper_quantile=_truncated_isf,
    mean_formula=lambda a, b: _truncated_moments(a, b)[0],
    var_formula=lambda a, b: _truncated_moments(a, b)[1],
    entropy_formula=_truncated_entropy,
)

# -- the circle ------------------------------------------------------------------------------------


def _nodes() -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(60)
    u = 0.5 * (nodes + 1.0)
    return u**3, 1.5 * u**2 * weights


def _from_below(z: Array, kappa: Array, factor: Callable[[Any], Any]) -> Any:
    """The integral from -pi to z <= 0 of exp(kappa (cos t - cos z)) times a factor of cos t."""
    u, weights = _nodes()
    z, kappa = z[..., None], kappa[..., None]
    # The integrand has fallen by 45 powers of e there; the rest is negligible, as is the derivative
    # of the bound.
    fallen = np.arccos(
        np.maximum(np.cos(stop_gradient(z)) - 45.0 / np.maximum(stop_gradient(kappa), 1.0), -1.0)
    )
    length = z + where(fallen < math.pi, fallen, math.pi)
    at = z - length * u
    bulk = np.exp(kappa * (np.cos(at) - np.cos(z))) * factor(np.cos(at))
    return length[..., 0] * (bulk @ weights)


def _vonmises_cdf(x: Array, kappa: Array) -> Any:
    turns = np.round(x / (2 * math.pi))
    x = x - 2 * math.pi * turns
    below = where(x <= 0, x, -x)
    part = np.exp(_vonmises(below, kappa)) * _from_below(below, kappa, np.ones_like)
    return where(x <= 0, part, 1.0 - part) + turns


def _vonmises(x: Array, kappa: Array) -> Any:
    return kappa * cosm1(x) - LOG_2PI - np.log(i0e(kappa))


def _vonmises_log_cdf(x: Array, kappa: Array) -> Any:
    is_turn = np.abs(x) <= math.pi
    inside = kept(is_turn, x, 0.0)
    below = where(inside <= 0, inside, -inside)
    part = _vonmises(below, kappa) + np.log(_from_below(below, kappa, np.ones_like))
    turn = where(x <= 0, part, np.log1p(-np.exp(part)))
    return where(is_turn, turn, np.log(_vonmises_cdf(kept(~is_turn, x, 0.0), kappa)))


def _vonmises_moved(z: Array, kappa: Array) -> tuple[Any]:
    z, kappa = np.broadcast_arrays(z, kappa)
    ratio = i1e(kappa) / i0e(kappa)
    change = _from_below(-np.abs(z), kappa, lambda cosine: cosine - ratio[..., None])
    return (where(z <= 0, -change, change),)


vonmises = Continuous(
    "vonmises",
    ("kappa",),
    _vonmises,
    _vonmises_cdf,
    lambda x, kappa: _vonmises_cdf(-x, kappa),
    allowed=lambda kappa: kappa >= 0,
    log_lower=_vonmises_log_cdf,
    log_upper=lambda x, kappa: _vonmises_log_cdf(-x, kappa),
    entropy_formula=lambda kappa: (
        -kappa * i1e(kappa) / i0e(kappa) + LOG_2PI + np.log(i0e(kappa)) + kappa
    ),
    moved=_vonmises_moved,
    wrapped=lambda x: np.mod(x + math.pi, 2 * math.pi) - math.pi,
)


def _wrapped_cdf(x: Array, c: Array) -> Any:
    is_first = x < math.pi
    half = (
        np.arctan((1.0 + c) / (1.0 - c) * np.tan(where(is_first, x, 2 * math.pi - x) / 2)) / math.pi
    )
    return where(is_first, half, 1.0 - half)


def _wrapped_ppf(q: Array, c: Array) -> Any:
    is_first = q < 0.5
    half = 2.0 * np.arctan((1.0 - c) / (1.0 + c) * np.tan(math.pi * where(is_first, q, 1.0 - q)))
    return where(is_first, half, 2 * math.pi - half)


wrapcauchy = Continuous(
    "wrapcauchy",
    ("c",),
    lambda x, c: np.log(1.0 - c * c) - LOG_2PI - np.log(1.0 + c * c - 2.0 * c * np.cos(x)),
    _wrapped_cdf,
    lambda x, c: _wrapped_cdf(2 * math.pi - x, c),
    _wrapped_ppf,
    lambda c: (c > 0) & (c < 1),
    zero,
    lambda c: 2 * math.pi,
    harmless=(0.5,),
    upper_quantile=lambda q, c: _wrapped_ppf(1.0 - q, c),
    entropy_formula=lambda c: np.log(2 * math.pi * (1.0 - c * c)),
    wrapped=lambda x: np.mod(x, 2 * math.pi),
)
