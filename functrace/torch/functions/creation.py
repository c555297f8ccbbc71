"""Tensors from data: numbers, lists, arrays and traced values. (Factories of shapes: factories.py.)

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.errors import LostGradientError
from functrace.numpy.arrays.views import owned
from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.dispatch.numbers import number_of
from functrace.torch.dispatch.promotion import check_fits
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.errors.warnings import warn, warn_once
from functrace.torch.functions.elementwise import tensors_only
from functrace.torch.functions.factories import dtype_of_kinds, leaf
from functrace.torch.functions.shaping import sizes
from functrace.torch.tensors.device import CPU, DeviceLike, check_device
from functrace.torch.tensors.dtypes import (
    DTYPES,
    DtypeLike,
    numpy_dtype,
)
from functrace.torch.tensors.formats import strided
from functrace.torch.tensors.orders import copied
from functrace.torch.tensors.storageless import StoragelessArray
from functrace.torch.tensors.tensor import Tensor, fresh, is_size
from functrace.tracing import Tracer
from functrace.typing import Array

ROWS = FunctionTable()


def _lifted(made: Tensor) -> Any:
    """Return a tensor of data as dispatch modes return it."""
    return made if MODES.dispatch is None else MODES.dispatch.lift(made)


# -- from data -------------------------------------------------------------------------------------


@ROWS.function("function")
def tensor(
    data: Any,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a leaf tensor with a copy of ``data``: numbers, nested lists, an array or a tensor.

    Raises:
        TypeError: for text, and arrays of unsupported dtypes.
        ValueError: for lists of different lengths.
        RuntimeError: for any other object that is no number.
    """
    check_device(device)
    if isinstance(data, Tensor):
        warn(errors.COPY_OF_TENSOR)
    array = _array_of(data, dtype)
    if MODES.dispatch is None:
        return leaf(array, requires_grad)
    made = _lifted(leaf(array, False))
    return made.requires_grad_() if requires_grad else made


def _array_of(data: Any, dtype: DtypeLike | None) -> Any:
    """Return a new array of the data passed to `tensor`."""
    if is_tensors := isinstance(data, Tensor):
        data = data._array
    if isinstance(data, Tracer):
        raise LostGradientError(
            f"a tensor of a traced value ({data.aval}) would lose its derivative: tensors have "
            "their own autograd",
            fix="torch.as_tensor(x) of a whole traced array keeps it (torch.stack, of several); "
            "torch.tensor(functrace.value(x)) holds the plain values",
        )
    if isinstance(data, (np.ndarray, np.generic)):
        check_dtype(data, is_tensors)
        return copied(np.asarray(data), data.dtype if dtype is None else numpy_dtype(dtype))
    found: set[Any] = set()
    plain = _plain(data, found)
    wanted = dtype_of_kinds(found) if dtype is None else numpy_dtype(dtype)
    array = np.array(plain)
    if array.dtype.kind in "uO" and int in found:
        raise ValueError(errors.INTEGER_OVERFLOW)
    if array.dtype.kind == "c" and wanted.kind not in "cb":
        raise TypeError("must be real number, not complex")
    if wanted.kind in "iu" and array.size:
        if array.dtype.kind in "fV" and not np.all(np.isfinite(array)):
            raise ValueError("cannot convert float NaN to integer")
        for limit in (array.min(), array.max()):
            try:
                check_fits(limit.item(), wanted)
            except RuntimeError:
                raise RuntimeError(
                    f"value cannot be converted to type {wanted.name} without overflow"
                ) from None
    return array.astype(wanted)


_NUMBERS = frozenset({bool, int, float, complex})


def _plain(data: Any, found: set[Any], depth: int = 0) -> Any:
    """Return nested lists of numbers, and the kinds of these numbers."""
    kind = type(data)
    if kind in (float, int, bool, complex):
        found.add(kind)
        return data
    if isinstance(data, Tensor):
        data = data._array
    if isinstance(data, Tracer):
        return _array_of(data, None)
    if isinstance(data, (np.ndarray, np.generic)):
        if data.dtype not in DTYPES:
            raise TypeError(errors.array_dtype(data.dtype.type.__name__))
        found.add(data.dtype)
        if depth and data.ndim and isinstance(data, np.ndarray):
            return [_plain(x, found, depth + 1) for x in data]
        return data.tolist()
    if isinstance(data, str):
        raise TypeError(f"new(): invalid data type '{kind.__name__}'")
    if isinstance(data, (bool, int, float, complex)):
        return _plain(number_of(data), found)
    if not isinstance(data, Sequence):
        raise RuntimeError(errors.no_dtype_of(kind.__name__))
    kinds = set(map(type, data))
    if kinds <= _NUMBERS:  # most data: only Python numbers
        found |= kinds
        return list(data)
    tensors = [x for x in data if isinstance(x, Tensor)]
    if any(x._array.size != 1 for x in tensors):
        raise ValueError(errors.ONE_ELEMENT)
    parts = [
        x._array.reshape(()).tolist() if isinstance(x, Tensor) else _plain(x, found, depth + 1)
        for x in data
    ]
    found.update(x._array.dtype for x in tensors)
    _check_regular(parts, depth)
    return parts


def _check_regular(parts: list[Any], depth: int) -> None:
    nested = [isinstance(part, list) for part in parts]
    if any(nested):
        if not nested[0]:
            raise TypeError("'list' object cannot be interpreted as an integer")
        for part in parts:
            if not isinstance(part, list):
                raise TypeError("not a sequence")
            if len(part) != len(parts[0]):
                raise ValueError(errors.ragged(len(parts[0]), depth + 1, len(part)))


@ROWS.function("function")
def as_tensor(
    data: Any, dtype: DtypeLike | None = None, device: DeviceLike | None = None
) -> Tensor:
    """Return ``data`` as a tensor: itself if it is one; sharing memory with an array (traced or
    not); otherwise a copy.

    Raises:
        ValueError: for an array with negative strides, which tensors do not support.
    """
    check_device(device)
    if isinstance(data, Tracer):
        data = _of_traced(data)
    if isinstance(data, Tensor):
        return data if dtype is None else data.to(dtype)
    if isinstance(data, np.ndarray) and data.dtype in DTYPES:
        check_dtype(data)
        check_forward(data)
        wanted = data.dtype if dtype is None else numpy_dtype(dtype)
        return _lifted(fresh(data if wanted == data.dtype else copied(data, wanted)))
    return _lifted(fresh(_array_of(data, dtype)))


def check_dtype(array: Array | np.generic, is_tensors: bool = False) -> None:
    """Check that a NumPy array has the dtype of a tensor.

    Args:
        array: the array.
        is_tensors: True for the array of a tensor, which may be bfloat16.

    Raises:
        TypeError: for any other dtype, and for bfloat16, which NumPy does not have.
    """
    if array.dtype not in DTYPES or (array.dtype.kind == "V" and not is_tensors):
        name = array.dtype.type.__name__
        raise TypeError(
            errors.array_dtype(name, "ml_dtypes" if array.dtype.kind == "V" else "numpy")
        )


def check_forward(array: Array) -> None:
    """Check that a tensor can share an array.

    Raises:
        ValueError: if a stride is negative.
    """
    if min(array.strides, default=0) < 0:
        raise ValueError(errors.NEGATIVE_STRIDES_OF_ARRAY)


@ROWS.function("function")
def asarray(
    obj: Any,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """Return ``obj`` as a tensor that shares its memory; a copy if that is impossible and ``copy``
    is None.

    Args:
        obj: a tensor, an array, a storage of bytes, numbers, nested lists.
        dtype: the tensor's; that of ``obj`` by default.
        copy: True to copy, False to share; None: copy only if memory cannot be shared.
        requires_grad: True if the tensor requires grad; None: as ``obj``, in whose graph it is.

    Raises:
        ValueError: if memory should be shared, and cannot be.
    """
    check_device(device)
    if hasattr(type(obj), "untyped_memory"):
        obj = obj.untyped_memory()
    shares = isinstance(obj, (Tensor, Tracer)) or (
        isinstance(obj, np.ndarray) and obj.ndim > 0 and obj.dtype in DTYPES
    )
    if copy is False:
        if not shares:
            raise ValueError(errors.ALIASED_SEQUENCE)
        if (
            dtype is not None
            and numpy_dtype(dtype) != obj.dtype
            and DTYPES[numpy_dtype(dtype)] is not obj.dtype
        ):
            given = obj.dtype if isinstance(obj, Tensor) else DTYPES[obj.dtype]
            raise ValueError(errors.cannot_alias(given.printed, DTYPES[numpy_dtype(dtype)].printed))
    made: Any = as_tensor(obj, dtype) if shares else _lifted(fresh(_array_of(obj, dtype)))
    if copy and shares and made._array is (obj._array if isinstance(obj, Tensor) else obj):
        made = made.clone()
    if requires_grad is None:
        if isinstance(obj, Tensor) and obj.requires_grad:
            warn_once(errors.ASARRAY_REQUIRES_GRAD)
        return made
    return (
        made.detach()
        if not requires_grad and not made.is_leaf
        else made.requires_grad_(requires_grad)
    )


def _of_traced(traced: Tracer) -> Tensor:
    """Return a tensor of a traced value, with its derivative."""
    if traced.dtype not in DTYPES:
        raise TypeError(errors.array_dtype(traced.dtype.type.__name__))
    return fresh(
        traced if traced.shape else owned(traced)
    )  # a 0-d value may be a scalar, which is immutable


@ROWS.function("function")
def from_numpy(array: Array) -> Tensor:
    """Return a tensor that shares the memory of an array, traced or not.

    Raises:
        TypeError: if it is no array, or of an unsupported dtype.
    """
    if isinstance(array, Tracer):
        return _of_traced(array)
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    check_dtype(array)
    check_forward(array)
    return _lifted(fresh(array))


@ROWS.function("method")
def new_tensor(
    self: Tensor,
    data: Any,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of ``data`` of this dtype."""
    return tensor(
        data,
        dtype=self.dtype if dtype is None else dtype,
        device=device,
        requires_grad=requires_grad,
    )


@ROWS.function("method")
def new(self: Tensor, *arguments: Any, device: DeviceLike | None = None) -> Tensor:
    """Return a tensor of this dtype: with a number of elements, or with the data of a list."""
    check_device(device)
    return of_legacy(self._array.dtype, arguments)


def of_legacy(dtype: np.dtype[Any], arguments: Sequence[Any]) -> Tensor:
    """Make a tensor as PyTorch's older constructors do: of sizes, of data, or sharing another
    tensor.
    """
    if len(arguments) == 1 and isinstance(arguments[0], Tensor):
        if arguments[0]._array.dtype != dtype:
            raise TypeError(errors.legacy_options(DTYPES[dtype].name, arguments[0].dtype.name))
        return arguments[0][...]
    if len(arguments) == 1 and hasattr(arguments[0], "_new_shared"):  # a TypedStorage
        return fresh(arguments[0].row())
    if len(arguments) == 1 and not is_size(arguments[0]) and type(arguments[0]).__name__ != "Size":
        data = arguments[0]
        if (
            isinstance(data, np.ndarray) and data.dtype == dtype
        ):  # these constructors share the memory of arrays
            check_forward(data)
            return _lifted(fresh(data))
        if isinstance(data, (float, complex, np.generic)) or data is None:
            raise TypeError(errors.legacy_data(data))
        return _lifted(fresh(copied(np.asarray(_array_of(data, None)), dtype)))
    shape = sizes(arguments) if arguments else (0,)
    if MODES.dispatch is not None:
        kwargs = {"dtype": DTYPES[dtype], "layout": strided, "device": CPU}
        return MODES.dispatch.make(
            "empty", (list(shape),), kwargs, lambda: fresh(np.zeros(shape, dtype))
        )
    return fresh(np.zeros(shape, dtype))


# -- comparing whole tensors -----------------------------------------------------------------------


@ROWS.function()
def equal(input: Tensor, other: Tensor) -> bool:
    """Return True if two tensors have the same shape and elements."""
    tensors_only("equal", input=input, other=other)
    if MODES.dispatch is not None:
        return MODES.dispatch.make("equal", (input, other), {}, lambda: equal(input, other))
    for x in (input._array, other._array):
        if type(x) is StoragelessArray:  # NumPy takes it for an object
            x.refuse()
    return bool(np.array_equal(input._array, other._array))


@ROWS.function()
def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Return True if all elements are close: ``|input - other| <= atol + rtol * |other|``.

    Raises:
        RuntimeError: for different dtypes.
    """
    tensors_only("allclose", input=input, other=other)
    if input._array.dtype != other._array.dtype:
        raise RuntimeError(f"{input.dtype.printed} did not match {other.dtype.printed}")
    if MODES.dispatch is not None:
        options: Any = (rtol, atol, equal_nan)
        while options and options[-1] == (1e-05, 1e-08, False)[len(options) - 1]:
            options = options[:-1]
        return MODES.dispatch.make(
            "allclose", (input, other, *options), {}, lambda: allclose(input, other, *options)
        )
    return bool(np.allclose(input._array, other._array, rtol, atol, equal_nan))
