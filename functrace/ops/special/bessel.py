"""Bessel and related functions, differentiable by their argument, but not by their order.

Layer: 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from scipy import special as sp

from functrace.ir.primitive import Tangents, Values
from functrace.ops import elementwise as ew
from functrace.ops.elementwise import imag, mul, real, sign
from functrace.ops.special.gamma import rgamma
from functrace.ops.special.rows import SpecialFunction, no_derivative, special, typed, whole
from functrace.typing import Array


def _difference(name: str) -> Any:
    """(C_{v-1} - C_{v+1}) / 2, DLMF 10.6.1: smooth at 0, unlike C_{v-1} - v C_v / x."""

    def partial(v: Array, x: Array, _o: Array) -> Any:
        return 0.5 * (_ROWS[name](v - 1.0, x) - _ROWS[name](v + 1.0, x))

    return partial


def _scaled(
    function: Callable[[], SpecialFunction],
    size: Callable[[Array], Any],
    half_sum: Callable[[Any, Any], Any],
) -> Any:
    """Return the jvp rule of a function of the first or second kind, scaled by exp(-|part of
    x|)."""

    def jvp(primals: Values, outputs: Values, tangents: Tangents) -> Any:
        (v, x), (out,), (dv, dx) = primals, outputs, tangents
        if dv is not None:
            no_derivative(function().name, "v")()
        assert dx is not None  # one of them is there
        total = mul(dx, half_sum(typed(v, out), x))
        part, change = size(x), size(dx)
        return total if part is None else ew.sub(total, mul(out, mul(sign(part), change)))

    return jvp


def _imaginary(x: Array) -> Any:
    return imag(x) if x.dtype.kind == "c" else None


def _real(x: Array) -> Any:
    return real(x) if x.dtype.kind == "c" else x


# -- DLMF 10.6: J, Y and H -----------------------------------------------

j0 = special(sp.j0, lambda x, o: -j1(x), source="DLMF 10.6.3")
j1 = special(sp.j1, lambda x, o: 0.5 * (j0(x) - jv(2.0, x)), source="DLMF 10.6.1")
y0 = special(sp.y0, lambda x, o: -y1(x), source="DLMF 10.6.3")
y1 = special(sp.y1, lambda x, o: 0.5 * (y0(x) - yv(2.0, x)), source="DLMF 10.6.1")
jv = special(sp.jv, "v", _difference("jv"), source="DLMF 10.6.1")
yv = special(sp.yv, "v", _difference("yv"), source="DLMF 10.6.1")
yn = special(
    sp.yn,
    "n",
    lambda n, x, o: 0.5 * (yv(whole(n) - 1.0, x) - yv(whole(n) + 1.0, x)),
    source="DLMF 10.6.1",
)
jve = special(
    sp.jve,
    jvp=_scaled(lambda: jve, _imaginary, lambda v, x: 0.5 * (jve(v - 1.0, x) - jve(v + 1.0, x))),
    source="DLMF 10.6.1",
)
yve = special(
    sp.yve,
    jvp=_scaled(lambda: yve, _imaginary, lambda v, x: 0.5 * (yve(v - 1.0, x) - yve(v + 1.0, x))),
    source="DLMF 10.6.1",
)
hankel1 = special(sp.hankel1, "v", _difference("hankel1"), source="DLMF 10.6.1")
hankel2 = special(sp.hankel2, "v", _difference("hankel2"), source="DLMF 10.6.1")
hankel1e = special(
    sp.hankel1e,
    "v",
    lambda v, z, o: 0.5 * (hankel1e(v - 1.0, z) - hankel1e(v + 1.0, z)) - 1j * o,
    source="DLMF 10.6.1",
)
hankel2e = special(
    sp.hankel2e,
    "v",
    lambda v, z, o: 0.5 * (hankel2e(v - 1.0, z) - hankel2e(v + 1.0, z)) + 1j * o,
    source="DLMF 10.6.1",
)

# -- DLMF 10.29: I and K -----------------------------------------------

special_i0 = special(sp.i0, lambda x, o: i1(x), named="special_i0", source="DLMF 10.29.3")
i1 = special(sp.i1, lambda x, o: 0.5 * (special_i0(x) + iv(2.0, x)), source="DLMF 10.29.1")
i0e = special(sp.i0e, lambda x, o: i1e(x) - sign(x) * o, source="DLMF 10.29.3")
i1e = special(
    sp.i1e, lambda x, o: 0.5 * (i0e(x) + ive(2.0, x)) - sign(x) * o, source="DLMF 10.29.1"
)
iv = special(
    sp.iv, "v", lambda v, x, o: 0.5 * (iv(v - 1.0, x) + iv(v + 1.0, x)), source="DLMF 10.29.1"
)
ive = special(
    sp.ive,
    jvp=_scaled(lambda: ive, _real, lambda v, x: 0.5 * (ive(v - 1.0, x) + ive(v + 1.0, x))),
    source="DLMF 10.29.1",
)
k0 = special(sp.k0, lambda x, o: -k1(x), source="DLMF 10.29.3")
k1 = special(sp.k1, lambda x, o: -0.5 * (k0(x) + kv(2.0, x)), source="DLMF 10.29.1")
k0e = special(sp.k0e, lambda x, o: o - k1e(x), source="DLMF 10.29.3")
k1e = special(sp.k1e, lambda x, o: o - 0.5 * (k0e(x) + kve(2.0, x)), source="DLMF 10.29.1")
kv = special(
    sp.kv, "v", lambda v, x, o: -0.5 * (kv(v - 1.0, x) + kv(v + 1.0, x)), source="DLMF 10.29.1"
)
kn = special(
    sp.kn,
    "n",
    lambda n, x, o: -0.5 * (kv(whole(n) - 1.0, x) + kv(whole(n) + 1.0, x)),
    source="DLMF 10.29.1",
)
kve = special(
    sp.kve,
    "v",
    lambda v, x, o: o - 0.5 * (kve(v - 1.0, x) + kve(v + 1.0, x)),
    source="DLMF 10.29.1",
)

# -- Struve, Airy -----------------------------------------------


def _power_term(v: Array, x: Array) -> Any:
    return ew.power(0.5 * x, v) * rgamma(v + 1.5) / (2 * math.sqrt(math.pi))


struve = special(
    sp.struve,
    "v",
    lambda v, x, o: 0.5 * (struve(v - 1.0, x) - struve(v + 1.0, x)) + _power_term(v, x),
    source="DLMF 11.4.27",
)
modstruve = special(
    sp.modstruve,
    "v",
    lambda v, x, o: 0.5 * (modstruve(v - 1.0, x) + modstruve(v + 1.0, x)) + _power_term(v, x),
    source="DLMF 11.4.29",
)


def _airy(primals: Values, outputs: Values, tangents: Tangents) -> Any:
    (x,), (a, a_prime, b, b_prime), (t,) = primals, outputs, tangents
    x = typed(x, a)
    return tuple(mul(t, factor) for factor in (a_prime, x * a, b_prime, x * b))  # type: ignore[arg-type]


airy = special(sp.airy, jvp=_airy, source="DLMF 9.2.1")

_ROWS: dict[str, SpecialFunction] = {row.name: row for row in (jv, yv, hankel1, hankel2)}
