"""The gamma function and its kin: digamma, zeta, beta, the incomplete functions and their inverses.

Floor: 2.
"""

from __future__ import annotations

import math
from typing import Any

from scipy import special as sp
from scipy.special import _ufuncs

from functrace.ops import elementwise as ew
from functrace.ops.elementwise import exp
from functrace.ops.special.logarithms import xlog1py, xlogy
from functrace.ops.special.rows import real_only, special
from functrace.tracing.recording import Value
from functrace.typing import Array


def _trigamma(x: Array, o: Array) -> Any:
    real_only("psi", x)
    return zeta(2.0, x)


def _rgamma(x: Array, o: Array) -> Any:
    # Left of 1/2 by reflection, DLMF 5.5.3: 1 / gamma is smooth at the poles of gamma and psi.
    is_left = ew.real(x) < 0.5 if x.dtype.kind == "c" else x < 0.5
    turned, right = ew.where(is_left, 1.0 - x, 1.0), ew.where(is_left, 1.0, x)
    angle = math.pi * ew.where(is_left, x, 0.0)
    mirrored = gamma(turned) * (ew.cos(angle) - psi(turned) * ew.sin(angle) / math.pi)
    return ew.where(is_left, mirrored, -psi(right) * rgamma(right))


gammaln = special(sp.gammaln, lambda x, o: psi(x), source="DLMF 5.2.2")
loggamma = special(sp.loggamma, lambda x, o: psi(x), source="DLMF 5.2.2")
gamma = special(sp.gamma, lambda x, o: o * psi(x), source="DLMF 5.2.2")
rgamma = special(sp.rgamma, _rgamma, source="DLMF 5.5.3")
psi = special(sp.psi, _trigamma, source="DLMF 5.15.1")
zeta = special(_ufuncs._zeta, "x", lambda x, q, o: -x * zeta(x + 1.0, q), named="zeta", source="DLMF 25.11.17")
riemann_zeta = special(_ufuncs._riemann_zeta, "x", named="riemann_zeta", source="no derivative")
zetac = special(sp.zetac, "x", source="no derivative")
gammasgn = special(sp.gammasgn, None, source="piecewise constant")


def polygamma(n: int, x: Value) -> Any:
    """The derivative of psi of an order."""
    if n == 0:
        return psi(x)
    return zeta(n + 1.0, x) * (-1.0) ** (n + 1) * math.factorial(n)


betaln = special(sp.betaln, lambda a, b, o: psi(a) - psi(a + b), lambda a, b, o: psi(b) - psi(a + b), source="DLMF 5.12.1")
beta = special(
    sp.beta, lambda a, b, o: o * (psi(a) - psi(a + b)), lambda a, b, o: o * (psi(b) - psi(a + b)), source="DLMF 5.12.1"
)
binom = special(
    sp.binom,
    lambda n, k, o: o * (psi(n + 1.0) - psi(n - k + 1.0)),
    lambda n, k, o: o * (psi(n - k + 1.0) - psi(k + 1.0)),
    source="DLMF 1.2.6",
)
poch = special(sp.poch, lambda z, m, o: o * (psi(z + m) - psi(z)), lambda z, m, o: o * psi(z + m), source="DLMF 5.2.5")

# -- incomplete functions, whose derivative by the last argument is the integrand ---------------------------------------


def beta_density(a: Array, b: Array, x: Array) -> Any:
    """The integrand of the regularized incomplete beta function."""
    return exp(xlogy(a - 1.0, x) + xlog1py(b - 1.0, -x) - betaln(a, b))


def gamma_density(a: Array, x: Array) -> Any:
    """The integrand of the regularized incomplete gamma function."""
    return exp(xlogy(a - 1.0, x) - x - gammaln(a))


betainc = special(sp.betainc, "a", "b", lambda a, b, x, o: beta_density(a, b, x), source="DLMF 8.17.1")
betaincc = special(sp.betaincc, "a", "b", lambda a, b, x, o: -beta_density(a, b, x), source="DLMF 8.17.1")
betaincinv = special(sp.betaincinv, "a", "b", lambda a, b, y, o: 1.0 / beta_density(a, b, o), source="of the inverse")
betainccinv = special(sp.betainccinv, "a", "b", lambda a, b, y, o: -1.0 / beta_density(a, b, o), source="of the inverse")
gammainc = special(sp.gammainc, "a", lambda a, x, o: gamma_density(a, x), source="DLMF 8.8.13")
gammaincc = special(sp.gammaincc, "a", lambda a, x, o: -gamma_density(a, x), source="DLMF 8.8.14")
gammaincinv = special(sp.gammaincinv, "a", lambda a, y, o: 1.0 / gamma_density(a, o), source="of the inverse")
gammainccinv = special(sp.gammainccinv, "a", lambda a, y, o: -1.0 / gamma_density(a, o), source="of the inverse")

# -- distribution functions made of them -----------------------------------------------


def _poisson(k: Array, m: Array) -> Any:
    return gamma_density(ew.floor(k) + 1.0, m)


def _binomial(k: Array, n: Array, p: Array) -> Any:
    k = ew.floor(k)
    return beta_density(n - k, k + 1.0, 1.0 - p)


def _student(df: Array, t: Array) -> Any:
    return exp(-0.5 * (df + 1.0) * ew.log1p(t * t / df) - betaln(0.5 * df, 0.5)) / ew.sqrt(df)


def _fisher(n: Array, d: Array, x: Array) -> Any:
    scaled = d + n * x
    return beta_density(0.5 * n, 0.5 * d, n * x / scaled) * n * d / (scaled * scaled)


chdtr = special(sp.chdtr, "v", lambda v, x, o: 0.5 * gamma_density(0.5 * v, 0.5 * x), source="DLMF 8.8.13")
chdtrc = special(sp.chdtrc, "v", lambda v, x, o: -0.5 * gamma_density(0.5 * v, 0.5 * x), source="DLMF 8.8.14")
chdtri = special(sp.chdtri, "v", lambda v, p, o: -2.0 / gamma_density(0.5 * v, 0.5 * o), source="of the inverse")
gdtr = special(
    sp.gdtr,
    lambda a, b, x, o: x * gamma_density(b, a * x), "b", lambda a, b, x, o: a * gamma_density(b, a * x),
    source="DLMF 8.8.13",
)  # fmt: skip
gdtrc = special(
    sp.gdtrc,
    lambda a, b, x, o: -x * gamma_density(b, a * x), "b", lambda a, b, x, o: -a * gamma_density(b, a * x),
    source="DLMF 8.8.14",
)  # fmt: skip
pdtr = special(sp.pdtr, "k", lambda k, m, o: -_poisson(k, m), source="DLMF 8.8.14")
pdtrc = special(sp.pdtrc, "k", lambda k, m, o: _poisson(k, m), source="DLMF 8.8.13")
bdtr = special(sp.bdtr, "k", "n", lambda k, n, p, o: -_binomial(k, n, p), source="DLMF 8.17.5")
bdtrc = special(sp.bdtrc, "k", "n", lambda k, n, p, o: _binomial(k, n, p), source="DLMF 8.17.5")
stdtr = special(sp.stdtr, "df", lambda df, t, o: _student(df, t), source="of the integral")
stdtrit = special(sp.stdtrit, "df", lambda df, p, o: 1.0 / _student(df, o), source="of the inverse")
fdtr = special(sp.fdtr, "dfn", "dfd", lambda n, d, x, o: _fisher(n, d, x), source="DLMF 8.17.1")
fdtrc = special(sp.fdtrc, "dfn", "dfd", lambda n, d, x, o: -_fisher(n, d, x), source="DLMF 8.17.1")
fdtri = special(sp.fdtri, "dfn", "dfd", lambda n, d, p, o: 1.0 / _fisher(n, d, o), source="of the inverse")
