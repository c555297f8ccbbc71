"""The rows that split, repeat, reorder and index tensors: ``split``, ``repeat``, ``flip``,
``scatter``.

Pieces of a split are views of one base, each an output of one node; PyTorch refuses to write into
them under grad mode.

Layer: 9.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.numpy.arrays.layout import layout_of
from functrace.ops import elementwise as ew
from functrace.ops import shaping as core
from functrace.ops.cumulative import cumprod as core_cumprod
from functrace.ops.cumulative import cumsum as core_cumsum
from functrace.ops.indexing import ARRAY, index_static, scatter_each, scatter_set
from functrace.ops.indexing import gather as core_gather
from functrace.ops.indexing import scatter_add as core_scatter_add
from functrace.ops.reductions import reduce_sum
from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES, no_grad
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.numbers import NUMBERS, number_of
from functrace.torch.dispatch.promotion import check_broadcast, check_fits
from functrace.torch.dispatch.rows import FunctionTable, Run
from functrace.torch.functions.elementwise import (
    clone,
    dimension,
    dimensions,
    dtype_of,
    shape_of,
    tensors_only,
    to,
    whole,
)
from functrace.torch.functions.shaping import (
    ALIAS,
    check_positions,
    completed,
    contiguous,
    expand,
    gather,
    narrow,
    permute,
    reshape,
    sizes,
    transpose,
    unsqueeze,
    view,
)
from functrace.torch.tensors.aliases import shown
from functrace.torch.tensors.dtypes import DTYPES, DtypeLike
from functrace.torch.tensors.orders import laid
from functrace.torch.tensors.steps import view_written
from functrace.torch.tensors.strides import Geometry, stride_rule
from functrace.torch.tensors.tensor import (
    UNVERSIONED,
    Operand,
    Tensor,
    Value,
    View,
    fresh,
    is_expanded,
    wrap,
)
from functrace.tracing import Tracer
from functrace.typing import Array

ROWS = FunctionTable()
_ALL = (None, None, None)

# -- pieces ----------------------------------------------------------------------------------------


def _pieces(x: Array, indices: tuple[Any, ...], _details: Any) -> Any:
    return tuple([index_static(x, index) for index in indices])


def _piece_details(_specs: Sequence[Any], params: tuple[Any, ...]) -> dict[str, Any]:
    return dict(params[1])


SPLIT, SPLIT_SIZES, UNBIND = (
    Op(node, _pieces, details=_piece_details)
    for node in ("SplitBackward0", "SplitWithSizesBackward0", "UnbindBackward0")
)


def apart(piece: Array) -> Any:
    """Return a piece that shares memory but no version with its base; a traced one is a separate
    value.
    """
    return ew.positive(piece) if isinstance(piece, Tracer) else piece


UNSAFE_SPLIT, UNSAFE_SPLIT_SIZES = (
    Op(
        node,
        lambda x, indices, details: tuple([apart(p) for p in _pieces(x, indices, details)]),
        details=_piece_details,
    )
    for node in ("UnsafeSplitBackward0", "UnsafeSplitWithSizesBackward0")
)


def _views(op: Op, input: Operand, indices: tuple[Any, ...], **details: Any) -> tuple[Any, ...]:
    """Return the parts of a tensor at static indices, each a view of it."""
    params = (indices, tuple(details.items()))
    is_safe = op not in (UNSAFE_SPLIT, UNSAFE_SPLIT_SIZES)
    if is_safe and isinstance(input, Tensor) and input._counter is UNVERSIONED:
        with no_grad():  # views of inference tensors have no history
            made = apply(op, (input,), params)
    else:
        made = apply(op, (input,), params)
    if is_safe and isinstance(input, Tensor):
        before = input._view
        base, steps = (input, ()) if before is None else (before.base, before.steps)
        kind = (
            "multiple" if MODES.recording else "inference" if MODES.recording is None else "no_grad"
        )
        for piece, index in zip(made, indices, strict=True):
            piece._counter = input._counter
            if input._counter is UNVERSIONED:
                continue
            piece._view = View(base, (*steps, (index_static, (index,), None)), kind)
            if isinstance(input._array, Tracer):
                piece._array = shown(input._array, index_static, (index,))
    elif isinstance(input, Tensor) and not isinstance(input._array, Tracer):
        for piece in made:
            piece._moves = ((index_static, ((...,),), None),)  # its storage is the whole tensor's
    return made


def _along(axis: int, entry: Any) -> tuple[Any, ...]:
    return (*(_ALL,) * axis, entry, ...)


def _split(
    op: tuple[Op, Op], tensor: Operand, split_size_or_sections: Any, dim: int
) -> tuple[Any, ...]:
    shape = shape_of(tensor)
    if not shape:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    axis = dimension(dim, len(shape))
    size = shape[axis]
    if isinstance(split_size_or_sections, (tuple, list)):
        sections = tuple(int(n) for n in split_size_or_sections)
        if sum(sections) != size:
            raise RuntimeError(errors.split_sizes(size, axis, sections))
        ends = np.cumsum((0, *sections)).tolist()
        which, details = (
            op[1],
            {"dim": dim % (1 << 64), "self_sym_sizes": shape, "split_sizes": sections},
        )
    else:
        step = whole("split", "split_size", split_size_or_sections, 1)
        if step < 0:
            raise RuntimeError(
                f"split expects split_size be non-negative, but got split_size={step}"
            )
        if step == 0 and size:
            raise RuntimeError(
                f"split_size can only be 0 if dimension size is 0, but got dimension size of {size}"
            )
        ends = [*range(0, size, step or 1), size] if size else [0, 0]
        which, details = (
            op[0],
            {"dim": dim % (1 << 64), "self_sym_sizes": shape, "split_size": step},
        )
    indices = tuple(_along(axis, (a, b, 1)) for a, b in itertools.pairwise(ends))
    return _views(which, tensor, indices, **details)


@ROWS.function()
def split(tensor: Operand, split_size: Any, dim: int = 0) -> tuple[Any, ...]:
    """Return views of pieces along a dimension: of one size (the last may be smaller), or of these
    sizes.
    """
    return _split((SPLIT, SPLIT_SIZES), tensor, split_size, dim)


@ROWS.function(aliases="unsafe_split_with_sizes")
def unsafe_split(tensor: Operand, split_size: Any, dim: int = 0) -> tuple[Any, ...]:
    """Return pieces that may be written into."""
    return _split((UNSAFE_SPLIT, UNSAFE_SPLIT_SIZES), tensor, split_size, dim)


@ROWS.function()
def split_with_sizes(input: Operand, split_sizes: Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    """Return views of pieces of these sizes along a dimension."""
    return _split((SPLIT, SPLIT_SIZES), input, tuple(split_sizes), dim)


def _chunk_size(input: Operand, chunks: int, dim: int) -> Any:
    shape = shape_of(input)
    if not shape:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    size = shape[dimension(dim, len(shape))]
    return -(-size // chunks) if size else (0,) * chunks


@ROWS.function()
def chunk(input: Operand, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """Return views of at most ``chunks`` pieces of one size along a dimension."""
    return split(input, _chunk_size(input, chunks, dim), dim)


@ROWS.function()
def unsafe_chunk(input: Operand, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """Return pieces that may be written into."""
    return unsafe_split(input, _chunk_size(input, chunks, dim), dim)


@ROWS.function()
def tensor_split(input: Operand, indices_or_sections: Any, dim: int = 0) -> tuple[Any, ...]:
    """Return views of pieces along a dimension: a number of them, sizes differing by at most 1; or
    between positions.
    """
    shape = shape_of(input)
    if not shape:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    if isinstance(indices_or_sections, Tensor):
        given = indices_or_sections._array
        if given.dtype != np.int64:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to have dtype of long, "
                f"but got {DTYPES[given.dtype].printed}"
            )
        if given.ndim > 1:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or "
                "one-dimensional tensor, "
                f"but got a tensor with {given.ndim} dims"
            )
        indices_or_sections = given.tolist()
    axis = dimension(dim, len(shape))
    size = shape[axis]
    if not isinstance(indices_or_sections, (tuple, list)):
        indices_or_sections = whole("tensor_split", "sections", indices_or_sections, 1)
        if indices_or_sections <= 0:
            raise RuntimeError(
                f"number of sections must be larger than 0, got {indices_or_sections}"
            )
    if isinstance(indices_or_sections, (tuple, list)):
        ends = [0, *(min(k if k >= 0 else k + size, size) for k in indices_or_sections), size]
    else:
        small, larger = divmod(size, indices_or_sections)
        ends = [0, *np.cumsum([small + (k < larger) for k in range(indices_or_sections)]).tolist()]
    return tuple([narrow(input, axis, a, max(b - a, 0)) for a, b in itertools.pairwise(ends)])


@ROWS.function()
def unbind(input: Operand, dim: int = 0) -> tuple[Any, ...]:
    """Return views of all positions along a dimension."""
    shape = shape_of(input)
    if not shape:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    axis = dimension(dim, len(shape))
    return _views(UNBIND, input, tuple(_along(axis, k) for k in range(shape[axis])), dim=axis)


# -- repeating and turning -------------------------------------------------------------------------


def _repeat(x: Array, repeats: tuple[int, ...]) -> Any:
    shape = (1,) * (len(repeats) - x.ndim) + x.shape
    spread = tuple(n for size in shape for n in (1, size))
    full = tuple(n for count, size in zip(repeats, shape, strict=True) for n in (count, size))
    wide = core.broadcast_to(core.reshape(x, spread), full)
    return ew.positive(
        core.reshape(wide, tuple(n * m for n, m in zip(repeats, shape, strict=True)))
    )


def _positive(function: Callable[..., Any]) -> Callable[..., Any]:
    """Accept bools, for which NumPy has no ``positive``: they are converted to numbers."""

    def computed(x: Array, *params: Any) -> Any:
        if x.dtype.kind != "b":
            return function(x, *params)
        return core.convert(function(core.convert(x, np.uint8), *params), np.bool_)

    return computed


REPEAT = Op(
    "RepeatBackward0",
    _positive(_repeat),
    details=lambda specs, params: {"repeats": params[0], "self_sym_sizes": specs[0].shape},
    in_rows=True,
)


@ROWS.function("method")
def repeat(self: Operand, *repeats: int | Sequence[int]) -> Value:
    """Return the tensor repeated along each dimension."""
    counts = sizes(repeats)
    if len(counts) < len(shape_of(self)):
        raise RuntimeError(errors.REPEAT_RANK)
    if any(n < 0 for n in counts):
        shape = (1,) * (len(counts) - len(shape_of(self))) + tuple(shape_of(self))
        found = [n * m for n, m in zip(counts, shape, strict=True)]
        negative = next((n for n in found if n < 0), None)
        if negative is not None:
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {negative}: {found}"
            )
    return apply(REPEAT, (self,), (counts,))


@ROWS.function()
def tile(input: Operand, *dims: int | Sequence[int]) -> Value:
    """Return the tensor repeated along each of the last dimensions."""
    counts = sizes(dims)
    return repeat(input, (1,) * (len(shape_of(input)) - len(counts)) + counts)


@ROWS.function()
def repeat_interleave(input: Operand, repeats: Any, dim: int | None = None) -> Value:
    """Return each element (or slice along a dimension) repeated consecutively."""
    if dim is None:
        input, dim = input if len(shape_of(input)) == 1 else reshape(input, -1), 0
    shape = shape_of(input)
    axis = dimension(dim, len(shape))
    if isinstance(repeats, Tensor):
        kind = repeats._array.dtype
        if len(shape_of(repeats)) > 1:
            raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
        if repeats._array.size not in (1, shape[axis]):
            raise RuntimeError(
                "repeats must have the same size as input along dim, but got repeats.size(0) = "
                f"{repeats._array.size} "
                f"and input.size({axis}) = {shape[axis]}"
            )
        if kind.name not in ("int32", "int64"):
            raise NotImplementedError(
                errors.no_kernel("repeat_interleave_cpu").format(DTYPES[kind].printed)
            )
        if np.any(repeats._array < 0):
            raise RuntimeError("repeats can not be negative")
        counts = np.broadcast_to(repeats._array, shape[axis])
        return index_select(input, axis, wrap(np.repeat(np.arange(shape[axis]), counts)))
    wide = clone(
        expand(unsqueeze(input, axis + 1), (*shape[: axis + 1], repeats, *shape[axis + 1 :]))
    )
    return view(contiguous(wide), (*shape[:axis], shape[axis] * repeats, *shape[axis + 1 :]))


FLIP = Op(
    "FlipBackward0",
    _positive(
        lambda x, dims: ew.positive(
            index_static(x, tuple((None, None, -1) if k in dims else _ALL for k in range(x.ndim)))
        )
    ),
    details=lambda specs, params: {"dims": params[0]},
)


@ROWS.function()
def flip(input: Operand, *dims: int | Sequence[int]) -> Value:
    """Return the tensor with the order along dimensions reversed."""
    rank = len(shape_of(input))
    given = tuple(dimension(k, rank) for k in sizes(dims))
    dimensions(given or None, rank)
    return apply(FLIP, (input,), (given,))


@ROWS.function()
def fliplr(input: Operand) -> Value:
    """Return the tensor with its second dimension reversed."""
    return flip(input, 1)


@ROWS.function()
def flipud(input: Operand) -> Value:
    """Return the tensor with its first dimension reversed."""
    return flip(input, 0)


def _roll(x: Array, shifts: tuple[int, ...], dims: tuple[int, ...]) -> Any:
    if not dims:
        flat = core.reshape(x, (math.prod(x.shape),))
        return core.reshape(core.roll(flat, shifts[0], 0), x.shape)
    for shift, axis in zip(shifts, dims, strict=True):
        x = core.roll(x, shift, axis)
    return x


ROLL = Op(
    "RollBackward0",
    _roll,
    details=lambda specs, params: {"dims": params[1], "shifts": params[0]},
    in_rows=True,
)


@ROWS.function()
def roll(input: Operand, shifts: Any, dims: Any = None) -> Value:
    """Return the tensor with its elements shifted cyclically along dimensions."""
    moves = sizes((shifts,))
    if not moves:
        raise RuntimeError("`shifts` required")
    axes = () if dims is None else tuple(dimension(k, len(shape_of(input))) for k in sizes((dims,)))
    if len(moves) != (len(axes) or 1):
        raise RuntimeError(
            f"shifts and dimensions must align. shifts: {len(moves)}, dims:{len(axes)}"
        )
    if axes and not shape_of(input):
        raise IndexError(f"Dimension specified as {sizes((dims,))[0]} but tensor has no dimensions")
    return apply(ROLL, (input,), (moves, axes))


def _triangle(name: str, keeps: Callable[[Any, Any], Any], says: str) -> None:
    def kept(x: Array, diagonal: int) -> Any:
        rows, columns = np.arange(x.shape[-2])[:, None], np.arange(x.shape[-1])
        mask = keeps(columns - rows, diagonal)
        return ew.where(np.broadcast_to(mask, x.shape), x, np.zeros((), x.dtype)[()])

    op = Op(
        f"{name.title()}Backward0",
        kept,
        details=lambda specs, params: {"diagonal": params[0] % (1 << 64)},
        in_rows=True,
    )

    def make(run: Run) -> Callable[..., Value]:
        def function(input: Operand, diagonal: int = 0) -> Value:
            if len(shape_of(input)) < 2:
                raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
            return run(op, (input,), (whole(name, "diagonal", diagonal),))

        return function

    make.__name__, make.__doc__ = name, f"Return the {says} triangle of matrices, zero elsewhere."
    ROWS.family(out=True)(make)


_triangle("tril", np.less_equal, "lower")
_triangle("triu", np.greater_equal, "upper")


# -- diagonals -------------------------------------------------------------------------------------


def _diagonal(x: Array, offset: int, dim1: int, dim2: int) -> Any:
    rest = [k for k in range(x.ndim) if k not in (dim1, dim2)]
    return core.diagonal(core.permute(x, (*rest, dim1, dim2)), offset)


def _with_diagonal(base: Array, value: Array, offset: int, dim1: int, dim2: int) -> Any:
    order = (*(k for k in range(base.ndim) if k not in (dim1, dim2)), dim1, dim2)
    turned = core.permute(base, order)
    rows, columns = turned.shape[-2:]
    there = np.broadcast_to(np.eye(rows, columns, offset, dtype=np.bool_), turned.shape)
    found = ew.where(there, core.embed_diagonal(value, offset, rows, columns), turned)
    return core.permute(found, tuple(int(k) for k in np.argsort(order)))


view_written(_diagonal, _with_diagonal, is_strided=True)


def _diagonal_strides(given: Geometry, _node: str, offset: int, dim1: int, dim2: int) -> Geometry:
    shape, strides, begin = given
    rest = [k for k in range(len(shape)) if k not in (dim1, dim2)]
    rows, columns = shape[dim1] - max(-offset, 0), shape[dim2] - max(offset, 0)
    size = max(min(rows, columns), 0)
    if size:
        begin += offset * strides[dim2] if offset >= 0 else -offset * strides[dim1]
    return (
        (*[shape[k] for k in rest], size),
        (*[strides[k] for k in rest], strides[dim1] + strides[dim2]),
        begin,
    )


stride_rule(_diagonal, _diagonal_strides)
DIAGONAL = Op(
    "DiagonalBackward0",
    _diagonal,
    is_view=True,
    details=lambda specs, params: {
        "dim1": params[1], "dim2": params[2], "offset": params[0] % (1 << 64),
        "self_sym_sizes": specs[0].shape
    },
)  # fmt: skip


def _embedded(x: Any, offset: int, dims: tuple[int, int], given: tuple[int, int]) -> Any:
    """Return matrices with the last dimension on a diagonal, in two dimensions of the result."""
    size, rank = x.shape[-1] + abs(offset), x.ndim + 1
    made = core.embed_diagonal(x, offset, size, size)
    rest = iter(range(rank - 2))
    axes = tuple(rank - 2 + dims.index(k) if k in dims else next(rest) for k in range(rank))
    return made if axes == tuple(range(rank)) else core.permute(made, axes)


DIAG_EMBED = Op(
    "DiagEmbedBackward0",
    _embedded,
    details=lambda specs, params: {
        "offset": params[0] % (1 << 64),
        "dim1": params[2][0] % (1 << 64),
        "dim2": params[2][1] % (1 << 64),
    },
)
TRACE = Op(
    "TraceBackward0",
    lambda x: _sum(core.diagonal(x, 0)),
    details=lambda specs, params: {"self_sym_sizes": specs[0].shape},
)


def _sum(x: Array) -> Any:
    return reduce_sum(core.convert(x, np.int64) if x.dtype.kind in "bui" else x, (0,))


@ROWS.function()
def diagonal(input: Operand, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """Return a view of a diagonal of two dimensions, as the last dimension."""
    rank = len(shape_of(input))
    a, b = dimension(dim1, rank), dimension(dim2, rank)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return apply(DIAGONAL, (input,), (int(offset), a, b))


@ROWS.function()
def diag_embed(input: Operand, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Value:
    """Return matrices, in two dimensions of the result, with the last dimension on a diagonal."""
    rank = len(shape_of(input)) + 1
    a, b = dimension(dim1, rank), dimension(dim2, rank)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return apply(DIAG_EMBED, (input,), (int(offset), (a, b), (int(dim1), int(dim2))))


@ROWS.function()
def diag(input: Operand, diagonal: int = 0) -> Value:
    """Return a diagonal of a matrix, or a matrix with a vector on a diagonal."""
    rank = len(shape_of(input))
    if rank == 1:
        return diag_embed(input, diagonal)
    if rank != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {rank}D")
    return clone(apply(DIAGONAL, (input,), (int(diagonal), 0, 1)))


@ROWS.function()
def trace(input: Operand) -> Value:
    """Return the sum of the diagonal of a matrix."""
    if len(shape_of(input)) != 2:
        raise RuntimeError(
            "trace: expected a matrix, but got tensor with dim " + str(len(shape_of(input)))
        )
    return apply(TRACE, (input,))


# -- other orders of dimensions --------------------------------------------------------------------


@ROWS.function(aliases="swapaxes")
def swapdims(input: Operand, dim0: int, dim1: int) -> Value:
    """Return a view with two dimensions swapped."""
    return transpose(input, dim0, dim1)


@ROWS.function(aliases="moveaxis")
def movedim(input: Operand, source: Any, destination: Any) -> Value:
    """Return a view with dimensions moved to other positions."""
    rank = len(shape_of(input))
    sources, places = (
        [dimension(k, rank) for k in sizes((given,))] for given in (source, destination)
    )
    rest = iter(k for k in range(rank) if k not in sources)
    order = [sources[places.index(k)] if k in places else next(rest) for k in range(rank)]
    return permute(input, order) if rank else apply(ALIAS, (input,), ((...,),))


@ROWS.function()
def ravel(input: Operand) -> Value:
    """Return the tensor with one dimension: itself or a view if it is contiguous, otherwise a
    copy.
    """
    array: Any = input._array if isinstance(input, Tensor) else input
    if isinstance(array, Tracer) and layout_of(array) is None:
        return reshape(input, -1)
    return view(contiguous(input), -1)


@ROWS.function()
def unflatten(input: Operand, dim: int, sizes: Sequence[int]) -> Value:
    """Return a view with a dimension split into several.

    Raises:
        RuntimeError: if the product of the sizes is not the dimension's size.
    """
    if not isinstance(sizes, (tuple, list)):
        raise TypeError(
            errors.must_be("unflatten", "sizes", 1, "tuple of ints", type(sizes).__name__)
        )
    shape = shape_of(input)
    if not shape:
        raise RuntimeError(
            "unflatten got an unexpected error:\nDimension specified as 0 but tensor has no "
            "dimensions"
        )
    axis = dimension(dim, len(shape))
    if not sizes:
        raise RuntimeError(errors.UNFLATTEN_EMPTY)
    inner = tuple(sizes)
    if inner.count(-1) < 2 and min(inner) >= -1:
        known = -math.prod(inner) if -1 in inner else math.prod(inner)
        if shape[axis] % known if -1 in inner and known else shape[axis] != known:
            raise RuntimeError(errors.unflatten_sizes(list(inner), dim, shape[axis]))
    return view(input, (*shape[:axis], *completed(inner, (shape[axis],)), *shape[axis + 1 :]))


@ROWS.function("function")
def broadcast_to(input: Operand, size: Sequence[int]) -> Value:
    """Return a view of this shape that repeats dimensions of size 1."""
    return expand(input, size)


@ROWS.function("function")
def broadcast_tensors(*tensors: Operand) -> tuple[Any, ...]:
    """Return views broadcast to their common shape."""
    full: tuple[int, ...] = ()
    for x in tensors:
        check_broadcast(full, shape_of(x))
        full = np.broadcast_shapes(full, shape_of(x))
    return tuple([x if shape_of(x) == full else expand(x, full) for x in tensors])


@ROWS.function("function")
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Any, ...]:
    """Return the coordinates of a grid, one tensor for each dimension."""
    given = list(
        tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    )
    if indexing not in ("ij", "xy"):
        raise RuntimeError(
            f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}'
        )
    for x in given:
        if len(shape_of(x)) > 1:
            raise RuntimeError(
                f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {x}"
            )
    if len({dtype_of(x) for x in given}) > 1:
        raise RuntimeError(errors.MESHGRID_DTYPES)
    swaps = indexing == "xy" and len(given) > 1
    if swaps:
        given[:2] = given[1::-1]
    full = tuple(math.prod(shape_of(x)) for x in given)
    made = [
        expand(view(x, tuple(-1 if j == k else 1 for j in range(len(full)))), full)
        for k, x in enumerate(given)
    ]
    if swaps:
        made[:2] = made[1::-1]
    return tuple(made)


# -- masks -----------------------------------------------------------------------------------------


def _filled(x: Array, mask: Array, value: Any) -> Any:
    return ew.where(mask, _number(value, x.dtype), x)


_MASK = (("mask", 1),)
MASKED_FILL = Op("MaskedFillBackward0", _filled, _MASK, edges=(0,), in_rows=True)
MASKED_FILL_TENSOR = Op("MaskedFillBackward1", _filled, _MASK, edges=(0, 2), in_rows=True)


@ROWS.family()
def masked_fill(run: Run) -> Callable[..., Value]:
    """Return the tensor with a number where the mask is true.

    Raises:
        RuntimeError: if the mask is not of bools, or the value a tensor that is not 0-d.
    """

    def function(input: Operand, mask: Operand, value: Operand) -> Value:
        tensors_only("masked_fill", input=input, mask=mask)
        check_broadcast(shape_of(mask), shape_of(input))
        if dtype_of(mask) != np.bool_:
            raise RuntimeError(errors.mask_dtype("masked_fill_", DTYPES[dtype_of(mask)].printed))
        number = number_of(value)
        if type(number) in NUMBERS:
            check_fits(number, dtype_of(input))
            return run(MASKED_FILL, (input, mask, number))
        if shape_of(number):
            raise RuntimeError(errors.masked_fill_value(len(shape_of(number))))
        if isinstance(number, Tensor) and isinstance(number._array, np.ndarray):
            check_fits(number._array.item(), dtype_of(input))
        return run(MASKED_FILL_TENSOR, (input, mask, number))

    return function


@ROWS.function()
def masked_select(input: Operand, mask: Tensor) -> Value:
    """Return the elements where the mask is true, in one dimension."""
    if dtype_of(mask) != np.bool_:
        raise RuntimeError(errors.mask_dtype("masked_select", DTYPES[dtype_of(mask)].printed))
    check_broadcast(shape_of(input), shape_of(mask))
    full = np.broadcast_shapes(shape_of(input), shape_of(mask))
    picked: Any = expand(input, full)
    return picked[expand(mask, full)]


# -- positions -------------------------------------------------------------------------------------


def _lines(axis: int, entry: Any = ARRAY) -> tuple[Any, ...]:
    return (*(_ALL,) * axis, entry)


_INDEX = (("index", 1),)
INDEX_SELECT = Op(
    "IndexSelectBackward0",
    lambda x, index, axis: core_gather(x, _lines(axis), (index,)),
    _INDEX,
    edges=(0,),
    keeps=("index",),
    details=lambda specs, params: {"dim": params[0], "self_sym_sizes": specs[0].shape},
    in_rows=True,
)


@ROWS.function(out=True)
def index_select(input: Operand, dim: int, index: Operand) -> Value:
    """Return the slices along a dimension at the indices in a vector."""
    tensors_only("index_select", input=input, index=index)
    shape = shape_of(input)
    if len(shape_of(index)) > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    axis = dimension(dim, len(shape))
    check_positions("index_select", index, shape[axis] if shape else 1, None)
    if not shape:
        if math.prod(shape_of(index)) != 1:
            raise RuntimeError(errors.index_of_scalar(math.prod(shape_of(index))))
        return clone(input)
    return apply(INDEX_SELECT, (input, index if shape_of(index) else reshape(index, -1)), (axis,))


def _indexed(
    node: str,
    computes: Callable[..., Any],
    edges: tuple[int, ...],
    names: tuple[str, ...],
    *,
    in_rows: bool = False,
) -> Op:
    saves = tuple((name, k + 1) for k, name in enumerate(names))
    details = lambda specs, params: {"dim": params[0]}  # noqa: E731
    return Op(
        node,
        computes,
        saves,
        edges=edges,
        keeps=names,
        details=details,
        in_rows=in_rows,
        moves=True,
    )


def _added(x: Array, index: Array, source: Array, axis: int, alpha: Any = 1) -> Any:
    source = source if alpha == 1 else ew.mul(source, _number(alpha, source.dtype))
    return ew.add(x, core_scatter_add(source, _lines(axis), (index,), x.shape))


def _source_details(specs: Sequence[Any], params: tuple[Any, ...]) -> dict[str, Any]:
    return {"dim": params[0], "source_dim": len(specs[2].shape)}


INDEX_ADD = _indexed("IndexAddBackward0", _added, (0, 2), ("index", "source"))
INDEX_ADD.details = lambda specs, params: (
    _source_details(specs, params) | {"alpha": (*params, 1)[1]}
)
INDEX_COPY = _indexed(
    "IndexCopyBackward0",
    lambda x, index, source, axis: scatter_each(x, _lines(axis), source, (index,)),
    (0, 2),
    ("index", "source"),
    in_rows=True,
)
INDEX_COPY.details = _source_details


def _filled_lines(x: Array, index: Array, value: Any, axis: int) -> Any:
    if not x.shape:
        return core.reshape(_filled_lines(core.reshape(x, (1,)), index, value, axis), ())
    result = scatter_set(x, _lines(axis), _number(value, x.dtype), (index,))
    return laid(result, [x]) if isinstance(result, np.ndarray) and is_expanded(x) else result


INDEX_FILL = _indexed("IndexFillBackward0", _filled_lines, (0,), ("index",))
INDEX_FILL_TENSOR = _indexed("IndexFillBackward1", _filled_lines, (0, 2), ("index",))


def _check_source(name: str, input: Operand, index: Operand, source: Operand, axis: int) -> None:
    if dtype_of(input) != dtype_of(source):
        raise RuntimeError(errors.source_dtype(name))
    count = math.prod(shape_of(index))
    if (shape_of(source) or (1,))[axis] != count:
        if name == "index_copy":
            size = (shape_of(source) or (1,))[axis]
            raise IndexError(
                f"index_copy_(): Number of indices ({count}) should be equal to source.size(dim) "
                f"({size})"
            )
        raise RuntimeError(errors.source_size(name, count, (shape_of(source) or (1,))[axis], axis))


@ROWS.family()
def index_add(run: Run) -> Callable[..., Value]:
    """Return the tensor with slices of ``source`` added at indices along a dimension."""

    def function(
        input: Operand, dim: int, index: Operand, source: Operand, *, alpha: Any = 1
    ) -> Value:
        tensors_only("index_add", input=input, index=index, source=source)
        axis = dimension(dim, len(shape_of(input)))
        _check_source("index_add", input, index, source, axis)
        check_positions("index_add", index, shape_of(input)[axis], None)
        return run(INDEX_ADD, (input, index, source), (axis,) if alpha == 1 else (axis, alpha))

    return function


@ROWS.family()
def index_copy(run: Run) -> Callable[..., Value]:
    """Return the tensor with slices of ``source`` copied to indices along a dimension."""

    def function(input: Operand, dim: int, index: Operand, source: Operand) -> Value:
        tensors_only("index_copy", input=input, index=index, source=source)
        axis = dimension(dim, len(shape_of(input)))
        given, wanted = shape_of(source), shape_of(input)
        if given and wanted and len(given) != len(wanted):
            raise IndexError(errors.copy_dimensions(len(given), len(wanted)))
        _check_source("index_copy", input, index, source, axis)
        check_positions("index_copy", index, shape_of(input)[axis], None)
        return run(INDEX_COPY, (input, index, source), (axis,))

    return function


@ROWS.family()
def index_fill(run: Run) -> Callable[..., Value]:
    """Return the tensor with slices at indices along a dimension filled with a number."""

    def function(input: Operand, dim: int, index: Operand, value: Operand) -> Value:
        tensors_only("index_fill", input=input, index=index)
        found = number_of(value)
        is_complex = type(found) is complex or (
            isinstance(found, Tensor) and dtype_of(found).kind == "c"
        )
        if is_complex and dtype_of(input).kind != "c":
            raise RuntimeError(errors.FILL_WITH_COMPLEX)
        axis = dimension(dim, len(shape_of(input)))
        check_positions("index_fill", index, (shape_of(input) or (1,))[axis], None)
        if isinstance(found, (int, float, complex)):
            check_fits(found, dtype_of(input))
        op = INDEX_FILL if type(found) in NUMBERS else INDEX_FILL_TENSOR
        return run(op, (input, index, found), (axis,))

    return function


def grid(index: Array, axis: int) -> tuple[Any, ...]:
    """Return the complete index of elements that are gathered along an axis."""
    rank = index.ndim
    return tuple(
        index if k == axis else np.arange(n).reshape((1,) * k + (n,) + (1,) * (rank - k - 1))
        for k, n in enumerate(index.shape)
    )


def cropped(source: Array, shape: tuple[int, ...]) -> Any:
    """Return the first elements along each axis."""
    return (
        source if source.shape == shape else index_static(source, tuple((0, n, 1) for n in shape))
    )


def _number(value: Any, dtype: np.dtype[Any]) -> Any:
    return np.asarray(value).astype(dtype) if type(value) in NUMBERS else core.convert(value, dtype)


def _scattered(x: Array, index: Array, source: Any, axis: int) -> Any:
    number = type(source) in NUMBERS or (x.ndim and not source.ndim)
    value = _number(source, x.dtype) if number else cropped(source, index.shape)
    return scatter_each(x, (ARRAY,) * x.ndim, value, grid(index, axis))


def _scatter_added(x: Array, index: Array, source: Array, axis: int) -> Any:
    return ew.add(
        x,
        core_scatter_add(
            cropped(source, index.shape), (ARRAY,) * x.ndim, grid(index, axis), x.shape
        ),
    )


SCATTER = _indexed("ScatterBackward0", _scattered, (0, 2), ("index",), in_rows=True)
SCATTER_NUMBER = _indexed("ScatterBackward1", _scattered, (0,), ("index",), in_rows=True)
SCATTER_ADD = _indexed("ScatterAddBackward0", _scatter_added, (0, 2), ("index",))


def check_scatter(name: str, input: Operand, dim: int, index: Operand, source: Operand) -> int:
    """Check the operands of a scatter along a dimension; returns the axis.

    Raises:
        RuntimeError: with PyTorch's message.
    """
    tensors_only(name, input=input, index=index, src=source)
    shape = shape_of(input)
    axis = dimension(dim, len(shape))
    if dtype_of(input) != dtype_of(source):
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    for given, called in ((index, "Index"), (source, "Src")):
        if len(shape_of(given)) != len(shape):
            raise RuntimeError(
                f"{called} tensor must have the same number of dimensions as self tensor"
            )
    for k, (n, m, s) in enumerate(zip(shape_of(index), shape, shape_of(source), strict=True)):
        if n > s or (k != axis and n > m):
            raise RuntimeError(errors.scatter_sizes(shape_of(index), shape, axis, shape_of(source)))
    check_positions("scatter", index, shape[axis] if shape else 1, axis)
    return axis


@ROWS.family()
def scatter(run: Run) -> Callable[..., Value]:
    """Return the tensor with elements of ``src``, or a number, written at indices along a
    dimension.
    """

    def function(
        input: Operand, dim: int, index: Operand, src: Any = None, *, value: Any = None
    ) -> Value:
        given = number_of(value if src is None else src)
        if type(given) in NUMBERS:
            stands = wrap(np.broadcast_to(np.zeros((), dtype_of(input)), shape_of(index)))
            axis = check_scatter("scatter", input, dim, index, stands)
            check_fits(given, dtype_of(input))
            return run(SCATTER_NUMBER, (input, index, given), (axis,))
        return run(
            SCATTER, (input, index, given), (check_scatter("scatter", input, dim, index, given),)
        )

    return function


@ROWS.family()
def scatter_add(run: Run) -> Callable[..., Value]:
    """Return the tensor with elements of ``src`` added at indices along a dimension."""

    def function(input: Operand, dim: int, index: Operand, src: Operand) -> Value:
        return run(
            SCATTER_ADD,
            (input, index, src),
            (check_scatter("scatter_add", input, dim, index, src),),
        )

    return function


@ROWS.function(out=True)
def take(input: Operand, index: Operand) -> Value:
    """Return elements by their index in the flattened tensor."""
    tensors_only("take", input=input, index=index)
    if dtype_of(index) != np.int64:
        raise RuntimeError(
            f"take(): Expected a long tensor for index, but got {DTYPES[dtype_of(index)].printed}"
        )
    flat: Any = reshape(input, -1)
    return flat[index]


@ROWS.function(out=True)
def take_along_dim(input: Operand, indices: Operand, dim: int | None = None) -> Value:
    """Return elements by index along a dimension; the other dimensions broadcast."""
    tensors_only("take_along_dim", input=input, indices=indices)
    shape, wanted = list(shape_of(input)), list(shape_of(indices))
    if dim is not None and len(shape) != len(wanted):
        raise RuntimeError(errors.take_along_ranks(len(shape), len(wanted)))
    if dim is None:
        return gather(reshape(input, -1), 0, reshape(indices, -1))
    if dtype_of(indices) != np.int64:
        kind = DTYPES[dtype_of(indices)].printed
        raise RuntimeError(
            f"torch.take_along_dim(): dtype of indices should be Long but got {kind}"
        )
    axis = dimension(dim, len(shape))
    size, count = shape[axis], wanted[axis]
    shape[axis] = wanted[axis] = 1
    check_broadcast(tuple(shape), tuple(wanted))
    full = list(np.broadcast_shapes(tuple(shape), tuple(wanted)))
    full[axis] = size
    input = expand(input, full)
    full[axis] = count
    return gather(input, axis, expand(indices, full))


@ROWS.function("function")
def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Value:
    """Return a mask of the elements that are among others."""
    given = elements, test_elements
    numbers = [type(number_of(x)) in NUMBERS for x in given]
    if all(numbers) or not all(
        n or isinstance(x, Tensor) for n, x in zip(numbers, given, strict=True)
    ):
        raise TypeError(errors.invalid_combination("isin", given))
    for x in given:
        kind = x._array.dtype if isinstance(x, Tensor) else np.asarray(number_of(x)).dtype
        if kind.kind in "bc":
            raise RuntimeError(
                f"Unsupported input type encountered for isin(): {DTYPES[kind].printed}"
            )
    if MODES.dispatch is not None:
        options = {"assume_unique": assume_unique, "invert": invert}
        return MODES.dispatch.make("isin", given, options, lambda: isin(*given, **options))
    among, others = (
        x._array if isinstance(x, Tensor) else np.asarray(x) for x in (elements, test_elements)
    )
    return fresh(np.isin(among, others, invert=invert))


# -- cumulative sums -------------------------------------------------------------------------------


def _running(
    name: str, computes: Callable[..., Any], saves: tuple[tuple[str, int], ...], says: str
) -> None:
    def along(x: Array, axis: int) -> Any:
        if not x.ndim:
            return ew.positive(x)
        found = computes(x, axis)
        return core.convert(found, x.dtype) if found.dtype != x.dtype else found

    op = Op(
        f"{name.title()}Backward0", along, saves, keeps=tuple(n for n, _ in saves),
        details=lambda specs, params: {"dim": params[0]}, in_rows=True,
    )  # fmt: skip

    def make(run: Run) -> Callable[..., Value]:
        def function(input: Operand, dim: int, *, dtype: DtypeLike | None = None) -> Value:
            tensors_only(name, input=input)
            axis = dimension(whole(name, "dim", dim, 1), len(shape_of(input)))
            if run is not apply:
                if dtype_of(input).kind == "b":
                    if not shape_of(input):
                        return input
                    raise NotImplementedError(errors.no_kernel(f"{name}_out_cpu").format("Bool"))
                return run(op, (input,), (axis,))
            if dtype is None and dtype_of(input).kind in "bui":
                input = to(input, np.dtype(np.int64))
            return run(op, (input if dtype is None else to(input, dtype),), (axis,))

        return function

    make.__name__ = name
    make.__doc__ = f"Return the cumulative {says} along a dimension; integers become int64."
    ROWS.family(out=True)(make)


_running("cumsum", core_cumsum, (), "sum")
_running("cumprod", core_cumprod, (("self", 0), ("result", -1)), "product")
