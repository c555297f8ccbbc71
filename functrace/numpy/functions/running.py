"""Cumulative sums and products, and differences: ``cumsum``, ``diff``, ``trapezoid``, ``unwrap`` ….

Layer: 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.errors import AxisError, ShapeError
from functrace.ir.aval import shape_of
from functrace.numpy.functions.reductions import sum
from functrace.numpy.protocol.operands import (
    NOT_GIVEN,
    Arrayed,
    DtypeLike,
    OneAxis,
    Operand,
    Out,
    along,
    arrayed,
    cast_to,
    exactly_lined_up,
    one_axis,
    stored,
)
from functrace.numpy.protocol.tables import FUNCTIONS, implements
from functrace.ops import cumulative
from functrace.ops import elementwise as ew
from functrace.ops.indexing import index_static
from functrace.ops.joining import concatenate
from functrace.ops.shaping import broadcast_to, convert, reshape
from functrace.tracing.tracer import LITERALS, Tracer, Value


@implements(np.cumsum, method="cumsum", accumulate=np.add)
def cumsum(a: Operand, axis: OneAxis = None, dtype: DtypeLike = None, out: Out = None) -> Any:
    """As ``numpy.cumsum``."""
    a, axis = exactly_lined_up(cast_to(arrayed(a), dtype), axis)
    result = cast_to(cumulative.cumsum(a, axis), dtype)
    return stored(result, out, "cumsum")


@implements(np.cumprod, method="cumprod", accumulate=np.multiply)
def cumprod(a: Operand, axis: OneAxis = None, dtype: DtypeLike = None, out: Out = None) -> Any:
    """As ``numpy.cumprod``; the derivative is exact for zero factors."""
    a, axis = exactly_lined_up(cast_to(arrayed(a), dtype), axis)
    result = cast_to(cumulative.cumprod(a, axis), dtype)
    return stored(result, out, "cumprod")


def _with_initial(name: str, running: Callable[..., Any], neutral: int) -> Callable[..., Any]:
    def function(
        x: Operand,
        /,
        *,
        axis: OneAxis = None,
        dtype: DtypeLike = None,
        out: Out = None,
        include_initial: bool = False,
    ) -> Any:
        x = arrayed(x)
        x = reshape(x, (1,)) if not x.ndim else x
        if axis is None:
            if x.ndim != 1:
                raise AxisError(
                    f"{name} of an array with {x.ndim} axes needs axis=", fix="pass axis="
                )
            axis = 0
        axis = one_axis(axis, x.ndim)
        result = running(x, axis, dtype)
        if include_initial:
            start = np.full((*x.shape[:axis], 1, *x.shape[axis + 1 :]), neutral, result.dtype)
            result = concatenate([start, result], axis)
        return stored(result, out, name)

    function.__name__ = name
    function.__doc__ = f"As ``numpy.{name}``."
    return function


cumulative_sum = implements(np.cumulative_sum)(_with_initial("cumulative_sum", cumsum, 0))


cumulative_prod = implements(np.cumulative_prod)(_with_initial("cumulative_prod", cumprod, 1))


@implements(np.diff)
def diff(
    a: Operand,
    n: int = 1,
    axis: int = -1,
    prepend: Operand = NOT_GIVEN,
    append: Operand = NOT_GIVEN,
) -> Arrayed:
    """As ``numpy.diff``."""
    if n < 0:
        raise ShapeError(f"diff: the order must not be negative, got {n}", fix="pass n >= 0")
    a = arrayed(a)
    if a.ndim == 0:
        raise ShapeError("diff needs at least one axis", fix="pass an array with one axis or more")
    axis = one_axis(axis, a.ndim)
    if n == 0:
        return a  # not a copy, as in NumPy
    parts = [a]
    if prepend is not NOT_GIVEN:
        parts.insert(0, _edge(prepend, a, axis))
    if append is not NOT_GIVEN:
        parts.append(_edge(append, a, axis))
    x: Arrayed = FUNCTIONS[np.concatenate](parts, axis) if len(parts) > 1 else a
    difference = ew.not_equal if x.dtype.kind == "b" else ew.sub
    for _ in range(n):
        x = difference(
            index_static(x, along(axis, (1, None, None))),
            index_static(x, along(axis, (None, -1, None))),
        )
    return x


def _edge(part: Operand, a: Arrayed, axis: int) -> Any:
    part = arrayed(part)
    return (
        broadcast_to(part, (*a.shape[:axis], 1, *a.shape[axis + 1 :])) if part.ndim == 0 else part
    )


@implements(np.trapezoid, weak=True)
def trapezoid(y: Operand, x: Operand | None = None, dx: Value = 1.0, axis: int = -1) -> Any:
    """As ``numpy.trapezoid``."""
    y = arrayed(y)
    axis = one_axis(axis, y.ndim)
    if x is None:
        step = dx
    else:
        x = arrayed(x)
        step = diff(x, axis=-1 if x.ndim == 1 else axis)
        if x.ndim == 1:
            step = reshape(step, (step.shape[0],) + (1,) * (y.ndim - axis - 1))
    ends = ew.add(
        index_static(y, along(axis, (1, None, None))),
        index_static(y, along(axis, (None, -1, None))),
    )
    return sum(ew.div(ew.mul(step, ends), 2.0), axis)


@implements(np.unwrap, weak=True)
def unwrap(
    p: Operand,
    discont: float | Arrayed | None = None,
    axis: int = -1,
    *,
    period: float | Arrayed = 2 * math.pi,
) -> Any:
    """As ``numpy.unwrap``: whole periods are constant; the derivative in ``p`` is the identity."""
    p = arrayed(p)
    axis = one_axis(axis, p.ndim)
    steps = ew.stop_gradient(diff(p, axis=axis))
    turn: Any = period if type(period) in LITERALS else arrayed(period)
    known_turn = ew.stop_gradient(turn) if isinstance(turn, Tracer) else turn
    dtype = np.result_type(p.dtype, turn if type(turn) in LITERALS else turn.dtype)
    half = known_turn // 2 if dtype.kind in "iu" else known_turn / 2
    is_ambiguous = known_turn % 2 == 0 if dtype.kind in "iu" else True
    within = ew.add(ew.remainder(ew.add(steps, half), known_turn), -half)
    flipped = ew.logical_and(ew.equal(within, -half), ew.greater(steps, 0))
    within = ew.where(ew.logical_and(flipped, is_ambiguous), half, within)
    limit = known_turn / 2 if discont is None else discont
    is_small = ew.less(ew.absolute(steps), limit)
    if shape_of(ew.logical_and(is_small, flipped)) != shape_of(flipped):
        raise ShapeError(
            f"unwrap: discont does not fit {shape_of(steps)} differences", fix="pass a number"
        )
    jumps = ew.where(is_small, 0, ew.sub(within, steps))
    if isinstance(turn, Tracer):  # the number of periods is constant, their length is not
        jumps = ew.mul(ew.rint(ew.div(jumps, known_turn)), turn)
    first = index_static(p, along(axis, (None, 1, None)))
    rest = ew.add(index_static(p, along(axis, (1, None, None))), cumulative.cumsum(jumps, axis))
    return concatenate([convert(first, dtype), convert(rest, dtype)], axis)
