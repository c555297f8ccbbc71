"""Lowerings of `functrace.ops.sorting`.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from functrace.ops import PRIMITIVES
from functrace.xla.lowering import Operation, Value, register, untyped


def over_rows(count: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function mapped over the first ``count`` axes of its operands."""
    for _ in range(count):
        function = jax.vmap(function)
    return function


def _in_range(op: Operation, positions: Value, axis: int, size: int) -> None:
    op.require(
        (positions >= -size) & (positions < size),
        IndexError,
        f"an index is out of bounds for axis {axis} with size {size}",
    )


@register(PRIMITIVES["take_along_axis"])
def _take_along_axis(op: Operation, x: Value, positions: Value, axis: int, *_: Value) -> Any:
    _in_range(op, jnp.asarray(positions), axis, np.shape(x)[axis])
    return jnp.take_along_axis(x, positions, axis)


@register(PRIMITIVES["add_along_axis"])
def _add_along_axis(
    op: Operation, x: Value, positions: Value, axis: int, size: int, *_: Value
) -> Any:
    _in_range(op, jnp.asarray(positions), axis, size)
    places = [jnp.broadcast_to(p, x.shape) for p in np.ix_(*[np.arange(n) for n in x.shape])]
    places[axis] = jnp.where(positions < 0, positions + size, positions)
    return jnp.zeros(op.shape, x.dtype).at[tuple(places)].add(x)


register(PRIMITIVES["argsort"])(
    untyped(lambda x, kind, axis: jnp.argsort(x, axis=axis, stable=True))
)
register(PRIMITIVES["argpartition"])(untyped(lambda x, kth, axis: jnp.argsort(x, axis=axis)))
register(PRIMITIVES["sort"])(untyped(lambda x, kind, axis: jnp.sort(x, axis=axis)))
register(PRIMITIVES["lexsort"])(untyped(lambda *rest: jnp.lexsort(rest[:-1], rest[-1])))


@register(PRIMITIVES["searchsorted"])
def _searchsorted(op: Operation, a: Value, v: Value, side: str, rows: int) -> Any:
    return over_rows(rows, lambda a, v: jnp.searchsorted(a, v, side=side))(a, v)
