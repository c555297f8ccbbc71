"""The gamma function and related functions: digamma, zeta, beta, binomial coefficients.

Note [Poles of gamma]
    Quotients of gamma functions are finite where a denominator has a pole: they are 0 there. Their
    derivative ``o psi(x)`` would be ``0 * inf``. Left of 1/2 it is computed by reflection (DLMF
    5.5.3, 5.5.4), without dividing by a sine that is zero there: ``(1 / gamma)'(x) = gamma(1 - x)
    (cos(pi x) - psi(1 - x) sin(pi x) / pi)``, and ``psi(x) = psi(1 - x) - pi cot(pi x)``. The
    remaining product of gammas is a beta function, which does not overflow.

Layer: 2.
"""

from __future__ import annotations

import math
from typing import Any

from scipy import special as sp
from scipy.special import _ufuncs

from functrace.ops import elementwise as ew
from functrace.ops.special.rows import real_only, special
from functrace.tracing.tracer import Value
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
zeta = special(
    _ufuncs._zeta, "x", lambda x, q, o: -x * zeta(x + 1.0, q), named="zeta", source="DLMF 25.11.17"
)
riemann_zeta = special(_ufuncs._riemann_zeta, "x", named="riemann_zeta", source="no derivative")
zetac = special(sp.zetac, "x", source="no derivative")
gammasgn = special(sp.gammasgn, None, source="piecewise constant")


def polygamma(n: int, x: Value) -> Any:
    """The derivative of psi of order n."""
    if n == 0:
        return psi(x)
    return zeta(n + 1.0, x) * (-1.0) ** (n + 1) * math.factorial(n)


betaln = special(
    sp.betaln,
    lambda a, b, o: psi(a) - psi(a + b),
    lambda a, b, o: psi(b) - psi(a + b),
    source="DLMF 5.12.1",
)


def _sine_and_cosine(x: Array) -> tuple[Any, Any]:
    """``sin(pi x)`` and ``cos(pi x)``, exact where they are 0 or 1."""
    whole = ew.rint(x)
    sign = 1.0 - 2.0 * ew.remainder(whole, 2.0)
    angle = math.pi * (x - whole)
    return sign * ew.sin(angle), sign * ew.cos(angle)


def _slope(x: Array) -> Any:
    """The derivative of ``1 / gamma``, over ``gamma(1 - x)``; see Note [Poles of gamma]."""
    sine, cosine = _sine_and_cosine(x)
    return cosine - psi(1.0 - x) * sine / math.pi


def _chosen(condition: Array, *values: tuple[Array, float]) -> list[Any]:
    """Select values where a condition holds, elsewhere numbers for which the formulas are safe."""
    return [ew.where(condition, x, instead) for x, instead in values]


def _beta(a: Array, b: Array, o: Array) -> Any:
    """The derivative of beta by its first argument; see Note [Poles of gamma]."""
    is_right = a + b >= 0.5
    is_left = ew.logical_and(ew.logical_not(is_right), a < 0.5)
    is_between = ew.logical_and(ew.logical_not(is_right), a >= 0.5)
    x, y = _chosen(is_right, (a, 1.0), (b, 1.0))
    right = o * (psi(x) - psi(x + y))
    x, y = _chosen(is_left, (a, -0.25), (b, 0.5))
    sine = _sine_and_cosine(x)[0]
    both = (
        math.pi
        * _sine_and_cosine(y)[0]
        * beta(y, 1.0 - x - y)
        / ew.where(ew.equal(sine, 0), 1.0, ew.square(sine))
    )
    left = o * (psi(1.0 - x) - psi(1.0 - x - y)) - both
    x, y = _chosen(is_between, (a, 0.75), (b, -0.5))
    sine = _sine_and_cosine(y)[0]
    between = o * psi(x) + math.pi * beta(x, 1.0 - x - y) * _slope(x + y) / ew.where(
        ew.equal(sine, 0), math.nan, sine
    )
    return ew.where(is_right, right, ew.where(is_left, left, between))


def _binom(n: Array, x: Array, o: Array) -> Any:
    """``binom(n, k) psi(x)`` for ``x`` either ``k + 1`` or ``n - k + 1``; see Note [Poles of
    gamma]."""
    is_left = x < 0.5
    at, over = _chosen(is_left, (x, 0.25), (n, 1.0))
    return ew.where(
        is_left, -beta(over + 1.0, 1.0 - at) * _slope(at), o * psi(ew.where(is_left, 1.0, x))
    )


def _poch(z: Array, m: Array, o: Array) -> Any:
    """The derivative of poch by its first argument; see Note [Poles of gamma]."""
    is_right = z >= 0.5
    is_left = ew.logical_and(ew.logical_not(is_right), z + m < 0.5)
    is_between = ew.logical_and(ew.logical_not(is_right), z + m >= 0.5)
    x, y = _chosen(is_right, (z, 1.0), (m, 1.0))
    right = o * (psi(x + y) - psi(x))
    x, y = _chosen(is_left, (z, -0.25), (m, -0.5))
    sine = _sine_and_cosine(x + y)[0]
    both = (
        math.pi
        * _sine_and_cosine(y)[0]
        * poch(1.0 - x - y, y)
        / ew.where(ew.equal(sine, 0), 1.0, ew.square(sine))
    )
    left = o * (psi(1.0 - x - y) - psi(1.0 - x)) + both
    x, y = _chosen(is_between, (z, -0.25), (m, 1.0))
    between = o * psi(x + y) + gamma(x + y) * gamma(1.0 - x) * _slope(x)
    return ew.where(is_right, right, ew.where(is_left, left, between))


beta = special(
    sp.beta,
    lambda a, b, o: _beta(a, b, o),
    lambda a, b, o: _beta(b, a, o),
    source="DLMF 5.12.1, 5.5.3",
)
binom = special(
    sp.binom,
    lambda n, k, o: o * psi(n + 1.0) - _binom(n, n - k + 1.0, o),
    lambda n, k, o: _binom(n, n - k + 1.0, o) - _binom(n, k + 1.0, o),
    source="DLMF 1.2.6, 5.5.3",
)
poch = special(
    sp.poch,
    lambda z, m, o: _poch(z, m, o),
    lambda z, m, o: o * psi(z + m),
    source="DLMF 5.2.5, 5.5.3",
)
