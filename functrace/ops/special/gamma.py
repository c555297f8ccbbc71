"""The gamma function and its kin: digamma, zeta, beta.

Floor: 2.
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
