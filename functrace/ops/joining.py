"""Primitives that join arrays, ``concatenate`` and ``stack``, and the one-dimensional ``convolve``.

Joining is linear in all operands together: a tangent is the same join, with zeros for inactive
operands, and a cotangent is split again.

Layer: 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from functrace.errors import AxisError, ShapeError
from functrace.ir.aval import ShapeDtype, aval_of, shape_of
from functrace.ir.primitive import Flags, Operand, Primitive, Tangents, Values, is_linear
from functrace.ops import counts
from functrace.ops.elementwise import plus, result_dtype
from functrace.ops.grids import convolve_grids, reversed_axes
from functrace.ops.indexing import embed_p, index_static
from functrace.ops.shaping import broadcast_to, convert, filled, reshape
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.typing import Array

_ALL = (None, None, None)


def _join_tangents(
    join: Callable[[Iterable[Value], int], Array],
    sizes: Sequence[int],
    out: Array,
    primals: Values,
    tangents: Tangents,
    axis: int,
) -> Any:
    """Join tangents, some of which may be missing.

    If the existing ones are adjacent they are joined and embedded in zeros, without constants in
    the linear program. Otherwise zeros replace the others; they are recorded with the primals,
    where they are free.
    """
    active = [k for k, t in enumerate(tangents) if t is not None]
    first, last = active[0], active[-1]
    if last - first + 1 == len(active) < len(tangents):
        start = sum(sizes[:first])
        joined = join(
            [convert(t, out.dtype) for t in tangents[first : last + 1] if t is not None], axis
        )
        part = (start, start + sum(sizes[first : last + 1]), None)
        return bind(embed_p, (joined,), ((*(_ALL,) * axis, part), out.shape))
    zeros = [
        filled(out, shape_of(x), aval_of(x).dtype) if t is None else t
        for x, t in zip(primals, tangents, strict=True)
    ]
    return join(zeros, axis)


def _batched(operands: Values, is_batched: Flags) -> tuple[Any, ...]:
    n = next(shape_of(x)[0] for x, b in zip(operands, is_batched, strict=True) if b)
    return tuple(
        x if b else broadcast_to(x, (n, *shape_of(x)))
        for x, b in zip(operands, is_batched, strict=True)
    )


# -- concatenate -----------------------------------------------------------------------------------


def _concatenate_eval(*operands: Any) -> Any:
    return np.concatenate(operands[:-1], operands[-1])


def _concatenate_aval(*operands: Any) -> ShapeDtype:
    *avals, axis = operands
    first = avals[0].shape
    if not 0 <= axis < len(first):
        raise AxisError(
            f"concatenate: axis {axis} is out of bounds for {avals[0]}",
            fix=f"use an axis from 0 to {len(first) - 1}",
        )
    for aval in avals[1:]:
        shape = aval.shape
        if (
            len(shape) != len(first)
            or shape[:axis] + shape[axis + 1 :] != first[:axis] + first[axis + 1 :]
        ):
            raise ShapeError(
                f"concatenate cannot join {avals[0]} and {aval} along axis {axis}",
                fix="make all sizes equal except along the joined axis",
            )
    length = sum(aval.shape[axis] for aval in avals)
    return ShapeDtype((*first[:axis], length, *first[axis + 1 :]), result_dtype(*avals))


def _concatenate_jvp(primals: Values, outputs: Values, tangents: Tangents, axis: int) -> Any:
    sizes = [shape_of(x)[axis] for x in primals]
    return _join_tangents(concatenate, sizes, outputs[0], primals, tangents, axis)


def _concatenate_transpose(ct: Array, *operands: Any) -> tuple[Any, ...]:
    axis: int
    *values, axis = operands
    parts: list[Any] = []
    start = 0
    for x in values:
        n = shape_of(x)[axis]
        index = (_ALL,) * axis + ((start, start + n, None),)
        parts.append(index_static(ct, index) if is_linear(x) else None)
        start += n
    return tuple(parts)


concatenate_p = Primitive(
    "concatenate",
    eval=_concatenate_eval,
    aval=_concatenate_aval,
    jvp=_concatenate_jvp,
    transpose=_concatenate_transpose,
    batch=lambda operands, is_batched, axis: concatenate(_batched(operands, is_batched), axis + 1),
    params=("axis",),
    flops=counts.moved,
)


def concatenate(arrays: Iterable[Value], axis: int) -> Any:
    """Join arrays along an existing axis (non-negative)."""
    return bind(concatenate_p, tuple(arrays), (axis,))


# -- stack -----------------------------------------------------------------------------------------


def _stack_eval(*operands: Any) -> Any:
    return np.stack(operands[:-1], operands[-1])


def _stack_aval(*operands: Any) -> ShapeDtype:
    *avals, axis = operands
    shape = avals[0].shape
    for aval in avals[1:]:
        if aval.shape != shape:
            raise ShapeError(
                f"stack cannot join {avals[0]} and {aval}", fix="give all arrays the same shape"
            )
    return ShapeDtype((*shape[:axis], len(avals), *shape[axis:]), result_dtype(*avals))


def _stack_jvp(primals: Values, outputs: Values, tangents: Tangents, axis: int) -> Any:
    return _join_tangents(stack, [1] * len(primals), outputs[0], primals, tangents, axis)


def _stack_transpose(ct: Array, *operands: Any) -> tuple[Any, ...]:
    *values, axis = operands
    return tuple(
        index_static(ct, (*(_ALL,) * axis, k)) if is_linear(x) else None
        for k, x in enumerate(values)
    )


stack_p = Primitive(
    "stack",
    eval=_stack_eval,
    aval=_stack_aval,
    jvp=_stack_jvp,
    transpose=_stack_transpose,
    batch=lambda operands, is_batched, axis: stack(_batched(operands, is_batched), axis + 1),
    params=("axis",),
    flops=counts.moved,
)


def stack(arrays: Iterable[Value], axis: int) -> Any:
    """Join arrays of one shape along a new axis (non-negative)."""
    return bind(stack_p, tuple(arrays), (axis,))


# -- convolve --------------------------------------------------------------------------------------


def _convolve_eval(x: Array, y: Array) -> Any:
    if x.ndim == 1 and y.ndim == 1:
        return np.convolve(x, y)
    rest = np.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    x = np.broadcast_to(x, rest + x.shape[-1:])
    y = np.broadcast_to(y, rest + y.shape[-1:])
    out = np.empty((*rest, x.shape[-1] + y.shape[-1] - 1), np.result_type(x, y))
    for k in np.ndindex(rest):
        out[k] = np.convolve(x[k], y[k])
    return out


def _convolve_aval(x: ShapeDtype, y: ShapeDtype) -> ShapeDtype:
    if not (x.ndim and y.ndim and x.shape[-1] and y.shape[-1]):
        raise ShapeError(
            f"convolve needs arrays with at least one element, got {x} and {y}", fix="pass vectors"
        )
    rest = np.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    return ShapeDtype((*rest, x.shape[-1] + y.shape[-1] - 1), result_dtype(x, y))


def _convolve_jvp(primals: Values, _outputs: Values, tangents: Tangents) -> Any:
    (x, y), (a, b) = primals, tangents
    return plus(None if a is None else convolve(a, y), None if b is None else convolve(x, b))


def _correlated(ct: Array, y: Any) -> Any:
    # d out[k] / d x[i] = y[k - i], so the cotangent is the convolution with reversed y where they
    # overlap wholly. (All of it would take n * n operations for the cotangent of a short filter,
    # which would be a small view of it.)
    rank = len(shape_of(ct))
    y = reshape(y, (1,) * (rank - len(shape_of(y))) + shape_of(y))
    return convolve_grids(ct, reversed_axes(y, 1), rank - 1, "valid")


def _convolve_transpose(ct: Array, x: Operand, y: Operand) -> tuple[Any, Any]:
    return (_correlated(ct, y), None) if is_linear(x) else (None, _correlated(ct, x))


def _convolve_batch(operands: Values, is_batched: Flags) -> Any:
    rank = max(len(shape_of(x)) - b for x, b in zip(operands, is_batched, strict=True))
    aligned: list[Array] = []
    for x, b in zip(operands, is_batched, strict=True):
        shape = shape_of(x)
        missing = rank - (len(shape) - b)
        aligned.append(
            reshape(x, (shape[0],) + (1,) * missing + tuple(shape[1:])) if b and missing else x
        )
    return convolve(*aligned)


convolve_p = Primitive(
    "convolve",
    eval=_convolve_eval,
    aval=_convolve_aval,
    jvp=_convolve_jvp,
    transpose=_convolve_transpose,
    batch=_convolve_batch,
    flops=counts.convolve,
)


def convolve(x: Value, y: Value) -> Any:
    """Return the full discrete convolution along the last axis; the axes before it broadcast.

    Cost:
        time proportional to the product of the two lengths.
    """
    return bind(convolve_p, (x, y))
