"""Lowerings of `functrace.ops.reductions`.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from functrace.ops import PRIMITIVES
from functrace.xla.lowering import Operation, Row, Value, register, untyped


def reduction(function: Callable[..., Any]) -> Row:
    """Return a row of a reduction in the dtype of the result."""

    def lowered(op: Operation, x: Value, axes: tuple[int, ...]) -> Any:
        return function(x, axis=axes, dtype=op.dtype)

    return lowered


register(PRIMITIVES["reduce_sum"])(reduction(jnp.sum))
register(PRIMITIVES["reduce_prod"])(reduction(jnp.prod))
register(PRIMITIVES["reduce_max"])(untyped(jnp.max))
register(PRIMITIVES["reduce_min"])(untyped(jnp.min))
register(PRIMITIVES["reduce_any"])(untyped(jnp.any))
register(PRIMITIVES["reduce_all"])(untyped(jnp.all))
register(PRIMITIVES["argmax"])(untyped(jnp.argmax))
register(PRIMITIVES["argmin"])(untyped(jnp.argmin))
register(PRIMITIVES["softmax"])(untyped(jax.nn.softmax))
register(PRIMITIVES["log_softmax"])(untyped(jax.nn.log_softmax))
register(PRIMITIVES["logsumexp"])(untyped(jax.scipy.special.logsumexp))
register(PRIMITIVES["variance"])(untyped(lambda x, axes, ddof: jnp.var(x, axes, ddof=ddof)))
register(PRIMITIVES["same"])(untyped(lambda x, v: (x == v) | ((x != x) & (v != v))))
register(PRIMITIVES["shared"])(untyped(lambda x, v: v))
