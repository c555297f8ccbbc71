"""Rows of scatters that reduce elements with the same index: ``scatter_reduce`` and
``index_reduce``.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.ops import elementwise as ew
from functrace.ops import reductions
from functrace.ops.indexing import ARRAY, scatter_add, scatter_set
from functrace.ops.joining import concatenate
from functrace.ops.shaping import broadcast_to, convert, permute, reshape
from functrace.torch import errors
from functrace.torch.dispatch.applying import Op
from functrace.torch.dispatch.rows import FunctionTable, Run
from functrace.torch.errors.warnings import warn_once
from functrace.torch.functions.elementwise import dimension, dtype_of, shape_of, tensors_only
from functrace.torch.functions.picking import check_scatter, cropped, grid
from functrace.torch.functions.shaping import check_positions
from functrace.torch.tensors.dtypes import DTYPES
from functrace.torch.tensors.tensor import Operand, Value
from functrace.typing import Array

ROWS = FunctionTable()
_EXTREMES = {
    "amax": reductions.reduce_max,
    "amin": reductions.reduce_min,
    "prod": reductions.reduce_prod,
}
_KINDS = {"sum", "mean", *_EXTREMES}


def _neutral(kind: str, dtype: np.dtype[Any]) -> Any:
    """Return the neutral element of a product, maximum or minimum."""
    if kind == "prod":
        return np.ones((), dtype)
    least = kind == "amax"
    if dtype.kind == "b":
        return np.asarray(not least)
    if dtype.kind in "iu":
        return np.asarray(np.iinfo(dtype).min if least else np.iinfo(dtype).max, dtype)
    return np.asarray(-np.inf if least else np.inf, dtype)


def _reduced(x: Array, index: Array, source: Array, axis: int, kind: str, includes: bool) -> Any:
    """Return ``x``, each element reduced with the elements of ``source`` that ``index`` maps to
    it.
    """
    if not x.shape:
        row = [reshape(v, (1,)) for v in (x, index, source)]
        return reshape(_reduced(row[0], row[1], row[2], 0, kind, includes), ())
    if 0 in index.shape:
        return ew.positive(x) if x.dtype.kind != "b" else x.copy()
    source = cropped(source, index.shape)
    if kind in ("sum", "mean"):
        return _summed(x, index, source, axis, kind == "mean", includes)
    return _among_all(x, index, source, axis, kind, includes)


def _summed(x: Array, index: Array, source: Array, axis: int, is_mean: bool, includes: bool) -> Any:
    template, arrays = (ARRAY,) * x.ndim, grid(index, axis)
    count = scatter_add(np.ones(index.shape, np.int64), template, arrays, x.shape)
    kept = x if includes else ew.where(ew.greater_equal(count, 1), 0, x)
    total = ew.add(convert(kept, x.dtype), scatter_add(source, template, arrays, x.shape))
    if not is_mean:
        return total
    count = ew.maximum(ew.add(count, 1) if includes else count, 1)
    return (
        ew.floor_divide(total, convert(count, x.dtype))
        if x.dtype.kind in "iu"
        else ew.div(total, convert(count, x.dtype))
    )


def _among_all(x: Array, index: Array, source: Array, axis: int, kind: str, includes: bool) -> Any:
    """Reduce over a table of all target by all source elements: its derivative is that of the
    reduction.
    """
    order = (*[k for k in range(x.ndim) if k != axis], axis)
    back = tuple(int(k) for k in np.argsort(order))
    whole = tuple(n if k == axis else index.shape[k] for k, n in enumerate(x.shape))
    region = permute(cropped(x, whole), order)
    rows, places, count = region.shape[:-1], region.shape[-1], index.shape[axis]
    table = (*rows, places, count)
    there = broadcast_to(reshape(permute(index, order), (*rows, 1, count)), table)
    is_there = ew.equal(there, np.arange(places).reshape(places, 1))
    given = broadcast_to(reshape(permute(source, order), (*rows, 1, count)), table)
    values = ew.where(is_there, given, _neutral(kind, x.dtype))
    if includes:
        values = concatenate((values, reshape(region, (*rows, places, 1))), len(rows) + 1)
    found = _EXTREMES[kind](values, (len(rows) + 1,))
    if (
        not includes and kind != "prod"
    ):  # an equal former element gets its share of the gradient, as in PyTorch
        former = ew.stop_gradient(region) if x.dtype.kind in "fcV" else region
        tied = ew.where(ew.equal(former, found), former, _neutral(kind, x.dtype))
        values = concatenate((values, reshape(tied, (*rows, places, 1))), len(rows) + 1)
        found = _EXTREMES[kind](values, (len(rows) + 1,))
    if not includes:
        found = ew.where(reductions.reduce_any(is_there, (len(rows) + 1,)), found, region)
    found = permute(convert(found, x.dtype) if found.dtype != x.dtype else found, back)
    return found if whole == x.shape else scatter_set(x, tuple((0, n, 1) for n in whole), found)


def _indexed(x: Array, index: Array, source: Array, axis: int, kind: str, includes: bool) -> Any:
    if not x.shape:
        return _reduced(x, reshape(index, ()), source, axis, kind, includes)
    line = reshape(index, tuple(index.shape[0] if k == axis else 1 for k in range(x.ndim)))
    return _reduced(x, broadcast_to(line, source.shape), source, axis, kind, includes)


def _details(_specs: Sequence[Any], params: tuple[Any, ...]) -> dict[str, Any]:
    return {"dim": params[0], "reduce": params[1], "include_self": params[2]}


def _op(node: str, computes: Callable[..., Any], source: str) -> Op:
    fields = (("index", 1), ("self", 0), (source, 2), ("result", -1))
    return Op(
        node,
        computes,
        fields,
        edges=(0, 2),
        keeps=tuple(name for name, _ in fields),
        details=_details,
        in_rows=True,
        moves=True,
    )


SCATTER_REDUCE = _op("ScatterReduceBackward0", _reduced, "src")
INDEX_REDUCE = _op("IndexReduceBackward0", _indexed, "source")


@ROWS.family()
def scatter_reduce(run: Run) -> Callable[..., Value]:
    """Return the tensor with elements of ``src`` written at indices along a dimension, reduced if
    indices coincide.

    ``reduce`` is ``"sum"``, ``"prod"``, ``"mean"``, ``"amax"`` or ``"amin"``; without
    ``include_self`` former elements that are written to do not count.

    Cost: for products and extremes, memory for a table of all targets along the dimension by all
    source elements.
    """

    def function(
        input: Operand,
        dim: int,
        index: Operand,
        src: Operand,
        reduce: str,
        *,
        include_self: bool = True,
    ) -> Value:
        tensors_only("scatter_reduce", input=input, index=index, src=src)
        kind = {"max": "amax", "min": "amin"}.get(reduce, reduce)
        if kind not in _KINDS:
            raise RuntimeError(
                f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
            )
        axis = check_scatter("scatter", input, dim, index, src)
        refuse_complex("scatter_gather_tensor_cpu_reduce_" + kind, kind, input)
        return run(SCATTER_REDUCE, (input, index, src), (axis, kind, include_self))

    return function


@ROWS.family()
def index_reduce(run: Run) -> Callable[..., Value]:
    """Return the tensor with slices of ``source`` written at indices along a dimension, reduced if
    indices coincide.

    ``reduce`` is ``"prod"``, ``"mean"``, ``"amax"`` or ``"amin"``; see `scatter_reduce`.
    """

    def function(
        input: Operand,
        dim: int,
        index: Operand,
        source: Operand,
        reduce: str,
        *,
        include_self: bool = True,
    ) -> Value:
        tensors_only("index_reduce", input=input, index=index, source=source)
        if reduce not in _KINDS - {"sum"}:
            raise RuntimeError(
                "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got "
                f"{reduce}."
            )
        shape, given, along = shape_of(input), shape_of(source), shape_of(index)
        axis = dimension(dim, len(shape))
        if len(along) > 1:
            raise IndexError(
                errors.index_vector("index_reduce_", DTYPES[dtype_of(index)].printed, along)
            )
        if dtype_of(index).name not in ("int32", "int64"):
            called = DTYPES[dtype_of(index)].printed
            raise RuntimeError(
                f"index_reduce_(): Expected dtype int32/int64 for index but got: {called}"
            )
        if dtype_of(input) != dtype_of(source):
            called, other = (DTYPES[dtype_of(x)].printed for x in (input, source))
            raise RuntimeError(
                f"index_reduce_(): self ({called}) and source ({other}) must have the same scalar "
                "type"
            )
        rest = [tuple(n for k, n in enumerate(found) if k != axis) for found in (shape, given)]
        if rest[0] != rest[1] or len(shape) != len(given):
            raise RuntimeError(errors.index_reduce_shapes(shape, given))
        count = along[0] if along else 1
        if shape and count != given[axis]:
            raise RuntimeError(errors.index_count("index_reduce_", count, given[axis], axis))
        warn_once("index_reduce() is in beta and the API may change at any time.")
        check_positions("index_reduce", index, shape[axis] if shape else 1, None)
        refuse_complex("index_func_" + reduce, reduce, input)
        return run(INDEX_REDUCE, (input, index, source), (axis, reduce, include_self))

    return function


def refuse_complex(kernel: str, kind: str, input: Operand) -> None:
    """Refuse maxima and minima of complex numbers.

    Raises:
        NotImplementedError: with PyTorch's message.
    """
    if kind in ("amax", "amin") and dtype_of(input).kind == "c":
        raise NotImplementedError(
            f"\"{kernel}\" not implemented for '{DTYPES[dtype_of(input)].printed}'"
        )
