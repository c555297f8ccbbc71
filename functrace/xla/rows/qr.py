"""Lowerings of `functrace.ops.qr`.

Layer: 7.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from functrace.ops import PRIMITIVES
from functrace.xla.lowering import Operation, Value, cast, register
from functrace.xla.rows.matrices import turned


def _factors(op: Operation, x: Value, full: bool) -> Any:
    return tuple(lax.linalg.qr(jnp.asarray(cast(x, op.dtype)), full_matrices=full))


register(PRIMITIVES["qr"])(lambda op, x: _factors(op, x, False))
register(PRIMITIVES["qr_complete"])(lambda op, x: _factors(op, x, True))


@register(PRIMITIVES["qr_raw"])
def _raw(op: Operation, x: Value) -> Any:
    factors, tau = jnp.linalg.qr(jnp.asarray(cast(x, op.dtype)), mode="raw")
    return turned(factors), tau
