"""Lowerings of those primitives of `functrace.ops.edges` that are no ufuncs of NumPy.

Layer: 7.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from functrace.ops import PRIMITIVES
from functrace.xla.lowering import Operation, Value, cast, register, typed

register(PRIMITIVES["rsqrt"])(typed(lambda x: 1 / lax.sqrt(x)))
register(PRIMITIVES["clamp"])(typed(lambda x, low, high: jnp.minimum(jnp.maximum(x, low), high)))


@register(PRIMITIVES["lerp"])
def _lerp(op: Operation, *operands: Value) -> Any:
    dtype = np.dtype(np.float32) if op.dtype == np.float16 else op.dtype  # rounded once, at the end
    x, end, weight = [cast(v, dtype) for v in operands]
    way = end - x
    return jnp.where(jnp.abs(weight) < 0.5, x + weight * way, end - way * (1 - weight))
