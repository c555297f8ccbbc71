"""Lowerings of `functrace.ops.indexing`.

NumPy raises for an index out of range; XLA clamps it, so the rows check.

Layer: 7.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from functrace.ops import PRIMITIVES
from functrace.ops.indexing import decode_index, fill_index
from functrace.xla.lowering import Operation, Value, cast, register


class _Cut(NamedTuple):
    """Part of one axis that a basic index takes: ``start + step * k`` for ``k < count``.

    Args:
        is_reversed: True if the index goes from the end to the start.
        is_kept: False for an integer, which drops the axis.
    """

    start: int
    count: int
    step: int
    is_reversed: bool
    is_kept: bool


def _cuts(index: Sequence[Any], shape: Sequence[int]) -> Iterator[_Cut | None]:
    """Yield the cut of each axis of an array; None for a new axis of the result."""
    parts: tuple[Any, ...] = decode_index(tuple(index))
    used = sum(part is not None and part is not Ellipsis for part in parts)
    if Ellipsis not in parts:
        parts = (*parts, ...)
    axis = 0
    for part in parts:
        if part is None:
            yield None
        elif part is Ellipsis:
            for size in shape[axis : axis + len(shape) - used]:
                yield _Cut(0, size, 1, False, True)
            axis += len(shape) - used
        else:
            size = shape[axis]
            axis += 1
            if not isinstance(part, slice):
                yield _Cut(part % size, 1, 1, False, False)
                continue
            places = range(*part.indices(size))
            is_reversed = places.step < 0
            places = places[::-1] if is_reversed else places
            yield _Cut(places.start if places else 0, len(places), places.step, is_reversed, True)


@register(PRIMITIVES["index"])
def _index(op: Operation, x: Value, index: Sequence[Any]) -> Any:
    """A slice, a reversal, a reshape: XLA runs gathers slower."""
    shape = np.shape(x)
    cuts = list(_cuts(index, shape))
    along = [cut for cut in cuts if cut is not None]
    if any(cut.count != size for cut, size in zip(along, shape, strict=True)):
        ends = [
            cut.start + (cut.count - 1) * cut.step + 1 if cut.count else cut.start for cut in along
        ]
        x = lax.slice(x, [cut.start for cut in along], ends, [cut.step for cut in along])
    flipped = [axis for axis, cut in enumerate(along) if cut.is_reversed]
    x = lax.rev(x, flipped) if flipped else x
    return jnp.reshape(x, op.shape)


@register(PRIMITIVES["embed"])
def _embed(op: Operation, x: Value, index: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """Zeros around, and between: a pad."""
    cuts = [cut for cut in _cuts(index, shape) if cut is not None]
    if not math.prod(cut.count for cut in cuts):
        return jnp.zeros(shape, op.dtype)
    x = jnp.reshape(cast(x, op.dtype), [cut.count for cut in cuts])
    flipped = [axis for axis, cut in enumerate(cuts) if cut.is_reversed]
    x = lax.rev(x, flipped) if flipped else x
    config = [
        (cut.start, size - cut.start - (cut.count - 1) * cut.step - 1, cut.step - 1)
        for cut, size in zip(cuts, shape, strict=True)
    ]
    return lax.pad(x, np.zeros((), op.dtype), config)


def _filled(
    op: Operation, template: Sequence[Any], arrays: Sequence[Any], shape: Sequence[int]
) -> tuple[Any, ...]:
    """Return an index with arrays, for ``jax.numpy``; checks that they are in range: constant ones
    at once."""
    key = fill_index(tuple(template), tuple(arrays))
    used = sum(part is not None and part is not Ellipsis for part in key)
    axis = 0
    for part in key:
        if part is Ellipsis:
            axis += len(shape) - used
        elif part is not None:
            if not isinstance(part, slice | int):
                size = shape[axis]
                in_range = (part >= -size) & (part < size)
                op.require(
                    np.all(in_range) if isinstance(part, np.ndarray | np.generic) else in_range,
                    IndexError,
                    f"an index is out of bounds for axis {axis} with size {size}",
                )
            axis += 1
    return key


@register(PRIMITIVES["gather"])
def _gather(op: Operation, x: Value, *rest: Value) -> Any:
    *arrays, template = rest
    return jnp.asarray(x)[_filled(op, template, arrays, np.shape(x))]


@register(PRIMITIVES["scatter_add"])
def _scatter_add(op: Operation, x: Value, *rest: Value) -> Any:
    *arrays, template, shape = rest
    return (
        jnp.zeros(shape, op.dtype).at[_filled(op, template, arrays, shape)].add(cast(x, op.dtype))
    )


@register(PRIMITIVES["scatter_set"], PRIMITIVES["scatter_each"])
def _scatter_set(op: Operation, x: Value, v: Value, *rest: Value) -> Any:
    """Write the last of the values with the same index only, which NumPy keeps."""
    *arrays, template = rest
    x, shape = jnp.asarray(cast(x, op.dtype)), np.shape(x)
    key = _filled(op, template, arrays, shape)
    numbers = jnp.arange(x.size).reshape(shape)[key]
    is_last = last_writes(numbers, x.size)
    flat = jnp.where(is_last, numbers, x.size).ravel()
    values = jnp.broadcast_to(cast(v, op.dtype), numbers.shape).ravel()
    return x.ravel().at[flat].set(values, mode="drop").reshape(shape)


def last_writes(numbers: Value, size: int) -> Any:
    """Return where a place is written for the last time, for flat places in the order of writes."""
    writes = jnp.arange(numbers.size).reshape(numbers.shape)
    last = jnp.full(size, -1, writes.dtype).at[numbers].max(writes)
    return last[numbers] == writes


@register(PRIMITIVES["is_last_write"])
def _is_last_write(op: Operation, *rest: Value) -> Any:
    *arrays, template, shape = rest
    key = _filled(op, template, arrays, shape)
    size = math.prod(shape)
    return last_writes(jnp.broadcast_to(jnp.arange(size).reshape(shape)[key], op.shape), size)
