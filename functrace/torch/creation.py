"""Factories: tensors from numbers, arrays, shapes and random numbers.

Floor: 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.errors import LostGradientError
from functrace.torch import sentences
from functrace.torch.dtypes import DtypeLike, default_float, default_of, numpy_dtype
from functrace.torch.functions import shape_of
from functrace.torch.random import generator
from functrace.torch.rows import Rows
from functrace.torch.shaping import sizes
from functrace.torch.tensor import Tensor, wrap
from functrace.tracing import Tracer
from functrace.typing import Array

ROWS = Rows()


def _leaf(array: Array, requires_grad: bool) -> Tensor:
    if requires_grad and array.dtype.kind not in "fc":
        raise RuntimeError(sentences.MADE_WITH_GRAD_DTYPE)
    made = wrap(array)
    return made.requires_grad_() if requires_grad else made


def _dtype(dtype: DtypeLike | None) -> np.dtype[Any]:
    return default_float() if dtype is None else numpy_dtype(dtype)


@ROWS.function("function")
def tensor(data: Any, *, dtype: DtypeLike | None = None, device: str | None = None, requires_grad: bool = False) -> Tensor:
    """Return a leaf tensor with a copy of ``data``: numbers, nested lists, an array or a tensor."""
    array = np.array(_plain(data))
    if dtype is not None:
        array = array.astype(numpy_dtype(dtype))
    elif not isinstance(data, (np.ndarray, np.generic, Tensor)):
        array = array.astype(default_of(array.dtype), copy=False)
    return _leaf(array, requires_grad)


def _plain(data: Any) -> Any:
    if isinstance(data, Tensor):
        return data._array
    if isinstance(data, Tracer):
        raise LostGradientError(
            f"a tensor of a traced value ({data.aval}) would lose its derivative: tensors have their own, by backward()",
            fix="compute with NumPy under functrace's transforms, and apply autograd.Functions to traced values as they "
            "are; torch.tensor(functrace.value(x)) holds the plain values",
        )
    return [_plain(x) for x in data] if isinstance(data, (list, tuple)) else data


@ROWS.function("function")
def as_tensor(data: Any, dtype: DtypeLike | None = None, device: str | None = None) -> Tensor:
    """Return ``data`` as a tensor: itself if it is one, a sharing one of an array, otherwise a copy."""
    if isinstance(data, Tensor):
        return data if dtype is None else data.to(dtype)
    if isinstance(data, np.ndarray):
        return wrap(data if dtype is None else data.astype(numpy_dtype(dtype), copy=False))
    return tensor(data, dtype=dtype)


@ROWS.function("function")
def from_numpy(array: Array) -> Tensor:
    """Return a tensor that shares the array's memory.

    Raises:
        TypeError: if it is no array.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    return wrap(array)


@ROWS.function("function")
def zeros(
    *size: int | Sequence[int], dtype: DtypeLike | None = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Return zeros."""
    return _leaf(np.zeros(sizes(size), _dtype(dtype)), requires_grad)


@ROWS.function("function")
def ones(
    *size: int | Sequence[int], dtype: DtypeLike | None = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Return ones."""
    return _leaf(np.ones(sizes(size), _dtype(dtype)), requires_grad)


@ROWS.function("function")
def empty(
    *size: int | Sequence[int], dtype: DtypeLike | None = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor whose elements are whatever the memory held."""
    return _leaf(np.empty(sizes(size), _dtype(dtype)), requires_grad)


@ROWS.function("function")
def full(
    size: int | Sequence[int],
    fill_value: complex,
    *,
    dtype: DtypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor filled with a number, whose kind gives the dtype."""
    kind = default_of(np.asarray(fill_value).dtype)
    return _leaf(np.full(sizes((size,)), fill_value, kind if dtype is None else numpy_dtype(dtype)), requires_grad)


@ROWS.function("function")
def eye(n: int, m: int | None = None, *, dtype: DtypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return ones on the diagonal."""
    return _leaf(np.eye(n, m, dtype=_dtype(dtype)), requires_grad)


@ROWS.function("function")
def arange(*bounds: Any, dtype: DtypeLike | None = None, device: str | None = None, requires_grad: bool = False) -> Tensor:
    """Return numbers at equal steps, the end left out."""
    array = np.arange(*bounds)
    if array.dtype == np.float64:
        array = array.astype(default_float())
    return _leaf(array if dtype is None else array.astype(numpy_dtype(dtype)), requires_grad)


@ROWS.function("function")
def linspace(start: float, end: float, steps: int, *, dtype: DtypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return ``steps`` numbers at equal distances, both ends included."""
    return _leaf(np.linspace(start, end, steps, dtype=_dtype(dtype)), requires_grad)


@ROWS.function("function")
def zeros_like(input: Tensor, *, dtype: DtypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return zeros of a tensor's shape and dtype."""
    return _leaf(np.zeros(shape_of(input), _like(input, dtype)), requires_grad)


@ROWS.function("function")
def ones_like(input: Tensor, *, dtype: DtypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return ones of a tensor's shape and dtype."""
    return _leaf(np.ones(shape_of(input), _like(input, dtype)), requires_grad)


@ROWS.function("function")
def empty_like(input: Tensor, *, dtype: DtypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return a tensor of another one's shape and dtype, whose elements are whatever the memory held."""
    return _leaf(np.empty(shape_of(input), _like(input, dtype)), requires_grad)


@ROWS.function("function")
def full_like(input: Tensor, fill_value: complex, *, dtype: DtypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return a tensor of another one's shape and dtype, filled with a number."""
    return _leaf(np.full(shape_of(input), fill_value, _like(input, dtype)), requires_grad)


def _like(input: Tensor, dtype: DtypeLike | None) -> np.dtype[Any]:
    return input._array.dtype if dtype is None else numpy_dtype(dtype)


@ROWS.function("method")
def new_zeros(self: Tensor, *size: int | Sequence[int]) -> Tensor:
    """Return zeros of this dtype."""
    return zeros(*size, dtype=self.dtype)


@ROWS.function("method")
def new_ones(self: Tensor, *size: int | Sequence[int]) -> Tensor:
    """Return ones of this dtype."""
    return ones(*size, dtype=self.dtype)


@ROWS.function("method")
def new_tensor(self: Tensor, data: Any) -> Tensor:
    """Return a tensor of ``data`` of this dtype."""
    return tensor(data, dtype=self.dtype)


# -- random numbers: NumPy's, so seeds give other numbers than PyTorch's ---------------------------------------------


@ROWS.function("function")
def rand(*size: int | Sequence[int], dtype: DtypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return numbers uniform in [0, 1)."""
    return _leaf(generator().random(sizes(size)).astype(_dtype(dtype)), requires_grad)


@ROWS.function("function")
def randn(*size: int | Sequence[int], dtype: DtypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return standard normal numbers."""
    return _leaf(generator().standard_normal(sizes(size)).astype(_dtype(dtype)), requires_grad)


@ROWS.function("function")
def randint(*bounds_and_size: Any, dtype: DtypeLike | None = None) -> Tensor:
    """Return integers: ``randint(high, size)`` or ``randint(low, high, size)``."""
    *bounds, size = bounds_and_size
    low, high = bounds if len(bounds) == 2 else (0, bounds[0])
    kind = np.dtype(np.int64) if dtype is None else numpy_dtype(dtype)
    return wrap(generator().integers(low, high, sizes((size,))).astype(kind))


@ROWS.function("function")
def randn_like(input: Tensor, *, dtype: DtypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return standard normal numbers in a tensor's shape and dtype."""
    return randn(*shape_of(input), dtype=_like(input, dtype), requires_grad=requires_grad)


@ROWS.function("function")
def rand_like(input: Tensor, *, dtype: DtypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return numbers uniform in [0, 1) in a tensor's shape and dtype."""
    return rand(*shape_of(input), dtype=_like(input, dtype), requires_grad=requires_grad)


# -- comparing whole tensors -------------------------------------------------------------------------------------------


@ROWS.function("function")
def equal(input: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have the same shape and elements."""
    return bool(np.array_equal(input._array, other._array))


@ROWS.function("function")
def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Return whether all elements are close: ``|input - other| <= atol + rtol * |other|``."""
    return bool(np.allclose(input._array, other._array, rtol, atol, equal_nan))
