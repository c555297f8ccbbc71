"""The incomplete gamma and beta functions, their inverses, and distribution functions based on
them.

Layer: 2.
"""

from __future__ import annotations

import math
from typing import Any

from scipy import special as sp

from functrace.ops import elementwise as ew
from functrace.ops.elementwise import exp
from functrace.ops.special.beta_ends import beta_end
from functrace.ops.special.gamma import betaln, gammaln
from functrace.ops.special.incomplete import Order, by_shapes
from functrace.ops.special.logarithms import xlog1py, xlogy
from functrace.ops.special.rows import kept, special, whole
from functrace.typing import Array

# -- incomplete functions, whose derivative by the last argument is the integrand ------------------


def beta_density(a: Array, b: Array, x: Array) -> Any:
    """The integrand of the regularized incomplete beta function."""
    return exp(xlogy(a - 1.0, x) + xlog1py(b - 1.0, -x) - betaln(a, b))


def gamma_density(a: Array, x: Array) -> Any:
    """The integrand of the regularized incomplete gamma function."""
    return exp(xlogy(a - 1.0, x) - x - gammaln(a))


def _gamma_by_shape(a: Array, x: Array) -> Any:
    """The derivative of the regularized incomplete gamma function by its shape; 0 at both ends."""
    fits = ew.logical_and(ew.less(0.0, x), ew.less(x, math.inf))
    x = kept(fits, x, 1.0)
    return ew.where(fits, gamma_density(a, x) * by_shapes((1,), a, x), 0.0)


def _beta_by_shape(order: Order, a: Array, b: Array, x: Array) -> Any:
    fits = ew.logical_and(ew.less(0.0, x), ew.less(x, 1.0))
    x = kept(fits, x, 0.5)
    return ew.where(fits, beta_density(a, b, x) * by_shapes(order, a, b, x), 0.0)


def _beta_slope(a: Array, b: Array, x: Array) -> Any:
    """The density; at both ends by a primitive whose derivatives exist there, too."""
    is_end = ew.logical_or(ew.equal(x, 0.0), ew.equal(x, 1.0))
    inside = kept(ew.logical_not(is_end), x, 0.5)
    return ew.where(is_end, beta_end(a, b, x), beta_density(a, b, inside))


betainc = special(
    sp.betainc,
    lambda a, b, x, o: _beta_by_shape((1, 0), a, b, x),
    lambda a, b, x, o: _beta_by_shape((0, 1), a, b, x),
    lambda a, b, x, o: _beta_slope(a, b, x),
    source="DLMF 8.17.1",
)
betaincc = special(
    sp.betaincc,
    lambda a, b, x, o: -_beta_by_shape((1, 0), a, b, x),
    lambda a, b, x, o: -_beta_by_shape((0, 1), a, b, x),
    lambda a, b, x, o: -_beta_slope(a, b, x),
    source="DLMF 8.17.1",
)
betaincinv = special(
    sp.betaincinv,
    lambda a, b, y, o: -by_shapes((1, 0), a, b, o),
    lambda a, b, y, o: -by_shapes((0, 1), a, b, o),
    lambda a, b, y, o: 1.0 / beta_density(a, b, o),
    source="of the inverse",
)
betainccinv = special(
    sp.betainccinv,
    lambda a, b, y, o: -by_shapes((1, 0), a, b, o),
    lambda a, b, y, o: -by_shapes((0, 1), a, b, o),
    lambda a, b, y, o: -1.0 / beta_density(a, b, o),
    source="of the inverse",
)
btdtria = special(
    sp.btdtria,
    lambda p, b, x, o: 1.0 / (beta_density(o, b, x) * by_shapes((1, 0), o, b, x)),
    lambda p, b, x, o: -by_shapes((0, 1), o, b, x) / by_shapes((1, 0), o, b, x),
    lambda p, b, x, o: -1.0 / by_shapes((1, 0), o, b, x),
    source="of the inverse",
)
btdtrib = special(
    sp.btdtrib,
    lambda a, p, x, o: -by_shapes((1, 0), a, o, x) / by_shapes((0, 1), a, o, x),
    lambda a, p, x, o: 1.0 / (beta_density(a, o, x) * by_shapes((0, 1), a, o, x)),
    lambda a, p, x, o: -1.0 / by_shapes((0, 1), a, o, x),
    source="of the inverse",
)
gammainc = special(
    sp.gammainc,
    lambda a, x, o: _gamma_by_shape(a, x),
    lambda a, x, o: gamma_density(a, x),
    source="DLMF 8.8.13",
)
gammaincc = special(
    sp.gammaincc,
    lambda a, x, o: -_gamma_by_shape(a, x),
    lambda a, x, o: -gamma_density(a, x),
    source="DLMF 8.8.14",
)
gammaincinv = special(
    sp.gammaincinv,
    lambda a, y, o: -by_shapes((1,), a, o),
    lambda a, y, o: 1.0 / gamma_density(a, o),
    source="of the inverse",
)
gammainccinv = special(
    sp.gammainccinv,
    lambda a, y, o: -by_shapes((1,), a, o),
    lambda a, y, o: -1.0 / gamma_density(a, o),
    source="of the inverse",
)

# -- distribution functions based on them -----------------------------------------------


def _poisson(k: Array, m: Array) -> Any:
    return gamma_density(ew.floor(k) + 1.0, m)


def _binomial(k: Array, n: Array, p: Array) -> Any:
    k, n = ew.floor(k), whole(n)
    return beta_density(n - k, k + 1.0, 1.0 - p)


def _student(df: Array, t: Array) -> Any:
    return exp(-0.5 * (df + 1.0) * ew.log1p(t * t / df) - betaln(0.5 * df, 0.5)) / ew.sqrt(df)


def _fisher(n: Array, d: Array, x: Array) -> Any:
    scaled = d + n * x
    return beta_density(0.5 * n, 0.5 * d, n * x / scaled) * n * d / (scaled * scaled)


def fisher_by_shapes(n: Array, d: Array, x: Array) -> tuple[Any, Any]:
    """The derivatives of the distribution function of F by its degrees of freedom, over the
    density.
    """
    fits = ew.logical_and(ew.less(0.0, x), ew.less(x, math.inf))
    x = kept(fits, x, 1.0)
    scaled = d + n * x
    at, rest = n * x / scaled, d / scaled
    is_left = ew.less(at, 0.5)  # the smaller of the two has full precision
    a, b, at, rest = 0.5 * n, 0.5 * d, kept(is_left, at, 0.5), ew.where(is_left, 0.5, rest)

    def moved(order: Order) -> Any:
        return ew.where(is_left, by_shapes(order, a, b, at), -by_shapes(order[::-1], b, a, rest))

    unit = scaled * scaled / (n * d)
    by_first = 0.5 * unit * moved((1, 0)) + x / n
    by_second = 0.5 * unit * moved((0, 1)) - x / d
    return ew.where(fits, by_first, 0.0), ew.where(fits, by_second, 0.0)


def student_by_df(df: Array, t: Array) -> Any:
    """The derivative of Student's distribution function by its degrees of freedom, over the
    density: t^2 is F-distributed."""
    is_zero = ew.equal(t, 0)
    away = ew.where(is_zero, 1.0, t)
    return ew.where(is_zero, 0.0, 0.5 * fisher_by_shapes(away / away, df, away * away)[1] / away)


chdtr = special(
    sp.chdtr,
    lambda v, x, o: 0.5 * _gamma_by_shape(0.5 * v, 0.5 * x),
    lambda v, x, o: 0.5 * gamma_density(0.5 * v, 0.5 * x),
    source="DLMF 8.8.13",
)
chdtrc = special(
    sp.chdtrc,
    lambda v, x, o: -0.5 * _gamma_by_shape(0.5 * v, 0.5 * x),
    lambda v, x, o: -0.5 * gamma_density(0.5 * v, 0.5 * x),
    source="DLMF 8.8.14",
)
chdtri = special(
    sp.chdtri,
    lambda v, p, o: -by_shapes((1,), 0.5 * v, 0.5 * o),
    lambda v, p, o: -2.0 / gamma_density(0.5 * v, 0.5 * o),
    source="of the inverse",
)
gdtr = special(
    sp.gdtr,
    lambda a, b, x, o: x * gamma_density(b, a * x),
    lambda a, b, x, o: _gamma_by_shape(b, a * x),
    lambda a, b, x, o: a * gamma_density(b, a * x),
    source="DLMF 8.8.13",
)
gdtrc = special(
    sp.gdtrc,
    lambda a, b, x, o: -x * gamma_density(b, a * x),
    lambda a, b, x, o: -_gamma_by_shape(b, a * x),
    lambda a, b, x, o: -a * gamma_density(b, a * x),
    source="DLMF 8.8.14",
)
pdtr = special(sp.pdtr, "k", lambda k, m, o: -_poisson(k, m), source="DLMF 8.8.14")
pdtrc = special(sp.pdtrc, "k", lambda k, m, o: _poisson(k, m), source="DLMF 8.8.13")
bdtr = special(sp.bdtr, "k", "n", lambda k, n, p, o: -_binomial(k, n, p), source="DLMF 8.17.5")
bdtrc = special(sp.bdtrc, "k", "n", lambda k, n, p, o: _binomial(k, n, p), source="DLMF 8.17.5")
stdtr = special(
    sp.stdtr,
    lambda df, t, o: _student(df, t) * student_by_df(df, t),
    lambda df, t, o: _student(df, t),
    source="of the integral",
)
stdtrit = special(
    sp.stdtrit,
    lambda df, p, o: -student_by_df(df, o),
    lambda df, p, o: 1.0 / _student(df, o),
    source="of the inverse",
)
fdtr = special(
    sp.fdtr,
    lambda n, d, x, o: _fisher(n, d, x) * fisher_by_shapes(n, d, x)[0],
    lambda n, d, x, o: _fisher(n, d, x) * fisher_by_shapes(n, d, x)[1],
    lambda n, d, x, o: _fisher(n, d, x),
    source="DLMF 8.17.1",
)
fdtrc = special(
    sp.fdtrc,
    lambda n, d, x, o: -_fisher(n, d, x) * fisher_by_shapes(n, d, x)[0],
    lambda n, d, x, o: -_fisher(n, d, x) * fisher_by_shapes(n, d, x)[1],
    lambda n, d, x, o: -_fisher(n, d, x),
    source="DLMF 8.17.1",
)
fdtri = special(
    sp.fdtri,
    lambda n, d, p, o: -fisher_by_shapes(n, d, o)[0],
    lambda n, d, p, o: -fisher_by_shapes(n, d, o)[1],
    lambda n, d, p, o: 1.0 / _fisher(n, d, o),
    source="of the inverse",
)
