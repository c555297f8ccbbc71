"""Primitives that change shape or dtype, but not values.

All are linear; their transposes are each other.

Layer: 2.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from functrace.errors import ShapeError
from functrace.ir.aval import ShapeDtype, broadcast_shapes, shape_of
from functrace.ir.primitive import LINEAR, Flags, Primitive, Values
from functrace.ops import counts
from functrace.ops.broadcasting import ELEMENTWISE, Elementwise
from functrace.tracing.binding import bind, claimed
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer, Value
from functrace.typing import Array, ArrayLike

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

Shape = tuple[int, ...]
V = TypeVar("V", bound=Value)
"""A type that is preserved: plain arrays stay plain, traced ones traced."""


# -- reshape ---------------------------------------------------------------------------------------


def _reshape_aval(x: ShapeDtype, shape: Shape) -> ShapeDtype:
    if math.prod(shape) != x.size:
        raise ShapeError(
            f"cannot reshape {x} ({x.size} elements) to {shape}", fix="keep the number of elements"
        )
    return ShapeDtype(shape, x.dtype)


def _reshape_batch(operands: Values, _is_batched: Flags, shape: Shape) -> Any:
    (x,) = operands
    return reshape(x, (x.shape[0], *shape))


reshape_p = Primitive(
    "reshape",
    eval=lambda x, shape: np.reshape(x, shape),
    aval=_reshape_aval,
    jvp=LINEAR,
    transpose=lambda ct, x, shape: (reshape(ct, x.shape),),
    batch=_reshape_batch,
    params=("shape",),
    view=True,
    writable=True,
    written="np.reshape({0}, {shape})",
    flops=counts.moved,
)


def reshape(x: V, shape: Shape) -> V:
    """Return ``x`` with another shape (no ``-1`` here)."""
    return x if shape_of(x) == shape else bind(reshape_p, (x,), (shape,))


# -- transpose -------------------------------------------------------------------------------------


def _inverse(axes: Shape) -> Shape:
    return tuple(int(k) for k in np.argsort(axes))


permute_p = Primitive(
    "transpose",
    eval=lambda x, axes: np.transpose(x, axes),
    aval=lambda x, axes: ShapeDtype(tuple(x.shape[k] for k in axes), x.dtype),
    jvp=LINEAR,
    transpose=lambda ct, x, axes: (permute(ct, _inverse(axes)),),
    batch=lambda operands, _, axes: permute(operands[0], (0, *(k + 1 for k in axes))),
    params=("axes",),
    view=True,
    writable=True,
    written="np.transpose({0}, {axes})",
    flops=counts.moved,
)


def permute(x: V, axes: Shape) -> V:
    """Return ``x`` with its axes in another order (all non-negative)."""
    return x if axes == tuple(range(len(axes))) else bind(permute_p, (x,), (axes,))


def moveaxis(x: V, source: int, destination: int) -> V:
    """Return ``x`` with one axis moved (both positions non-negative)."""
    axes = [k for k in range(len(shape_of(x))) if k != source]
    axes.insert(destination, source)
    return permute(x, tuple(axes))


# -- roll ------------------------------------------------------------------------------------------

roll_p = Primitive(
    "roll",
    eval=lambda x, shift, axis: np.roll(x, shift, axis),
    aval=lambda x, shift, axis: x,
    jvp=LINEAR,
    transpose=lambda ct, x, shift, axis: (roll(ct, -shift, axis),),
    batch=lambda operands, _, shift, axis: roll(operands[0], shift, axis + 1),
    params=("shift", "axis"),
    written="np.roll({0}, {shift}, {axis})",
    flops=counts.moved,
)


def roll(x: V, shift: int, axis: int) -> V:
    """Return ``x`` with elements shifted cyclically along one axis (non-negative)."""
    return bind(roll_p, (x,), (shift, axis))


# -- broadcast -------------------------------------------------------------------------------------


def _broadcast_aval(x: Array, shape: Shape) -> ShapeDtype:
    if isinstance(x, type):
        return ShapeDtype(shape, x)
    try:
        ok = broadcast_shapes(x.shape, shape) == shape
    except ValueError:
        ok = False
    if not ok:
        raise ShapeError(
            f"cannot broadcast {x} to {shape}", fix="sizes must be equal or 1, from the last axis"
        )
    return ShapeDtype(shape, x.dtype)


def _broadcast_batch(operands: Values, _is_batched: Flags, shape: Shape) -> Any:
    (x,) = operands
    n, missing = x.shape[0], len(shape) - (len(shape_of(x)) - 1)
    return broadcast_to(reshape(x, (n,) + (1,) * missing + tuple(x.shape[1:])), (n, *shape))


broadcast_to_p = Primitive(
    "broadcast_to",
    eval=lambda x, shape: np.broadcast_to(x, shape),
    aval=_broadcast_aval,
    jvp=LINEAR,
    transpose=lambda ct, x, shape: (ct,),  # transposition sums cotangents to the operand's aval
    batch=_broadcast_batch,
    params=("shape",),
    view=True,
    written="np.broadcast_to({0}, {shape})",
    flops=counts.moved,
)


def broadcast_to(x: V, shape: Shape) -> V:
    """Return ``x`` broadcast to a shape."""
    return x if shape_of(x) == shape else bind(broadcast_to_p, (x,), (shape,))


# -- dtype -----------------------------------------------------------------------------------------


def part_aval(spec: ShapeDtype) -> ShapeDtype:
    """Infer the aval of the real or the imaginary part."""
    return ShapeDtype(spec.shape, spec.dtype.type(0).real.dtype)


real = Elementwise(
    "real",
    eval=np.real,
    aval=part_aval,
    jvp=lambda p, o, t: real(t[0]),
    transpose=lambda ct, x: (ct,),
    batch=ELEMENTWISE,
    view=True,
    written="np.real({0})",
    flops=counts.moved,
)


def _convert_eval(x: Array, dtype: np.dtype[Any]) -> Any:
    return np.asarray(x).astype(dtype)[()]


convert_p = Primitive(
    "convert",
    eval=_convert_eval,
    aval=lambda x, dtype: ShapeDtype(x.shape if isinstance(x, ShapeDtype) else (), dtype),
    jvp=LINEAR,
    transpose=lambda ct, x, dtype: (ct,),  # transposition casts cotangents to the operand's aval
    batch=lambda operands, _, dtype: convert(operands[0], dtype),
    params=("dtype",),
    written="np.asarray({0}).astype({dtype})[()]",
    flops=counts.moved,
)


def convert(x: V, dtype: DTypeLike) -> V:
    """Return ``x`` cast to a dtype; complex to real drops the imaginary part, as ``.real`` does."""
    dtype = np.dtype(dtype)
    known = getattr(x, "dtype", None)
    if known == dtype:
        return x
    if known is not None and known.kind == "c" and dtype.kind == "f":
        part: Any = real(x)
        return convert(part, dtype)
    return bind(convert_p, (x,), (dtype,))


# -- constant arrays, diagonals --------------------------------------------------------------------

_LITERAL_TYPES = {np.dtype(kind): kind for kind in (bool, int, float, complex)}


def written(value: Value | ArrayLike, shape: Shape, dtype: np.dtype[Any]) -> Any:
    """Return plain numbers cast to a dtype like NumPy's assignment; raises if they do not fit."""
    made = np.empty(shape, dtype)
    made[...] = value
    return made[()]


def filled(beside: Value, shape: Shape, dtype: DTypeLike, value: Value = 0) -> Any:
    """Return an array filled with one number, recorded with ``beside``: it takes no memory."""
    if not isinstance(beside, Tracer):
        return np.full(shape, value, dtype)
    return filled_in(claimed(beside.ft_recording), shape, np.dtype(dtype), value)


def filled_in(recording: Recording, shape: Shape, dtype: np.dtype[Any], value: Value) -> Any:
    """Return an array filled with one number, recorded in ``recording``: it takes no memory."""
    number = written(value, (), dtype)
    if dtype in _LITERAL_TYPES:
        number = number.item()
    return recording.record(broadcast_to_p, (number,), (tuple(shape),))


def diagonal_length(rows: int, columns: int, offset: int) -> int:
    """Number of elements on a diagonal of a matrix."""
    return max(0, min(rows + min(offset, 0), columns - max(offset, 0)))


def _diagonal_aval(x: ShapeDtype, offset: int) -> ShapeDtype:
    *rest, rows, columns = x.shape
    return ShapeDtype((*rest, diagonal_length(rows, columns, offset)), x.dtype)


def _embed_diagonal_eval(x: Array, offset: int, rows: int, columns: int) -> Any:
    out = np.zeros((*x.shape[:-1], rows, columns), x.dtype)
    n: int = x.shape[-1]
    k = np.arange(n)
    out[..., k - min(offset, 0), k + max(offset, 0)] = x
    return out


diagonal_p = Primitive(
    "diagonal",
    eval=lambda x, offset: np.diagonal(x, offset, -2, -1),
    aval=_diagonal_aval,
    jvp=LINEAR,
    transpose=lambda ct, x, offset: (embed_diagonal(ct, offset, *x.shape[-2:]),),
    batch=lambda operands, _, offset: diagonal(operands[0], offset),
    params=("offset",),
    view=True,
    written="np.diagonal({0}, {offset}, -2, -1)",
    flops=counts.moved,
)
embed_diagonal_p = Primitive(
    "embed_diagonal",
    eval=_embed_diagonal_eval,
    aval=lambda x, offset, rows, columns: ShapeDtype((*x.shape[:-1], rows, columns), x.dtype),
    jvp=LINEAR,
    transpose=lambda ct, x, offset, rows, columns: (diagonal(ct, offset),),
    batch=lambda operands, _, offset, rows, columns: embed_diagonal(
        operands[0], offset, rows, columns
    ),
    params=("offset", "rows", "columns"),
    flops=counts.moved,
)


def diagonal(x: Value, offset: int = 0) -> Any:
    """Return a diagonal of the last two axes, as the last axis."""
    return bind(diagonal_p, (x,), (offset,))


def embed_diagonal(x: Value, offset: int, rows: int, columns: int) -> Any:
    """Return matrices that are zero except for one diagonal: the last axis of ``x``."""
    return bind(embed_diagonal_p, (x,), (offset, rows, columns))
