"""Derivatives of the scaled complementary error function and of Dawson's integral, of any order,
without cancellation.

Both functions fall like 1 / x. Their derivatives follow from the differential equations, such as
``1 - 2 x F`` of Dawson's F, but that is a difference of numbers near 1: x^2 eps of it are lost,
and x^2 eps more at each order.

Note [Derivatives of erfcx and dawsn]
    The kth derivative of erfcx is (-2)^k k! times the scaled repeated integral of erfc, y_k. These
    obey y_{k-2} = 2 x y_{k-1} + 2 k y_k, and they are the minimal solution for x > 0: ratios
    y_k / y_{k-1} follow from those of higher k, without a subtraction (Miller's algorithm). For small
    and negative x the recurrence is stable in the direction of the orders.

    Dawson's F has no such solution. Near 0 the recurrence is used; far away the asymptotic series,
    up to its least term; between, Cauchy's integral over a circle, on which F has the size that it
    has at x.

Source: W. Gautschi, Computational aspects of three-term recurrence relations (1967); DLMF 7.10,
7.12, 7.18.

Layer: 2.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from scipy import special as sp

from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import Primitive, Tangents, Values, absent
from functrace.ops import elementwise as ew
from functrace.ops.elementwise import ELEMENTWISE
from functrace.tracing.binding import bind
from functrace.typing import Array

_SLOPE = 2 / math.sqrt(math.pi)
_EDGES = (1.0, 2.0, 4.0, 8.0, math.inf)
"""Ends of the intervals of x in which Miller's algorithm starts at one order."""

_FEW = 6
"""Order up to which recurrences in the direction of the orders are stable for x up to 1."""

_NEAR = 1.5
_RADIUS, _POINTS = 0.6, 256
"""Radius of Cauchy's circle, as a fraction of x, and points on it."""


def _upwards(x: Array, order: int, first: Array, sign: float) -> Array:
    """Return y_k of y_{k+1} = sign (2 x y_k + 2 k y_{k-1}), y_0 and y_1 = first[0], first[1]."""
    before, found = first
    for k in range(1, order):
        before, found = found, sign * (2.0 * x * found + 2.0 * k * before)
    return found


def _erfcx_slope(x: Array, order: int) -> Array:
    value: Array = sp.erfcx(x)
    found = _upwards(x, order, np.stack([value, 2.0 * x * value - _SLOPE]), 1.0)
    real: Array = np.real(x)
    least = 4.0 / order if order < 3 else min(1.0, math.sqrt(_FEW / order))
    for begin, end in itertools.pairwise([least, *[edge for edge in _EDGES if edge > least]]):
        places = np.flatnonzero((real > begin) & (real <= end))
        if places.size:
            z = x[places]
            start = math.ceil((math.sqrt(2.0 * order) + 20.0 / begin) ** 2 / 2.0) + 2
            ratio = 1.0 / (z + np.sqrt(z * z + 2.0 * start))
            made = value[places]
            for k in range(start, 0, -1):
                ratio = 1.0 / (2.0 * z + 2.0 * (k + 1) * ratio)  # y_k / y_{k-1}
                if k <= order:
                    made = made * (-2.0 * k * ratio)
            found[places] = made
    return found


def _far(order: int) -> float:
    """Return the x from which the asymptotic series of Dawson's integral has all digits."""
    x = 6.5
    while (
        -x * x
        + (2 * order + 1) * math.log(x)
        + (order + 1) * math.log(2.0)
        - math.lgamma(order + 1)
        > -38.0
    ):
        x += 0.25
    return x


def _dawsn_series(x: Array, order: int) -> Array:
    square = 1.0 / (x * x)
    term = (-1.0) ** order * math.factorial(order) * 0.5 / x
    for _ in range(order):
        term = term / x
    found = term
    for m in range(40):
        factor = (2 * m + order + 2) * (2 * m + order + 1) / (4.0 * (m + 1))
        term = np.where(factor * square < 1.0, term * (factor * square), 0.0)
        found = found + term
    return found


def _dawsn_circle(x: Array, order: int) -> Array:
    """Return derivatives by Cauchy's integral; conjugate points have conjugate values."""
    radius = _RADIUS * x
    total = np.zeros_like(x)
    for m in range(_POINTS // 2 + 1):
        turn = complex(np.exp(2j * math.pi * m / _POINTS))
        weight = 1.0 if m in (0, _POINTS // 2) else 2.0
        total += weight * (sp.dawsn(x + radius * turn) * turn.conjugate() ** order).real
    scaled = total * (math.factorial(order) / _POINTS)
    for _ in range(order):
        scaled = scaled / radius
    return scaled


def _dawsn_slope(x: Array, order: int) -> Array:
    value: Array = sp.dawsn(x)
    found = _upwards(x, order, np.stack([value, 1.0 - 2.0 * x * value]), -1.0)
    if x.dtype.kind == "c":
        return found
    far, size = _far(order), np.abs(x)
    places = np.flatnonzero(size >= far)
    found[places] = _dawsn_series(x[places], order)
    if order > 1:
        places = np.flatnonzero((size > _NEAR) & (size < far))
        found[places] = _dawsn_circle(x[places], order)
    return found


def _evaluated(function: Any, x: Array, order: int) -> Any:
    kind = np.result_type(x, np.float16)
    wide = np.asarray(x, np.complex128 if kind.kind == "c" else np.float64)
    with np.errstate(all="ignore"):
        found = function(wide.ravel(), order).reshape(wide.shape)
        return found.astype(kind)[()]


def _slope_of(name: str, function: Any) -> Primitive:
    def jvp(primals: Values, _outputs: Values, tangents: Tangents, order: int) -> Any:
        return ew.mul(tangents[0], bind(made, primals, (order + 1,)))  # type: ignore[arg-type]

    made = Primitive(
        name,
        eval=lambda x, order: _evaluated(function, x, order),
        aval=lambda x, order: ShapeDtype(x.shape, x.dtype),
        jvp=jvp,
        transpose=absent(
            because=f"a derivative of {name.partition('_')[0]} is not linear",
            instead="differentiate with functrace.vjp instead",
        ),
        batch=ELEMENTWISE,
        params=("order",),
    )
    return made


erfcx_slope_p = _slope_of("erfcx_slope", _erfcx_slope)
dawsn_slope_p = _slope_of("dawsn_slope", _dawsn_slope)
ERROR_SLOPES: dict[str, Primitive] = {row.name: row for row in (erfcx_slope_p, dawsn_slope_p)}
"""Both primitives by name: ``erfcx_slope x {order=2}`` is the second derivative."""


def erfcx_slope(x: Array) -> Any:
    """The derivative of ``erfcx``."""
    return bind(erfcx_slope_p, (x,), (1,))


def dawsn_slope(x: Array) -> Any:
    """The derivative of ``dawsn``."""
    return bind(dawsn_slope_p, (x,), (1,))
