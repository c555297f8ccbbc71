"""Factories: tensors from numbers, arrays, shapes and random numbers.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from functrace.torch.functions.elementwise import shape_of, tensors_only
from functrace.torch.functions.shaping import sizes
from functrace.torch.random import generator as running
from functrace.torch.tensors.device import CPU, DeviceLike, check_device
from functrace.torch.tensors.dtypes import (
    DTYPES,
    DtypeLike,
    default_complex,
    default_float,
    numpy_dtype,
)
from functrace.torch.tensors.formats import check_place, contiguous_format, strided
from functrace.torch.tensors.formats import layout as Layout
from functrace.torch.tensors.orders import copied, laid
from functrace.torch.tensors.tensor import Tensor, fresh, is_expanded, is_size
from functrace.tracing import Tracer
from functrace.typing import Array

ROWS = FunctionTable()


def _leaf(array: Array, requires_grad: bool) -> Tensor:
    if requires_grad and array.dtype.kind not in "fc":
        raise RuntimeError(errors.MADE_WITH_GRAD_DTYPE)
    made = fresh(array)
    return made.requires_grad_() if requires_grad else made


def _seen(factory: Callable[..., Tensor], args: tuple[Any, ...], given: dict[str, Any]) -> Any:
    """Forward a factory to the dispatch modes: on the CPU, with ``requires_grad`` set afterwards.

    Args:
        factory: the function.
        args: the positional arguments of its operation.
        given: its options, by name, among other names.
    """
    options = {
        name: given[name]
        for name in ("generator", "dtype", "layout", "memory_format")
        if given.get(name) is not None
    }
    kwargs: dict[str, Any] = {
        name: value for name, value in options.items() if name != "memory_format"
    }
    if "dtype" in kwargs:
        kwargs["dtype"] = DTYPES[numpy_dtype(kwargs["dtype"])]
    if given["device"] is not None or not isinstance(args[0], Tensor):
        kwargs["device"] = CPU
    kwargs["pin_memory"] = False
    if "memory_format" in options:
        kwargs["memory_format"] = options["memory_format"]
    assert MODES.dispatch is not None
    made = MODES.dispatch.make(factory.__name__, args, kwargs, lambda: factory(*args, **options))
    return made.requires_grad_() if given["requires_grad"] else made


def _lifted(made: Tensor) -> Any:
    """Return a tensor of data as dispatch modes return it."""
    return made if MODES.dispatch is None else MODES.dispatch.lift(made)


def _dtype(dtype: DtypeLike | None) -> np.dtype[Any]:
    return default_float() if dtype is None else numpy_dtype(dtype)


def _size(name: str, size: Sequence[Any]) -> tuple[int, ...]:
    """Return the sizes passed to a factory.

    Raises:
        TypeError: if they are no integers.
        RuntimeError: if one is negative.
    """
    if not size:
        raise TypeError(f'{name}() missing 1 required positional arguments: "size"')
    first = size[0]
    if isinstance(first, bool):
        raise TypeError(errors.must_be(name, "size", 0, "tuple of ints", "bool"))
    if len(size) > 1 and isinstance(first, (tuple, list)):
        raise TypeError(f"{name}() takes 1 positional argument but {len(size)} were given")
    try:
        found = sizes(size)
    except TypeError:
        raise TypeError(
            errors.must_be(name, "size", 0, "tuple of ints", type(first).__name__)
        ) from None
    if any(n < 0 for n in found):
        raise RuntimeError(f"{name}: Dimension size must be non-negative.")
    return found


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
        return _leaf(array, requires_grad)
    made = _lifted(_leaf(array, False))
    return made.requires_grad_() if requires_grad else made


def _array_of(data: Any, dtype: DtypeLike | None) -> Any:
    """Return a new array of the data passed to `tensor`."""
    if isinstance(data, Tensor):
        data = data._array
    if isinstance(data, Tracer):
        raise LostGradientError(
            f"a tensor of a traced value ({data.aval}) would lose its derivative: tensors have "
            "their own autograd",
            fix="torch.as_tensor(x) of a whole traced array keeps it (torch.stack, of several); "
            "torch.tensor(functrace.value(x)) holds the plain values",
        )
    if isinstance(data, (np.ndarray, np.generic)):
        if data.dtype not in DTYPES:
            raise TypeError(errors.array_dtype(data.dtype.type.__name__))
        return copied(np.asarray(data), data.dtype if dtype is None else numpy_dtype(dtype))
    found: set[Any] = set()
    plain = _plain(data, found)
    wanted = _inferred(found) if dtype is None else numpy_dtype(dtype)
    array = np.array(plain)
    if array.dtype.kind in "uO" and int in found:
        raise ValueError(errors.INTEGER_OVERFLOW)
    if array.dtype.kind == "c" and wanted.kind not in "cb":
        raise TypeError("must be real number, not complex")
    if wanted.kind in "iu" and array.size:
        if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
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


def _inferred(found: set[Any]) -> np.dtype[Any]:
    """The dtype of numbers of these types and dtypes: Python floats are weak among floats."""
    kinds = {
        complex: default_complex(),
        float: default_float(),
        int: np.dtype(np.int64),
        bool: np.dtype(np.bool_),
    }
    dtypes = [kinds.get(kind, kind) for kind in found]
    if not dtypes:
        return default_float()
    result = dtypes[0]
    for d in dtypes[1:]:
        high = max(result, d, key=lambda d: "buifc".index(d.kind))
        result = (
            np.promote_types(result, d)
            if result.kind == d.kind or np.float64 in (result, d)
            else high
        )
    return result


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
        check_forward(data)
        wanted = data.dtype if dtype is None else numpy_dtype(dtype)
        return _lifted(fresh(data if wanted == data.dtype else copied(data, wanted)))
    return _lifted(fresh(_array_of(data, dtype)))


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
        obj: a tensor, an array, numbers, nested lists.
        dtype: the tensor's; that of ``obj`` by default.
        copy: True to copy, False to share; None: copy only if memory cannot be shared.
        requires_grad: True if the tensor requires grad; None: as ``obj``, in whose graph it is.

    Raises:
        ValueError: if memory should be shared, and cannot be.
    """
    check_device(device)
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
    if array.dtype not in DTYPES:
        raise TypeError(errors.array_dtype(array.dtype.type.__name__))
    check_forward(array)
    return _lifted(fresh(array))


@ROWS.function("function")
def scalar_tensor(
    s: complex,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a 0-d tensor of a number."""
    check_place("scalar_tensor", device, layout, pin_memory)
    if MODES.dispatch is not None:
        return _seen(scalar_tensor, (s,), locals())
    return full(
        (),
        s,
        dtype=default_float() if dtype is None else dtype,
        requires_grad=requires_grad,
    )


# -- of a shape ------------------------------------------------------------------------------------


@ROWS.function("function")
def zeros(
    *size: int | Sequence[int],
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return zeros."""
    check_place("zeros", device, layout, pin_memory)
    if MODES.dispatch is not None:
        return _seen(zeros, (list(_size("zeros", size)),), locals())
    return _leaf(np.zeros(_size("zeros", size), _dtype(dtype)), requires_grad)


@ROWS.function("function")
def ones(
    *size: int | Sequence[int],
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return ones."""
    check_place("ones", device, layout, pin_memory)
    if MODES.dispatch is not None:
        return _seen(ones, (list(_size("ones", size)),), locals())
    return _leaf(np.ones(_size("ones", size), _dtype(dtype)), requires_grad)


@ROWS.function("function")
def empty(
    *size: int | Sequence[int],
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: bool | None = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return an uninitialized tensor."""
    check_place("empty", device, layout, pin_memory)
    if MODES.dispatch is not None:
        return _seen(empty, (list(_size("empty", size or ((),))),), locals())
    return _leaf(np.empty(_size("empty", size or ((),)), _dtype(dtype)), requires_grad)


@ROWS.function("function")
def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return an uninitialized tensor with these strides."""
    check_place("empty_strided", device, layout, pin_memory)
    if MODES.dispatch is not None:
        return _seen(empty_strided, (list(size), list(stride)), locals())
    shape, kind = _size("empty_strided", (tuple(size),)), _dtype(dtype)
    needed = (
        1 + sum((n - 1) * step for n, step in zip(shape, stride, strict=True))
        if 0 not in shape
        else 0
    )
    steps = [step * kind.itemsize for step in stride]
    return _leaf(
        np.lib.stride_tricks.as_strided(np.empty(needed, kind), shape, steps), requires_grad
    )


@ROWS.function("function")
def full(
    size: Sequence[int],
    fill_value: Any,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor filled with a number, whose type determines the dtype."""
    check_place("full", device, layout, pin_memory)
    if MODES.dispatch is not None:
        return _seen(full, (list(size), fill_value), locals())
    if not isinstance(size, (tuple, list)):
        raise TypeError(errors.must_be("full", "size", 0, "tuple of ints", type(size).__name__))
    return _leaf(_filled("full", _size("full", (size,)), fill_value, dtype), requires_grad)


def _filled(name: str, shape: tuple[int, ...], value: Any, dtype: DtypeLike | None) -> Any:
    number = number_of(
        value.item() if isinstance(value, Tensor) and value._array.ndim == 0 else value
    )
    if type(number) not in (bool, int, float, complex):
        raise TypeError(errors.must_be(name, "fill_value", 1, "Number", type(value).__name__))
    wanted = _inferred({type(number)}) if dtype is None else numpy_dtype(dtype)
    check_fits(number, wanted)
    return np.full(
        shape, np.asarray(number if wanted.kind in "cb" else number.real).astype(wanted), wanted
    )


@ROWS.function("function")
def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return ones on the diagonal."""
    check_place("eye", device, layout, pin_memory)
    if MODES.dispatch is not None:
        return _seen(eye, (n,) if m is None else (n, m), locals())
    for name, size in (("n", n), ("m", m)):
        if size is not None and size < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {size}")
    return _leaf(np.eye(n, m, dtype=_dtype(dtype)), requires_grad)


@ROWS.function("function")
def arange(
    start: Any = None,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return equally spaced numbers, without the end: ``arange(end)``, ``arange(start, end,
    step)``.
    """
    check_place("arange", device, layout, pin_memory)
    bounds = (0, start, step) if end is None else (0 if start is None else start, end, step)
    plain = [number_of(x.item() if isinstance(x, Tensor) else x) for x in bounds]
    for value in plain:
        if type(value) not in (bool, int, float):
            raise TypeError(errors.must_be("arange", "end", 0, "Number", type(value).__name__))
    low, high, by = plain
    if MODES.dispatch is not None:
        return _seen(
            arange,
            (high,)
            if end is None
            else (low, high)
            if by == 1 and type(by) is int
            else (low, high, by),
            locals(),
        )
    if by == 0:
        raise RuntimeError(errors.ARANGE_STEP)
    if (high - low) * by < 0:
        raise RuntimeError(errors.ARANGE_SIGN)
    array = np.arange(low, high, by)
    wanted = default_float() if array.dtype.kind == "f" else np.dtype(np.int64)
    return _leaf(array.astype(wanted if dtype is None else numpy_dtype(dtype)), requires_grad)


@ROWS.function("function")
def linspace(
    start: float,
    end: float,
    steps: int,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return ``steps`` equally spaced numbers, with both ends."""
    check_place("linspace", device, layout, pin_memory)
    if MODES.dispatch is not None:
        return _seen(linspace, (start, end, steps), locals())
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    return _leaf(
        np.linspace(number_of(start), number_of(end), steps).astype(_dtype(dtype)), requires_grad
    )


@ROWS.function("function")
def logspace(
    start: float,
    end: float,
    steps: int,
    base: float = 10.0,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return ``steps`` powers of ``base``, with equally spaced exponents."""
    check_place("logspace", device, layout, pin_memory)
    if MODES.dispatch is not None:
        return _seen(logspace, (start, end, steps), locals())
    return _leaf(np.logspace(start, end, steps, base=base).astype(_dtype(dtype)), requires_grad)


# -- like another tensor ---------------------------------------------------------------------------


def _like(
    name: str,
    input: Tensor,
    dtype: DtypeLike | None,
    device: DeviceLike | None,
    layout: Layout | None,
    pin_memory: bool | None,
) -> np.dtype[Any]:
    check_place(name, device, layout, pin_memory)
    tensors_only(name, input=input)
    return input._array.dtype if dtype is None else numpy_dtype(dtype)


def _filled_like(input: Tensor, value: Any, dtype: np.dtype[Any], memory_format: Any) -> Array:
    """Return an array filled with a number, in the memory layout of a tensor unless the format is
    contiguous.
    """
    array = input._array
    if isinstance(array, Tracer) or memory_format is contiguous_format:
        return np.full(array.shape, value, dtype)
    if is_expanded(array):
        return laid(np.full(array.shape, value, dtype), [array])
    return np.full_like(array, value, dtype)


def _lying_like(input: Tensor, made: Tensor, memory_format: Any) -> Tensor:
    """Give a new tensor the memory layout of another one."""
    if isinstance(input._array, np.ndarray) and memory_format is not contiguous_format:
        made._array = laid(made._array, [input._array])
    return made


@ROWS.function("function")
def zeros_like(
    input: Tensor,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: bool | None = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return zeros of a tensor's shape and dtype."""
    kind = _like("zeros_like", input, dtype, device, layout, pin_memory)
    if MODES.dispatch is not None:
        return _seen(zeros_like, (input,), locals())
    return _leaf(_filled_like(input, 0, kind, memory_format), requires_grad)


@ROWS.function("function")
def ones_like(
    input: Tensor,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: bool | None = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return ones of a tensor's shape and dtype."""
    kind = _like("ones_like", input, dtype, device, layout, pin_memory)
    if MODES.dispatch is not None:
        return _seen(ones_like, (input,), locals())
    return _leaf(_filled_like(input, 1, kind, memory_format), requires_grad)


@ROWS.function("function")
def empty_like(
    input: Tensor,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: bool | None = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return an uninitialized tensor of another one's shape and dtype."""
    kind = _like("empty_like", input, dtype, device, layout, pin_memory)
    if MODES.dispatch is not None:
        return _seen(empty_like, (input,), locals())
    return _leaf(_filled_like(input, 0, kind, memory_format), requires_grad)


@ROWS.function("function")
def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: bool | None = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return a tensor of another one's shape and dtype, filled with a number."""
    kind = _like("full_like", input, dtype, device, layout, pin_memory)
    if MODES.dispatch is not None:
        return _seen(full_like, (input, fill_value), locals())
    value = _filled("full_like", (), fill_value, kind)
    return _leaf(_filled_like(input, value, kind, memory_format), requires_grad)


@ROWS.function("method")
def new_zeros(
    self: Tensor,
    *size: int | Sequence[int],
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return zeros of this dtype."""
    check_place("new_zeros", device, layout, pin_memory)
    if MODES.dispatch is not None:
        return _seen(new_zeros, (self, list(_size("new_zeros", size))), locals())
    return zeros(*size, dtype=self.dtype if dtype is None else dtype, requires_grad=requires_grad)


@ROWS.function("method")
def new_ones(
    self: Tensor,
    *size: int | Sequence[int],
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return ones of this dtype."""
    check_place("new_ones", device, layout, pin_memory)
    if MODES.dispatch is not None:
        return _seen(new_ones, (self, list(_size("new_ones", size))), locals())
    return ones(*size, dtype=self.dtype if dtype is None else dtype, requires_grad=requires_grad)


@ROWS.function("method")
def new_empty(
    self: Tensor,
    *size: int | Sequence[int],
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return an uninitialized tensor of this dtype."""
    check_place("new_empty", device, layout, pin_memory)
    if MODES.dispatch is not None:
        return _seen(new_empty, (self, list(_size("new_empty", size))), locals())
    return empty(*size, dtype=self.dtype if dtype is None else dtype, requires_grad=requires_grad)


@ROWS.function("method")
def new_full(
    self: Tensor,
    size: Sequence[int],
    fill_value: Any,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of this dtype, filled with a number."""
    check_place("new_full", device, layout, pin_memory)
    if MODES.dispatch is not None:
        return _seen(new_full, (self, list(size), fill_value), locals())
    kind = self.dtype if dtype is None else dtype
    return full(size, fill_value, dtype=kind, requires_grad=requires_grad)


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


# -- random numbers: NumPy's, so seeds give other numbers than PyTorch's ---------------------------


def _of_floats(kernel: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.kind not in "fc":
        raise NotImplementedError(errors.no_kernel(kernel).format(DTYPES[dtype].printed))
    return dtype


def _drawn(draw: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "c":
        return (draw(shape) + 1j * draw(shape)).astype(dtype)
    return np.asarray(draw(shape)).astype(dtype)


@ROWS.function("function")
def rand(
    *size: int | Sequence[int],
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: bool | None = None,
    requires_grad: bool = False,
    generator: Any = None,
) -> Tensor:
    """Return uniform random numbers in [0, 1)."""
    check_place("rand", device, layout, pin_memory)
    if MODES.dispatch is not None:
        return _seen(rand, (list(_size("rand", size)),), locals())
    kind = _of_floats("check_uniform_bounds", _dtype(dtype))
    return _leaf(_drawn((generator or running()).random, _size("rand", size), kind), requires_grad)


@ROWS.function("function")
def randn(
    *size: int | Sequence[int],
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: bool | None = None,
    requires_grad: bool = False,
    generator: Any = None,
) -> Tensor:
    """Return standard normal random numbers."""
    check_place("randn", device, layout, pin_memory)
    if MODES.dispatch is not None:
        return _seen(randn, (list(_size("randn", size)),), locals())
    kind = _of_floats("normal_kernel_cpu", _dtype(dtype))
    array = _drawn((generator or running()).standard_normal, _size("randn", size), kind)
    return _leaf(array / kind.type(np.sqrt(2)) if kind.kind == "c" else array, requires_grad)


@ROWS.function("function")
def randint(
    *bounds_and_size: Any,
    low: int = 0,
    high: int | None = None,
    size: Sequence[int] | None = None,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: bool | None = None,
    requires_grad: bool = False,
    generator: Any = None,
) -> Tensor:
    """Return random integers: ``randint(high, size)`` or ``randint(low, high, size)``."""
    check_place("randint", device, layout, pin_memory)
    given = list(bounds_and_size)
    if size is None:
        size = given.pop() if given else None
    if not isinstance(size, (tuple, list)):
        raise TypeError(errors.must_be("randint", "size", 1, "tuple of ints", type(size).__name__))
    if len(given) == 2:
        low, high = given
    elif given:
        high = given[0]
    assert high is not None, "randint() needs a bound"
    if MODES.dispatch is not None:
        return _seen(
            randint,
            (high, list(size)) if low == 0 and len(given) < 2 else (low, high, list(size)),
            locals(),
        )
    if low >= high:
        raise RuntimeError(
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    kind = np.dtype(np.int64) if dtype is None else numpy_dtype(dtype)
    return _leaf(
        (generator or running()).integers(low, high, _size("randint", (size,))).astype(kind),
        requires_grad,
    )


@ROWS.function("function")
def randperm(
    n: int,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: bool | None = None,
    requires_grad: bool = False,
    generator: Any = None,
) -> Tensor:
    """Return the integers below ``n`` in random order."""
    check_place("randperm", device, layout, pin_memory)
    _size("randperm", (n,))
    if MODES.dispatch is not None:
        return _seen(randperm, (n,), locals())
    kind = np.dtype(np.int64) if dtype is None else numpy_dtype(dtype)
    return _leaf((generator or running()).permutation(n).astype(kind), requires_grad)


@ROWS.function("function")
def randn_like(
    input: Tensor,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: bool | None = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return standard normal random numbers in a tensor's shape and dtype."""
    kind = _like("randn_like", input, dtype, device, layout, pin_memory)
    if MODES.dispatch is not None:
        return _seen(randn_like, (input,), locals())
    return _lying_like(
        input, randn(shape_of(input), dtype=kind, requires_grad=requires_grad), memory_format
    )


@ROWS.function("function")
def rand_like(
    input: Tensor,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: bool | None = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return uniform random numbers in [0, 1), in a tensor's shape and dtype."""
    kind = _like("rand_like", input, dtype, device, layout, pin_memory)
    if MODES.dispatch is not None:
        return _seen(rand_like, (input,), locals())
    return _lying_like(
        input, rand(shape_of(input), dtype=kind, requires_grad=requires_grad), memory_format
    )


@ROWS.function("function")
def randint_like(
    input: Tensor,
    *bounds: int,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: bool | None = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return random integers in a tensor's shape and dtype: ``randint_like(x, high)``,
    ``randint_like(x, low, high)``.
    """
    kind = _like("randint_like", input, dtype, device, layout, pin_memory)
    if MODES.dispatch is not None:
        return _seen(randint_like, (input, *bounds), locals())
    return randint(*bounds, shape_of(input), dtype=kind, requires_grad=requires_grad)


# -- comparing whole tensors -----------------------------------------------------------------------


@ROWS.function()
def equal(input: Tensor, other: Tensor) -> bool:
    """Return True if two tensors have the same shape and elements."""
    tensors_only("equal", input=input, other=other)
    if MODES.dispatch is not None:
        return MODES.dispatch.make("equal", (input, other), {}, lambda: equal(input, other))
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
