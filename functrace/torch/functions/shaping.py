"""Shapes, views and indices: rows whose results share memory with their operand where PyTorch's do.

Every view is made by one of four functions of the core (`index_static`, `reshape`, `permute`,
`broadcast_to`), which give NumPy views of arrays; so views.py knows how to write into any chain of
them.

Layer: 9.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.errors import UnsupportedFunctionError
from functrace.ir.aval import ShapeDtype
from functrace.numpy.arrays.layout import layout_of
from functrace.numpy.arrays.views import owned
from functrace.numpy.functions.creation import ascontiguousarray
from functrace.ops import joining
from functrace.ops.indexing import ARRAY, index_static
from functrace.ops.indexing import gather as core_gather
from functrace.ops.shaping import broadcast_to
from functrace.ops.shaping import permute as core_permute
from functrace.ops.shaping import reshape as core_reshape
from functrace.ops.sorting import take_along_axis
from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.promotion import common_dtype
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.errors.warnings import warn, warn_once
from functrace.torch.functions.elementwise import (
    clone,
    dimension,
    dtype_of,
    put_in_format,
    shape_of,
    tensors_only,
    to,
)
from functrace.torch.tensors.aliases import is_constant_now
from functrace.torch.tensors.dtypes import DTYPES
from functrace.torch.tensors.dtypes import dtype as Dtype
from functrace.torch.tensors.formats import contiguous_format, preserve_format
from functrace.torch.tensors.formats import memory_format as MemoryFormat
from functrace.torch.tensors.orders import channels_lie_last, laid_by, ordered
from functrace.torch.tensors.storageless import StoragelessArray
from functrace.torch.tensors.tensor import Operand, Tensor, Value, fresh, wrap
from functrace.tracing import Tracer
from functrace.typing import Array

ROWS = FunctionTable()
_ALL = (None, None, None)


def _sizes(specs: Sequence[Any], _params: tuple[Any, ...]) -> dict[str, Any]:
    return {"self_sym_sizes": specs[0].shape}


def _view_op(node: str, function: Callable[..., Any], details: Any = None) -> Op:
    return Op(node, function, is_view=True, measures=function is not core_permute, details=details)


VIEW = _view_op("ViewBackward0", core_reshape, _sizes)
RESHAPE_ALIAS = _view_op("ReshapeAliasBackward0", core_reshape, _sizes)
UNSAFE_VIEW = Op("UnsafeViewBackward0", core_reshape, measures=True, details=_sizes)
SQUEEZE = _view_op("SqueezeBackward0", core_reshape, _sizes)
SQUEEZE_DIM = _view_op("SqueezeBackward1", core_reshape, _sizes)
SQUEEZE_DIMS = _view_op("SqueezeBackward2", core_reshape, _sizes)
SQUEEZE_OF_PRODUCT = Op("SqueezeBackward4", core_reshape, measures=True, details=_sizes)
UNSQUEEZE = _view_op("UnsqueezeBackward0", core_reshape)
EXPAND = _view_op("ExpandBackward0", broadcast_to, _sizes)
T = _view_op("TBackward0", core_permute)
TRANSPOSE = _view_op("TransposeBackward0", core_permute)
PERMUTE = _view_op("PermuteBackward0", core_permute, lambda specs, params: {"dims": params[0]})
ALIAS = _view_op("AliasBackward0", index_static)


def sizes(shape: Sequence[Any]) -> tuple[int, ...]:
    """Return sizes passed as one sequence or one by one."""
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = shape[0]
    return tuple([n if type(n) is int else operator.index(n) for n in shape])


def completed(shape: tuple[int, ...], old: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape with its -1 resolved.

    Raises:
        RuntimeError: if its number of elements is not that of ``old``.
    """
    count = math.prod(old)
    low = min(shape, default=0)
    if low < -1:
        raise RuntimeError(f"invalid shape dimension {low}")
    if -1 in shape:
        known = -math.prod(shape)
        if shape.count(-1) > 1:
            raise RuntimeError("only one dimension can be inferred")
        if known == 0 or count % known:
            raise RuntimeError(errors.invalid_shape(shape, count))
        shape = tuple(count // known if n == -1 else n for n in shape)
    if math.prod(shape) != count:
        raise RuntimeError(errors.invalid_shape(shape, count))
    return shape


def _shares(x: Any, shape: tuple[int, ...]) -> bool:
    array = x._array if isinstance(x, Tensor) else x
    if isinstance(array, Tracer):
        array = layout_of(array)
        if array is None:
            return True  # or a copy: decided later
    try:
        np.reshape(
            array.laid_out() if type(array) is StoragelessArray else array, shape, copy=False
        )
    except ValueError:
        return False
    return True


def _of_dtype(input: Tensor, wanted: Dtype) -> Tensor:
    """Return the same memory as elements of another dtype; no gradient flows to it.

    Raises:
        RuntimeError: if elements have another size, and the memory layout does not allow it.
    """
    array = input._array
    if not isinstance(array, np.ndarray):
        raise UnsupportedFunctionError(
            f"{array.aval} is a traced value, which has no memory to view as {wanted}",
            fix="use to(dtype), or do this outside of the transform",
        )
    before, after = array.itemsize, wanted.itemsize
    if before != after:
        size, offset = "self.size(-1)", "self.storage_offset()"
        pair = f"to view {input.dtype.printed} as {wanted.printed} (different element sizes)"
        if not array.ndim:
            raise RuntimeError(f"self.dim() cannot be 0 {pair}")
        stride = input.stride(-1)
        if stride != 1:
            raise RuntimeError(f"self.stride(-1) must be 1 {pair}, but got {stride}")
        ratio = after // before
        for name, count in ((size, array.shape[-1]), (offset, input.storage_offset())):
            if ratio > 1 and count % ratio:
                raise RuntimeError(f"{name} must be divisible by {ratio} {pair}, but got {count}")
    made = fresh(array.view(wanted.numpy))
    made._counter = input._counter
    return made


@ROWS.function("method")
def view(
    input: Operand,
    *shape: int | Sequence[int] | Dtype,
    size: Sequence[int] | None = None,
    dtype: Dtype | None = None,
) -> Value:
    """Return a view with another shape, or of the memory as another dtype.

    Args:
        shape: the sizes, of which one may be -1; or the dtype.
        size: the sizes, instead.
        dtype: the dtype, instead.

    Raises:
        RuntimeError: if the memory layout does not allow it.
    """
    if len(shape) == 1 and isinstance(shape[0], Dtype):
        dtype = shape[0]
    if dtype is not None:
        return _of_dtype(input, dtype)  # type: ignore[arg-type]
    if size is not None:
        shape = (size,)
    given: Any = shape
    wanted = completed(sizes(given), shape_of(input))
    if not _shares(input, wanted):
        raise RuntimeError(errors.VIEW_NOT_COMPATIBLE)
    return apply(VIEW, (input,), (wanted,))


@ROWS.function()
def reshape(input: Operand, *shape: int | Sequence[int]) -> Value:
    """Return a view with another shape, or a copy if the memory layout does not allow a view."""
    wanted = completed(sizes(shape), shape_of(input))
    if _shares(input, wanted):
        is_dense = not isinstance(input, Tensor) or input.is_contiguous()
        return apply(VIEW if is_dense else RESHAPE_ALIAS, (input,), (wanted,))
    return apply(UNSAFE_VIEW, (clone(input),), (wanted,))


@ROWS.function()
def flatten(input: Operand, start_dim: int = 0, end_dim: int = -1) -> Value:
    """Return the tensor with dimensions merged into one."""
    shape = shape_of(input)
    if not shape:
        return reshape(input, 1)
    start, end = dimension(start_dim, len(shape)), dimension(end_dim, len(shape))
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if start == end:
        return input
    return reshape(input, (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


def squeezed(shape: tuple[int, ...], dim: int | Sequence[int] | None) -> tuple[int, ...]:
    """Return a shape without those of its dimensions (all, if None) that have size 1.

    Raises:
        RuntimeError: for a dimension that is named twice.
    """
    if dim is None:
        return tuple(n for n in shape if n != 1)
    dims = [dimension(k, len(shape)) for k in ((dim,) if isinstance(dim, int) else dim)]
    for k in dims:
        if dims.count(k) > 1:
            raise RuntimeError(f"dim {k} appears multiple times in the list of dims")
    return tuple(n for k, n in enumerate(shape) if n != 1 or k not in dims)


@ROWS.function()
def squeeze(input: Operand, dim: int | Sequence[int] | None = None) -> Value:
    """Return a view without dimensions of size 1."""
    kept = squeezed(shape_of(input), dim)
    if dim is None:
        return apply(SQUEEZE, (input,), (kept,))
    return apply(SQUEEZE_DIM if isinstance(dim, int) else SQUEEZE_DIMS, (input,), (kept,))


@ROWS.function()
def unsqueeze(input: Operand, dim: int) -> Value:
    """Return a view with one more dimension, of size 1."""
    shape = shape_of(input)
    k = dimension(dim, len(shape) + 1)
    return apply(UNSQUEEZE, (input,), ((*shape[:k], 1, *shape[k:]),))


@ROWS.function("method")
def expand(input: Operand, *shape: int | Sequence[int]) -> Value:
    """Return a view that repeats dimensions of size 1; -1 keeps a size."""
    old, wanted = shape_of(input), sizes(shape)
    extra = len(wanted) - len(old)
    if extra < 0:
        raise RuntimeError(errors.expand_rank(DTYPES[dtype_of(input)].printed, old, wanted))
    for k, n in enumerate(wanted[:extra]):
        if n < 0:
            raise RuntimeError(errors.expand_leading(n, k))
    full = tuple(old[k - extra] if n == -1 and k >= extra else n for k, n in enumerate(wanted))
    for k, n in enumerate(full[extra:]):
        if old[k] not in (1, n):
            raise RuntimeError(errors.expand_size(n, old[k], k + extra, wanted, old))
    return apply(EXPAND, (input,), (full,))


@ROWS.function("method")
def expand_as(input: Operand, other: Operand) -> Value:
    """Return a view expanded to another tensor's shape."""
    return expand(input, shape_of(other))


@ROWS.function()
def t(input: Operand) -> Value:
    """Return the transpose of a matrix (vectors and numbers are unchanged)."""
    rank = len(shape_of(input))
    if rank > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {rank}D")
    return apply(T, (input,), (tuple(reversed(range(rank))),))


@ROWS.function()
def transpose(input: Operand, dim0: int, dim1: int) -> Value:
    """Return a view with two dimensions swapped."""
    rank = len(shape_of(input))
    a, b = dimension(dim0, rank), dimension(dim1, rank)
    axes = list(range(rank))
    if rank:
        axes[a], axes[b] = axes[b], axes[a]
    return apply(TRANSPOSE, (input,), (tuple(axes),))


@ROWS.function()
def permute(input: Operand, *dims: int | Sequence[int]) -> Value:
    """Return a view with dimensions in another order."""
    rank = len(shape_of(input))
    given = sizes(dims)
    if len(given) != rank:
        raise RuntimeError(errors.permute_rank(rank, len(given)))
    axes = tuple(dimension(k, rank) for k in given)
    if len(set(axes)) != rank:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return apply(PERMUTE, (input,), (axes,))


@ROWS.function("method")
def contiguous(input: Operand, memory_format: MemoryFormat | None = None) -> Value:
    """Return the tensor itself if it is contiguous in a memory format, otherwise a copy.

    Raises:
        RuntimeError: for ``torch.preserve_format``, and a tensor of another rank than the format.
    """
    if not isinstance(input, Tensor):
        return input
    if memory_format is not None and memory_format is not contiguous_format:
        if memory_format is preserve_format:
            raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
        if input.is_contiguous(memory_format):
            return put_in_format("contiguous", input, memory_format)
        return clone(input, memory_format=memory_format)
    array: Any = input._array
    if isinstance(array, Tracer) and layout_of(array) is None:
        if is_constant_now(array):
            raise UnsupportedFunctionError(
                f"contiguous() of {array.aval} under no_grad is the tensor itself, with its "
                "history, or a copy without: "
                "that depends on the memory layout, which a traced value does not have",
                fix="use clone(), or call contiguous() outside of no_grad",
            )
        made = clone(input)
        made._array = ascontiguousarray(input._array)  # the value itself, or a copy: decided later
        return made
    if input.is_contiguous():
        return input
    made = clone(input)
    if isinstance(array, Tracer):
        made._array = owned(made._array)
        return made
    made._array = np.ascontiguousarray(made._array)
    return made


@ROWS.function("method")
def view_as(self: Tensor, other: Tensor) -> Value:
    """Return a view of another tensor's shape."""
    return view(self, other.shape)


@ROWS.function("method")
def reshape_as(self: Tensor, other: Tensor) -> Value:
    """Return this tensor in another one's shape."""
    return reshape(self, other.shape)


@ROWS.function("property", name="T")
def transposed(self: Tensor) -> Value:
    """The tensor with its dimensions in reverse order, a view."""
    if self._array.ndim != 2:
        warn_once(errors.TRANSPOSED if self._array.ndim else errors.T_OF_SCALAR)
    return permute(self, tuple(reversed(range(self._array.ndim))))


@ROWS.function("property", name="mT")
def last_two_swapped(self: Tensor) -> Value:
    """The tensor with its last two dimensions swapped, a view."""
    if not self._array.ndim:
        warn_once(errors.MT_OF_SCALAR)
        return self
    if self._array.ndim < 2:
        raise RuntimeError(errors.only_matrices("mT", self._array.ndim))
    return transpose(self, -2, -1)


# -- indices ---------------------------------------------------------------------------------------


def _select_details(specs: Sequence[Any], params: tuple[Any, ...]) -> dict[str, Any]:
    dim = len(params[0]) - 2
    return {"dim": dim, "index": params[0][dim] % (1 << 64), "self_sym_sizes": specs[0].shape}


def _slice_details(specs: Sequence[Any], params: tuple[Any, ...]) -> dict[str, Any]:
    dim = len(params[0]) - 2
    start, stop, step = params[0][dim]
    return {"dim": dim, "start": start, "end": stop, "step": step, "self_sym_sizes": specs[0].shape}


SELECT = _view_op("SelectBackward0", index_static, _select_details)
SLICE = _view_op("SliceBackward0", index_static, _slice_details)


def _indexed(x: Array, *rest: Any) -> Any:
    *indices, template = rest
    result = core_gather(x, template, tuple(indices))
    if not isinstance(result, np.ndarray) or result.ndim < 2:
        return result
    if all(array.flags.c_contiguous for array in (x, *indices)):
        return np.ascontiguousarray(result)
    axes = [k for k, entry in enumerate(template) if entry == ARRAY]
    place = axes[0] if axes[-1] - axes[0] < len(axes) else 0
    whole = np.broadcast_shapes(*[index.shape for index in indices])
    others = [s for k, s in enumerate(x.strides) if k not in axes]
    steps = [(*others[:place], *(0,) * len(whole), *others[place:])]
    for index in indices:
        own = np.broadcast_to(index, whole).strides
        steps.append((0,) * place + own + (0,) * (len(others) - place))
    return laid_by(result, steps)


INDEX = Op(
    "IndexBackward0",
    _indexed,
    tuple((f"indices[{k}]", k + 1) for k in range(8)),
    edges=(0,),
    keeps=tuple(f"indices[{k}]" for k in range(8)),
    details=_sizes,
)


def _beside(x: Array, index: Array, axis: int) -> Any:
    """The part of an array selected by positions along an axis."""
    if all(n == m or k == axis for k, (n, m) in enumerate(zip(x.shape, index.shape, strict=True))):
        return x
    return index_static(
        x, tuple(_ALL if k == axis else (0, m, 1) for k, m in enumerate(index.shape))
    )


def _gathered(x: Array, index: Array, axis: int) -> Any:
    if x.shape and index.shape:
        return take_along_axis(_beside(x, index, axis), index, axis)
    found = take_along_axis(
        x if x.shape else core_reshape(x, (1,)),
        index if index.shape else core_reshape(index, (1,)),
        0,
    )
    return found if index.shape else core_reshape(found, ())


GATHER = Op(
    "GatherBackward0",
    _gathered,
    (("index", 1), ("self", 0)),
    edges=(0,),
    keeps=("index", "self"),
    details=lambda specs, params: {"dim": params[0], "sparse_grad": False},
    in_rows=True,
)


@ROWS.function()
def select(input: Operand, dim: int, index: int) -> Value:
    """Return a view of one slice along a dimension."""
    shape = shape_of(input)
    if not shape:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    k = dimension(dim, len(shape))
    if not -shape[k] <= index < shape[k]:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(shape)} at dimension "
            f"{k}"
        )
    return apply(SELECT, (input,), ((*(_ALL,) * k, index, ...),))


@ROWS.function()
def narrow(input: Operand, dim: int, start: int, length: int) -> Value:
    """Return a view of ``length`` slices along a dimension."""
    shape = shape_of(input)
    if not shape:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    k = dimension(dim, len(shape))
    start, size = operator.index(start), shape[k]
    if not -size <= start <= size:
        raise IndexError(
            f"start out of range (expected to be in range of [{-size}, {size}], but got {start})"
        )
    start += size if start < 0 else 0
    if start + length > size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return apply(SLICE, (input,), ((*(_ALL,) * k, (start, start + length, 1), ...),))


@ROWS.function("", operators="getitem")
def getitem(input: Operand, index: Any) -> Value:
    """Return ``input[index]``: a view, one step per dimension; a copy if the index has tensors,
    lists or masks.
    """
    result, arrays = basic_part(input, index_entries(index))
    if not arrays:
        return result if result is not input else apply(ALIAS, (input,), ((...,),))
    operands, template = index_operands(result, arrays)
    return apply(INDEX, (result, *operands), (template,))


def basic_part(input: Operand, entries: tuple[Any, ...]) -> tuple[Any, dict[int, Any]]:
    """Apply ints, slices and ``None`` of an index, one view each; returns the remaining index
    arrays by dimension.
    """
    entries = tuple([k if type(k) in _PLAIN else index_entry(k) for k in entries])
    rank = len(shape_of(input))
    taken = sum(_consumes(k) for k in entries)
    if taken > rank:
        if not rank and len(entries) == 1 and isinstance(entries[0], int):
            raise IndexError(errors.INDEX_OF_SCALAR)
        if not rank and len(entries) == 1 and isinstance(entries[0], slice):
            raise IndexError("slice() cannot be applied to a 0-dim tensor.")
        raise IndexError(f"too many indices for tensor of dimension {rank}")
    dim, result, arrays = 0, input, {}
    for entry in entries:
        kind = type(entry)
        if kind is int or isinstance(entry, np.integer):
            result = _selected(result, dim, int(entry))
        elif kind is slice:
            result = _sliced(result, dim, entry, len(entries) > 1)
            dim += 1
        elif entry is None:
            result = unsqueeze(result, dim)
            dim += 1
        elif entry is Ellipsis:
            dim += rank - taken
        elif kind is bool or _is_truth(entry):
            result = unsqueeze(result, dim)
            arrays[dim] = np.array([0] if entry else [], np.int64)
            dim += 1
        else:
            value = entry._array if isinstance(entry, Tensor) else entry
            if _is_mask(value):
                _check_mask(value, shape_of(result), dim)
                mask = entry if isinstance(entry, Tensor) else wrap(value)
                mask = mask if mask._mask is None else mask._mask[0]
                for k, positions in enumerate(np.nonzero(value)):
                    arrays[dim + k] = wrap(positions)
                    arrays[dim + k]._mask = mask, k
                dim += value.ndim
            elif not value.ndim and not isinstance(value, Tracer):
                result = _selected(result, dim, int(value))
            else:
                arrays[dim] = entry
                dim += 1
    return result, arrays


_PLAIN = frozenset({int, slice, type(None), type(Ellipsis), bool})


def index_entry(given: Any) -> Any:
    """Convert one entry of an index for `basic_part`: bool tensors become masks, lists become
    arrays.

    Raises:
        IndexError: for an invalid index.
        TypeError: for text.
    """
    if isinstance(given, Tensor) and given._array.dtype == np.int64:
        return given
    entry: Any = given
    dtype = getattr(entry._array if isinstance(entry, Tensor) else entry, "dtype", None)
    if isinstance(entry, (Tensor, Tracer)):
        if dtype == np.uint8:
            truth = to(given, np.dtype(np.bool_))
            if shape_of(given):
                warn(errors.INDEX_OF_BYTES)
                if isinstance(given, Tensor):
                    truth._mask = given, 0  # the saved value
            return truth
        if dtype not in (np.bool_, np.int64, np.int32):
            raise IndexError(errors.INDEX_DTYPE)
        return entry
    if isinstance(entry, np.bool_):
        return bool(entry)
    if isinstance(entry, str):
        raise TypeError("new(): invalid data type 'str'")
    if isinstance(entry, (list, tuple, range, np.ndarray)):
        array = np.asarray(
            [k.tolist() if isinstance(k, Tensor) else k for k in entry]
            if type(entry) in (list, tuple)
            else entry
        )
        if array.dtype.kind not in "buifV":
            raise IndexError(errors.index_kind(type(entry).__name__))
        return array if array.dtype.kind == "b" else array.astype(np.int64)
    if isinstance(entry, (slice, int)) or entry is None or entry is Ellipsis:
        return entry
    try:
        return operator.index(entry)
    except TypeError:
        raise IndexError(errors.index_kind(type(entry).__name__)) from None


def index_entries(index: Any) -> tuple[Any, ...]:
    """Return the entries of an index; a list of more than numbers is treated as a tuple, as in
    PyTorch.
    """
    if isinstance(index, tuple):
        return index
    deep = (Tensor, list, tuple, slice, np.ndarray, type(None), type(Ellipsis))
    if isinstance(index, list) and len(index) < 32 and any(isinstance(k, deep) for k in index):
        warn(errors.INDEX_OF_LISTS)
        return tuple(index)
    return (index,)


def _consumes(entry: Any) -> int:
    if entry is None or entry is Ellipsis or type(entry) is bool or _is_truth(entry):
        return 0
    value = entry._array if isinstance(entry, Tensor) else entry
    return value.ndim if _is_mask(value) else 1


def _is_mask(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim > 0 and value.dtype.kind == "b"


def _is_truth(entry: Any) -> bool:
    """Return True if an index is one bool, as a tensor or an array."""
    value = entry._array if isinstance(entry, Tensor) else entry
    return (
        isinstance(value, (np.ndarray, np.generic)) and not value.ndim and value.dtype.kind == "b"
    )


def _selected(x: Any, dim: int, index: int) -> Any:
    size = shape_of(x)[dim]
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of bounds for dimension {dim} with size {size}")
    return apply(SELECT, (x,), ((*(_ALL,) * dim, index, ...),))


def _sliced(x: Any, dim: int, entry: slice, skips: bool) -> Any:
    size = shape_of(x)[dim]
    step = 1 if entry.step is None else int(entry.step)
    if step <= 0:
        raise ValueError("step must be greater than zero")
    start, stop, _ = slice(entry.start, entry.stop).indices(size)
    if entry.start is None and entry.stop is None and step == 1 and skips:
        return x
    return apply(SLICE, (x,), ((*(_ALL,) * dim, (start, max(start, stop), step), ...),))


def _check_mask(mask: Any, shape: tuple[int, ...], dim: int) -> None:
    for k, n in enumerate(mask.shape):
        if n != shape[dim + k]:
            raise IndexError(
                f"The shape of the mask {list(mask.shape)} at index {k} does not match the shape "
                "of the indexed tensor "
                f"{list(shape)} at index {dim + k}"
            )


def index_operands(x: Any, arrays: dict[int, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return index arrays as operands, counted from the front, and the template of their
    positions.
    """
    shape = shape_of(x)
    template = tuple(ARRAY if k in arrays else _ALL for k in range(max(arrays) + 1))
    operands = []
    for k in sorted(arrays):
        entry = arrays[k]
        value = entry._array if isinstance(entry, Tensor) else entry
        if isinstance(value, Tracer):
            operands.append(entry)
            continue
        if value.dtype.kind not in "iu":
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        if value.size and not (-shape[k] <= value.min() and value.max() < shape[k]):
            bad = value[(value < -shape[k]) | (value >= shape[k])].flat[0]
            place = sorted(arrays).index(k)  # as PyTorch counts: among the index tensors
            raise IndexError(
                f"index {bad} is out of bounds for dimension {place} with size {shape[k]}"
            )
        operands.append(entry if isinstance(entry, Tensor) else wrap(np.asarray(value)))
    return tuple(operands), template


def check_positions(name: str, index: Operand, size: int, axis: int | None) -> None:
    """Check indices along a dimension.

    Raises:
        RuntimeError: if they are no integers, or (for a given dimension) out of range.
        IndexError: if they are out of range.
    """
    dtype = dtype_of(index)
    if dtype not in (np.int64, np.int32):
        raise RuntimeError(errors.index_dtype(name, DTYPES[dtype].printed))
    array: Any = index._array if isinstance(index, Tensor) else index
    if isinstance(array, Tracer) or not array.size:
        return
    if array.min() < 0 or array.max() >= size:
        if axis is None:
            raise IndexError("index out of range in self")
        raise RuntimeError(
            errors.position_range(array[(array < 0) | (array >= size)].flat[0], axis, size)
        )


@ROWS.function(out=True)
def gather(input: Operand, dim: int, index: Operand, *, sparse_grad: bool = False) -> Value:
    """Return elements by index along a dimension.

    There are no sparse gradients: ``sparse_grad=True`` is refused where a gradient is recorded.
    """
    tensors_only("gather", input=input, index=index)
    if type(sparse_grad) is not bool:
        raise TypeError(
            errors.option_must_be_bool("gather", "sparse_grad", errors.kind_of(sparse_grad))
        )
    if sparse_grad and MODES.recording and isinstance(input, Tensor) and input.requires_grad:
        raise UnsupportedFunctionError(
            "gather(sparse_grad=True): there are no sparse gradients",
            fix="pass sparse_grad=False: the gradient has the same numbers, in a dense tensor",
        )
    shape, wanted = shape_of(input), shape_of(index)
    if max(len(shape), 1) != max(len(wanted), 1):  # one element counts as one dimension
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    axis = dimension(dim, len(shape))
    for k, (n, m) in enumerate(zip(shape, wanted, strict=False)):
        if m > n and k != axis:
            raise RuntimeError(
                f"Size does not match at dimension {k} expected index {list(wanted)} to be no "
                f"larger than self {list(shape)}"
                f" apart from dimension {axis}"
            )
    check_positions("gather", index, shape[axis] if shape else 1, axis)
    return apply(GATHER, (input, index), (axis,))


# -- joining ---------------------------------------------------------------------------------------


def in_rows(joined: Array, parts: Sequence[Array] = ()) -> Any:
    """Return joined tensors in C order, as PyTorch does, or channels last if all parts are.

    NumPy keeps the order of the parts.
    """
    if isinstance(joined, Tracer):
        return owned(joined)
    if parts and all(channels_lie_last(x) for x in parts):
        return ordered(joined, (0, *range(2, joined.ndim), 1))
    return np.ascontiguousarray(joined)


def _concatenated(*given: Any) -> Any:
    *arrays, axis = given
    shapes = [x.shape for x in arrays]
    if (0,) in shapes:  # these join arrays of any shape
        shape = next((x for x in shapes if x != (0,)), (0,))
        none = (*shape[:axis], 0, *shape[axis + 1 :])
        arrays = [core_reshape(x, none) if x.shape == (0,) else x for x in arrays]
    return in_rows(joining.concatenate(arrays, axis), arrays)


CAT = Op(
    "CatBackward0",
    _concatenated,
    details=lambda specs, params: {"dim": params[0]},
)
STACK = Op(
    "StackBackward0",
    lambda *given: in_rows(joining.stack(given[:-1], given[-1])),
    details=lambda specs, params: {"dim": params[0]},
)


def _check_list(name: str, tensors: Any) -> None:
    if isinstance(tensors, Tensor) or not isinstance(tensors, (tuple, list)):
        raise TypeError(
            errors.must_be(name, "tensors", 0, "tuple of Tensors", type(tensors).__name__)
        )
    among = any(isinstance(x, Tensor) and isinstance(x._array, np.ndarray) for x in tensors)
    for k, x in enumerate(tensors):
        if not isinstance(x, (Tensor, Tracer) if among else (Tensor, Tracer, np.ndarray)):
            raise TypeError(
                f"expected Tensor as element {k} in argument 0, but got {errors.kind_of(x)}"
            )


def _joined(op: Op, tensors: Sequence[Any], axis: int) -> Any:
    given = list(tensors)
    dtypes = {dtype_of(x) for x in given}
    if len(dtypes) > 1:
        common = common_dtype([ShapeDtype(shape_of(x), dtype_of(x)) for x in given])
        given = [to(x, common) for x in given]
    return apply(op, tuple(given), (axis,))


@ROWS.function("function", out=True)
def cat(tensors: Sequence[Operand], dim: int = 0) -> Value:
    """Return tensors joined along a dimension."""
    _check_list("cat", tensors)
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    shapes = [shape_of(x) for x in tensors]
    for k, shape in enumerate(shapes):
        if not shape:
            raise RuntimeError(f"zero-dimensional tensor (at position {k}) cannot be concatenated")
    first = next((shape for shape in shapes if shape != (0,)), (0,))
    axis = dimension(dim, len(first))
    for k, shape in enumerate(shapes):
        if shape == (0,):
            continue  # joins tensors of any shape
        if len(shape) != len(first):
            raise RuntimeError(
                f"Tensors must have same number of dimensions: got {len(first)} and {len(shape)}"
            )
        for d, (n, m) in enumerate(zip(first, shape, strict=True)):
            if n != m and d != axis:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {axis}. Expected size {n} "
                    f"but got size {m} for tensor "
                    f"number {k} in the list."
                )
    return _joined(CAT, tensors, axis)


@ROWS.function("function", out=True)
def stack(tensors: Sequence[Operand], dim: int = 0) -> Value:
    """Return tensors joined along a new dimension."""
    _check_list("stack", tensors)
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = shape_of(tensors[0])
    for k, x in enumerate(tensors):
        if shape_of(x) != first:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first)} at entry 0 and "
                f"{list(shape_of(x))} at "
                f"entry {k}"
            )
    return _joined(STACK, tensors, dimension(dim, len(first) + 1))
