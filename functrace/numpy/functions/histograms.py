"""Histograms and counts: ``histogram``, ``histogramdd``, ``histogram2d``, ``bincount``.

Counts have no derivative. Sums of weights are differentiable in the weights, edges and densities in
the range of the data.

Layer: 3.
"""

from __future__ import annotations

import builtins
import math
import operator
import warnings
from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from functrace.errors import ConcretizationError, DtypeError, ShapeError
from functrace.ir.aval import shape_of
from functrace.numpy.arrays.layout import UNKNOWN
from functrace.numpy.arrays.views import laid_out
from functrace.numpy.functions.creation import linspace
from functrace.numpy.functions.running import diff
from functrace.numpy.functions.shaping import atleast_2d
from functrace.numpy.protocol.operands import Arrayed, Operand, arrayed, flattened, known, stacked
from functrace.numpy.protocol.tables import implements
from functrace.ops import elementwise as ew
from functrace.ops import sorting
from functrace.ops.checks import require
from functrace.ops.indexing import ARRAY, index_static, scatter_add
from functrace.ops.reductions import reduce_all, reduce_max, reduce_min, reduce_sum
from functrace.ops.shaping import broadcast_to, convert, permute, reshape
from functrace.tracing.tracer import LITERALS, Tracer

Range: TypeAlias = "Sequence[Any] | Arrayed | None"
"""``range=``: two ends, or ``None`` for the range of the data; per dimension, one pair each."""
Bins: TypeAlias = "str | Operand | Sequence[Operand]"
"""``bins=``: a number, the edges, or the name of a rule; several dimensions take one each."""


def _all(x: Arrayed) -> Any:
    return reduce_all(x, tuple(range(len(shape_of(x)))))


def _kind(x: Operand) -> Any:
    return x if type(x) in LITERALS else arrayed(x).dtype


# -- edges -----------------------------------------------------------------------------------------


def _ends(a: Arrayed, range: Range) -> tuple[Any, Any, Any]:
    """Return the first and the last edge as floats, and the result dtype of the edges."""
    if range is not None:
        first, last = range
        kinds: list[Any] = [_kind(first), _kind(last), a.dtype]
        low, high = [arrayed(x) for x in (first, last)]
        fits = ew.less_equal(low, high)
        low = require(low, fits, "ValueError", "max must be larger than min in range parameter.")
        message = "supplied range is not finite"
    elif not a.size:
        low, high, kinds, message = np.asarray(0), np.asarray(1), [0, 1, a.dtype], ""
    else:
        low, high = reduce_min(a, (0,)), reduce_max(a, (0,))
        kinds, message = [a.dtype], "autodetected range is not finite"
    dtype = np.result_type(*kinds)
    dtype = dtype if dtype.kind == "f" else np.result_type(dtype, 0.0)
    low, high = convert(low, dtype), convert(high, dtype)
    if message:
        low = require(
            low, ew.logical_and(ew.isfinite(low), ew.isfinite(high)), "ValueError", message
        )
    same = ew.equal(low, high)
    return ew.where(same, low - 0.5, low), ew.where(same, high + 0.5, high), dtype


def _rising(edges: Arrayed, message: str, *, strictly: bool) -> Any:
    before, after = (
        index_static(edges, ((None, -1, None),)),
        index_static(edges, ((1, None, None),)),
    )
    return require(
        edges, _all((ew.less if strictly else ew.less_equal)(before, after)), "ValueError", message
    )


def _single(bins: Bins) -> Any:
    """Return ``bins`` untyped: bins of one dimension, or one entry per dimension."""
    return bins


def _count_of(bins: object, what: str) -> int:
    try:
        count = operator.index(bins)  # type: ignore[arg-type]
    except TypeError:
        raise DtypeError(
            f"{what} must be an integer, a string, or an array", fix="pass a number of bins"
        ) from None
    if count < 1:
        raise ShapeError(f"{what} must be positive, when an integer", fix="pass at least 1")
    return count


def _edges(a: Arrayed, bins: Bins, range: Range, weights: Arrayed | None) -> tuple[Any, Any]:
    """Return the checked edges, and NumPy's result: given edges are returned unchanged."""
    found: Any = bins if isinstance(bins, str) else stacked(_single(bins))
    if isinstance(bins, str):
        if weights is not None:
            raise DtypeError(
                "Automated estimation of the number of bins is not supported for weighted data",
                fix="pass a number of bins",
            )
        try:
            plain: Any = None if range is None else tuple(known(x)[()] for x in range)
            count = len(np.histogram_bin_edges(known(a), bins, plain)) - 1
        except ConcretizationError as error:
            raise ConcretizationError(
                f"the number of bins for bins={bins!r} depends on values, which are not known here",
                made=error.made,
                fix="pass a number of bins, or their edges",
            ) from error
    elif len(shape_of(found)) == 1:
        given = arrayed(found)
        return _rising(
            given, "`bins` must increase monotonically, when an array", strictly=False
        ), given
    elif shape_of(found):
        raise ShapeError("`bins` must be 1d, when an array", fix="pass one row of edges")
    else:
        count = _count_of(found, "`bins`")
    first, last, dtype = _ends(a, range)
    made = linspace(first, last, count + 1, dtype=dtype)
    message = f"Too many bins for data range. Cannot create {count} finite-sized bins."
    made = _rising(made, message, strictly=True)
    return made, made


def _sample(a: Operand, weights: Operand | None) -> tuple[Any, Any]:
    x = arrayed(a)
    if x.dtype == np.bool_:
        warnings.warn(
            f"Converting input from {x.dtype} to {np.uint8} for compatibility.",
            RuntimeWarning,
            stacklevel=5,
        )
        x = convert(x, np.uint8)
    w = None if weights is None else arrayed(weights)
    if w is not None and w.shape != x.shape:
        raise ShapeError(
            "weights should have the same shape as a.", fix="pass one weight per element"
        )
    return flattened(x), None if w is None else flattened(w)


@implements(np.histogram_bin_edges)
def histogram_bin_edges(
    a: Operand, bins: Bins = 10, range: Range = None, weights: Operand | None = None
) -> Any:
    """As ``numpy.histogram_bin_edges``; differentiable in the range of the data."""
    return _edges(
        _sample(a, weights)[0], bins, range, None if weights is None else arrayed(weights)
    )[1]


# -- counts ----------------------------------------------------------------------------------------


def _bins_of(x: Arrayed, edges: Arrayed) -> tuple[Any, Any]:
    """Return the bin of each element, and a mask of elements in any bin; the last bin is closed."""
    count = edges.shape[0] - 1
    place = ew.sub(sorting.searchsorted(edges, x, "right"), 1)
    place = ew.sub(place, convert(ew.equal(x, index_static(edges, (-1,))), np.intp))
    within = ew.logical_and(ew.greater_equal(place, 0), ew.less(place, count))
    return place, within


def _summed(place: Arrayed, within: Arrayed, weights: Arrayed | None, count: int) -> Any:
    """Return the count or sum of weights per bin; elements in no bin go to a dropped extra bin."""
    place = ew.where(within, place, count)
    size = shape_of(place)
    values = broadcast_to(np.ones((), np.intp), size) if weights is None else weights
    return index_static(
        scatter_add(values, (ARRAY,), (place,), (count + 1,)), ((None, count, None),)
    )


@implements(np.histogram)
def histogram(
    a: Operand,
    bins: Bins = 10,
    range: Range = None,
    density: bool | None = None,
    weights: Operand | None = None,
) -> tuple[Any, Any]:
    """As ``numpy.histogram``; differentiable in the weights and in the range of the data."""
    x, w = _sample(a, weights)
    edges, given = _edges(x, bins, range, w)
    equal = isinstance(bins, str) or not shape_of(stacked(_single(bins)))
    searched = convert(x, edges.dtype) if equal else x
    exact = (
        None
        if w is None
        else convert(w, np.result_type(w.dtype, np.float64))
        if w.dtype.kind in "fcb"
        else w
    )
    made = _summed(*_bins_of(searched, edges), exact, edges.shape[0] - 1)
    made = made if w is None else convert(made, w.dtype)
    if density:
        made = ew.div(ew.div(made, convert(diff(edges), np.float64)), reduce_sum(made, (0,)))
    return made, given


def _columns(sample: Operand | Sequence[Operand]) -> Any:
    """Return the samples, one per row."""
    given: Any = sample
    shape = getattr(given, "shape", None)
    if shape is not None and len(shape) == 2:
        return arrayed(given)
    rows: Any = stacked(given)
    return permute(
        atleast_2d(cast("Any", rows if isinstance(rows, Tracer) else np.asarray(rows))), (1, 0)
    )


@implements(np.histogramdd, of_sequence=True)
def histogramdd(
    sample: Operand | Sequence[Operand],
    bins: Bins = 10,
    range: Range = None,
    density: bool | None = None,
    weights: Operand | None = None,
) -> tuple[Any, list[Any]]:
    """As ``numpy.histogramdd``; differentiable like ``histogram``."""
    x = _columns(sample)
    total, dims = x.shape
    each = _single(bins)
    if hasattr(each, "__len__"):
        if len(each) != dims:
            raise ShapeError(
                "The dimension of bins must be equal to the dimension of the sample x.",
                fix="pass one per column",
            )
        given = [each[k] for k in builtins.range(dims)]
    else:
        given = [each] * dims
    ranges = (None,) * dims if range is None else tuple(range)
    if len(ranges) != dims:
        raise ShapeError(
            "range argument must have one entry per dimension", fix="pass one pair per column"
        )
    edges: list[Any] = []
    counts: list[int] = []
    place: Any = None
    within: Any = None
    for k, (one, ends) in enumerate(zip(given, ranges, strict=True)):
        column = index_static(x, ((None, None, None), k))
        if len(shape_of(one := stacked(one))) == 1:
            shown = arrayed(one)
            found = _rising(
                shown,
                f"`bins[{k}]` must be monotonically increasing, when an array",
                strictly=False,
            )
        elif shape_of(one):
            raise ShapeError(
                f"`bins[{k}]` must be a scalar or 1d array", fix="pass one row of edges"
            )
        else:
            count = _count_of(one, f"`bins[{k}]`")
            first, last, _ = _ends(column, ends)
            shown = found = linspace(first, last, count + 1)
        edges.append(shown)
        counts.append(found.shape[0] - 1)
        here, inside = _bins_of(column, found)
        place = here if place is None else ew.add(ew.mul(place, counts[-1]), here)
        within = inside if within is None else ew.logical_and(within, inside)
    w = None if weights is None else _bincount_weights(arrayed(weights), total)
    made = convert(reshape(_summed(place, within, w, math.prod(counts)), tuple(counts)), np.float64)
    if density:
        whole = reduce_sum(made, tuple(builtins.range(dims)))
        for k, found in enumerate(edges):
            made = ew.div(
                made,
                reshape(
                    diff(found), tuple(counts[k] if j == k else 1 for j in builtins.range(dims))
                ),
            )
        return ew.div(made, whole), edges
    return laid_out(made, UNKNOWN), edges  # a slice of a larger array in NumPy


@implements(np.histogram2d)
def histogram2d(
    x: Operand,
    y: Operand,
    bins: Bins = 10,
    range: Range = None,
    density: bool | None = None,
    weights: Operand | None = None,
) -> tuple[Any, Any, Any]:
    """As ``numpy.histogram2d``; differentiable like ``histogram``."""
    a, b = arrayed(x), arrayed(y)
    if len(a) != len(b):
        raise ShapeError("x and y must have the same length.", fix="pass one y per x")
    each = _single(bins)
    if hasattr(each, "__len__") and len(each) not in (1, 2):
        bins = [arrayed(each)] * 2
    made, edges = histogramdd([a, b], bins, range, density, weights)
    return made, edges[0], edges[1]


def _bincount_weights(weights: Arrayed, size: int) -> Arrayed:
    if weights.shape != (size,):
        raise ShapeError(
            "The weights and list don't have the same length.", fix="pass one weight per element"
        )
    if not np.can_cast(weights.dtype, np.float64, "safe"):
        raise DtypeError(
            f"Cannot cast weights from {weights.dtype} to float64 according to the rule 'safe'",
            fix="cast them",
        )
    return convert(weights, np.float64)


@implements(np.bincount)
def bincount(x: Operand, /, weights: Operand | None = None, minlength: int = 0) -> Any:
    """As ``numpy.bincount``; differentiable in the weights.

    Raises:
        ConcretizationError: if ``x`` is abstract: the length of the result depends on its values.
    """
    try:
        places = known(x)
    except ConcretizationError as error:
        raise ConcretizationError(
            "the length of numpy.bincount depends on the largest element, which is not known here",
            made=error.made,
            fix="use counts = np.zeros(n, like=x); np.add.at(counts, x, weights), which says how "
            "many there are",
        ) from error
    counts = np.bincount(places, minlength=minlength)
    if weights is None:
        return counts
    exact = _bincount_weights(arrayed(weights), places.shape[0])
    return scatter_add(exact, (ARRAY,), (places.astype(np.intp),), counts.shape)
