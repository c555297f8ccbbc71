"""Derivatives of gamma samples by their shape, and polygamma functions, without SciPy.

Note [Derivative of a sample by its shape]
    A sample x of shape a is the quantile of a fixed probability: P(a, x) is constant, so dx/da =
    -(dP/da) / p(x), an integral of the density over t on one side of x. With t = x exp(s v), s
    being -1 on the side of 0 and 1 on the other, and L = log x,

        dL/da = G_1 + s (L - psi(a)) G_0
        G_k = integral of v^k exp(s a v - x expm1(s v)) over v from 0 on

    The integrals are closed under differentiation, which gives all orders:

        dG_k/da = s G_{k+1}        dG_k/dL = (x - a) G_k - s k G_{k-1} (- s, if k is 0)

    All formulas use the logarithm of x, which is in range where x is not: samples of shape 0.001
    are about exp(-1000). The integrands are log-concave and entire, so that `_NODES` of a double
    exponential rule are exact up to rounding (measured against 40 digits: 1e-13 relative, for a
    from 1e-4 to 1e6 and x in both tails).

Source: Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients" (2018); Takahasi and
Mori (1974), for the rule; DLMF 5.5.2, 5.11.2 and 5.15 for polygamma.

Layer: 2.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import Primitive, Tangents, Values, absent
from functrace.ir.tape import Spec
from functrace.ops.elementwise import (
    ELEMENTWISE,
    add,
    broadcast_shape,
    exp,
    greater,
    log1p,
    mul,
    plus,
    result_dtype,
    sub,
    where,
)
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.typing import Array

_FIRST, _LAST, _STEP = -3.6, 3.85, 0.08
"""The nodes: beyond these ends, terms are below 1e-17 of the sum."""
_NODES = 94
_BLOCK = 4096
"""Number of elements per block, which fits into the processor's cache."""
_NOT_LINEAR = absent(
    because="polygamma is not linear",
    instead="differentiate with functrace.vjp or functrace.grad instead",
)

# -- polygamma -------------------------------------------------------------------------------------

BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798)
"""B_2, B_4, …"""


def _polygamma_eval(a: Array, order: int) -> Any:
    steps = 10 + order
    x = np.asarray(a, np.float64)
    with np.errstate(all="ignore"):
        z = x + steps
        power = z**-order
        total = np.log(z) if order == 0 else -power * math.factorial(order - 1)
        total = total - power / z * (math.factorial(order) / 2)
        for k, bernoulli in enumerate(BERNOULLI, 1):
            total = total - power / z ** (2 * k) * (
                bernoulli * math.factorial(2 * k + order - 1) / math.factorial(2 * k)
            )
        for k in range(steps):
            total = total - math.factorial(order) / (x + k) ** (order + 1)
        found = total if order % 2 == 0 else -total
    return np.where(x > 0, found, np.nan).astype(np.result_type(a))[()]


polygamma_p = Primitive(
    "polygamma",
    eval=_polygamma_eval,
    aval=lambda a, order: a,
    jvp=lambda primals, outputs, tangents, order: mul(
        tangents[0], polygamma(primals[0], order + 1)
    ),
    transpose=_NOT_LINEAR,
    batch=ELEMENTWISE,
    params=("order",),
)


def polygamma(a: Value, order: int = 0) -> Any:
    """Return the derivative of psi of an order (0 by default), for positive floats; else NaN."""
    return bind(polygamma_p, (a,), (order,))


# -- the integrals ---------------------------------------------------------------------------------


def _width(a: Array, x: Array, s: Array) -> Array:
    """Find where the concave exponent of the integrands is -1, by Newton steps from beyond."""
    distance = np.abs(x - a)
    near = 1.0 / (distance / 2 + np.sqrt(distance**2 / 4 + x / 2))
    v = np.where(s < 0, (1.0 + x) / a, np.log1p(np.maximum(1.0 / x, near)))
    for _ in range(8):
        v = v - (s * a * v - x * np.expm1(s * v) + 1.0) / (s * (a - x * np.exp(s * v)))
    return v


def integration_rule() -> tuple[Array, Array]:
    """Return the nodes of the double exponential rule for unit width, and their weights."""
    t = _FIRST + _STEP * np.arange(_NODES)
    nodes = np.exp(t - np.exp(-t))
    return nodes, _STEP * nodes * (1.0 + np.exp(-t))


def _integrals(a: Array, log_x: Array, s: Array, order: int) -> Array:
    nodes, weights = integration_rule()
    x = np.exp(log_x)
    width = _width(a, x, s)
    slope, total = s * a, np.zeros_like(x)
    for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True):
        v = node * width
        total += weight * node**order * np.exp(slope * v - x * np.expm1(s * v))
    return total * width ** (order + 1)


def _integral_eval(a: Array, log_x: Array, side: Array, order: int) -> Any:
    arrays = np.broadcast_arrays(*(np.asarray(y, np.float64) for y in (a, log_x, side)))
    shapes, logs, sides = (y.ravel() for y in arrays)
    out = np.empty(shapes.size)
    with np.errstate(all="ignore"):
        for start in range(0, out.size, _BLOCK):
            part = slice(start, start + _BLOCK)
            out[part] = _integrals(shapes[part], logs[part], sides[part], order)
    return out.reshape(arrays[0].shape).astype(np.result_type(a, log_x))[()]


def _integral_aval(a: Spec, log_x: Spec, side: Spec, order: int) -> ShapeDtype:
    return ShapeDtype(broadcast_shape("gamma_integral", (a, log_x, side)), result_dtype(a, log_x))


def _integral_jvp(primals: Values, outputs: Values, tangents: Tangents, order: int) -> Any:
    (a, log_x, s), (a_dot, log_dot, _) = primals, tangents
    total = None
    if a_dot is not None:
        total = mul(a_dot, mul(s, bind(gamma_integral_p, primals, (order + 1,))))
    if log_dot is not None:
        before = mul(
            s, mul(bind(gamma_integral_p, primals, (order - 1,)), float(order)) if order else 1.0
        )
        total = plus(total, mul(log_dot, sub(mul(sub(exp(log_x), a), outputs[0]), before)))
    return total


gamma_integral_p = Primitive(
    "gamma_integral",
    eval=_integral_eval,
    aval=_integral_aval,
    jvp=_integral_jvp,
    transpose=absent(
        because="gamma_integral is not linear",
        instead="differentiate with functrace.vjp or functrace.grad",
    ),
    batch=ELEMENTWISE,
    params=("order",),
    flops=lambda inputs, outputs, params: 4 * _NODES * outputs[0].size,
)
"""``gamma_integral a log_x side``: G_k of Note [Derivative of a sample by its shape]; the side has
no derivative."""


def log_gamma_slope(a: Array, log_x: Array) -> Any:
    """Return the derivative of a gamma sample's logarithm by its shape.

    Args:
        a: the shape, positive.
        log_x: the logarithm of the sample; a float dtype, broadcasts with ``a``.

    Cost:
        about 100 pairs of exponentials per element, in blocks: 1 us.
    """
    # Within 1 of a, the side of 0 also works, and has no small scale that the rule must resolve.
    side = where(greater(log_x, log1p(a)), np.ones((), a.dtype), -np.ones((), a.dtype))
    first, second = (bind(gamma_integral_p, (a, log_x, side), (k,)) for k in (1, 0))
    return add(first, mul(mul(side, sub(log_x, polygamma(a))), second))
