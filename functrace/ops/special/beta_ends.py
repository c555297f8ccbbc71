"""Derivatives of the beta distribution's density by x, of any order, at 0 and 1.

At 0 the density is ``x^p (1 - x)^q / B`` with p = a - 1, q = b - 1. If p is a number from 0, it is a
power series there. Otherwise derivatives of an order below p are 0, and those above are infinite, with
the sign of the factors p (p - 1) ...; those at 1 follow by symmetry.

Layer: 2.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special as sp

from functrace.ir.primitive import Primitive, Tangents, Values, absent
from functrace.ops import elementwise as ew
from functrace.ops.elementwise import ELEMENTWISE
from functrace.ops.special.gamma import psi
from functrace.ops.special.incomplete import in_blocks, in_their_dtype, joined_aval
from functrace.tracing.binding import bind
from functrace.typing import Array


def _at_zero(p: Array, q: Array, order: int) -> Array:
    """Return the derivative at 0, from the right."""
    total = np.exp(-sp.betaln(p + 1.0, q + 1.0))
    rest = order - p
    series = (-1.0) ** order * np.where(p % 2.0 == 1.0, -1.0, 1.0) * sp.binom(q, rest) * total
    is_series = (p >= 0.0) & (p == np.floor(p))
    series = np.where(rest < 0.0, 0.0, math.factorial(order) * series)
    sign = np.ones_like(p)
    for k in range(order):
        sign = sign * np.sign(p - k)
    return np.where(is_series, series, np.where(rest < 0.0, 0.0, sign * math.inf))


def _evaluated(a: Array, b: Array, x: Array, order: int) -> Array:
    left = _at_zero(a - 1.0, b - 1.0, order)
    right = (-1.0) ** order * _at_zero(b - 1.0, a - 1.0, order)
    found = np.where(x == 0.0, left, np.where(x == 1.0, right, 0.0))
    return np.where((a > 0.0) & (b > 0.0) & np.isfinite(a) & np.isfinite(b), found, np.nan)


def _jvp(primals: Values, outputs: Values, tangents: Tangents, order: int) -> Any:
    a, b, x = primals
    out, found = outputs[0], None
    both: Any = None
    for k, t in enumerate(tangents):
        if t is None:
            continue
        if k == 2:
            slope: Any = bind(beta_end_p, (a, b, x), (order + 1,))
        elif order:
            slope = out * math.nan  # (a second derivative by a shape and x)
        else:
            both = psi(a + b) if both is None else both
            is_off = ew.equal(x, 0.0 if k == 0 else 1.0)
            is_infinite = ew.logical_and(is_off, ew.not_equal(out, 0.0))
            log = ew.where(is_infinite, -math.inf, 0.0)  # at an end where the density is 0: 0
            slope = out * (log + both - psi((a, b)[k]))
        found = ew.plus(found, ew.mul(t, slope))
    return found


beta_end_p = Primitive(
    "beta_end",
    eval=lambda a, b, x, order: in_their_dtype(
        in_blocks(lambda a, b, x: _evaluated(a, b, x, order), a, b, x), (a, b, x)
    ),
    aval=lambda a, b, x, order: joined_aval(a, b, x),
    jvp=_jvp,
    transpose=absent(
        because="the density of the beta distribution is not linear",
        instead="differentiate with functrace.vjp instead",
    ),
    batch=ELEMENTWISE,
    params=("order",),
)
"""``beta_end a b x {order=1}``: the derivative at 0 and 1, and 0 elsewhere."""


def beta_end(a: Array, b: Array, x: Array) -> Any:
    """The density at 0 and 1, and 0 elsewhere."""
    return bind(beta_end_p, (a, b, x), (0,))
