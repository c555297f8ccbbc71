"""Lowerings of `functrace.ops.contraction`.

Layer: 7.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from functrace.ops import PRIMITIVES
from functrace.xla.lowering import Operation, Value, cast, register, typed

PRECISION = "highest"
"""Precision of products; by default TPUs round operands to bfloat16."""


def _matmul(x: Value, y: Value) -> Any:
    return jnp.matmul(x, y, precision=PRECISION)


register(PRIMITIVES["matmul"])(typed(_matmul))
register(PRIMITIVES["matmul_in_parts"])(typed(lambda x, y, *_: _matmul(x, y)))
register(PRIMITIVES["dot"])(typed(lambda x, y: jnp.dot(x, y, precision=PRECISION)))


@register(PRIMITIVES["einsum"])
def _einsum(op: Operation, *rest: Value) -> Any:
    count = len(op.specs)
    return jnp.einsum(rest[count], *[cast(x, op.dtype) for x in rest[:count]], precision=PRECISION)
