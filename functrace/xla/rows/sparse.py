"""Lowerings of `functrace.ops.sparse`.

Layer: 7.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from functrace.ops import PRIMITIVES
from functrace.xla.lowering import Operation, Value, cast, register
from functrace.xla.rows.windows import added


@register(PRIMITIVES["sparse_matmul"])
def _sparse_matmul(op: Operation, *rest: Value) -> Any:
    """Gather the rows of the operand, multiply, and add those of each row of the result."""
    data, index, _, row, x, _rows, _columns, backwards = rest
    source, target = (row, index) if backwards else (index, row)
    taken = jnp.take(cast(x, op.dtype), jnp.asarray(source), -2)
    terms = taken * cast(data, op.dtype)[..., :, None]
    return added(op.shape, (..., jnp.asarray(target), slice(None)), terms)
