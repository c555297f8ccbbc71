"""Sorting, searching, and gather and scatter-add along one axis by an array of positions.

The derivative of a sorted array is the tangent in sorted order; positions have no derivative.
``axis`` is
always non-negative.

Layer: 2.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from functrace.errors import ShapeError
from functrace.ir.aval import ShapeDtype, shape_of
from functrace.ir.primitive import (
    LINEAR,
    ZERO,
    Flags,
    Primitive,
    RuleArgument,
    Values,
    absent,
)
from functrace.ops import counts
from functrace.ops.shaping import broadcast_to
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.typing import Array

if TYPE_CHECKING:
    from functrace.typing import Function

Side = Literal["left", "right"]
_POSITIONS = absent(
    because="positions are integers and have no derivative",
    instead="leave them out of the derivative",
)


def _all_batched(operands: Values, is_batched: Flags) -> list[Any]:
    n = next(x.shape[0] for x, b in zip(operands, is_batched, strict=True) if b)
    return [
        x if b else broadcast_to(x, (n, *shape_of(x)))
        for x, b in zip(operands, is_batched, strict=True)
    ]


# -- reading along an axis -------------------------------------------------------------------------


def _along_shape(x: tuple[int, ...], positions: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*x[:axis], positions[axis], *x[axis + 1 :])


def _take_batch(operands: Values, is_batched: Flags, axis: int, is_permutation: bool) -> Any:
    return bind(
        take_along_axis_p, tuple(_all_batched(operands, is_batched)), (axis + 1, is_permutation)
    )


take_along_axis_p = Primitive(
    "take_along_axis",
    eval=lambda x, positions, axis, is_permutation: np.take_along_axis(x, positions, axis),
    aval=lambda x, positions, axis, is_permutation: ShapeDtype(
        _along_shape(x.shape, positions.shape, axis), x.dtype
    ),
    jvp=LINEAR,
    transpose=lambda ct, x, positions, axis, is_permutation: (
        bind(add_along_axis_p, (ct, positions), (axis, x.shape[axis], is_permutation)),
        None,
    ),
    batch=_take_batch,
    params=("axis", "is_permutation"),
    written="np.take_along_axis({0}, {1}, {axis})",
    flops=counts.moved,
)


def take_along_axis(x: Value, positions: Value, axis: int, *, is_permutation: bool = False) -> Any:
    """Read ``x`` along an axis at integer positions; the other axes broadcast.

    Args:
        x: the array to read.
        positions: integers, with as many axes as ``x``.
        axis: non-negative.
        is_permutation: promises that no position repeats, so that the transpose is a plain write.
    """
    shape, wanted = shape_of(x), shape_of(positions)
    if len(shape) != len(wanted):
        raise ShapeError(
            f"take_along_axis needs indices with {len(shape)} axes, got {len(wanted)}",
            fix="add axes of size 1 to the indices with np.expand_dims",
        )
    x, positions = _broadcast_except(x, positions, axis)
    return bind(take_along_axis_p, (x, positions), (axis, is_permutation))


def _broadcast_except(x: Value, positions: Value, axis: int) -> tuple[Any, Any]:
    shape, wanted = shape_of(x), shape_of(positions)
    if all(n == m or k == axis for k, (n, m) in enumerate(zip(shape, wanted, strict=True))):
        return x, positions
    ones = (1,) * len(shape)
    try:
        common = np.broadcast_shapes(
            _along_shape(shape, ones, axis), _along_shape(wanted, ones, axis)
        )
    except ValueError:
        raise ShapeError(
            f"indices of shape {wanted} do not broadcast against {shape} along axis {axis}",
            fix="all axes but the one that is indexed must be equal, or 1",
        ) from None
    return broadcast_to(x, _along_shape(common, shape, axis)), broadcast_to(
        positions, _along_shape(common, wanted, axis)
    )


# -- adding along an axis --------------------------------------------------------------------


def _add_along_axis_eval(
    x: Array, positions: Array, axis: int, size: int, is_permutation: bool
) -> Any:
    out = np.zeros((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype)
    if is_permutation:
        np.put_along_axis(out, positions, x, axis)
        return out
    if positions.shape[axis:] == (1,):  # none repeats
        flat = positions.ravel()
        starts = np.arange(0, out.size, size)
        starts += np.where(flat < 0, flat + size, flat) if (flat < 0).any() else flat
        out.ravel()[starts] = x.ravel() + x.dtype.type(0)  # as a sum: no negative zeros
        return out
    # One flat index: np.add.at has a fast path for it, and none for several arrays.
    where_to = np.moveaxis(positions, axis, -1)
    rows, length = (
        math.prod(where_to.shape[:-1]),
        where_to.shape[-1],
    )  # not -1: the array may be empty
    where_to = where_to.reshape(rows, length)
    flat = np.where(where_to < 0, where_to + size, where_to) + size * np.arange(rows)[:, None]
    sums = np.zeros(rows * size, x.dtype)
    np.add.at(sums, flat.ravel(), np.moveaxis(x, axis, -1).ravel())
    shape = (*x.shape[:axis], *x.shape[axis + 1 :], size)
    return np.moveaxis(sums.reshape(shape), -1, axis)


add_along_axis_p = Primitive(
    "add_along_axis",
    eval=_add_along_axis_eval,
    aval=lambda x, positions, axis, size, is_permutation: ShapeDtype(
        (*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype
    ),
    jvp=LINEAR,
    transpose=lambda ct, x, positions, axis, size, is_permutation: (
        bind(take_along_axis_p, (ct, positions), (axis, is_permutation)),
        None,
    ),
    batch=lambda operands, is_batched, axis, size, is_permutation: bind(
        add_along_axis_p,
        tuple(_all_batched(operands, is_batched)),
        (axis + 1, size, is_permutation),
    ),
    params=("axis", "size", "is_permutation"),
    flops=counts.per_added,
)
"""The transpose of `take_along_axis`: adds values at repeated positions."""


# -- order -----------------------------------------------------------------------------------------


def _positions_aval(x: ShapeDtype, *_rest: object) -> ShapeDtype:
    return ShapeDtype(x.shape, np.intp)


def _ordering(name: str, function: Function[Any], written: str, *extra: str) -> Primitive:
    """Make a primitive that returns positions along an axis."""

    def batch(operands: Values, _is_batched: Flags, *params: int) -> Any:
        return bind(made, operands, (*params[:-1], params[-1] + 1))

    made = Primitive(
        name,
        eval=function,
        aval=_positions_aval,
        jvp=ZERO,
        transpose=_POSITIONS,
        batch=batch,
        params=(*extra, "axis"),
        written=written,
        flops=counts.sort,
    )
    return made


argsort_p = _ordering(
    "argsort",
    lambda x, kind, axis: np.argsort(x, axis=axis, kind=kind),
    "np.argsort({0}, axis={axis}, kind={kind})",
    "kind",
)
argpartition_p = _ordering(
    "argpartition",
    lambda x, kth, axis: np.argpartition(x, kth, axis=axis),
    "np.argpartition({0}, {kth}, axis={axis})",
    "kth",
)


def argsort(x: Value, axis: int, kind: str | None = None) -> Any:
    """Positions that sort ``x`` along an axis."""
    return bind(argsort_p, (x,), (kind, axis))


def argpartition(x: Value, kth: tuple[int, ...], axis: int) -> Any:
    """Positions that partition ``x`` along an axis, as ``numpy.argpartition``."""
    return bind(argpartition_p, (x,), (kth, axis))


def _sort_jvp(
    primals: Values, _outputs: Values, tangents: tuple[Array], kind: str | None, axis: int
) -> Any:
    # A stable order, whatever the kind: equal elements have equal values, so the output is the
    # same.
    return take_along_axis(tangents[0], argsort(primals[0], axis, kind), axis, is_permutation=True)


sort_p = Primitive(
    "sort",
    eval=lambda x, kind, axis: np.sort(x, axis=axis, kind=kind),
    aval=lambda x, kind, axis: x,
    jvp=_sort_jvp,
    transpose=absent(
        because="sort is not linear",
        instead="differentiate with functrace.vjp or functrace.grad instead",
    ),
    batch=lambda operands, _, kind, axis: sort(operands[0], axis + 1, kind),
    params=("kind", "axis"),
    written="np.sort({0}, axis={axis}, kind={kind})",
    flops=counts.sort,
)


def sort(x: Value, axis: int, kind: str | None = None) -> Any:
    """Sort along an axis, smallest first, NaN last."""
    return bind(sort_p, (x,), (kind, axis))


# -- search ----------------------------------------------------------------------------------------


def _searchsorted_eval(a: Array, v: Array, side: Side, rows: int) -> Any:
    if not rows:
        return np.searchsorted(a, v, side)
    out = np.empty(np.shape(v), np.intp)
    for k in np.ndindex(*np.shape(a)[:rows]):
        out[k] = np.searchsorted(a[k], v[k], side)
    return out


def _searchsorted_batch(operands: Values, is_batched: Flags, side: Side, rows: int) -> Any:
    if not rows and not is_batched[0]:
        return bind(searchsorted_p, operands, (side, 0))
    return bind(searchsorted_p, tuple(_all_batched(operands, is_batched)), (side, rows + 1))


searchsorted_p = Primitive(
    "searchsorted",
    eval=_searchsorted_eval,
    aval=lambda a, v, side, rows: ShapeDtype(v.shape if isinstance(v, ShapeDtype) else (), np.intp),
    jvp=ZERO,
    transpose=_POSITIONS,
    batch=_searchsorted_batch,
    params=("side", "rows"),
    flops=counts.search,
)
"""Positions in a sorted array; ``rows`` is the number of leading batch axes of both ``a`` and
``v``."""


def searchsorted(a: Value, v: Value, side: Side = "left") -> Any:
    """Positions at which to insert ``v`` into the sorted one-dimensional ``a``."""
    return bind(searchsorted_p, (a, v), (side, 0))


def _lexsort_eval(*operands: RuleArgument) -> Any:
    return np.lexsort(operands[:-1], operands[-1])


lexsort_p = Primitive(
    "lexsort",
    eval=_lexsort_eval,
    aval=_positions_aval,
    jvp=ZERO,
    transpose=_POSITIONS,
    batch=lambda operands, is_batched, axis: bind(
        lexsort_p, tuple(_all_batched(operands, is_batched)), (axis + 1,)
    ),
    params=("axis",),
    flops=counts.sort,
)
