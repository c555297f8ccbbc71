"""Lowerings of `functrace.ops.joining`.

Layer: 7.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from functrace.ops import PRIMITIVES
from functrace.xla.lowering import Operation, Value, cast, register, typed
from functrace.xla.rows.contraction import PRECISION


@register(PRIMITIVES["concatenate"])
def _concatenate(op: Operation, *rest: Value) -> Any:
    *parts, axis = rest
    return lax.concatenate([jnp.asarray(cast(x, op.dtype)) for x in parts], axis % len(op.shape))


@register(PRIMITIVES["stack"])
def _stack(op: Operation, *rest: Value) -> Any:
    *parts, axis = rest
    return jnp.stack([cast(x, op.dtype) for x in parts], axis)


_rows = jnp.vectorize(
    lambda x, y: jnp.convolve(x, y, precision=PRECISION), signature="(m),(n)->(k)"
)
register(PRIMITIVES["convolve"])(typed(_rows))
