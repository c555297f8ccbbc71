"""Lowerings of `functrace.ops.cumulative`.

Layer: 7.
"""

from __future__ import annotations

from typing import Any

from jax import lax

from functrace.ops import PRIMITIVES
from functrace.xla.lowering import Operation, Value, cast, register, typed, untyped

register(PRIMITIVES["cumsum"])(typed(lambda x, axis, back: lax.cumsum(x, axis % x.ndim, back)))
register(PRIMITIVES["cumprod"])(typed(lambda x, axis: lax.cumprod(x, axis % x.ndim)))
register(PRIMITIVES["cummax"])(untyped(lambda x, axis: lax.cummax(x, axis % x.ndim)))
register(PRIMITIVES["cummin"])(untyped(lambda x, axis: lax.cummin(x, axis % x.ndim)))


@register(PRIMITIVES["linear_recurrence"])
def _linear_recurrence(op: Operation, a: Value, b: Value, axis: int, back: bool) -> Any:
    def join(p: Value, q: Value) -> Any:
        return p[0] * q[0], q[0] * p[1] + q[1]

    operands = cast(a, op.dtype), cast(b, op.dtype)
    return lax.associative_scan(join, operands, reverse=back, axis=axis % b.ndim)[1]
