"""Callbacks: ``apply_along_axis``, ``apply_over_axes``, ``piecewise``, ``fromfunction``.

Layer: 3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex, cast

import numpy as np

from functrace.errors import ShapeError
from functrace.ir.aval import shape_of
from functrace.numpy.arrays.assignment import assigned
from functrace.numpy.arrays.masked import MaskedSelection
from functrace.numpy.protocol.operands import Arrayed, Operand, arrayed, holds_tracer, one_axis
from functrace.numpy.protocol.tables import FUNCTIONS, implements
from functrace.ops import elementwise as ew
from functrace.ops.joining import stack
from functrace.ops.reductions import reduce_any
from functrace.ops.shaping import broadcast_to, convert, permute, reshape
from functrace.tracing.tracer import Tracer


@implements(np.apply_along_axis)
def apply_along_axis(
    func1d: Callable[..., Any], axis: SupportsIndex, arr: Operand, *args: object, **kwargs: object
) -> Any:
    """As ``numpy.apply_along_axis``: one call per row.

    Cost:
        traces every call; ``functrace.vmap`` traces one.
    """
    x: Any = arrayed(arr)
    place = one_axis(axis, x.ndim)
    order = (*(k for k in range(x.ndim) if k != place), place)
    rows: Any = (
        FUNCTIONS[np.transpose](x, order) if isinstance(x, Tracer) else np.transpose(x, order)
    )
    outer = rows.shape[:-1]
    if 0 in outer:
        raise ShapeError(
            "Cannot apply_along_axis when any iteration dimensions are 0",
            fix="leave empty arrays out",
        )
    made: list[Any] = []
    for k in np.ndindex(*outer):
        result = arrayed(func1d(rows[(*k, ...)], *args, **kwargs))
        if made:  # the first result determines dtype and shape
            result = convert(arrayed(assigned(result, made[0].dtype)), made[0].dtype)
            result = broadcast_to(result, shape_of(made[0]))
        made.append(result)
    shape = shape_of(made[0])
    whole = reshape(stack(made, 0), (*outer, *shape))
    total, inner = len(outer) + len(shape), len(shape)
    axes = tuple(range(total))
    axes = (*axes[:place], *axes[total - inner :], *axes[place : total - inner])
    return permute(whole, axes)


@implements(np.apply_over_axes)
def apply_over_axes(
    func: Callable[..., Any], a: Operand, axes: SupportsIndex | Sequence[SupportsIndex]
) -> Any:
    """As ``numpy.apply_over_axes``."""
    value: Any = arrayed(a)
    ndim = value.ndim
    for axis in axes if isinstance(axes, Sequence | np.ndarray) else (axes,):
        result = func(value, axis + ndim if axis < 0 else axis)  # type: ignore[operator]
        if result.ndim != value.ndim:
            result = FUNCTIONS[np.expand_dims](arrayed(result), axis + ndim if axis < 0 else axis)  # type: ignore[operator]
        if result.ndim != value.ndim:
            raise ShapeError(
                "function is not returning an array of the correct shape",
                fix="keep the axis, or drop it",
            )
        value = result
    return value


def _conditions(x: Arrayed, condlist: Operand, count: int) -> list[Any]:
    """Return the conditions as arrays of bools, including the default condition."""
    single: Any = condlist
    is_rows = not np.isscalar(single) and (
        isinstance(single[0], list | np.ndarray | Tracer) or x.ndim == 0
    )
    if isinstance(single, Tracer | np.ndarray) and single.ndim <= x.ndim and x.ndim:
        is_rows = False
    rows: list[Any] = list(cast("Any", condlist)) if is_rows else [condlist]
    found: list[Any] = [convert(arrayed(row), np.bool_) for row in rows]
    if len(found) == count - 1:
        any_of = reduce_any(stack(found, 0), (0,)) if len(found) > 1 else found[0]
        found.append(ew.logical_not(any_of))
    if len(found) != count:
        raise ShapeError(
            f"with {len(found)} condition(s), either {len(found)} or {len(found) + 1} functions "
            "are expected",
            fix="pass one function per condition",
        )
    return found


@implements(np.piecewise)
def piecewise(
    x: Operand, condlist: Operand, funclist: Sequence[Any], *args: object, **kw: object
) -> Any:
    """As ``numpy.piecewise``.

    With abstract conditions, each function gets a placeholder for the elements that fulfil its
    condition, and may only apply elementwise operations to it.
    """
    given = arrayed(x)
    conditions = _conditions(given, condlist, len(funclist))
    if not holds_tracer([given, *conditions]):
        return np.piecewise(given, conditions, list(funclist), *args, **kw)
    home = (
        given if isinstance(given, Tracer) else next(c for c in conditions if isinstance(c, Tracer))
    )
    source: Any = (
        given
        if isinstance(given, Tracer)
        else FUNCTIONS[np.add](np.zeros_like(home, dtype=given.dtype), given)
    )
    result: Any = FUNCTIONS[np.zeros_like](source)
    for condition, function in zip(conditions, funclist, strict=True):
        if not callable(function):
            result[condition] = function
            continue
        chosen = source[condition]
        if isinstance(chosen, MaskedSelection) or chosen.size:
            result[condition] = function(chosen, *args, **kw)
    return result
