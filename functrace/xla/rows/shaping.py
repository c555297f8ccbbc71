"""Lowerings of `functrace.ops.shaping`.

Layer: 7.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from functrace.ops import PRIMITIVES
from functrace.xla.lowering import Operation, Value, cast, register, untyped
from functrace.xla.rows.elementwise import widened

register(PRIMITIVES["imag"])(untyped(jnp.imag))
register(PRIMITIVES["real"])(untyped(jnp.real))
register(PRIMITIVES["reshape"])(untyped(jnp.reshape))
register(PRIMITIVES["transpose"])(untyped(jnp.transpose))
register(PRIMITIVES["diagonal"])(untyped(lambda x, offset: jnp.diagonal(x, offset, -2, -1)))


@register(PRIMITIVES["roll"])
def _roll(op: Operation, x: Value, shift: int, axis: int) -> Any:
    size = op.shape[axis]
    if not size or shift % size == 0:
        return x
    at = size - shift % size
    parts = [lax.slice_in_dim(x, at, size, axis=axis), lax.slice_in_dim(x, 0, at, axis=axis)]
    return lax.concatenate(parts, axis)


@register(PRIMITIVES["broadcast_to"])
def _broadcast_to(op: Operation, x: Value, shape: tuple[int, ...]) -> Any:
    return widened(cast(x, op.dtype), tuple(shape))


@register(PRIMITIVES["convert"])
def _convert(op: Operation, x: Value, dtype: object) -> Any:
    return cast(x, op.dtype)


@register(PRIMITIVES["embed_diagonal"])
def _embed_diagonal(op: Operation, x: Value, offset: int, rows: int, columns: int) -> Any:
    k = np.arange(x.shape[-1])
    zeros = jnp.zeros(op.shape, x.dtype)
    return zeros.at[..., k - min(offset, 0), k + max(offset, 0)].set(x)
