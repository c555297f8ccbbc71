"""Lowerings of `functrace.ops.reductions`.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from functrace.ops import PRIMITIVES
from functrace.xla.lowering import Operation, Row, Value, cast, register, untyped


def reduction(function: Callable[..., Any]) -> Row:
    """Return a row of a reduction in the dtype of the result."""

    def lowered(op: Operation, x: Value, axes: tuple[int, ...]) -> Any:
        return function(x, axis=axes, dtype=op.dtype)

    return lowered


@register(PRIMITIVES["reduce_sum"])
def _sum(op: Operation, x: Value, axes: tuple[int, ...]) -> Any:
    if op.dtype == np.float16:  # (adds in float32)
        return jnp.sum(x, axis=axes, dtype=op.dtype)
    return lax.reduce_sum(cast(x, op.dtype), axes)


def _extreme(of_reals: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a reduction of ``lax`` for real numbers, and else a function of ``jax.numpy``."""

    def apply(x: Value, axes: tuple[int, ...]) -> Any:
        return (of_reals if x.dtype.kind in "fiu" and x.size else function)(x, axes)

    return apply


register(PRIMITIVES["reduce_prod"])(reduction(jnp.prod))
register(PRIMITIVES["reduce_max"])(untyped(_extreme(lax.reduce_max, jnp.max)))
register(PRIMITIVES["reduce_min"])(untyped(_extreme(lax.reduce_min, jnp.min)))
register(PRIMITIVES["reduce_any"])(untyped(lambda x, axes: jnp.any(cast(x, bool), axes)))
register(PRIMITIVES["reduce_all"])(untyped(lambda x, axes: jnp.all(cast(x, bool), axes)))


def _first_of(x: Value, axis: int, is_largest: bool) -> Any:
    """Position of the first extreme; the first nan counts as one."""
    if x.dtype.kind != "c":
        return (jnp.argmax if is_largest else jnp.argmin)(x, axis)
    # NumPy's order of complex numbers: by the real parts, then by the imaginary ones.
    has_nan = jnp.isnan(x)
    is_best, worst = ~has_nan, -np.inf if is_largest else np.inf
    for part in (x.real, x.imag):
        sizes = jnp.where(is_best, part, worst)
        best = (jnp.max if is_largest else jnp.min)(sizes, axis, keepdims=True)
        is_best = is_best & (part == best)
    has_any = jnp.any(has_nan, axis, keepdims=True)
    return jnp.argmax(jnp.where(has_any, has_nan, is_best), axis)


register(PRIMITIVES["argmax"])(untyped(lambda x, axis: _first_of(x, axis, True)))
register(PRIMITIVES["argmin"])(untyped(lambda x, axis: _first_of(x, axis, False)))
register(PRIMITIVES["softmax"])(untyped(jax.nn.softmax))
register(PRIMITIVES["log_softmax"])(untyped(jax.nn.log_softmax))
register(PRIMITIVES["logsumexp"])(untyped(jax.scipy.special.logsumexp))
register(PRIMITIVES["variance"])(untyped(lambda x, axes, ddof: jnp.var(x, axes, ddof=ddof)))
register(PRIMITIVES["same"])(untyped(lambda x, v: (x == v) | ((x != x) & (v != v))))
register(PRIMITIVES["shared"])(untyped(lambda x, v: v))
