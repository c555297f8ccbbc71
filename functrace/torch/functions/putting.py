"""The rows of writes at positions: ``index_put``, ``put``, ``masked_scatter``, scatters into views,
``renorm``.

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.ops import elementwise as ew
from functrace.ops.indexing import ARRAY, scatter_each, scatter_set
from functrace.ops.indexing import gather as core_gather
from functrace.ops.indexing import scatter_add as core_scatter_add
from functrace.ops.norms import vector_norm as core_vector_norm
from functrace.ops.shaping import broadcast_to, convert
from functrace.ops.shaping import reshape as core_reshape
from functrace.torch import errors
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.promotion import check_broadcast
from functrace.torch.dispatch.rows import FunctionTable, Run
from functrace.torch.dispatch.unseen import unseen
from functrace.torch.functions import elementwise as f
from functrace.torch.functions import in_place, picking, shaping
from functrace.torch.functions.elementwise import dimension, dtype_of, shape_of
from functrace.torch.tensors.dtypes import DTYPES
from functrace.torch.tensors.memory import as_strided
from functrace.torch.tensors.tensor import Operand, Tensor, Value, wrap
from functrace.torch.tensors.views import wanting
from functrace.tracing import Tracer
from functrace.typing import Array

ROWS = FunctionTable()
_ALL = (None, None, None)


# -- index_put -------------------------------------------------------------------------------------


def _added(x: Array, value: Array, *rest: Any) -> Any:
    *indices, template = rest
    places = tuple(indices)
    wanted = core_gather(x, template, places).shape
    source = value if value.shape == wanted else broadcast_to(value, wanted)
    return ew.add(x, core_scatter_add(source, template, places, x.shape))


_INDICES = tuple((f"indices[{k}]", k + 2) for k in range(8))
_KEPT = tuple(f"indices[{k}]" for k in range(8))
INDEX_ADDED = Op(
    "IndexPutBackward0",
    _added,
    _INDICES,
    edges=(0, 1),
    keeps=_KEPT,
    details=lambda specs, params: {"accumulate": True},
    moves=True,
    called="index_put_accumulated",
)


@ROWS.family("function method in_place function_in_place")
def index_put(run: Run) -> Callable[..., Value]:
    """Return the tensor with values written at positions: ``input[indices] = values``.

    Args:
        indices: tensors of positions (or masks), one for each of the first dimensions; None for
            all.
        values: broadcast to the shape of ``input[indices]``; of its dtype.
        accumulate: True to add them.
    """

    def function(
        input: Operand, indices: Sequence[Any], values: Operand, accumulate: bool = False
    ) -> Value:
        f.tensors_only("index_put", input=input, values=values)
        entries = tuple(indices)
        ndim = len(shape_of(input))
        if len(entries) > ndim:
            raise IndexError(
                f"too many indices for tensor of dimension {ndim} (got {len(entries)})"
            )
        kinds = dtype_of(input), dtype_of(values)
        if kinds[0] != kinds[1]:
            names = [DTYPES[kind].printed for kind in kinds]
            raise RuntimeError(
                "Index put requires the source and destination dtypes match, got "
                f"{names[0]} for the destination and {names[1]} for the source."
            )
        given = tuple(slice(None) if entry is None else entry for entry in entries)
        arrays = shaping.basic_part(input, given)[1]
        if not arrays:
            full = shaping.expand(values, shape_of(input))
            return run(in_place.COPY, (input, full))
        operands, template = shaping.index_operands(input, arrays)
        if run is not apply and isinstance(input, Tensor):
            source = values if isinstance(values, Tensor) else wrap(values)
            wanting((input, source))
            in_place.check_put(input, source, operands, template)
        op = INDEX_ADDED if accumulate else in_place.PUT
        return run(op, (input, values, *operands), (template,))

    return function


# -- put -------------------------------------------------------------------------------------------


def _flat(x: Array, index: Array, source: Array, accumulate: bool) -> Any:
    count = math.prod(x.shape)
    row = core_reshape(x, (count,))
    places = core_reshape(index, (math.prod(index.shape),))
    places = ew.where(ew.less(places, 0), ew.add(places, count), places)
    values = core_reshape(source, (math.prod(source.shape),))
    if accumulate:
        found = ew.add(row, core_scatter_add(values, (ARRAY,), (places,), (count,)))
    else:
        found = scatter_each(row, (ARRAY,), values, (places,))
    return core_reshape(found, x.shape)


PUT = Op(
    "PutBackward0",
    _flat,
    (("index", 1), ("source", 2)),
    edges=(0, 2),
    keeps=("index", "source"),
    details=lambda specs, params: {"accumulate": params[0]},
    moves=True,
)


@ROWS.family("function method in_place")
def put(run: Run) -> Callable[..., Value]:
    """Return the tensor with elements written at positions among all elements, in row order.

    Args:
        index: int64, any shape.
        source: as many elements.
        accumulate: True to add them.
    """

    def function(
        input: Operand, index: Operand, source: Operand, accumulate: bool = False
    ) -> Value:
        f.tensors_only("put", input=input, index=index, source=source)
        if dtype_of(index) != np.int64:
            raise RuntimeError(
                "put_(): Expected a long tensor for index, but got "
                f"{DTYPES[dtype_of(index)].printed}"
            )
        kinds = [DTYPES[dtype_of(x)].printed for x in (input, source)]
        if kinds[0] != kinds[1]:
            raise RuntimeError(
                "put_(): self and source expected to have the same dtype, but got self.dtype = "
                f"{kinds[0]} and source.dtype = {kinds[1]}"
            )
        counts = math.prod(shape_of(source)), math.prod(shape_of(index))
        if counts[0] != counts[1]:
            raise IndexError(
                "put_(): Expected source and index to have the same number of elements, but got "
                f"source.numel() = {counts[0]}, index.numel() = {counts[1]}"
            )
        total = math.prod(shape_of(input))
        array: Any = index._array if isinstance(index, Tensor) else index
        if not isinstance(array, Tracer) and array.size:
            bad = array[(array < -total) | (array >= total)]
            if bad.size:
                raise IndexError(
                    f"out of range: tried to access index {bad.flat[0]} on a tensor of {total} "
                    "elements."
                )
        return run(PUT, (input, index, source), (bool(accumulate),))

    return function


# -- masked_scatter --------------------------------------------------------------------------------


def _scattered(x: Array, mask: Array, source: Array) -> Any:
    flags = mask if mask.shape == x.shape else broadcast_to(mask, x.shape)
    count = math.prod(x.shape)
    row = core_reshape(flags, (count,))
    places = ew.maximum(ew.sub(np.cumsum(row), 1), 0)
    values = core_reshape(source, (math.prod(source.shape),))
    chosen = core_reshape(core_gather(values, (ARRAY,), (places,)), x.shape)
    return ew.where(flags, chosen, x)


MASKED_SCATTER = Op(
    "MaskedScatterBackward0",
    _scattered,
    (("mask", 1),),
    edges=(0, 2),
    keeps=("mask",),
    details=lambda specs, params: {"source_sym_sizes": specs[2].shape},
    in_rows=True,
)


@ROWS.family("function method in_place")
def masked_scatter(run: Run) -> Callable[..., Value]:
    """Return the tensor with the first elements of ``source`` where a mask is true, in row order.

    Args:
        mask: bools that broadcast with the tensor.
        source: at least as many elements as the mask has true ones.
    """

    def function(input: Operand, mask: Operand, source: Operand) -> Value:
        f.tensors_only("masked_scatter", input=input, mask=mask, source=source)
        kinds = [DTYPES[dtype_of(x)].printed for x in (input, source)]
        if kinds[0] != kinds[1]:
            raise RuntimeError(
                "masked_scatter: expected self and source to have same dtypes but got"
                f"{kinds[0]} and {kinds[1]}"
            )
        if dtype_of(mask) != np.bool_:
            raise RuntimeError(
                "masked_scatter_ only supports boolean masks, but got mask with dtype "
                f"{DTYPES[dtype_of(mask)].printed}"
            )
        check_broadcast(shape_of(input), shape_of(mask))
        full = np.broadcast_shapes(shape_of(input), shape_of(mask))
        target: Any = input
        if full != shape_of(input):
            if run is not apply:
                raise RuntimeError(errors.output_shape(shape_of(input), full))
            target = shaping.expand(input, full)
        array: Any = mask._array if isinstance(mask, Tensor) else mask
        if not isinstance(array, Tracer):
            wanted = int(np.broadcast_to(array, full).sum())
            if math.prod(shape_of(source)) < wanted:
                raise RuntimeError("Number of elements of source < number of ones in mask")
            if not wanted:
                return f.clone(target) if run is apply else target
        return run(MASKED_SCATTER, (target, mask, source))

    return function


# -- scatters into views ---------------------------------------------------------------------------


def _check_slice(src: Operand, wanted: tuple[int, ...]) -> None:
    if shape_of(src) != wanted:
        raise RuntimeError(
            "expected src to have a size equal to the slice of self. src size = "
            f"{list(shape_of(src))}, slice size = {list(wanted)}"
        )


def _written_at(x: Array, source: Array, index: tuple[Any, ...]) -> Any:
    value = convert(source, x.dtype) if source.dtype != x.dtype else source
    return scatter_set(x, index, value)


SELECT_SCATTER = Op(
    "SelectScatterBackward0",
    _written_at,
    details=lambda specs, params: {
        "dim": len(params[0]) - 2,
        "index": params[0][-2] % (1 << 64),
    },
)
SLICE_SCATTER = Op(
    "SliceScatterBackward0",
    _written_at,
    details=lambda specs, params: (
        {"dim": len(params[0]) - 2}
        | dict(zip(("start", "end", "step"), params[0][-2], strict=True))
    ),
)


@ROWS.function()
def select_scatter(input: Operand, src: Operand, dim: int, index: int) -> Value:
    """Return a copy with ``src`` at one position along a dimension."""
    shape = shape_of(input)
    f.tensors_only("select_scatter", input=input, src=src)
    axis = dimension(dim, len(shape))
    if not -shape[axis] <= index < shape[axis]:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(shape)} at dimension "
            f"{axis}"
        )
    _check_slice(src, (*shape[:axis], *shape[axis + 1 :]))
    return apply(SELECT_SCATTER, (input, src), ((*(_ALL,) * axis, int(index), ...),))


@ROWS.function()
def slice_scatter(
    input: Operand,
    src: Operand,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Value:
    """Return a copy with ``src`` in place of a slice of a dimension."""
    shape = shape_of(input)
    f.tensors_only("slice_scatter", input=input, src=src)
    axis = dimension(dim, len(shape))
    if step <= 0:
        raise ValueError("step must be greater than zero")
    first, last, _ = slice(start, end).indices(shape[axis])
    count = max(0, -(-(last - first) // step))
    _check_slice(src, (*shape[:axis], count, *shape[axis + 1 :]))
    part = (first, max(first, last), step)
    return apply(SLICE_SCATTER, (input, src), ((*(_ALL,) * axis, part, ...),))


DIAGONAL_SCATTER = Op(
    "DiagonalScatterBackward0",
    picking._with_diagonal,
    details=lambda specs, params: {
        "offset": params[0] % (1 << 64),
        "dim1": params[1],
        "dim2": params[2],
    },
)


@ROWS.function()
def diagonal_scatter(
    input: Operand, src: Operand, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Value:
    """Return a copy with ``src`` on a diagonal of two dimensions."""
    f.tensors_only("diagonal_scatter", input=input, src=src)
    shape = shape_of(input)
    a, b = dimension(dim1, len(shape)), dimension(dim2, len(shape))
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    rows, columns = shape[a], shape[b]
    length = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    _check_slice(src, (*(n for k, n in enumerate(shape) if k not in (a, b)), length))
    return apply(DIAGONAL_SCATTER, (input, f.to(src, dtype_of(input))), (int(offset), a, b))


def _strided_places(
    shape: tuple[int, ...], size: tuple[int, ...], stride: tuple[int, ...], offset: int
) -> Array:
    """Return the positions, among all elements, of a view of contiguous memory."""
    places = np.full(size, offset, np.int64)
    for k, (n, step) in enumerate(zip(size, stride, strict=True)):
        places += (np.arange(n) * step).reshape(tuple(n if j == k else 1 for j in range(len(size))))
    return places


def _written_strided(
    x: Array, source: Array, size: tuple[int, ...], stride: tuple[int, ...], offset: int
) -> Any:
    places = _strided_places(x.shape, size, stride, offset)
    count = math.prod(x.shape)
    row = core_reshape(x, (count,))
    values = core_reshape(source, (math.prod(size),))
    return core_reshape(scatter_set(row, (ARRAY,), values, (places.reshape(-1),)), x.shape)


AS_STRIDED_SCATTER = Op(
    "AsStridedScatterBackward0",
    _written_strided,
    details=lambda specs, params: {
        "size": params[0],
        "stride": params[1],
        "storage_offset": params[2],
    },
)


@ROWS.function()
def as_strided_scatter(
    input: Operand,
    src: Operand,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Value:
    """Return a copy with ``src`` in place of the view `as_strided` of it."""
    f.tensors_only("as_strided_scatter", input=input, src=src)
    wanted, steps = tuple(size), tuple(stride)
    copied: Any = shaping.contiguous(input)
    if isinstance(copied, Tensor) and isinstance(copied._array, np.ndarray):
        with unseen():
            as_strided(copied.detach(), wanted, steps, storage_offset)  # checks the bounds
    _check_slice(src, wanted)
    return apply(AS_STRIDED_SCATTER, (copied, src), (wanted, steps, storage_offset or 0))


@ROWS.function("method")
def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Fill the diagonal of a matrix, or of a tensor with dimensions of one size, with a number.

    Args:
        wrap: True to continue the diagonal after ``n`` columns of a tall matrix.
    """
    shape = self._array.shape
    if len(shape) < 2:
        raise RuntimeError("dimensions must larger than 1")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    steps = self.stride()
    step = sum(steps)
    offset = self.storage_offset()
    rows, columns = shape[0], shape[-1]
    in_place.fill_(as_strided(self, (min(shape),), (step,), offset), fill_value)
    if wrap and len(shape) == 2 and rows > columns + 1:
        start = steps[0] * (columns + 1)
        count = (rows * columns - (columns + 1) * columns + columns) // (columns + 1)
        in_place.fill_(as_strided(self, (count,), (step,), offset + start), fill_value)
    return self


# -- renorm ----------------------------------------------------------------------------------------


def _renormed(x: Array, p: float, dim: int, limit: float) -> Any:
    axes = tuple(k for k in range(x.ndim) if k != dim)
    size = core_vector_norm(x, axes, p)
    wide = core_reshape(size, tuple(x.shape[k] if k == dim else 1 for k in range(x.ndim)))
    real = wide.dtype.type
    factor = ew.div(real(limit), ew.add(wide, real(1e-7)))
    return ew.mul(x, ew.where(ew.greater(wide, real(limit)), factor, real(1)))


RENORM = Op(
    "RenormBackward0",
    _renormed,
    (("self", 0),),
    keeps=("self",),
    details=lambda specs, params: dict(zip(("p", "dim", "maxnorm"), params, strict=True)),
)


@ROWS.family("function method in_place", out=True)
def renorm(run: Run) -> Callable[..., Value]:
    """Return the tensor with each slice along a dimension scaled down to a norm of at most
    ``maxnorm``.
    """

    def function(input: Operand, p: float, dim: int, maxnorm: float) -> Value:
        f.tensors_only("renorm", input=input)
        if isinstance(p, complex) or p <= 0:
            raise RuntimeError("renorm: non-positive-norm not supported")
        if maxnorm < 0:
            raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm:g}")
        ndim = len(shape_of(input))
        if ndim < 2:
            raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {ndim} dimensions")
        kind = dtype_of(input)
        if kind.kind not in "fcV":
            raise RuntimeError(
                "linalg.vector_norm: Expected a floating point or complex tensor as input. Got "
                f"{DTYPES[kind].printed}"
            )
        return run(RENORM, (input,), (float(p), dimension(dim, ndim), float(maxnorm)))

    return function


# -- Python functions of elements ------------------------------------------------------------------


def _of_elements(name: str, count: int) -> None:
    def function(self: Tensor, *given: Any) -> Tensor:
        *others, called = given
        if self.requires_grad:
            raise RuntimeError(
                f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() "
                "instead."
            )
        arrays = [self._array, *(x._array for x in others)]
        if any(isinstance(x, Tracer) for x in arrays):
            raise TypeError(errors.SHAPE_FROM_VALUES)
        wide = [np.broadcast_to(x, arrays[0].shape) for x in arrays]
        values = [
            called(*(v.item() for v in row)) for row in zip(*(x.flat for x in wide), strict=True)
        ]
        made = np.array(values, dtype=self._array.dtype).reshape(self._array.shape)
        in_place.copy_(self, wrap(made))
        return self

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Overwrite each element with what a Python function returns for it" + (
        " and those of other tensors." if count > 1 else "."
    )
    ROWS.function("method")(function)


_of_elements("apply_", 1)
_of_elements("map_", 2)
_of_elements("map2_", 3)
