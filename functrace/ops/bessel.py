"""The modified Bessel function of order 0, ``numpy.i0``, and its derivatives of all orders.

Note [Bessel functions without their powers]
    c_n(x) = I_n(x) / x^n is smooth and even, and its derivative is x c_{n+1}(x). So the derivatives
    of I_0 of all orders are sums of products of these, without cancellation at 0, unlike
    I_1'(x) = I_0(x) - I_1(x) / x.

Source: DLMF 10.25.2 (the series, all of whose terms are positive), 10.29.4 (the derivative),
10.40.1 (for large arguments).

Layer: 2.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import Primitive, Tangents, Values, absent
from functrace.ops.elementwise import ELEMENTWISE, Elementwise, mul
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.typing import Array

_FAR = 40.0
"""From here on, the asymptotic series is exact in double precision for the orders in use."""


def _eval(x: Array, order: int) -> Any:
    size = np.abs(np.asarray(x, np.float64))
    near = np.where(size < _FAR, size, 0.0)
    quarter = near * near / 4
    term = np.full(size.shape, 1.0 / (2.0**order * math.factorial(order)))
    total = term.copy()
    for k in range(1, 80):
        term = term * quarter / (k * (k + order))
        total += term
    if np.any(size >= _FAR):
        far = np.where(size < _FAR, _FAR, size)
        term, series = np.ones(size.shape), np.ones(size.shape)
        for k in range(1, 30):
            term = -term * (4 * order * order - (2 * k - 1) ** 2) / (8 * k * far)
            series += term
        with np.errstate(over="ignore"):
            total = np.where(
                size < _FAR,
                total,
                np.exp(far - order * np.log(far)) / np.sqrt(2 * np.pi * far) * series,
            )
    return np.where(np.isnan(x), np.nan, total).astype(x.dtype)[()]


def _jvp(primals: Values, _outputs: Values, tangents: Tangents, order: int) -> Any:
    (x,), (t,) = primals, tangents
    return mul(t, mul(x, bind(scaled_bessel_p, (x,), (order + 1,))))  # type: ignore[arg-type]


_NOT_LINEAR = absent(
    because="i0 is not linear", instead="differentiate with functrace.vjp or functrace.grad instead"
)

scaled_bessel_p = Primitive(
    "scaled_bessel",
    eval=_eval,
    aval=lambda x, order: x,
    jvp=_jvp,
    transpose=_NOT_LINEAR,
    batch=ELEMENTWISE,
    params=("order",),
)
"""I_n(x) / x^n."""


def _i0_aval(x: ShapeDtype) -> ShapeDtype:
    return ShapeDtype(x.shape, np.i0(np.zeros((), x.dtype)).dtype)


i0_p = Elementwise(
    "i0",
    eval=lambda x: np.i0(x)[()],
    aval=_i0_aval,
    jvp=lambda p, o, t: _jvp(p, o, t, 0),
    transpose=_NOT_LINEAR,
    batch=ELEMENTWISE,
)


def i0(x: Value) -> Any:
    """The modified Bessel function of the first kind and order 0, of floats."""
    return bind(i0_p, (x,))
