"""Lowerings of `functrace.ops.segments`.

Layer: 7.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from functrace.ops import PRIMITIVES
from functrace.xla.lowering import Operation, Value, register
from functrace.xla.rows.windows import added


@register(PRIMITIVES["sum_segments"])
def _sum_segments(op: Operation, x: Value, _starts: Value, segment: Value, source: Value) -> Any:
    return added(op.shape, (segment,), jnp.asarray(x)[jnp.asarray(source)])
