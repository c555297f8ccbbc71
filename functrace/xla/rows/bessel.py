"""Lowerings of `functrace.ops.bessel`.

Layer: 7.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from functrace.ops import PRIMITIVES
from functrace.xla.lowering import Operation, Value, cast, register

_FAR = 40.0
_NEAR_TERMS, _FAR_TERMS = 80, 30


@register(PRIMITIVES["i0"])
def _i0(op: Operation, x: Value) -> Any:
    return jnp.i0(cast(x, np.float64))


@register(PRIMITIVES["scaled_bessel"])
def _scaled_bessel(op: Operation, x: Value, order: int) -> Any:
    """The two series of the primitive."""
    x = jnp.asarray(cast(x, np.float64))
    size = jnp.abs(x)
    quarter = jnp.where(size < _FAR, size, 0.0) ** 2 / 4
    far = jnp.where(size < _FAR, _FAR, size)

    def near_term(k: Value, state: tuple[Any, Any]) -> tuple[Any, Any]:
        term = state[0] * quarter / (k * (k + order))
        return term, state[1] + term

    def far_term(k: Value, state: tuple[Any, Any]) -> tuple[Any, Any]:
        term = -state[0] * (4 * order * order - (2 * k - 1) ** 2) / (8 * k * far)
        return term, state[1] + term

    first = jnp.full_like(size, 1.0 / (2.0**order * math.factorial(order)))
    one = jnp.ones_like(size)
    near = lax.fori_loop(1, _NEAR_TERMS, near_term, (first, first))[1]
    series = lax.fori_loop(1, _FAR_TERMS, far_term, (one, one))[1]
    found = jnp.exp(far - order * jnp.log(far)) / jnp.sqrt(2 * np.pi * far) * series
    return jnp.where(jnp.isnan(x), np.nan, jnp.where(size < _FAR, near, found))
