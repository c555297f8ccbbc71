"""The rows of exchange with other libraries and with memory: DLPack, buffers; devices and pinned or
shared memory, as in a build for the CPU; decompositions of low rank.

Layer: 9.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.errors import UnsupportedFunctionError
from functrace.torch import errors
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.functions import elementwise as f
from functrace.torch.functions import linear_algebra, products, reductions, statistics
from functrace.torch.functions.creation import from_numpy
from functrace.torch.functions.factories import leaf
from functrace.torch.functions.methods import add_constant
from functrace.torch.random.factories import randn
from functrace.torch.tensors.device import CPU, DeviceLike, check_device, device
from functrace.torch.tensors.dtypes import DTYPES, DtypeLike, bfloat16, numpy_dtype
from functrace.torch.tensors.orders import memory_order
from functrace.torch.tensors.tensor import Operand, Tensor, Value, fresh
from functrace.tracing import Tracer

ROWS = FunctionTable()


# -- other libraries and buffers -------------------------------------------------------------------


@ROWS.function("function")
def from_dlpack(ext_tensor: Any) -> Tensor:
    """Return a tensor that shares the memory of an array of another library (DLPack)."""
    if isinstance(ext_tensor, Tensor):
        array = ext_tensor._array
        return fresh(array) if array.dtype.kind == "V" else from_numpy(array)
    try:
        array = np.from_dlpack(ext_tensor)
    except (RuntimeError, BufferError):  # a dtype that NumPy does not have
        from functrace.torch.functions.dlpack_narrow import array_of

        try:
            return fresh(array_of(ext_tensor, bfloat16.numpy))
        except BufferError:
            pass
        raise
    return from_numpy(array)


@ROWS.function("function")
def to_dlpack(tensor: Tensor) -> Any:
    """Return a DLPack capsule of the memory of a tensor."""
    f.tensors_only("to_dlpack", tensor=tensor)
    return tensor.__dlpack__()


@ROWS.function("", operators="dlpack")
def as_capsule(self: Tensor, *, stream: Any = None, **options: Any) -> Any:
    """Return a DLPack capsule of the memory of this tensor.

    Raises:
        BufferError: for a tensor that requires grad.
        UnsupportedFunctionError: for a traced value.
    """
    if self.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if isinstance(self._array, Tracer):
        raise UnsupportedFunctionError(
            f"{self._array.aval} is a traced value, which has no memory to share",
            fix="call it outside of the transform",
        )
    if self._array.dtype.kind == "V":
        from functrace.torch.functions.dlpack_narrow import capsule_of

        return capsule_of(self._array, **options)
    return self._array.__dlpack__(**options)


@ROWS.function("", operators="dlpack_device")
def capsule_device(self: Tensor) -> tuple[int, int]:
    """Return DLPack's number of the CPU."""
    return (1, 0)


@ROWS.function("function")
def frombuffer(
    buffer: Any,
    *,
    dtype: DtypeLike,
    count: int = -1,
    offset: int = 0,
    requires_grad: bool = False,
) -> Tensor:
    """Return a vector that shares the memory of a Python buffer.

    Args:
        count: the number of elements; -1 for all.
        offset: bytes to skip.
    """
    kind = numpy_dtype(dtype)
    size = memoryview(buffer).nbytes
    if not size or not count:
        raise ValueError(f"both buffer length ({size}) and count ({count}) must not be 0")
    if not 0 <= offset < size:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length "
            f"({size} bytes) minus 1"
        )
    if count < 0 and (size - offset) % kind.itemsize:
        raise ValueError(
            f"buffer length ({size - offset} bytes) after offset ({offset} bytes) must be a "
            f"multiple of element size ({kind.itemsize})"
        )
    if count > 0 and offset + count * kind.itemsize > size:
        raise ValueError(
            f"requested buffer length ({count} * {kind.itemsize} bytes) after offset ({offset} "
            f"bytes) must not be greater than actual buffer length ({size} bytes)"
        )
    return leaf(np.frombuffer(buffer, kind, count, offset), requires_grad)


@ROWS.function("method")
def const_data_ptr(self: Tensor) -> int:
    """Return the address of the first element."""
    return self.data_ptr()


@ROWS.function("method")
def dim_order(self: Tensor) -> tuple[int, ...]:
    """Return the dimensions in their order in memory, the outermost first."""
    array = self._array
    if isinstance(array, Tracer):
        return tuple(range(len(array.shape)))
    return tuple(memory_order(array))


# -- devices ---------------------------------------------------------------------------------------


@ROWS.function("function")
def get_default_device() -> device:
    """Return the device of new tensors: the CPU."""
    return CPU


@ROWS.function("function")
def set_default_device(device: DeviceLike | None) -> None:
    """Accept the CPU as the device of new tensors.

    Raises:
        AssertionError: for CUDA devices, as in PyTorch's builds without CUDA.
        RuntimeError: for any other device.
    """
    check_device(device)


@ROWS.function("function")
def get_device(input: Tensor) -> int:
    """Return the number of a tensor's device: -1, the CPU."""
    f.tensors_only("get_device", input=input)
    return -1


add_constant(ROWS, "is_cpu", "Always True: every tensor is on the CPU.", True)
for _name in ("is_maia", "is_mtia", "is_ipu", "is_hpu", "is_vulkan", "is_xla"):
    add_constant(ROWS, _name, "Always False: functrace has no such tensors.", False)
for _name in ("is_shared", "is_distributed"):
    add_constant(ROWS, _name, "Always False: functrace has no such tensors.", False, "method")
add_constant(ROWS, "name", "Always None: tensors have no names.", None)


@ROWS.function("method")
def pin_memory(self: Tensor, device: DeviceLike | None = None) -> Tensor:
    """Raise: pinned memory needs an accelerator."""
    raise RuntimeError(errors.NO_PINNED_MEMORY)


@ROWS.function("method")
def share_memory_(self: Tensor) -> Tensor:
    """Return the tensor itself: threads share it anyway, and processes share none."""
    return self


@ROWS.function("method")
def to_dense(self: Tensor, dtype: DtypeLike | None = None, *, masked_grad: Any = None) -> Value:
    """Return the tensor itself, which is dense, in a dtype."""
    return self if dtype is None else f.to(self, dtype)


@ROWS.function("method")
def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """Return the tensor that ``load_state_dict`` sets: ``other``, or its elements in this tensor."""
    if assign:
        return other.detach()
    return self.copy_(other).detach()


@ROWS.function("method")
def storage_type(self: Tensor) -> Any:
    """Return the class of the storage."""
    return type(self.untyped_storage())


@ROWS.function("method")
def chalf(self: Tensor, memory_format: Any = None) -> Tensor:
    """Raise: NumPy has no complex numbers of half precision."""
    raise NotImplementedError(errors.COMPLEX_HALF)


def _detached(name: str) -> None:
    def function(input: Tensor) -> Tensor:
        f.tensors_only(name, input=input)
        return input.detach() if name == "detach" else input.detach_()

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        "Return the tensor without its history, sharing its memory."
        if name == "detach"
        else "Drop the history of a tensor, in place."
    )
    ROWS.function("function", name=name)(function)


_detached("detach")
_detached("detach_")


@ROWS.function("function")
def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """Resize a tensor in place to the sizes of another one."""
    return input.resize_as_(the_template, memory_format=memory_format)


# -- older norms -----------------------------------------------------------------------------------


@ROWS.function("function", out=True)
def frobenius_norm(input: Operand, dim: Any = None, keepdim: bool = False) -> Value:
    """Return the Euclidean norm of all elements, or along dimensions."""
    return statistics.norm(input, 2, dim, keepdim)


@ROWS.function("function", out=True)
def nuclear_norm(input: Operand, dim: Any = (-2, -1), keepdim: bool = False) -> Value:
    """Return the sum of the singular values of matrices."""
    return linear_algebra.matrix_norm(input, "nuc", dim, keepdim)


# -- decompositions of low rank --------------------------------------------------------------------


def _basis(A: Any, q: int, niter: int) -> Any:
    """Return an orthonormal basis of an approximate range, by subspace iteration."""
    start: Any = randn(f.shape_of(A)[-1], q, dtype=DTYPES[f.dtype_of(A)])
    basis = linear_algebra.linalg_qr(products.matmul(A, start)).Q
    adjoint = linear_algebra.adjoint(A)
    for _ in range(niter):
        basis = linear_algebra.linalg_qr(products.matmul(adjoint, basis)).Q
        basis = linear_algebra.linalg_qr(products.matmul(A, basis)).Q
    return basis


@ROWS.function("function")
def svd_lowrank(
    A: Operand, q: int | None = 6, niter: int = 2, M: Operand | None = None
) -> tuple[Any, Any, Any]:
    """Return an approximate singular value decomposition of low rank: U, S, V.

    Args:
        A: shape (..., m, n).
        q: the rank.
        niter: the number of iterations.
        M: subtracted from ``A`` first.
    """
    f.tensors_only("svd_lowrank", A=A)
    given: Any = A if M is None else f.sub(A, M)
    m, n = f.shape_of(given)[-2:]
    rank = 6 if q is None else q
    turned = linear_algebra.adjoint(given) if m < n else given
    basis = _basis(turned, rank, niter)
    inner = products.matmul(linear_algebra.adjoint(basis), turned)
    u, s, vh = linear_algebra.linalg_svd(inner, full_matrices=False)
    u, v = products.matmul(basis, u), linear_algebra.adjoint(vh)
    return (v, s, u) if m < n else (u, s, v)


@ROWS.function("function")
def pca_lowrank(
    A: Operand, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Any, Any, Any]:
    """Return an approximate principal component analysis of low rank: U, S, V.

    Args:
        A: observations, shape (..., m, n).
        q: the rank; at most 6 by default.
        center: True to subtract the mean of each column first.
        niter: the number of iterations.
    """
    f.tensors_only("pca_lowrank", A=A)
    m, n = f.shape_of(A)[-2:]
    rank = min(6, m, n) if q is None else q
    if not 0 <= rank <= min(m, n):
        raise ValueError(
            f"q(={rank}) must be non-negative integer and not greater than min(m, n)={min(m, n)}"
        )
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if not center:
        return svd_lowrank(A, rank, niter)
    return svd_lowrank(f.sub(A, reductions.mean(A, -2, True)), rank, niter)
