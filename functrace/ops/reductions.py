"""Reductions over axes.

Every reduction is a primitive with parameters ``axes`` (sorted, non-negative) and no ``keepdims``: the NumPy
layer reshapes where the user asked for it.

Floor: 2.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrace.errors import AxisError
from functrace.ir.aval import ShapeDtype, shape_of
from functrace.ir.primitive import LINEAR, Primitive
from functrace.ops.shaping import broadcast_to, reshape
from functrace.tracing.recording import bind

Axes = tuple[int, ...]


def normalize_axes(axis: Any, ndim: int) -> Axes:
    """Return axes as NumPy takes them (``None``, an int, a tuple) sorted and non-negative.

    Raises:
        AxisError: if an axis is out of bounds or named twice.
    """
    if axis is None:
        return tuple(range(ndim))
    axes = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    found = []
    for k in axes:
        k = int(k)
        if not -ndim <= k < ndim:
            raise AxisError(f"axis {k} is out of bounds for an array with {ndim} axes", fix=f"use -{ndim} … {ndim - 1}")
        found.append(k % ndim)
    if len(set(found)) != len(found):
        raise AxisError(f"axis {axis} names an axis twice", fix="name every axis once")
    return tuple(sorted(found))


def kept_shape(shape: tuple[int, ...], axes: Axes) -> tuple[int, ...]:
    """Shape with the reduced axes kept as size 1."""
    return tuple(1 if k in axes else n for k, n in enumerate(shape))


def dropped_shape(shape: tuple[int, ...], axes: Axes) -> tuple[int, ...]:
    """Shape without the reduced axes."""
    return tuple(n for k, n in enumerate(shape) if k not in axes)


def expand_reduced(y: Any, shape: tuple[int, ...], axes: Axes) -> Any:
    """Give a reduced result its axes back with size 1, so that it broadcasts against the operand."""
    return reshape(y, kept_shape(shape, axes))


def expand_to(y: Any, shape: tuple[int, ...], axes: Axes) -> Any:
    """Broadcast a reduced result back over the reduced axes."""
    return broadcast_to(y if shape_of(y) == () else expand_reduced(y, shape, axes), shape)


def shift_axes(primitive_of: Any) -> Any:
    """batch rule of a reduction: the same one, with axes counted past the batch axis."""

    def batch(operands: Any, _is_batched: Any, axes: Axes) -> Any:
        return bind(primitive_of(), operands, (tuple(k + 1 for k in axes),))

    return batch


def _sum_aval(x: ShapeDtype, axes: Axes) -> ShapeDtype:
    dtype = np.add.reduce(np.empty(0, x.dtype)).dtype
    return ShapeDtype(dropped_shape(x.shape, axes), dtype)


reduce_sum_p = Primitive(
    "reduce_sum",
    eval=lambda x, axes: np.add.reduce(x, axis=axes),
    aval=_sum_aval,
    jvp=LINEAR,
    transpose=lambda ct, x, axes: (expand_to(ct, x.shape, axes),),
    batch=shift_axes(lambda: reduce_sum_p),
    params=("axes",),
    written="np.sum({0}, axis={axes})",
)


def reduce_sum(x: Any, axes: Axes) -> Any:
    """Sum over axes (sorted, non-negative)."""
    return bind(reduce_sum_p, (x,), (axes,)) if axes else x


def count(shape: tuple[int, ...], axes: Axes) -> int:
    """Number of elements that a reduction over ``axes`` takes together."""
    return math.prod(shape[k] for k in axes)
