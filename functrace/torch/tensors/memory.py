"""Memory: in-place views (``t_``, ``squeeze_``, ``as_strided_``), ``as_strided``, ``resize_``,
``set_``, storages.

An in-place view replaces the tensor by the view: same memory, another shape, a node between the
tensor and its former node. Existing views of the tensor do not change; `Tensor._moves` records how
to reach them from its new shape.

Layer: 9.
"""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import numpy as np

from functrace.errors import UnsupportedFunctionError
from functrace.ops.shaping import permute, reshape
from functrace.torch import errors
from functrace.torch.autograd._functions import Resize
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.errors.warnings import warn, warn_once
from functrace.torch.functions.elementwise import dimension, tensors_only
from functrace.torch.functions.shaping import sizes, squeezed
from functrace.torch.tensors.device import CPU, device
from functrace.torch.tensors.dtypes import DTYPES, dtype
from functrace.torch.tensors.geometry import (
    Geometry,
    Sizes,
    address_of,
    geometry_in_numpy,
    geometry_of,
    memory_of,
    row_of,
    strided,
    strided_part,
)
from functrace.torch.tensors.geometry import resize as resize_in_place
from functrace.torch.tensors.steps import Step, view_written
from functrace.torch.tensors.strides import dense_strides
from functrace.torch.tensors.tensor import Tensor, View, before_write, count_write
from functrace.torch.tensors.views import wanting
from functrace.tracing import Tracer
from functrace.typing import Array

ROWS = FunctionTable()
# -- as_strided ------------------------------------------------------------------------------------


def _strided_details(_specs: Sequence[Any], params: tuple[Any, ...]) -> dict[str, Any]:
    shape, strides, offset = params[0]
    return {"size": shape, "stride": strides, "storage_offset": offset if params[2] else None}


AS_STRIDED = Op("AsStridedBackward0", strided, is_view=True, details=_strided_details)
AS_STRIDED_IN_PLACE = Op("AsStridedBackward1", strided, is_view=True, details=_strided_details)


def _wanted(
    tensor: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None
) -> tuple[Geometry, Geometry]:
    given = geometry_in_numpy(tensor)
    shape, strides = sizes((size,)), sizes((stride,))
    offset = geometry_of(tensor)[2] if storage_offset is None else storage_offset
    if len(shape) != len(strides):
        raise RuntimeError("mismatch in length of strides and shape")
    if min(strides, default=0) < 0:
        raise RuntimeError(errors.negative_strides(strides))
    if min(shape, default=0) < 0:
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={list(shape)} and "
            f"strides={list(strides)}"
        )
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    itemsize = tensor._array.dtype.itemsize
    needed = (
        (offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1) * itemsize
        if math.prod(shape)
        else 0
    )
    there = (
        math.prod(tensor._array.shape) * itemsize
        if isinstance(tensor._array, Tracer)
        else memory_of(tensor).nbytes
    )
    if needed > there:
        raise RuntimeError(errors.storage_bounds(shape, strides, offset, itemsize, needed, there))
    return (shape, strides, offset), given


@ROWS.function()
def as_strided(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """Return a view of the storage with these sizes and strides; by default, with the tensor's
    offset.

    Raises:
        RuntimeError: if it would exceed the storage.
    """
    tensors_only("as_strided", input=input)
    return apply(
        AS_STRIDED,
        (input,),
        (*_wanted(input, size, stride, storage_offset), storage_offset is not None),
    )


# -- in-place views --------------------------------------------------------------------------------


def put_view(op: Op, tensor: Tensor, params: tuple[Any, ...], undo: Step) -> Tensor:
    """Replace a tensor, which must be writable (`wanting`), by a view of it.

    Args:
        op: makes the view.
        tensor: the tensor.
        params: the op's parameters.
        undo: the inverse step.

    Raises:
        UnsupportedFunctionError: without recording, for a tensor in a graph whose shape remains:
            PyTorch's gradients are then those of other elements. For another shape, a backward
            pass checks the gradients.
    """
    made = apply(op, (tensor,), params)
    if not MODES.recording and tensor._view is None:
        if _is_in_a_graph(tensor) and _moves_elements(tensor._array, made._array):
            raise UnsupportedFunctionError(
                "a tensor in a graph changes the order of its elements under no_grad: its gradients "
                "would be those of other elements",
                fix="do this with grad mode on, or to x.detach()",
            )
        tensor._note_resized()
    count_write(tensor)
    before, shows = tensor._view, made._view
    tensor._array = made._array
    if before is None:
        tensor._moves = (*tensor._moves, undo)
    else:
        view = View(before.base, shows.steps, before.made)
        if made._node is None:
            view.version = before.version
        tensor._view = view
    if made._node is not None:
        tensor._node, tensor._output_nr, tensor._requires = made._node, made._output_nr, False
    if made._dual is not None:
        tensor._dual = made._dual
    return tensor


def _is_in_a_graph(tensor: Tensor) -> bool:
    return tensor._node is not None or (
        tensor._accumulator is not None and tensor._accumulator() is not None
    )


def _moves_elements(before: Any, after: Any) -> bool:
    """Return True if a view of the same shape has other elements, or has them in another order."""
    if before.shape != after.shape or not isinstance(after, np.ndarray):
        return before.shape == after.shape
    steps = zip(before.shape, before.strides, after.strides, strict=True)
    return address_of(before) != address_of(after) or any(n > 1 and a != b for n, a, b in steps)


def _sizes(specs: Sequence[Any], _params: tuple[Any, ...]) -> dict[str, Any]:
    return {"self_sym_sizes": specs[0].shape}


def _op(node: str, function: Callable[..., Any], *names: str, keeps_sizes: bool = False) -> Op:
    """Return the op of an in-place view, whose parameters after the first are fields of
    the node.
    """

    def details(specs: Sequence[Any], params: tuple[Any, ...]) -> dict[str, Any]:
        return dict(zip(names, params[1:], strict=True)) | (
            _sizes(specs, params) if keeps_sizes else {}
        )

    return Op(node, lambda x, first, *_: function(x, first), is_view=True, details=details)


def _written(op: Op, replace: Callable[[Array, Array, Any], Any]) -> Op:
    view_written(op.function, lambda base, value, first, *_: replace(base, value, first))
    return op


def _permuted(base: Array, value: Array, axes: Sizes) -> Any:
    return permute(value, tuple(int(k) for k in np.argsort(axes)))


def _reshaped(base: Array, value: Array, _shape: Sizes) -> Any:
    return reshape(value, base.shape)


T = _written(_op("TBackward1", permute), _permuted)
TRANSPOSE = _written(_op("TransposeBackward1", permute, "dim0", "dim1"), _permuted)
SQUEEZE = _written(_op("SqueezeBackward3", reshape, keeps_sizes=True), _reshaped)
SQUEEZE_DIM = _written(_op("SqueezeBackward4", reshape, "dim", keeps_sizes=True), _reshaped)
SQUEEZE_DIMS = _written(_op("SqueezeBackward5", reshape, "dim", keeps_sizes=True), _reshaped)
UNSQUEEZE = _written(_op("UnsqueezeBackward1", reshape, "dim"), _reshaped)


def _put_permuted(op: Op, tensor: Tensor, axes: Sizes, *details: int) -> Tensor:
    undo: Step = permute, (tuple(int(k) for k in np.argsort(axes)),), None
    return put_view(op, tensor, (axes, *details), undo)


def _put_reshaped(op: Op, tensor: Tensor, shape: Sizes, *details: int | Sizes) -> Tensor:
    return put_view(op, tensor, (shape, *details), (reshape, (tensor._array.shape,), None))


@ROWS.function("method")
def t_(self: Tensor) -> Tensor:
    """`t`, in place."""
    wanting((self,))
    rank = self._array.ndim
    if rank > 2:
        raise RuntimeError(f"t_() expects a tensor with <= 2 dimensions, but self is {rank}D")
    return _put_permuted(T, self, tuple(reversed(range(rank))))


@ROWS.function("method", aliases="swapaxes_ swapdims_")
def transpose_(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """`transpose`, in place."""
    wanting((self,))
    rank = self._array.ndim
    a, b = dimension(dim0, rank), dimension(dim1, rank)
    axes = list(range(rank))
    if rank:
        axes[a], axes[b] = axes[b], axes[a]
    return _put_permuted(TRANSPOSE, self, tuple(axes), dim0 % (1 << 64), dim1 % (1 << 64))


@ROWS.function("method")
def squeeze_(self: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """`squeeze`, in place."""
    wanting((self,))
    kept = squeezed(self._array.shape, dim)
    if dim is None:
        return _put_reshaped(SQUEEZE, self, kept)
    if isinstance(dim, int):
        return _put_reshaped(SQUEEZE_DIM, self, kept, dim % (1 << 64))
    return _put_reshaped(SQUEEZE_DIMS, self, kept, tuple(k % (1 << 64) for k in dim))


@ROWS.function("method")
def unsqueeze_(self: Tensor, dim: int) -> Tensor:
    """`unsqueeze`, in place."""
    wanting((self,))
    shape = self._array.shape
    k = dimension(dim, len(shape) + 1)
    return _put_reshaped(UNSQUEEZE, self, (*shape[:k], 1, *shape[k:]), dim % (1 << 64))


@ROWS.function("function method")
def as_strided_(
    self: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """`as_strided`, in place."""
    tensors_only("as_strided_", input=self)
    wanting((self,))
    wanted, given = _wanted(self, size, stride, storage_offset)
    undo: Step = strided, (given, wanted, False), None
    return put_view(AS_STRIDED_IN_PLACE, self, (wanted, given, storage_offset is not None), undo)


# -- other sizes, other memory ---------------------------------------------------------------------


@ROWS.function("method")
def resize_(self: Tensor, *size: int | Sequence[int], memory_format: object = None) -> Tensor:
    """Change the shape of a tensor, and enlarge its memory if needed; does nothing if the shape is
    the same.

    New elements are 0.

    Raises:
        RuntimeError: if the tensor requires grad.
        UnsupportedFunctionError: if it must grow, and another object shares its memory.
    """
    if not size:
        raise TypeError('resize_() missing 1 required positional arguments: "size"')
    try:
        shape = sizes(size)
    except TypeError:
        raise TypeError(
            errors.must_be("resize_", "size", 0, "tuple of ints", errors.kind_of(size[0]))
        ) from None
    if self.requires_grad and MODES.recording is not None:
        raise RuntimeError("cannot resize variables that require grad")
    if min(shape, default=0) < 0:
        raise RuntimeError("numel: integer multiplication overflow")
    if shape == self._array.shape:
        return self
    self._note_resized()
    resize_in_place(self, shape)
    return self


@ROWS.function("method")
def resize_as_(self: Tensor, the_template: Tensor, *, memory_format: object = None) -> Tensor:
    """Change the shape of a tensor to that of another one; see `resize_`."""
    tensors_only("resize_as_", input=self, the_template=the_template)
    return resize_(self, the_template._array.shape)


@ROWS.function("method")
def set_(
    self: Tensor,
    source: Tensor | Storage | None = None,
    storage_offset: int = 0,
    size: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
) -> Tensor:
    """Use the memory of another tensor, or of a storage.

    Raises:
        UnsupportedFunctionError: for views, traced values and tensors that require grad: PyTorch
            has no derivative.
    """
    wanting((self,))
    if isinstance(self._array, Tracer) or (
        isinstance(source, Tensor) and isinstance(source._array, Tracer)
    ):
        raise UnsupportedFunctionError(
            "set_ of a traced value, which has no memory",
            fix="use copy_",
        )
    recorded = MODES.recording and (
        self.requires_grad or (isinstance(source, Tensor) and source.requires_grad)
    )
    if recorded or self._view is not None:
        raise UnsupportedFunctionError(
            "set_ of a view, or of tensors that require grad, has no derivative",
            fix="use copy_, or assign to x.data under no_grad",
        )
    if source is None:
        array = np.zeros(0, self._array.dtype)
    elif isinstance(source, Tensor):
        if source._array.dtype != self._array.dtype:
            raise RuntimeError(errors.set_dtypes(source.dtype.name, self.dtype.name))
        array = source._array
        if size is not None:
            wanted, given = _wanted(
                source,
                size,
                dense_strides(sizes((size,))) if stride is None else stride,
                storage_offset,
            )
            array = strided_part(array, wanted, given)
    else:
        untyped = source.untyped()
        flat = row_of(untyped.memory).view(self._array.dtype)
        shape = (flat.size,) if size is None else sizes((size,))
        wanted = shape, dense_strides(shape) if stride is None else sizes((stride,)), storage_offset
        array = strided_part(flat, wanted, ((flat.size,), (1,), 0))
    counter = before_write(self)
    self._accumulator = None  # older graphs no longer lead to the tensor, but still to its `.grad`
    lies = array.shape, tuple(n // array.itemsize for n in array.strides), 0
    self._home = None
    self._array, self._moves = (
        array,
        () if array.base is None else ((strided, (lies, lies, False), None),),
    )
    counter[0] += 1
    return self


@ROWS.function("method")
def resize(self: Tensor, *size: int | Sequence[int]) -> Tensor:
    """Return a view with another shape (deprecated: use `view`)."""
    warn("non-inplace resize is deprecated")
    return Resize.apply(self, sizes(size))


@ROWS.function("method")
def resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """Return a view with another tensor's shape (deprecated: use `view_as`)."""
    warn("non-inplace resize_as is deprecated")
    return Resize.apply(self, tensor._array.shape)


# -- storages --------------------------------------------------------------------------------------


class Storage:
    """Memory, as a flat array of elements."""

    memory: Array

    @property
    def device(self) -> device:
        """The device: always the CPU."""
        return CPU

    @property
    def is_cuda(self) -> bool:
        """True if it is on a GPU: always False."""
        return False

    def row(self) -> Array:
        """Return the elements, as a NumPy view."""
        raise NotImplementedError

    def untyped(self) -> UntypedStorage:
        """Return the same memory, as bytes."""
        raise NotImplementedError

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return address_of(self.memory)

    def nbytes(self) -> int:
        """Return the number of bytes."""
        return self.memory.nbytes

    def size(self) -> int:
        """Return the number of elements."""
        return self.row().size

    def __len__(self) -> int:
        return self.row().size

    def element_size(self) -> int:
        """Return the bytes of one element."""
        return self.row().itemsize

    def tolist(self) -> list[Any]:
        """Return the elements."""
        return self.row().tolist()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __getitem__(self, place: int) -> Any:
        return self.row()[place].item()

    def __setitem__(self, place: int | slice, value: complex) -> None:
        self.row()[place] = value

    def fill_(self, value: complex) -> Storage:
        """Overwrite every element with a number."""
        self.row()[...] = value
        return self


@final
class UntypedStorage(Storage):
    """The memory of a tensor, in bytes. One object represents it, as long as something refers to
    it.
    """

    def __init__(self, memory: Array) -> None:
        self.memory = memory

    @staticmethod
    def from_file(filename: str, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """Return the memory of a file, which is read when it is used.

        Args:
            filename: the file.
            shared: True to write changes to the file, which is made longer if needed.
            nbytes: number of bytes.
        """
        if shared and (not os.path.exists(filename) or os.path.getsize(filename) < nbytes):
            with open(filename, "ab") as file:
                file.truncate(nbytes)
        mapped = np.memmap(filename, np.uint8, "r+" if shared else "c", 0, (nbytes,))
        return UntypedStorage(np.asarray(mapped))

    def __getitem__(self, place: Any) -> Any:
        """Return a byte; for a slice, the storage of a part of the memory."""
        if isinstance(place, slice):
            return UntypedStorage(self.row()[place])
        return self.row()[place].item()

    def untyped_memory(self) -> Array:
        """Return the bytes: what ``torch.asarray`` shares."""
        return self.row()

    def row(self) -> Array:
        """Return the bytes."""
        return row_of(self.memory).view(np.uint8)

    def untyped(self) -> UntypedStorage:
        """Return the storage itself."""
        return self

    def __repr__(self) -> str:
        lines = "".join(f" {n}\n" for n in self.tolist())
        return f"{lines}[torch.storage.UntypedStorage(device=cpu) of size {len(self)}]"


@final
class TypedStorage(Storage):
    """The memory of a tensor, as elements of its dtype."""

    def __init__(self, untyped: UntypedStorage, dtype: dtype) -> None:
        self._untyped, self.memory, self.dtype = untyped, untyped.memory, dtype

    def row(self) -> Array:
        """Return the elements."""
        return row_of(self.memory)

    def untyped(self) -> UntypedStorage:
        """Return the same memory, as bytes."""
        return self._untyped

    def _new_shared(self, size: int, device: object = None) -> TypedStorage:
        """Return new memory for elements of this dtype; it is copied to other processes."""
        return TypedStorage(UntypedStorage(np.zeros(size, self.dtype.numpy)), self.dtype)

    def __repr__(self) -> str:
        lines = "".join(f" {n}\n" for n in self.tolist())
        return f"{lines}[torch.storage.TypedStorage(dtype={self.dtype}, device=cpu) of size {len(self)}]"


_STORAGES: weakref.WeakValueDictionary[int, UntypedStorage] = weakref.WeakValueDictionary()


@ROWS.function("method")
def untyped_storage(self: Tensor) -> UntypedStorage:
    """Return the tensor's storage, as bytes."""
    memory = memory_of(self)
    found = _STORAGES.get(id(memory))
    if found is None:
        found = _STORAGES[id(memory)] = UntypedStorage(memory)
    return found


@ROWS.function("method")
def _typed_storage(self: Tensor) -> TypedStorage:
    """Return the tensor's storage, as elements."""
    return TypedStorage(untyped_storage(self), DTYPES[self._array.dtype])


@ROWS.function("method")
def storage(self: Tensor) -> TypedStorage:
    """Return the tensor's storage, as elements (deprecated: use `untyped_storage`)."""
    warn_once(errors.TYPED_STORAGE)
    return _typed_storage(self)


@ROWS.function("method")
def storage_offset(self: Tensor) -> int:
    """Return the offset of the tensor's first element in the storage, in elements."""
    return geometry_of(self)[2]


@ROWS.function("method")
def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Return True if another tensor has the same storage, offset, sizes and strides."""
    return memory_of(self) is memory_of(tensor) and geometry_of(self) == geometry_of(tensor)
