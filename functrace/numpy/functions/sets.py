"""Sets: ``unique``, ``union1d`` …, and ``trim_zeros``.

The number of results depends on values, so these must be concrete. Elements keep their derivatives;
equal elements share the derivative of their result.

Layer: 3.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from functrace.errors import ConcretizationError, ShapeError
from functrace.numpy.arrays.traced_number import strong
from functrace.numpy.arrays.views import indexed
from functrace.numpy.functions.joining import concatenate
from functrace.numpy.protocol.operands import (
    Arrayed,
    Axis,
    Operand,
    arrayed,
    axis_tuple,
    flattened,
    known,
    one_axis,
)
from functrace.numpy.protocol.tables import implements
from functrace.ops import elementwise as ew
from functrace.ops import sorting
from functrace.ops.indexing import ARRAY, gather, scatter_add
from functrace.ops.shaping import broadcast_to, moveaxis
from functrace.tracing.tracer import Tracer

_ALWAYS_SORTS = "sorted" not in inspect.signature(np.unique).parameters
"""True if `np.unique` cannot skip sorting: before NumPy 2.3."""

UniqueAllResult = type(np.unique_all(np.ones(1)))


UniqueCountsResult = type(np.unique_counts(np.ones(1)))


UniqueInverseResult = type(np.unique_inverse(np.ones(1)))


def _values(x: Arrayed, name: str) -> np.ndarray[Any, Any]:
    try:
        return known(x)
    except ConcretizationError as error:
        raise ConcretizationError(
            f"numpy.{name} of a traced array has a shape that depends on values, which are not "
            "known here",
            made=error.made,
            fix="call it outside of vmap and jit; np.sort, np.isin and np.searchsorted keep the "
            "shape",
        ) from error


def _chosen(x: Arrayed, first: np.ndarray[Any, Any], inverse: np.ndarray[Any, Any]) -> Any:
    """Return the first row of each group of equal rows, with the mean of their derivatives."""
    result = gather(x, (ARRAY,), (first,))
    if x.dtype.kind not in "fc" or len(first) == len(inverse):
        return result
    # Zeros that carry the derivatives; an infinite or NaN element minus itself would be NaN.
    change = ew.where(ew.isfinite(x), ew.sub(x, ew.stop_gradient(x)), 0.0)
    size = (
        np.bincount(inverse, minlength=len(first)).reshape(-1, *(1,) * (x.ndim - 1)).astype(x.dtype)
    )
    mean = ew.div(scatter_add(change, (ARRAY,), (inverse,), result.shape), size)
    return ew.add(ew.stop_gradient(result), mean)


@implements(np.unique)
def unique(
    ar: Operand,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    """As ``numpy.unique``; the values must be concrete."""
    x = arrayed(ar)
    options: dict[str, Any] = {
        "axis": axis,
        "equal_nan": equal_nan,
        **({} if sorted else {"sorted": False}),
    }
    if not isinstance(x, Tracer):  # only the other set is traced
        return np.unique(x, return_index, return_inverse, return_counts, **options)
    values = np.zeros(x.shape, x.dtype) if x.size == 1 else _values(x, "unique")  # 1 is unique
    wanted: Any = np.unique(values, return_index, return_inverse, return_counts, **options)
    several = return_index or return_inverse or return_counts
    place = 0 if axis is None else one_axis(axis, x.ndim)
    rows: Any = flattened(x) if axis is None else moveaxis(x, place, 0)
    _, first, inverse = np.unique(
        values, return_index=True, return_inverse=True, axis=axis, equal_nan=equal_nan
    )
    chosen = _chosen(rows, first, inverse.reshape(-1))
    if not sorted:  # NumPy uses a hash table, which has its own order
        order = _order_of(wanted[0] if several else wanted, values.reshape(-1)[first])
        chosen = gather(chosen, (ARRAY,), (order,))
    chosen = chosen if axis is None else moveaxis(chosen, 0, place)
    return (chosen, *wanted[1:]) if several else chosen


def _order_of(wanted: np.ndarray[Any, Any], ordered: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the permutation from a sorted vector to another order of it; only NaN may repeat."""
    order = np.empty(len(wanted), np.intp)
    order[np.argsort(wanted, kind="stable")] = np.arange(len(ordered))
    return order


@implements(np.unique_values)
def unique_values(x: Operand, /) -> Any:
    """As ``numpy.unique_values``."""
    return unique(x, equal_nan=False, sorted=_ALWAYS_SORTS)


@implements(np.unique_all)
def unique_all(x: Operand, /) -> Any:
    """As ``numpy.unique_all``."""
    return UniqueAllResult(*unique(x, True, True, True, equal_nan=False))


@implements(np.unique_counts)
def unique_counts(x: Operand, /) -> Any:
    """As ``numpy.unique_counts``."""
    return UniqueCountsResult(*unique(x, return_counts=True, equal_nan=False))


@implements(np.unique_inverse)
def unique_inverse(x: Operand, /) -> Any:
    """As ``numpy.unique_inverse``."""
    return UniqueInverseResult(*unique(x, return_inverse=True, equal_nan=False))


# -- two sets --------------------------------------------------------------------------------------


@implements(np.union1d, weak=True)
def union1d(ar1: Operand, ar2: Operand) -> Any:
    """As ``numpy.union1d``; the values must be concrete."""
    return unique(concatenate([ar1, ar2], None))


def _sets(ar1: Operand, ar2: Operand, assume_unique: bool) -> list[Any]:
    return [flattened(arrayed(x)) if assume_unique else unique(x) for x in (ar1, ar2)]


def _ordered(sets: list[Any], name: str) -> tuple[Any, Any, Any]:
    """Join two sets; return the array, its stable sorting permutation, and its sorted values."""
    both = concatenate(sets, None)
    values = _values(both, name)
    order = np.argsort(values, kind="stable")
    return both, order, values[order]


@implements(np.intersect1d)
def intersect1d(
    ar1: Operand, ar2: Operand, assume_unique: bool = False, return_indices: bool = False
) -> Any:
    """As ``numpy.intersect1d``; the values must be concrete. Elements are taken from ``ar1``."""
    both, order, values = _ordered(_sets(ar1, ar2, assume_unique), "intersect1d")
    chosen = gather(both, (ARRAY,), (order[:-1][values[1:] == values[:-1]],))
    if not return_indices:
        return chosen
    _, first, second = np.intersect1d(known(ar1), known(ar2), assume_unique, True)
    return chosen, first, second


@implements(np.setxor1d, weak=True)
def setxor1d(ar1: Operand, ar2: Operand, assume_unique: bool = False) -> Any:
    """As ``numpy.setxor1d``; the values must be concrete."""
    sets = [ar1, ar2] if assume_unique else _sets(strong(ar1), strong(ar2), assume_unique)
    both, order, values = _ordered(sets, "setxor1d")
    changes = values[1:] != values[:-1]
    alone = (
        np.concatenate(([True], changes)) & np.concatenate((changes, [True]))
        if len(values)
        else np.zeros(0, bool)
    )
    return gather(both, (ARRAY,), (order[alone],))


@implements(np.setdiff1d)
def setdiff1d(ar1: Operand, ar2: Operand, assume_unique: bool = False) -> Any:
    """As ``numpy.setdiff1d``; the values must be concrete."""
    x, y = _sets(ar1, ar2, assume_unique)
    kept = np.isin(
        _values(x, "setdiff1d"), _values(y, "setdiff1d"), assume_unique=True, invert=True
    )
    return gather(x, (ARRAY,), (np.flatnonzero(kept),))


@implements(np.isin)
def isin(
    element: Operand,
    test_elements: Operand,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: str | None = None,
) -> Any:
    """As ``numpy.isin``: bools, also for abstract values."""
    x, y = arrayed(element), flattened(arrayed(test_elements))
    if kind not in (None, "sort", "table"):
        raise ShapeError(
            f"Invalid kind: '{kind}'. Please use None, 'sort' or 'table'.", fix="leave kind out"
        )
    if kind == "table" and not {x.dtype.kind, y.dtype.kind} <= set("biu"):
        raise ShapeError(
            "The 'table' method is only supported for boolean or integer arrays. Please select "
            "'sort' or None for kind.",
            fix="leave kind out",
        )
    count = y.shape[0]
    if not count:
        found: Any = broadcast_to(np.zeros((), bool), x.shape)
    else:
        ordered = sorting.sort(y, 0)
        place = ew.minimum(sorting.searchsorted(ordered, x), count - 1)
        found = ew.equal(gather(ordered, (ARRAY,), (place,)), x)
    return ew.logical_not(found) if invert else ew.logical_and(found, True)


# -- zeros at the ends -----------------------------------------------------------------------------


@implements(np.trim_zeros)
def trim_zeros(filt: Operand, trim: str = "fb", axis: Axis = None) -> Any:
    """As ``numpy.trim_zeros``; the values must be concrete."""
    x: Any = arrayed(filt)
    if trim.lower() not in ("fb", "bf", "f", "b"):
        raise ShapeError(f"unexpected character(s) in `trim`: {trim!r}", fix="use 'f', 'b' or 'fb'")
    axes = tuple(range(x.ndim)) if axis is None else axis_tuple(axis, x.ndim)
    if not axes:
        return filt
    places = np.nonzero(_values(x, "trim_zeros"))
    parts = []
    for k in range(x.ndim):
        ends = (int(places[k].min()), int(places[k].max()) + 1) if places[k].size else (0, 0)
        low = ends[0] if "f" in trim.lower() or not places[k].size else None
        high = ends[1] if "b" in trim.lower() or not places[k].size else None
        parts.append((low, high, None) if k in axes else (None, None, None))
    return indexed(x, tuple(parts)) if isinstance(filt, Tracer) else _cut(filt, parts)


def _cut(x: Operand, parts: list[Any]) -> Any:
    """Slice a value that is not traced, such as a list."""
    places = tuple(slice(*part) for part in parts)
    given: Any = x
    return given[places[0]] if len(places) == 1 else given[places]
