"""Sorting and searching, on top of `functrace.ops.sorting`.

Layer: 3.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from functrace.errors import DtypeError, ShapeError, UnsupportedFunctionError
from functrace.numpy.functions.reductions import all_
from functrace.numpy.protocol.operands import (
    Arrayed,
    OneAxis,
    Operand,
    arrayed,
    exactly_lined_up,
    known,
    lined_up,
    one_axis,
)
from functrace.numpy.protocol.tables import array_method, implements
from functrace.ops import elementwise as ew
from functrace.ops import sorting as ops
from functrace.ops.checks import require
from functrace.ops.indexing import index_static
from functrace.ops.shaping import convert
from functrace.tracing.binding import bind

if TYPE_CHECKING:
    from functrace.numpy.arrays.traced_array import TracedArray


def _kind(kind: str | None, order: str | None, stable: bool | None) -> str | None:
    if order is not None:
        raise UnsupportedFunctionError(
            "order= needs fields, which traced values do not have", fix="leave order out"
        )
    return "stable" if stable else kind


def _reversed_order(a: Arrayed) -> Any:
    """Return numbers whose ascending order is the descending order of the elements, NaN last."""
    if a.dtype.kind in "biu":
        return ew.invert(a)
    return ew.neg(a)


@implements(np.sort)
def sort(
    a: Operand,
    axis: OneAxis = -1,
    kind: str | None = None,
    order: str | None = None,
    *,
    stable: bool | None = None,
    descending: bool | None = None,
) -> Arrayed:
    """As ``numpy.sort``; ``descending`` is NumPy 2.5's."""
    a, axis = lined_up(arrayed(a), axis)
    kind = _kind(kind, order, stable)
    if descending:
        places = ops.argsort(_reversed_order(a), axis, "stable")
        return ops.take_along_axis(a, places, axis, is_permutation=True)
    return ops.sort(a, axis, kind)


@array_method("sort")
def _sort_in_place(
    x: TracedArray,
    axis: int = -1,
    kind: str | None = None,
    order: str | None = None,
    *,
    stable: bool | None = None,
    descending: bool | None = None,
) -> None:
    """Sort in place."""
    made = sort(x, axis, kind, order, stable=stable, descending=descending)
    x.ft_assign(made, "sort", fresh=True)


@implements(np.argsort, method="argsort")
def argsort(
    a: Operand,
    axis: OneAxis = -1,
    kind: str | None = None,
    order: str | None = None,
    *,
    stable: bool | None = None,
    descending: bool | None = None,
) -> Any:
    """As ``numpy.argsort``: integers, without derivative; ``descending`` is NumPy 2.5's."""
    a, axis = exactly_lined_up(arrayed(a), axis)
    kind = _kind(kind, order, stable)
    if descending:
        return ops.argsort(_reversed_order(a), axis, "stable")
    return ops.argsort(a, axis, kind)


@implements(np.sort_complex)
def sort_complex(a: Operand) -> Any:
    """As ``numpy.sort_complex``."""
    a = sort(a)
    if a.dtype.kind == "c":
        return a
    return convert(a, "F" if a.dtype.char in "bhBH" else "G" if a.dtype.char == "g" else "D")


def _places(kth: Operand, n: int) -> tuple[int, ...]:
    listed = np.atleast_1d(known(kth))
    found = []
    for k in listed.tolist():
        if not -n <= operator.index(k) < n:
            raise ShapeError(
                f"partition: kth={k} is out of bounds for {n} elements", fix=f"use -{n} … {n - 1}"
            )
        found.append(k % n)
    return tuple(found)


@implements(np.argpartition, method="argpartition")
def argpartition(
    a: Operand,
    kth: Operand,
    axis: OneAxis = -1,
    kind: str = "introselect",
    order: str | None = None,
) -> Any:
    """As ``numpy.argpartition``: integers, without derivative."""
    a, axis = exactly_lined_up(arrayed(a), axis)
    _kind(None, order, None)
    return ops.argpartition(a, _places(kth, a.shape[axis]), axis)


@implements(np.partition)
def partition(
    a: Operand,
    kth: Operand,
    axis: OneAxis = -1,
    kind: str = "introselect",
    order: str | None = None,
) -> Any:
    """As ``numpy.partition``; the order within each part may differ from NumPy's."""
    a, axis = lined_up(arrayed(a), axis)
    return ops.take_along_axis(
        a, argpartition(a, kth, axis, kind, order), axis, is_permutation=True
    )


@array_method("partition")
def _partition_in_place(
    x: TracedArray,
    kth: Operand,
    axis: int = -1,
    kind: str = "introselect",
    order: str | None = None,
) -> None:
    """Partition in place."""
    x.ft_assign(partition(x, kth, axis, kind, order), "partition", fresh=True)


@implements(np.lexsort, of_sequence=True)
def lexsort(keys: Iterable[Operand], axis: int = -1) -> Any:
    """As ``numpy.lexsort``: integers, without derivative."""
    arrays = tuple(arrayed(k) for k in keys)
    if len({k.shape for k in arrays}) != 1:
        raise ShapeError("lexsort: the keys must have equal shapes", fix="broadcast them first")
    if not arrays[0].ndim and axis in (0, -1):
        return np.zeros((), np.intp)[()]
    return bind(ops.lexsort_p, arrays, (one_axis(axis, arrays[0].ndim),))


@implements(np.searchsorted, method="searchsorted")
def searchsorted(a: Operand, v: Operand, side: str = "left", sorter: Operand | None = None) -> Any:
    """As ``numpy.searchsorted``: integers, without derivative."""
    a = arrayed(a)
    if a.ndim != 1:
        raise ShapeError(
            f"searchsorted needs a one-dimensional sorted array, got shape {a.shape}",
            fix="pass one row",
        )
    if side not in ("left", "right"):
        raise ShapeError(
            f"searchsorted: side must be 'left' or 'right', got {side!r}",
            fix="pass 'left' or 'right'",
        )
    if sorter is not None:
        return ops.searchsorted(ops.take_along_axis(a, arrayed(sorter), 0), arrayed(v), side)
    return ops.searchsorted(a, arrayed(v), side)


@implements(np.digitize)
def digitize(x: Operand, bins: Operand, right: bool = False) -> Any:
    """As ``numpy.digitize``: integers, without derivative."""
    edges: Any = arrayed(bins)
    x = arrayed(x)
    if "c" in (edges.dtype.kind, x.dtype.kind):
        raise DtypeError("digitize: complex numbers have no order", fix="take the real part")
    after, before = (
        index_static(edges, ((1, None, None),)),
        index_static(edges, ((None, -1, None),)),
    )
    rises, falls = all_(ew.greater_equal(after, before)), all_(ew.less_equal(after, before))
    message = "bins must be monotonically increasing or decreasing"
    edges = require(edges, ew.logical_or(rises, falls), "ValueError", message)
    # NumPy searches from the other side: digitize means bins[i-1] <= x < bins[i].
    ordered = ew.where(rises, edges, index_static(edges, ((None, None, -1),)))
    found = ops.searchsorted(ordered, x, "left" if right else "right")
    return ew.where(rises, found, ew.sub(edges.shape[0], found))
