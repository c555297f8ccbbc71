"""Lowerings of `functrace.ops.gamma_slope`: its series and its rule of integration.

Layer: 7.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from functrace.ops import PRIMITIVES, gamma_slope
from functrace.xla.lowering import Operation, Value, cast, register


@register(PRIMITIVES["polygamma"])
def _polygamma(op: Operation, a: Value, order: int) -> Any:
    x, steps = jnp.asarray(cast(a, np.float64)), 10 + order
    z = x + steps
    power = z**-order
    total = jnp.log(z) if order == 0 else -power * math.factorial(order - 1)
    total = total - power / z * (math.factorial(order) / 2)
    for k, bernoulli in enumerate(gamma_slope.BERNOULLI, 1):
        factor = bernoulli * math.factorial(2 * k + order - 1) / math.factorial(2 * k)
        total = total - power / z ** (2 * k) * factor
    for k in range(steps):
        total = total - math.factorial(order) / (x + k) ** (order + 1)
    return jnp.where(x > 0, total if order % 2 == 0 else -total, np.nan)


def _width(a: Value, x: Value, s: Value) -> Any:
    distance = jnp.abs(x - a)
    near = 1.0 / (distance / 2 + jnp.sqrt(distance**2 / 4 + x / 2))
    v = jnp.where(s < 0, (1.0 + x) / a, jnp.log1p(jnp.maximum(1.0 / x, near)))

    def newton(_: Value, v: Value) -> Any:
        return v - (s * a * v - x * jnp.expm1(s * v) + 1.0) / (s * (a - x * jnp.exp(s * v)))

    return lax.fori_loop(0, 8, newton, v)


@register(PRIMITIVES["gamma_integral"])
def _gamma_integral(op: Operation, a: Value, log_x: Value, side: Value, order: int) -> Any:
    operands = [jnp.asarray(cast(v, np.float64)) for v in (a, log_x, side)]
    a, log_x, s = [jnp.broadcast_to(v, op.shape) for v in operands]
    x = jnp.exp(log_x)
    width, slope = _width(a, x, s), s * a
    nodes, weights = [jnp.asarray(v) for v in gamma_slope.integration_rule()]

    def add(k: Value, total: Value) -> Any:
        v = nodes[k] * width
        term = jnp.exp(slope * v - x * jnp.expm1(s * v))
        return total + weights[k] * nodes[k] ** order * term

    total = lax.fori_loop(0, len(nodes), add, jnp.zeros_like(x))
    return total * width ** (order + 1)
