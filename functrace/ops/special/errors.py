"""The error function, the normal distribution, and integrals of elementary functions.

Layer: 2.
"""

from __future__ import annotations

import math
from typing import Any

from scipy import special as sp

from functrace.ir.primitive import Tangents, Values
from functrace.ops import elementwise as ew
from functrace.ops.elementwise import exp, log, square, where
from functrace.ops.special.error_slopes import dawsn_slope, erfcx_slope
from functrace.ops.special.hypergeometric import hyp2f1
from functrace.ops.special.logarithms import exprel
from functrace.ops.special.rows import kept, special, whole
from functrace.typing import Array

_SLOPE = 2 / math.sqrt(math.pi)
_HALF = math.sqrt(0.5)
_NORMAL = 1 / math.sqrt(2 * math.pi)

erf = special(sp.erf, lambda x, o: _SLOPE * exp(-square(x)), source="DLMF 7.2.1")
erfc = special(sp.erfc, lambda x, o: -_SLOPE * exp(-square(x)), source="DLMF 7.2.2")
erfi = special(sp.erfi, lambda x, o: _SLOPE * exp(square(x)), source="DLMF 7.2.1")
erfcx = special(sp.erfcx, lambda x, o: erfcx_slope(x), source="DLMF 7.10.1")
dawsn = special(sp.dawsn, lambda x, o: dawsn_slope(x), source="DLMF 7.10.2")
wofz = special(sp.wofz, lambda z, o: -2.0 * z * o + 1j * _SLOPE, source="DLMF 7.10.2")
erfinv = special(sp.erfinv, lambda y, o: exp(square(o)) / _SLOPE, source="DLMF 7.17.1")
erfcinv = special(sp.erfcinv, lambda y, o: -exp(square(o)) / _SLOPE, source="DLMF 7.17.1")

# -- the normal distribution -----------------------------------------------


def _hazard(x: Array) -> Any:
    """Density over distribution function, without dividing small numbers: sqrt(2 / pi) / erfcx(-x /
    sqrt(2))."""
    return 2 * _NORMAL / erfcx(-_HALF * x)


ndtr = special(sp.ndtr, lambda x, o: _NORMAL * exp(-0.5 * square(x)), source="DLMF 7.2.1")
log_ndtr = special(sp.log_ndtr, lambda x, o: _hazard(x), source="DLMF 7.2.3")
ndtri = special(sp.ndtri, lambda p, o: exp(0.5 * square(o)) / _NORMAL, source="of the inverse")
ndtri_exp = special(sp.ndtri_exp, lambda p, o: 1.0 / _hazard(o), source="of the inverse")
owens_t = special(
    sp.owens_t,
    lambda h, a, o: -0.5 * _NORMAL * exp(-0.5 * square(h)) * erf(_HALF * a * h),
    lambda h, a, o: exp(-0.5 * square(h) * (1.0 + square(a))) / (2 * math.pi * (1.0 + square(a))),
    source="Owen (1956), 1.2",
)


def _voigt(x: Array, sigma: Array, gamma: Array) -> tuple[Any, Any]:
    """Return the argument of the Faddeeva function for a Voigt profile, and the derivative
    there."""
    z = (x + 1j * gamma) / (sigma * math.sqrt(2))
    return z, (-2.0 * z * wofz(z) + 1j * _SLOPE) * _NORMAL / sigma


voigt_profile = special(
    sp.voigt_profile,
    lambda x, s, g, o: ew.real(_voigt(x, s, g)[1]) * _HALF / s,
    lambda x, s, g, o: -o / s - ew.real(ew.mul(*_voigt(x, s, g))) / s,
    lambda x, s, g, o: -ew.imag(_voigt(x, s, g)[1]) * _HALF / s,
    source="DLMF 7.19.1",
)
tklmbda = special(
    sp.tklmbda,
    lambda x, p, o: 1.0 / (ew.power(o, p - 1.0) + ew.power(1.0 - o, p - 1.0)),
    "lmbda",
    source="of the inverse of (p^l - (1 - p)^l) / l",
)

# -- integrals: the derivative is the integrand -----------------------------------------------


def _spence(z: Array) -> Any:
    # log(z) / (1 - z); near 1 by the series, whose derivatives are series, too.
    near = abs(z - 1.0) < 0.5
    far = where(near, 2.0, z)
    return where(near, -hyp2f1(1.0, 1.0, 2.0, 1.0 - kept(near, z, 1.0)), log(far) / (1.0 - far))


def _expn(n: Array, x: Array, o: Array) -> Any:
    n = whole(n)
    is_zero = ew.equal(n, 0)
    first = where(is_zero, x, 1.0)
    return where(
        is_zero, -exp(-first) * (1.0 + first) / square(first), -expn(where(is_zero, 1, n) - 1, x)
    )


expi = special(sp.expi, lambda x, o: exp(x) / x, source="DLMF 6.2.5")
exp1 = special(sp.exp1, lambda x, o: -exp(-x) / x, source="DLMF 6.2.1")
expn = special(sp.expn, "n", _expn, source="DLMF 8.19.13")
spence = special(sp.spence, lambda z, o: _spence(z), source="DLMF 25.12.2")


def _sine_integrals(primals: Values, _outputs: Values, tangents: Tangents) -> Any:
    (x,), (t,) = primals, tangents
    return ew.mul(t, ew.sinc(x / math.pi)), ew.mul(t, ew.cos(x) / x)  # type: ignore[arg-type]


def _hyperbolic_integrals(primals: Values, _outputs: Values, tangents: Tangents) -> Any:
    (x,), (t,) = primals, tangents
    if x.dtype.kind == "c":
        shi = ew.sinc(x * 1j / math.pi)
    else:
        shi = 0.5 * (exprel(x) + exprel(-x))
    return ew.mul(t, shi), ew.mul(t, ew.cosh(x) / x)  # type: ignore[arg-type]


def _fresnel_integrals(primals: Values, _outputs: Values, tangents: Tangents) -> Any:
    (x,), (t,) = primals, tangents
    angle = (0.5 * math.pi) * square(x)
    return ew.mul(t, ew.sin(angle)), ew.mul(t, ew.cos(angle))  # type: ignore[arg-type]


sici = special(sp.sici, jvp=_sine_integrals, source="DLMF 6.2.9, 6.2.11")
shichi = special(sp.shichi, jvp=_hyperbolic_integrals, source="DLMF 6.2.15, 6.2.16")
fresnel = special(sp.fresnel, jvp=_fresnel_integrals, source="DLMF 7.2.7, 7.2.8")
