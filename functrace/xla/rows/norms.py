"""Lowerings of `functrace.ops.norms`.

Layer: 7.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp

from functrace.ops import PRIMITIVES
from functrace.xla.lowering import Operation, Value, register
from functrace.xla.rows.linalg import euclidean_norm


@register(PRIMITIVES["vector_norm"])
def _vector_norm(op: Operation, x: Value, axes: tuple[int, ...], order: float) -> Any:
    if order == 2:
        return euclidean_norm(x, axes)
    sizes = jnp.abs(x)
    if math.isinf(order):
        return (jnp.max if order > 0 else jnp.min)(sizes, axis=axes)
    if order == 1:
        return jnp.sum(sizes, axis=axes)
    return jnp.power(jnp.sum(jnp.power(sizes, order), axis=axes), 1.0 / order)
