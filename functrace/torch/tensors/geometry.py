"""Positions of tensors' elements in their storages, and tensors of other sizes in the same
storage.

Layer: 9.
"""

from __future__ import annotations

import functools
import math
import sys
from typing import Any

import numpy as np

from functrace.errors import UnsupportedFunctionError
from functrace.numpy.arrays.layout import layout_of
from functrace.ops import elementwise as ew
from functrace.ops.indexing import ARRAY, gather, scatter_add, scatter_set
from functrace.ops.joining import concatenate
from functrace.ops.shaping import reshape
from functrace.torch.tensors.mirrors import is_lazy
from functrace.torch.tensors.steps import view_written
from functrace.torch.tensors.strides import Geometry, Sizes, dense_strides, stride_rule
from functrace.torch.tensors.tensor import Tensor, View, before_write, followed_geometry
from functrace.tracing import Tracer
from functrace.typing import Array


def places(geometry: Geometry) -> Array:
    """Return the position of each element in the storage."""
    shape, strides, offset = geometry
    found = np.full(shape, offset, np.int64)
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        found += (np.arange(size) * stride).reshape((size,) + (1,) * (len(shape) - axis - 1))
    return found


@functools.lru_cache(maxsize=256)
def _positions(wanted: Geometry, given: Geometry) -> tuple[Array, Array | None]:
    """Return, for each element of the geometry ``wanted``, its index in ``given``; past the last
    if it is not there.

    If elements of ``given`` overlap, indices are storage positions; the second array counts the
    elements at each position.
    """
    here, there = places(given).reshape(-1), places(wanted)
    size = max(int(x.max(initial=-1)) for x in (here, there)) + 1
    count = np.bincount(here, minlength=size)
    if count.max(initial=0) > 1:
        return there, count
    found = np.full(size, here.size, np.int64)
    found[here] = np.arange(here.size)
    return found[there], None


def _elements(x: Array, positions: Array, count: Array | None, given: Geometry) -> Any:
    """Return the array that the positions index: the flat elements, one more if there are
    positions past the last; or storage.
    """
    flat = reshape(x, (math.prod(x.shape),))
    if count is not None:  # as PyTorch differentiates it, a position holds the mean of its elements
        return ew.div(
            scatter_add(flat, (ARRAY,), (places(given).reshape(-1),), count.shape),
            np.maximum(count, 1).astype(x.dtype),
        )
    if positions.size and positions.max() == flat.shape[0]:
        return concatenate((flat, np.zeros(1, x.dtype)), 0)
    return flat


def strided_part(x: Array, wanted: Geometry, given: Geometry) -> Any:
    """Return the elements at ``wanted`` in the memory of an array at ``given``; for an array, a
    NumPy view.
    """
    if isinstance(x, np.ndarray) and (
        not x.size or x.strides == tuple(n * x.itemsize for n in given[1])
    ):
        memory = x
        while isinstance(memory.base, np.ndarray):
            memory = memory.base
        if 0 in wanted[0]:
            return row_of(memory)[:0].reshape(wanted[0])
        start = address_of(x) - address_of(memory) + (wanted[2] - given[2]) * x.itemsize
        return np.ndarray(
            wanted[0], x.dtype, row_of(memory), start, tuple(n * x.itemsize for n in wanted[1])
        )
    positions, count = _positions(wanted, given)
    return gather(_elements(x, positions, count, given), (ARRAY,), (positions,))


def _with_strided_part(base: Array, value: Array, wanted: Geometry, given: Geometry) -> Any:
    positions, count = _positions(wanted, given)
    written = scatter_set(_elements(base, positions, count, given), (ARRAY,), value, (positions,))
    if count is not None:
        return gather(written, (ARRAY,), (places(given),))
    size = math.prod(base.shape)
    return reshape(written if written.shape[0] == size else written[:size], base.shape)


def strided(x: Array, wanted: Geometry, given: Geometry, _says_offset: bool) -> Any:
    """`strided_part` as a view step; the last parameter only records a field of the node."""
    return strided_part(x, wanted, given)


view_written(
    strided, lambda base, value, wanted, given, _: _with_strided_part(base, value, wanted, given)
)


stride_rule(strided, lambda _given, _node, wanted, *_: wanted)


def address_of(array: Array) -> int:
    """Return the address of the first element."""
    return array.__array_interface__["data"][0]


def row_of(memory: Array) -> Array:
    """Return the elements of a dense array in memory order, whatever the order of axes: a view."""
    if memory.flags.c_contiguous:
        return memory.reshape(-1)
    return memory.transpose(sorted(range(memory.ndim), key=lambda k: -memory.strides[k])).reshape(
        -1
    )


def memory_of(tensor: Tensor) -> Array:
    """Return the array whose memory is the tensor's storage.

    Raises:
        UnsupportedFunctionError: for a traced value, which has no memory.
    """
    root = tensor if tensor._view is None else tensor._view.base
    array = root._array if root._home is None else root._home
    if isinstance(array, Tracer):
        raise UnsupportedFunctionError(
            f"{array.aval} is a traced value, which has no memory",
            fix="do this outside of the transform",
        )
    flags = array.flags
    if isinstance(array.base, np.ndarray) and not (flags.c_contiguous or flags.f_contiguous):
        while isinstance(array.base, np.ndarray):
            array = array.base
    while root._moves and isinstance(array.base, np.ndarray):
        array = array.base
    return array


def geometry_of(tensor: Tensor) -> Geometry:
    """Return the geometry of a tensor in its storage."""
    array = tensor._array
    if isinstance(array, Tracer):
        known = layout_of(array)
        if known is None or tensor._view is not None or not known.flags.c_contiguous:
            raise UnsupportedFunctionError(
                f"{array.aval} has no known memory layout: it is a traced value",
                fix="use views that name dimensions (narrow, select, transpose), or contiguous() "
                "first",
            )
        return array.shape, dense_strides(array.shape), 0
    if is_lazy(array):
        raise UnsupportedFunctionError(
            "a conjugate or negation has its own memory here: it is not in the storage of its source",
            fix="use views that name dimensions (narrow, select, transpose), or resolve_conj() "
            "or resolve_neg() first",
        )
    begin = address_of(memory_of(tensor))
    if array.size or tensor._view is None:
        return array.shape, tensor.stride(), (address_of(array) - begin) // array.itemsize
    base = tensor._view.base._array
    shape, strides, offset = followed_geometry(tensor)
    return shape, strides, offset + (address_of(base) - begin) // base.itemsize


def geometry_in_numpy(tensor: Tensor) -> Geometry:
    """Return the geometry of a tensor by the address of its array: an empty view has another offset
    there.
    """
    shape, strides, offset = geometry_of(tensor)
    array = tensor._array
    if isinstance(array, np.ndarray) and not array.size:
        offset = (address_of(array) - address_of(memory_of(tensor))) // array.itemsize
    return shape, strides, offset


def _owns_alone(memory: Array) -> bool:
    """Return True if an array owns its memory, or is the only view of a whole array that does."""
    base = memory.base
    if base is None:
        return True
    # references: the array's, the variable, the argument
    return (
        type(base) is np.ndarray
        and base.flags.owndata
        and base.nbytes == memory.nbytes
        and sys.getrefcount(base) <= 3
    )


def resize(tensor: Tensor, shape: Sizes, strides: Sizes | None = None) -> None:
    """Change the shape of a tensor in its memory; if it must grow, copy its elements to new
    memory.

    Args:
        tensor: the tensor.
        shape: its new sizes.
        strides: its new strides; C order by default.

    Raises:
        UnsupportedFunctionError: if it must grow, and another object shares its memory.
    """
    given = geometry_in_numpy(tensor)
    offset = geometry_of(tensor)[2]
    wanted = shape, dense_strides(shape) if strides is None else strides, offset
    needed = offset + math.prod(shape)
    memory = memory_of(tensor)
    counter = before_write(tensor)
    if needed > memory.size:
        alone = _owns_alone(memory) and sys.getrefcount(memory) <= (
            3 if memory is tensor._array else 2
        )
        if not alone or tensor._view is not None:
            raise UnsupportedFunctionError(
                f"resize_ to {list(shape)} needs more memory, and another object shares the "
                "tensor's: a view, an "
                "alias or an array",
                fix="make a tensor of that shape, and copy_ into a part of it",
            )
        grown = np.zeros(needed, memory.dtype)
        grown[: memory.size] = row_of(memory)
        array = (
            grown.reshape(shape)
            if strides is None
            else strided_part(grown, (*wanted[:2], 0), ((needed,), (1,), 0))
        )
        tensor._array, tensor._moves, tensor._home = array, (), None
    else:
        before = tensor._view
        tensor._array = strided_part(tensor._array, wanted, given)
        if before is None:
            tensor._moves = (*tensor._moves, (strided, (given, wanted, False), None))
        else:
            view = View(
                before.base, (*before.steps, (strided, (wanted, given, False), None)), before.made
            )
            view.version = before.version
            tensor._view = view
    counter[0] += 1
