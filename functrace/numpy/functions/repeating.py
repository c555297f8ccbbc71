"""NumPy's functions that repeat elements: ``tile``, ``repeat``, windows, grids, Vandermonde.

Layer: 3.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from functrace.errors import ShapeError, UnsupportedFunctionError
from functrace.ir.aval import aval_of, shape_of
from functrace.numpy.arrays.layout import UNKNOWN
from functrace.numpy.arrays.view_kinds import WindowView
from functrace.numpy.arrays.views import laid_out, linked, owned, reshaped
from functrace.numpy.functions.shaping import broadcast_arrays
from functrace.numpy.functions.taking import take
from functrace.numpy.protocol.operands import (
    Arrayed,
    Axis,
    OneAxis,
    Operand,
    Sizes,
    arrayed,
    axis_tuple,
    exactly_lined_up,
    flattened,
    int_tuple,
)
from functrace.numpy.protocol.tables import implements
from functrace.ops import joining, shaping
from functrace.ops.indexing import index_static
from functrace.ops.shaping import broadcast_to as broadcast
from functrace.ops.shaping import convert, permute
from functrace.ops.shaping import reshape as reshape_to
from functrace.tracing.tracer import Tracer

if TYPE_CHECKING:
    from functrace.numpy.arrays.traced_array import TracedArray


@implements(np.tile)
def tile(A: Arrayed, reps: Any) -> Any:
    """As ``numpy.tile``."""
    times = int_tuple(reps) if np.ndim(reps) else (operator.index(reps),)
    ndim = max(len(times), A.ndim)
    times, shape = (1,) * (ndim - len(times)) + times, (1,) * (ndim - A.ndim) + A.shape
    if min(times, default=0) < 0:
        raise ShapeError(
            f"tile: negative dimensions are not allowed, reps are {times}",
            fix="pass counts of at least 0",
        )
    apart = reshape_to(A, tuple(n for size in shape for n in (1, size)))
    spread = broadcast(apart, tuple(n for pair in zip(times, shape, strict=True) for n in pair))
    result = reshape_to(spread, tuple(r * n for r, n in zip(times, shape, strict=True)))
    return owned(result)


@implements(np.repeat, method="repeat")
def repeat(a: Operand, repeats: Any, axis: OneAxis = None) -> Any:
    """As ``numpy.repeat``; traced counts are concretized."""
    a = arrayed(a)
    a, axis = exactly_lined_up(a, axis)
    shape = shape_of(a)
    counts = (
        np.asarray(int_tuple(repeats)) if np.ndim(repeats) else np.asarray(operator.index(repeats))
    )
    if counts.size == 1:
        times = int(counts.reshape(()))
        if times < 0:
            raise ShapeError(
                "repeats may not contain negative values", fix="pass counts of at least 0"
            )
        apart = reshape_to(a, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
        spread = broadcast(apart, (*shape[: axis + 1], times, *shape[axis + 1 :]))
        result = reshape_to(spread, (*shape[:axis], shape[axis] * times, *shape[axis + 1 :]))
        return owned(result)
    if counts.shape != (shape[axis],):
        raise ShapeError(
            f"repeat: {counts.size} counts do not fit an axis of size {shape[axis]}",
            fix="give one per element",
        )
    if counts.size and counts.min() < 0:
        raise ShapeError("repeats may not contain negative values", fix="pass counts of at least 0")
    return take(a, np.repeat(np.arange(shape[axis]), counts), axis)


@implements(np.lib.stride_tricks.sliding_window_view)
def sliding_window_view(
    x: Arrayed,
    window_shape: Sizes,
    axis: Axis = None,
    *,
    subok: bool = False,
    writeable: bool = False,
) -> Any:
    """As ``numpy.lib.stride_tricks.sliding_window_view``: a read-only view."""
    if writeable:
        raise UnsupportedFunctionError(
            "sliding_window_view: writeable=True is not supported", fix="leave it out"
        )
    sizes = int_tuple(window_shape)
    axes = tuple(range(x.ndim)) if axis is None else axis_tuple(axis, x.ndim)
    if len(sizes) != len(axes):
        raise ShapeError(
            f"sliding_window_view: {len(sizes)} window sizes do not fit {len(axes)} axes",
            fix="give one each",
        )
    for size, k in zip(sizes, axes, strict=True):
        count = shape_of(x)[k] - size + 1
        if size < 0 or count < 1:
            raise ShapeError(
                f"window shape cannot be larger than input array shape: {size} along axis {k} of "
                f"{aval_of(x)}",
                fix="make the window smaller",
            )

    def read(base: Arrayed) -> Any:
        for size, k in zip(sizes, axes, strict=True):
            count = shape_of(base)[k] - size + 1
            windows = take(base, np.arange(count)[:, None] + np.arange(size), k)
            ndim = len(shape_of(windows))
            base = permute(windows, (*(j for j in range(ndim) if j != k + 1), k + 1))
        return laid_out(base, UNKNOWN) if sizes else base

    return linked(read(x), WindowView(x, sizes, axes, read))


@implements(np.resize)
def resize(a: Arrayed, new_shape: Sizes) -> Any:
    """As ``numpy.resize``."""
    shape = int_tuple(new_shape) if new_shape != () else ()
    if min(shape, default=0) < 0:
        raise ShapeError(
            "all elements of `new_shape` must be non-negative", fix="pass sizes of at least 0"
        )
    size = math.prod(shape)
    if a.size == 0:
        return shaping.filled(a, shape, a.dtype)
    flat = tile(flattened(a), -(-size // a.size))
    return reshape_to(index_static(flat, ((None, size, None),)), shape)


@implements(np.meshgrid)
def meshgrid(
    *xi: Operand, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> tuple[Any, ...]:
    """As ``numpy.meshgrid``."""
    if indexing not in ("xy", "ij"):
        raise ShapeError("Valid values for `indexing` are 'xy' and 'ij'.", fix="pass one of them")
    vectors = [arrayed(x) for x in xi]
    places = list(range(len(xi)))
    if indexing == "xy" and len(xi) > 1:
        places[:2] = 1, 0
    made = []
    for place, x in zip(places, vectors, strict=True):
        made.append(
            reshaped(x, (1,) * place + (math.prod(shape_of(x)),) + (1,) * (len(xi) - place - 1))
        )
    if not sparse:
        made = list(broadcast_arrays(*made))
    if copy:
        made = [owned(x) if isinstance(x, Tracer) else np.array(x) for x in made]
    return tuple(made)


@implements(np.vander)
def vander(x: TracedArray, N: int | None = None, increasing: bool = False) -> Any:
    """As ``numpy.vander``."""
    if x.ndim != 1:
        raise ShapeError(
            f"x must be a one-dimensional array or sequence, vander got {x.aval}",
            fix="pass a vector",
        )
    count = len(x) if N is None else operator.index(N)
    x = convert(x, np.promote_types(x.dtype, int))
    if count == 0:
        return shaping.filled(x, (len(x), 0), x.dtype)
    columns = [shaping.filled(x, x.shape, x.dtype, 1)]
    for _ in range(1, count):
        columns.append(x if len(columns) == 1 else columns[-1] * x)
    return joining.stack(columns if increasing else columns[::-1], 1)
