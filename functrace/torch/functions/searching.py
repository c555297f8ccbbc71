"""The rows of searches and counts: different elements, positions in sorted sequences, histograms,
quantiles, most frequent elements.

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.ops import elementwise as ew
from functrace.ops import reductions as core
from functrace.ops.shaping import convert
from functrace.ops.shaping import reshape as core_reshape
from functrace.ops.sorting import searchsorted_p, take_along_axis
from functrace.torch import errors
from functrace.torch.autograd.delayed import refuse_derivative
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.numbers import NUMBERS, number_of
from functrace.torch.dispatch.promotion import arithmetic, for_kinds
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.functions import elementwise as f
from functrace.torch.functions import picking, reductions, shaping, statistics
from functrace.torch.functions.elementwise import dimension, dtype_of, shape_of
from functrace.torch.functions.named_results import named_result
from functrace.torch.functions.reductions import Extreme, check_nonempty
from functrace.torch.tensors.dtypes import DTYPES
from functrace.torch.tensors.tensor import Operand, Tensor, Value, fresh, wrap
from functrace.tracing import Tracer, bind
from functrace.typing import Array

ROWS = FunctionTable()
_NAMED = {row.name: row.function for row in f.ROWS}
_ORDERED = {row.name: row.function for row in statistics.ROWS}


def plain_array(x: Any) -> Any:
    """Return the array of a tensor, whose elements decide about the shape or values of a result.

    Raises:
        TypeError: for traced values.
    """
    array = x._array if isinstance(x, Tensor) else x
    if isinstance(array, Tracer):
        raise TypeError(errors.SHAPE_FROM_VALUES)
    return np.asarray(array)


def _made(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], compute: Callable[[], Any]
) -> Any:
    """Return what is computed from arrays, as dispatch modes see it."""
    if MODES.dispatch is not None:
        return MODES.dispatch.make(name, args, kwargs, compute)
    return compute()


# -- different elements ----------------------------------------------------------------------------


def _requested(found: Sequence[Any], inverse: bool, counts: bool) -> Any:
    """Return the requested results: one alone, or a tuple."""
    wanted = (found[0], *((found[1],) if inverse else ()), *((found[2],) if counts else ()))
    return wanted[0] if len(wanted) == 1 else tuple(wanted)


@ROWS.function()
def unique(
    input: Operand,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Return the different elements (or slices of a dimension), in ascending order.

    Args:
        return_inverse: True to return as well, for each element, its position among them.
        return_counts: True to return as well how often each occurs.
        dim: the dimension of slices; None for elements.
    """
    f.tensors_only("unique", input=input)
    array = plain_array(input)
    if array.dtype.kind == "c":
        raise NotImplementedError(errors.no_kernel("unique").format(DTYPES[array.dtype].printed))
    axis = None if dim is None else dimension(dim, array.ndim)
    if MODES.dispatch is not None:
        needed = (sorted, return_inverse or return_counts, return_counts)
        if axis is None:
            name, given = "_unique2", (input, *needed)
        else:
            name, given = "unique_dim", (input, axis, *needed)
        made = _made(name, given, {}, lambda: unique(input, sorted, True, True, dim))
        return _requested(made, return_inverse, return_counts)
    if axis is not None and not array.ndim:
        array = array.reshape(1)
    values, inverse, counts = np.unique(
        array, return_inverse=True, return_counts=True, axis=axis, equal_nan=False
    )
    inverse = inverse.reshape(array.shape if axis is None else (array.shape[axis],))
    found = [fresh(np.ascontiguousarray(x)) for x in (values, inverse, counts)]
    if isinstance(input, Tensor):
        names = ("Unique2", "_unique2") if axis is None else ("UniqueDim", "unique_dim")
        refuse_derivative(found[0], input, f"{names[0]}Backward0", names[1])
    return _requested(found, return_inverse, return_counts)


def _unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the different elements, and their places or an empty tensor: PyTorch's function
    beneath an older `unique`.
    """
    values, inverse = unique(input, sorted, True)
    refuse_derivative(values, input, "UniqueBackward0", "_unique")
    return values, inverse if return_inverse else _no_places()


def _unique2(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the different elements, and their places and counts or empty tensors: PyTorch's
    function beneath `unique`.
    """
    values, inverse, counts = unique(input, sorted, True, True)
    return (
        values,
        inverse if return_inverse else _no_places(),
        counts if return_counts else _no_places(),
    )


def unique_dim(
    input: Tensor,
    dim: int,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the different slices of a dimension, their places, and their counts."""
    return unique(input, sorted, True, True, dim)


def _no_places() -> Tensor:
    return fresh(np.zeros(0, np.int64))


@ROWS.function()
def unique_consecutive(
    input: Operand,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Return the elements (or slices of a dimension) that differ from the one before.

    Args:
        return_inverse: True to return as well, for each element, its position among them.
        return_counts: True to return as well how many equal ones follow each other.
        dim: the dimension of slices; None for elements.
    """
    f.tensors_only("unique_consecutive", input=input)
    array = plain_array(input)
    if array.dtype.kind == "c":
        raise NotImplementedError(errors.no_kernel("unique").format(DTYPES[array.dtype].printed))
    if MODES.dispatch is not None:
        given = (input, return_inverse, return_counts, *(() if dim is None else (dim,)))
        made = _made(
            "unique_consecutive", given, {}, lambda: unique_consecutive(input, True, True, dim)
        )
        return _requested(made, return_inverse, return_counts)
    if dim is None:
        rows = array.reshape(-1)
        axis = 0
    else:
        axis = dimension(dim, array.ndim)
        rows = np.moveaxis(array, axis, 0) if array.ndim else array.reshape(1)
    count = rows.shape[0]
    changes = np.ones(count, np.bool_)
    if count > 1:
        differ = rows[1:] != rows[:-1]
        changes[1:] = differ.reshape(count - 1, -1).any(1)
    values = rows[changes]
    inverse = np.cumsum(changes) - 1
    places = np.flatnonzero(changes)
    counts = np.diff(np.append(places, count))
    if dim is None:
        inverse = inverse.reshape(array.shape)
    elif array.ndim:
        values = np.moveaxis(values, 0, axis)
    found = [fresh(np.ascontiguousarray(x)) for x in (values, inverse.astype(np.int64), counts)]
    if isinstance(input, Tensor):
        refuse_derivative(found[0], input, "UniqueConsecutiveBackward0", "unique_consecutive")
    return _requested(found, return_inverse, return_counts)


# -- positions in sorted sequences -----------------------------------------------------------------


def _side(name: str, right: bool, side: str | None) -> str:
    if side not in (None, "left", "right"):
        raise RuntimeError(f"torch.{name}(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(
            f"torch.{name}(): side and right can't be set to opposites, got side of left while "
            "right was True"
        )
    return "right" if right or side == "right" else "left"


def _positions(sequence: Array, values: Array, side: str) -> Array:
    """Return positions in sorted sequences, the last dimension of both."""
    if sequence.dtype != values.dtype:
        common = np.result_type(sequence, values)
        sequence, values = sequence.astype(common), values.astype(common)
    if sequence.ndim == 1:
        return np.searchsorted(sequence, values, side)  # type: ignore[call-overload]
    found = np.empty(values.shape, np.int64)
    for k in np.ndindex(sequence.shape[:-1]):
        found[k] = np.searchsorted(sequence[k], values[k], side)  # type: ignore[call-overload]
    return found


def _array_or_traced(x: Any) -> Any:
    array = x._array if isinstance(x, Tensor) else x
    return array if isinstance(array, Tracer) else np.asarray(array)


def _searched(sequence: Any, values: Any, side: str, short: bool) -> Any:
    common = np.result_type(sequence.dtype, values.dtype)
    given = convert(sequence, common), convert(values, common)
    found = bind(searchsorted_p, given, (side, sequence.ndim - 1))
    return convert(found, np.dtype(np.int32 if short else np.int64))


SEARCH = Op("SearchsortedBackward0", _searched, edges=())
"""Search among traced values."""


@ROWS.function("function", out=True)
def searchsorted(
    sorted_sequence: Operand,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Value:
    """Return positions at which elements keep a sequence sorted.

    Args:
        sorted_sequence: ascending along the last dimension.
        input: the elements; its other dimensions are those of the sequence, unless that is a
            vector.
        out_int32: True for int32 positions.
        right: True for the last such position instead of the first one.
        side: ``"left"`` or ``"right"``, instead of ``right``.
        sorter: positions that sort the sequence.
    """
    f.tensors_only("searchsorted", sorted_sequence=sorted_sequence)
    side = _side("searchsorted", right, side)
    sequence: Any = _array_or_traced(sorted_sequence)
    number = number_of(input)
    is_number = type(number) in NUMBERS
    values: Any = np.asarray(number) if is_number else _array_or_traced(input)
    if not is_number and not values.ndim and sequence.ndim != 1:
        raise RuntimeError(
            "torch.searchsorted(): input value can be a scalar only when boundaries tensor "
            f"dimension is 1, but we got boundaries tensor dim({sequence.ndim}) and input value's "
            f"dim({values.ndim}) numel({values.size})"
        )
    common = np.result_type(sequence.dtype, values.dtype)
    if common.kind in "bc":
        raise NotImplementedError(
            errors.no_kernel("searchsorted_out_cpu").format(DTYPES[common].printed)
        )
    if not sequence.ndim:
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 "
            "dimension"
        )
    if sequence.ndim != 1 and sequence.shape[:-1] != values.shape[:-1]:
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 "
            "dimensions of boundaries tensor and input value tensor must match, but we got "
            f"boundaries tensor {list(sequence.shape)} and input value tensor {list(values.shape)}"
        )
    if any(isinstance(x, Tracer) for x in (sequence, values)):
        if sorter is not None:
            sorted_sequence = picking.gather(sorted_sequence, -1, sorter)
        elements = wrap(values) if is_number else input
        return apply(SEARCH, (sorted_sequence, elements), (side, bool(out_int32)))
    if sorter is not None:
        order = plain_array(sorter)
        if order.shape != sequence.shape:
            raise RuntimeError(
                "torch.searchsorted(): boundary and sorter must have the same size, but got "
                f"boundary tensor {list(sequence.shape)}and got sorter tensor {list(order.shape)}"
            )
        sequence = np.take_along_axis(sequence, order, -1)
    found = np.asarray(_positions(sequence, values, side))
    given = {"out_int32": out_int32, "right": side == "right", "sorter": sorter}
    return _made(
        "searchsorted",
        (sorted_sequence, input),
        {key: value for key, value in given.items() if value is not None and value is not False},
        lambda: fresh(found.astype(np.int32 if out_int32 else np.int64)),
    )


@ROWS.function("function", out=True)
def bucketize(
    input: Any, boundaries: Operand, *, out_int32: bool = False, right: bool = False
) -> Value:
    """Return for each element the number of its bucket between sorted boundaries.

    Args:
        boundaries: ascending, shape (n,).
        out_int32: True for int32 numbers.
        right: True if a boundary belongs to the bucket after it.
    """
    f.tensors_only("bucketize", boundaries=boundaries)
    if len(shape_of(boundaries)) != 1:
        raise RuntimeError(
            f"boundaries tensor must be 1 dimension, but got dim({len(shape_of(boundaries))})"
        )
    given: dict[str, Any] = {"out_int32": out_int32, "right": right}
    shown = {key: True for key, value in given.items() if value}
    return _made(
        "bucketize", (input, boundaries), shown, lambda: searchsorted(boundaries, input, **given)
    )


# -- histograms ------------------------------------------------------------------------------------


@ROWS.function()
def bincount(input: Operand, weights: Operand | None = None, minlength: int = 0) -> Value:
    """Return how often each number occurs in a vector of non-negative integers, or the sum of its
    weights.

    Args:
        input: shape (n,).
        weights: shape (n,).
        minlength: the least length of the result.
    """
    f.tensors_only("bincount", input=input)
    array = plain_array(input)
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if array.dtype.kind not in "ui":
        raise NotImplementedError(
            errors.no_kernel("bincount_cpu").format(DTYPES[array.dtype].printed)
        )
    if array.ndim != 1 or (array.size and array.min() < 0):
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if MODES.dispatch is not None:
        shown = (input, *(() if weights is None else (weights,)))
        least = {"minlength": minlength} if minlength else {}
        return _made("bincount", shown, least, lambda: bincount(input, weights, minlength))
    if weights is None:
        return fresh(np.bincount(array.astype(np.int64), None, minlength).astype(np.int64))
    given = plain_array(weights)
    if given.shape != array.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    kind = np.dtype(np.float32) if given.dtype == np.float32 else np.dtype(np.float64)
    return fresh(np.bincount(array.astype(np.int64), given, minlength).astype(kind))


def _counted(values: Array, edges: Array, weights: Array | None, kind: np.dtype[Any]) -> Array:
    """Return how many values lie between edges; the last edge counts as inside."""
    inside = (values >= edges[0]) & (values <= edges[-1])
    chosen = values[inside]
    place = np.minimum(np.searchsorted(edges, chosen, "right") - 1, len(edges) - 2)
    found = np.bincount(place, None if weights is None else weights[inside], len(edges) - 1)
    return found[: len(edges) - 1].astype(kind)


def _bounds(name: str, values: Array, low: float, high: float, given: bool) -> tuple[float, float]:
    """Return the outer edges of a histogram: given, or the extremes of the values."""
    if not given and values.size:
        low, high = float(values.min()), float(values.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"{name}: range of [{low:g}, {high:g}] is not finite")
    if low == high:
        margin = 1 if name == "torch.histc" else 0.5
        low, high = low - margin, high + margin
    return low, high


@ROWS.function(out=True)
def histc(input: Operand, bins: int = 100, min: float = 0, max: float = 0) -> Value:
    """Return how many elements lie in each of equal bins.

    Args:
        bins: the number of bins.
        min, max: the outer edges; if they are equal, the extremes of the elements.
    """
    f.tensors_only("histc", input=input)
    values = plain_array(input)
    if values.dtype.kind not in "fV":
        kernel = {"b": "linspace_cpu", "c": "aminmax_cpu"}.get(values.dtype.kind, "histogram_cpu")
        raise NotImplementedError(errors.no_kernel(kernel).format(DTYPES[values.dtype].printed))
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    if max < min:
        raise RuntimeError("torch.histc: max must be larger than min")
    if MODES.dispatch is not None:
        given = (input, bins, min, max) if (bins, min, max) != (100, 0, 0) else (input,)
        return _made("histc", given, {}, lambda: histc(input, bins, min, max))
    low, high = _bounds("torch.histc", values, float(min), float(max), min != max)
    return fresh(_in_equal_bins(values.reshape(-1), low, high, bins, None, values.dtype))


def _in_equal_bins(
    values: Array, low: float, high: float, bins: int, weights: Array | None, kind: np.dtype[Any]
) -> Array:
    """Return how many values lie in equal bins, found by a division as in PyTorch."""
    inside = (values >= low) & (values <= high)
    chosen = values[inside]
    one = values.dtype.type
    place = ((chosen - one(low)) / (one(high) - one(low)) * one(bins)).astype(np.int64)
    place = np.minimum(place, bins - 1)
    given = None if weights is None else weights[inside]
    return np.bincount(place, given, bins).astype(kind)


def _outer_edges(given: Sequence[float] | None) -> tuple[float, float]:
    return (0.0, 0.0) if given is None else (float(given[0]), float(given[1]))


_Histogram = named_result("histogram", "hist bin_edges")


@ROWS.function(out=True)
def histogram(
    input: Operand,
    bins: Any,
    *,
    range: Sequence[float] | None = None,
    weight: Operand | None = None,
    density: bool = False,
) -> Any:
    """Return how many elements lie in each bin, and the edges of the bins.

    Args:
        bins: the number of equal bins, or a tensor of their edges.
        range: the outer edges of equal bins; by default, the extremes of the elements.
        weight: weights of the elements, in their shape.
        density: True for a density, whose integral is 1.
    """
    f.tensors_only("histogram", input=input)
    values = plain_array(input)
    kind = values.dtype
    if kind.name not in ("float32", "float64"):
        raise NotImplementedError(errors.no_kernel("histogramdd").format(DTYPES[kind].printed))
    weights = None if weight is None else plain_array(weight)
    if weights is not None and weights.shape != values.shape:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the "
            "input tensor excluding its innermost dimension, but got input with shape "
            f"{[*values.shape, 1]} and weight with shape {list(weights.shape)}"
        )
    flat = values.reshape(-1)
    flat_weights = None if weights is None else weights.reshape(-1)
    if isinstance(bins, Tensor):
        edges = plain_array(bins)
        found = _counted(flat, edges, flat_weights, kind)
    else:
        low, high = _bounds("torch.histogramdd", values, *_outer_edges(range), range is not None)
        edges = np.linspace(low, high, bins + 1).astype(kind)
        found = _in_equal_bins(flat, low, high, bins, flat_weights, kind)
    if density:
        found = found / (found.sum() * np.diff(edges))
    return _Histogram(fresh(found.astype(kind)), fresh(edges))


_HistogramDD = named_result("histogramdd", "hist bin_edges")


@ROWS.function("function")
def histogramdd(
    input: Operand,
    bins: Any,
    *,
    range: Sequence[float] | None = None,
    weight: Operand | None = None,
    density: bool = False,
) -> Any:
    """Return how many points lie in each cell of a grid, and the edges of the cells.

    Args:
        input: points, shape (..., d).
        bins: the numbers of equal bins of each coordinate (or one for all), or tensors of edges.
        range: lowest and highest edge of each coordinate, one after the other.
        weight: weights of the points, shape (...).
        density: True for a density, whose integral is 1.
    """
    f.tensors_only("histogramdd", input=input)
    points = plain_array(input)
    kind, count = points.dtype, points.shape[-1]
    flat = points.reshape(-1, count)
    listed = [bins] * count if isinstance(bins, int) else list(bins)
    edges = []
    for k, own in enumerate(listed):
        if isinstance(own, Tensor):
            edges.append(plain_array(own))
            continue
        given = (0.0, 0.0) if range is None else (range[2 * k], range[2 * k + 1])
        low, high = _bounds("torch.histogramdd", flat[:, k], *given, range is not None)
        edges.append(np.linspace(low, high, own + 1).astype(kind))
    weights = None if weight is None else plain_array(weight).reshape(-1)
    found, _ = np.histogramdd(flat, edges, density=density, weights=weights)
    return _HistogramDD(fresh(found.astype(kind)), tuple(fresh(x) for x in edges))


# -- positions of elements -------------------------------------------------------------------------


@ROWS.function()
def argwhere(input: Operand) -> Value:
    """Return the positions of nonzero elements, one row each."""
    f.tensors_only("argwhere", input=input)
    return f.nonzero(input)


@ROWS.function()
def nonzero_static(input: Operand, *, size: int, fill_value: int = -1) -> Value:
    """Return the positions of the first ``size`` nonzero elements, and rows of ``fill_value`` if
    there are fewer.
    """
    f.tensors_only("nonzero_static", input=input)
    array = plain_array(input)
    found = np.full((size, array.ndim), fill_value, np.int64)
    places = np.argwhere(array)[:size] if array.ndim else np.zeros((0, 0), np.int64)
    found[: len(places)] = places
    return fresh(found)


# -- extremes of both kinds ------------------------------------------------------------------------


_Aminmax = named_result("aminmax", "min max")


def _both(x: Array, axes: tuple[int, ...], keep: bool, _shown: Any) -> Any:
    found = core.reduce_min(x, axes), core.reduce_max(x, axes)
    return tuple(core.expand_reduced(v, x.shape, axes) if keep else v for v in found)


AMINMAX = Op(
    "AminmaxBackward0",
    _both,
    (("self", 0), ("min", -1), ("max", -2)),
    arithmetic.checked(for_kinds("buif", "aminmax_cpu")),
    keeps=("self", "min", "max"),
    in_rows=True,
    apart=True,
    details=lambda specs, params: {"dim": params[2], "keepdim": params[1]},
)


@ROWS.function(out=True)
def aminmax(input: Operand, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the smallest and the largest element, of all or along a dimension."""
    f.tensors_only("aminmax", input=input)
    shape = shape_of(input)
    if dim is not None and not shape and dtype_of(input).kind == "c":
        raise RuntimeError(f"aminmax not implemented for {DTYPES[dtype_of(input)].printed}")
    axes = tuple(range(len(shape))) if dim is None else (dimension(dim, len(shape)),)
    if not shape:
        axes = ()
    if any(shape[k] == 0 for k in axes):
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no "
            "identity."
        )
    return _Aminmax(*apply(AMINMAX, (input,), (axes, bool(keepdim), dim)))


# -- order -----------------------------------------------------------------------------------------


class _Kthvalue(Extreme):
    __slots__ = ()


class _Mode(Extreme):
    __slots__ = ()


_Kthvalue.__name__, _Mode.__name__ = "kthvalue", "mode"


def _picked(x: Array, places: Array, axis: int, keep: bool) -> Any:
    """Return one element along an axis, and its position, of which the derivative is computed."""
    dropped = core.dropped_shape(x.shape, (axis,))
    found = core_reshape(places, dropped)
    kept = core.expand_reduced(found, x.shape, (axis,))
    values = take_along_axis(x, kept, axis)
    return (values, kept) if keep else (core_reshape(values, dropped), found)


def _kth(x: Array, k: int, axis: int, keep: bool) -> Any:
    if not x.ndim:
        return ew.positive(x), convert(ew.mul(ew.not_equal(x, x), 0), np.int64)
    order = statistics._order(ew.stop_gradient(x), axis, False)
    place: Any = order[(slice(None),) * axis + (slice(k - 1, k),)]
    return _picked(x, place, axis, keep)


def _along(specs: Sequence[Any], params: tuple[Any, ...]) -> dict[str, Any]:
    return {"dim": params[-2], "keepdim": params[-1], "self_sym_sizes": specs[0].shape}


KTHVALUE = Op(
    "KthvalueBackward0",
    _kth,
    (("indices", -2),),
    arithmetic.checked(for_kinds("uif", "kthvalue_cpu")),
    keeps=("indices",),
    in_rows=True,
    details=_along,
)


@ROWS.function(out=True)
def kthvalue(input: Operand, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """Return the ``k``-th smallest element along a dimension, and its position.

    Args:
        k: counted from 1.
    """
    f.tensors_only("kthvalue", input=input)
    shape = shape_of(input)
    axis = dimension(dim, len(shape))
    check_nonempty("kthvalue", shape, axis)
    if not 1 <= k <= (shape[axis] if shape else 1):
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {axis}")
    if not shape and dtype_of(input).kind in "bc":
        return _Kthvalue(f.clone(input), fresh(np.zeros((), np.int64)))
    return _Kthvalue(*apply(KTHVALUE, (input,), (int(k), axis, bool(keepdim))))


def _most_frequent(x: Array, axis: int, keep: bool) -> Any:
    if not x.ndim:
        value = ew.positive(x) if x.dtype.kind != "b" else ew.stop_gradient(x)
        return value, convert(ew.mul(ew.not_equal(x, x), 0), np.int64)
    held = ew.stop_gradient(x)
    order = statistics._order(held, axis, False)
    inner: Any = np.moveaxis(np.take_along_axis(held, order, axis), axis, -1)
    n = inner.shape[-1]
    places = np.arange(n)
    first = np.ones((*inner.shape[:-1], 1), np.bool_)
    starts = np.concatenate((first, inner[..., 1:] != inner[..., :-1]), -1)
    begin = np.maximum.accumulate(np.where(starts, places, 0), -1)
    best = np.argmax(places - begin, -1, keepdims=True)
    return _picked(x, np.take_along_axis(order, np.moveaxis(best, -1, axis), axis), axis, keep)


MODE = Op(
    "ModeBackward0",
    _most_frequent,
    (("indices", -2),),
    arithmetic.checked(for_kinds("buif", "mode_cpu")),
    keeps=("indices",),
    in_rows=True,
    details=_along,
)


@ROWS.function(out=True)
def mode(input: Operand, dim: int = -1, keepdim: bool = False) -> Any:
    """Return the most frequent element along a dimension (the smallest of several), and its last
    position.
    """
    f.tensors_only("mode", input=input)
    axis = dimension(dim, len(shape_of(input)))
    check_nonempty("mode", shape_of(input), axis)
    if not shape_of(input) and dtype_of(input).kind == "c":
        return _Mode(f.clone(input), fresh(np.zeros((), np.int64)))
    return _Mode(*apply(MODE, (input,), (axis, bool(keepdim))))


@ROWS.function(out=True)
def msort(input: Operand) -> Value:
    """Return the elements sorted along the first dimension."""
    f.tensors_only("msort", input=input)
    return _ORDERED["sort"](input, 0).values


# -- quantiles -------------------------------------------------------------------------------------


_WAYS = ("linear", "lower", "higher", "midpoint", "nearest")


def _check_quantile(name: str, input: Operand, q: Any, way: str) -> Any:
    """Return the quantiles' positions, as a tensor."""
    kind = dtype_of(input)
    if 0 in shape_of(input):
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    if kind not in (np.float32, np.float64):
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype")
    if way not in _WAYS:
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, "
            f"but got {way}"
        )
    if isinstance(q, Tensor):
        if q._array.ndim > 1:
            raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
        if q._array.dtype != kind:
            raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor")
        array = q._array
        if isinstance(array, np.ndarray) and not ((array >= 0) & (array <= 1)).all():
            raise RuntimeError(f"{name}() q values must be in the range [0, 1]")
        return q
    number = float(q)
    if not 0 <= number <= 1:
        raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {number:g}")
    return fresh(np.asarray(number, kind))


def _quantiles(name: str, ignores_nan: bool) -> None:
    def function(
        input: Operand,
        q: Any,
        dim: int | None = None,
        keepdim: bool = False,
        *,
        interpolation: str = "linear",
    ) -> Value:
        f.tensors_only(name, input=input)
        given = _check_quantile(name, input, q, interpolation)
        shape = shape_of(input)
        axis = None if dim is None else dimension(dim, len(shape))
        if axis is None or not shape:
            rows: Any = shaping.reshape(input, (-1,))
            rest: tuple[int, ...] = (1,) * len(shape) if keepdim else ()
        else:
            rows = picking.movedim(input, axis, -1)
            rest = tuple(1 if k == axis else n for k, n in enumerate(shape))
            if not keepdim:
                rest = tuple(n for k, n in enumerate(shape) if k != axis)
        ordered = _ORDERED["sort"](rows, -1).values
        n = shape_of(ordered)[-1]
        count = shape_of(given)[0] if shape_of(given) else 1
        places: Any = shaping.reshape(given, (1,) * (len(shape_of(ordered)) - 1) + (count,))
        unknown = _NAMED["isnan"](ordered)
        if ignores_nan:
            known = reductions.sum(_NAMED["logical_not"](unknown), -1, True)
            last = f.to(known - 1, dtype_of(input)).clamp(min=0)
            ranks = f.mul(places, last)
        else:
            ranks = f.mul(places, n - 1)
            some = _NAMED["isnan"](ordered[..., -1:])
            full = np.broadcast_shapes(shape_of(ranks), shape_of(some))
            ranks = picking.masked_fill(shaping.expand(ranks, full), some, float(n - 1))
        wanted = (*shape_of(ordered)[:-1], count)
        ranks = shaping.expand(ranks, wanted)
        if interpolation == "lower":
            ranks = _NAMED["floor"](ranks)
        elif interpolation == "higher":
            ranks = _NAMED["ceil"](ranks)
        elif interpolation == "nearest":
            ranks = _NAMED["round"](ranks)
        below = f.to(ranks, np.dtype(np.int64))
        found = shaping.gather(ordered, -1, below)
        if interpolation in ("linear", "midpoint"):
            weight: Any = f.sub(ranks, below)
            if interpolation == "midpoint":
                weight = wrap(np.full(wanted, 0.5, dtype_of(input)))
            above = f.to(_NAMED["ceil"](ranks), np.dtype(np.int64))
            found = _NAMED["lerp"](found, shaping.gather(ordered, -1, above), weight)
        if shape_of(given):
            found = picking.movedim(found, -1, 0)
            return shaping.reshape(found, (count, *rest)) if rest != shape_of(found)[1:] else found
        return apply(shaping.SQUEEZE_OF_PRODUCT, (found,), (rest,))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Return quantiles of all elements, or along a dimension" + (
        ", ignoring nan." if ignores_nan else "."
    )
    ROWS.function(out=True)(function)


_quantiles("quantile", ignores_nan=False)
_quantiles("nanquantile", ignores_nan=True)
