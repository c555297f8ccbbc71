"""Lowerings of `functrace.ops.grids`.

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
from functrace.xla.rows.convolution import convolved


@register(PRIMITIVES["convolve_grids"])
def _convolve_grids(op: Operation, x: Value, y: Value, stack: int, part: str) -> Any:
    """One group of XLA's convolution for each array of the stack."""
    rest = op.shape[:stack]
    count, sizes = math.prod(rest), np.shape(y)[stack:]
    images, filters = (
        jnp.broadcast_to(v, (*rest, *np.shape(v)[stack:])).reshape(count, *np.shape(v)[stack:])
        for v in (x, y)
    )
    filters = jnp.flip(filters, tuple(range(1, filters.ndim)))
    found = convolved(
        op,
        images[None],
        filters[:, None],
        window_strides=(1,) * len(sizes),
        padding=[(n - 1, n - 1) if part == "full" else (0, 0) for n in sizes],
        feature_group_count=max(count, 1),
    )
    return jnp.reshape(found, op.shape)


@register(PRIMITIVES["recur"])
def _recur(op: Operation, a: Value, x: Value) -> Any:
    """A scan along the axis, with the last outputs as carry."""
    stack = op.shape[:-1]
    a, x = (jnp.broadcast_to(cast(v, op.dtype), (*stack, np.shape(v)[-1])) for v in (a, x))

    def step(past: Value, element: Value) -> tuple[Any, Any]:
        y = element - jnp.sum(a * past, -1)
        return jnp.concatenate([y[..., None], past[..., :-1]], -1), y

    return jnp.moveaxis(lax.scan(step, jnp.zeros_like(a), jnp.moveaxis(x, -1, 0))[1], 0, -1)
