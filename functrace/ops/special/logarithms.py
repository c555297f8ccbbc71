"""Accurate elementary functions of SciPy: logarithms with factors, entropies, Box-Cox, logistic,
degrees.

Layer: 2.
"""

from __future__ import annotations

import math
from typing import Any

from scipy import special as sp
from scipy.special import _ufuncs

from functrace.ops import elementwise as ew
from functrace.ops.elementwise import exp, log, logical_and, square, where
from functrace.ops.special.hypergeometric import hyp1f1
from functrace.ops.special.rows import special
from functrace.typing import Array

_DEGREE = math.pi / 180

# -- SciPy's versions of NumPy's functions -------------------------------------------------

special_expm1 = special(sp.expm1, lambda x, o: exp(x), named="special_expm1", source="DLMF 4.7.6")
special_log1p = special(
    sp.log1p, lambda x, o: 1.0 / (1.0 + x), named="special_log1p", source="DLMF 4.7.1"
)
special_exp2 = special(
    sp.exp2, lambda x, o: o * math.log(2), named="special_exp2", source="DLMF 4.7.7"
)
special_cbrt = special(
    sp.cbrt, lambda x, o: (1 / 3) / square(o), named="special_cbrt", source="DLMF 1.4.11"
)
special_round = special(sp.round, None, named="special_round", source="piecewise constant")
exp10 = special(sp.exp10, lambda x, o: o * math.log(10), source="DLMF 4.7.7")
cosm1 = special(sp.cosm1, lambda x, o: -ew.sin(x), source="DLMF 4.20.2")
sindg = special(sp.sindg, lambda x, o: _DEGREE * cosdg(x), source="DLMF 4.20.1")
cosdg = special(sp.cosdg, lambda x, o: -_DEGREE * sindg(x), source="DLMF 4.20.2")
tandg = special(sp.tandg, lambda x, o: _DEGREE * (1.0 + square(o)), source="DLMF 4.20.3")
cotdg = special(sp.cotdg, lambda x, o: -_DEGREE * (1.0 + square(o)), source="DLMF 4.20.6")
radian = special(
    sp.radian, lambda d, m, s, o: _DEGREE, lambda d, m, s, o: _DEGREE / 60, lambda d, m, s,
    o: _DEGREE / 3600,
    source="linear",
)  # fmt: skip

# -- logistic -----------------------------------------------

expit = special(sp.expit, lambda x, o: o * expit(-x), source="of 1 / (1 + exp(-x))")
logit = special(sp.logit, lambda x, o: 1.0 / (x * (1.0 - x)), source="of the inverse")
log_expit = special(sp.log_expit, lambda x, o: expit(-x), source="of log(expit(x))")

# -- x log y -----------------------------------------------


def _quotient(x: Array, y: Array) -> Any:
    """x / y, with 0 for 0 / 0."""
    return x / where(logical_and(ew.equal(x, 0), ew.equal(y, 0)), 1.0, y)


xlogy = special(
    sp.xlogy, lambda x, y, o: log(y), lambda x, y, o: _quotient(x, y), source="DLMF 4.7.1"
)
xlog1py = special(
    sp.xlog1py,
    lambda x, y, o: ew.log1p(y),
    lambda x, y, o: _quotient(x, 1.0 + y),
    source="DLMF 4.7.1",
)
entr = special(sp.entr, lambda x, o: -log(x) - 1.0, source="of -x log x")
rel_entr = special(
    sp.rel_entr,
    lambda x, y, o: log(x / y) + 1.0,
    lambda x, y, o: -_quotient(x, y),
    source="of x log(x / y)",
)
kl_div = special(
    sp.kl_div,
    lambda x, y, o: log(x / y),
    lambda x, y, o: 1.0 - _quotient(x, y),
    source="of x log(x / y) - x + y",
)

# -- (exp(x) - 1) / x, and functions of it: all derivatives are confluent hypergeometric, smooth at
# 0


def _bend(x: Array) -> Any:
    """The derivative of (exp(x) - 1) / x; SciPy's hyp1f1 does not return where it overflows."""
    return 0.5 * hyp1f1(2.0, 3.0, where(x >= 800.0, 800.0, x))


def _box_power(x: Array, power: Array) -> Any:
    """The derivative of a Box-Cox transform by its power, from the logarithm of its argument."""
    return square(x) * _bend(power * x)


exprel = special(sp.exprel, lambda x, o: _bend(x), source="DLMF 13.3.15, 13.6.2")
boxcox = special(
    sp.boxcox,
    lambda x, p, o: ew.power(x, p - 1.0),
    lambda x, p, o: _box_power(log(x), p),
    source="DLMF 13.3.15",
)
boxcox1p = special(
    sp.boxcox1p,
    lambda x, p, o: exp((p - 1.0) * ew.log1p(x)),
    lambda x, p, o: _box_power(ew.log1p(x), p),
    source="DLMF 13.3.15",
)
inv_boxcox = special(
    sp.inv_boxcox,
    lambda y, p, o: ew.power(o, 1.0 - p),
    lambda y, p, o: -_box_power(log(o), p) * ew.power(o, 1.0 - p),
    source="of the inverse",
)
inv_boxcox1p = special(
    sp.inv_boxcox1p,
    lambda y, p, o: exp((1.0 - p) * ew.log1p(o)),
    lambda y, p, o: -_box_power(ew.log1p(o), p) * exp((1.0 - p) * ew.log1p(o)),
    source="of the inverse",
)
powm1 = special(
    sp.powm1,
    lambda x, y, o: y * ew.power(x, y - 1.0),
    lambda x, y, o: ew.power(x, y) * log(where(ew.equal(x, 0), 1.0, x)),
    source="DLMF 4.2.26",
)

# -- robust losses -----------------------------------------------


def _pseudo_huber_delta(delta: Array, r: Array, o: Array) -> Any:
    # (q - delta)^2 / q with q = hypot(delta, r), without the difference
    q = ew.hypot(delta, r)
    q = where(ew.equal(q, 0), 1.0, q)
    return square(r * r / (q + delta)) / q


def _pseudo_huber_r(delta: Array, r: Array, o: Array) -> Any:
    q = ew.hypot(delta, r)
    return r * delta / where(ew.equal(q, 0), 1.0, q)


huber = special(
    sp.huber,
    lambda delta, r, o: where(abs(r) <= delta, 0.0, abs(r) - delta),
    lambda delta, r, o: where(abs(r) <= delta, r, delta * ew.sign(r)),
    source="SciPy huber",
)
pseudo_huber = special(
    sp.pseudo_huber, _pseudo_huber_delta, _pseudo_huber_r, source="SciPy pseudo_huber"
)

# -- inverses of x exp(x) -----------------------------------------------

lambertw = special(
    _ufuncs._lambertw,
    lambda z, k, tol, o: exp(-o) / (1.0 + o),
    None,
    None,
    named="lambertw",
    source="DLMF 4.13.4",
)
wrightomega = special(sp.wrightomega, lambda z, o: o / (1.0 + o), source="of the inverse")
