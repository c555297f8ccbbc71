"""Complex numbers as pairs of real ones, and back: views of the same memory.

Layer: 9.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.ops import elementwise as ew
from functrace.ops.indexing import index_static
from functrace.ops.joining import stack
from functrace.torch import errors
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.functions.elementwise import tensors_only
from functrace.torch.tensors.mirrors import MIRRORS, is_conjugate
from functrace.torch.tensors.steps import view_written
from functrace.torch.tensors.strides import stride_rule
from functrace.torch.tensors.tensor import Tensor, Value
from functrace.tracing import Tracer
from functrace.typing import Array

ROWS = FunctionTable()


def as_pairs(x: Array | Tracer) -> Any:
    """Return complex numbers with a last axis of real and imaginary parts."""
    if isinstance(x, Tracer):
        return stack((ew.real(x), ew.imag(x)), len(x.shape))
    parts = np.real(x)
    return np.lib.stride_tricks.as_strided(
        parts, (*x.shape, 2), (*x.strides, parts.itemsize), writeable=x.flags.writeable
    )


def as_complex(x: Array | Tracer) -> Any:
    """Return the complex numbers whose parts are in the last axis."""
    if isinstance(x, np.ndarray) and x.strides[-1] == x.itemsize:
        return x.view(np.result_type(x.dtype, np.complex64))[..., 0]
    return ew.add(index_static(x, (..., 0)), ew.mul(index_static(x, (..., 1)), 1j))


view_written(as_pairs, lambda base, value: as_complex(value))
view_written(as_complex, lambda base, value: as_pairs(value))
stride_rule(
    as_pairs,
    lambda given, _: ((*given[0], 2), (*[2 * n for n in given[1]], 1), 2 * given[2]),
)
stride_rule(
    as_complex,
    lambda given, _: (given[0][:-1], tuple([n // 2 for n in given[1][:-1]]), given[2] // 2),
)
AS_PAIRS = Op("ViewAsRealBackward0", as_pairs, is_view=True)
AS_COMPLEX = Op("ViewAsComplexBackward0", as_complex, is_view=True)


@ROWS.function("function")
def view_as_real(input: Tensor) -> Value:
    """Return a view of complex numbers with a last axis of their real and imaginary parts.

    Raises:
        RuntimeError: for a real tensor.
    """
    tensors_only("view_as_real", input=input)
    if input._array.dtype.kind != "c":
        raise RuntimeError(errors.PAIRS_OF_REAL)
    if MIRRORS and is_conjugate(input._array):
        raise RuntimeError(errors.PAIRS_OF_CONJUGATE)
    return apply(AS_PAIRS, (input,))


@ROWS.function("function")
def view_as_complex(input: Tensor) -> Value:
    """Return a view as complex numbers, whose real and imaginary parts are in the last axis.

    Raises:
        RuntimeError: for other dtypes than float32 and float64, and unless the two parts are
            adjacent in memory.
    """
    tensors_only("view_as_complex", input=input)
    array = input._array
    if array.dtype.kind != "f":
        raise RuntimeError(errors.complex_of_kind(input.dtype.printed))
    if not array.ndim:
        raise RuntimeError(errors.COMPLEX_OF_SCALAR)
    if array.shape[-1] != 2:
        raise RuntimeError(errors.COMPLEX_LAST_SIZE)
    if isinstance(array, np.ndarray):
        if array.strides[-1] != array.itemsize:
            raise RuntimeError(errors.COMPLEX_LAST_STRIDE)
        if any(stride // array.itemsize % 2 for stride in array.strides[:-1]):
            raise RuntimeError(errors.COMPLEX_STRIDE)
        if input.storage_offset() % 2:
            raise RuntimeError(errors.COMPLEX_OFFSET)
    if array.dtype == np.float16:
        raise NotImplementedError(errors.COMPLEX_HALF)
    return apply(AS_COMPLEX, (input,))
