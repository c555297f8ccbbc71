"""Checks of matrices, the table of the rows, and what tells why a matrix has no factors.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.errors import algebra
from functrace.torch.errors.algebra import LinAlgError
from functrace.torch.functions import elementwise as f
from functrace.torch.functions.elementwise import dtype_of, shape_of
from functrace.torch.tensors.dtypes import DTYPES, is_half
from functrace.torch.tensors.tensor import Operand, Tensor, fresh
from functrace.tracing import Tracer
from functrace.typing import Array

ROWS = FunctionTable()
BOTH_FORMS = "linalg function method"
WHOLE_AXIS = (None, None, None)
"""The index of all elements along an axis."""


def check_matrix(name: str, x: Operand, argument: str = "A") -> tuple[int, ...]:
    """Return the shape of a stack of matrices.

    Raises:
        RuntimeError: for fewer than two dimensions.
    """
    f.tensors_only(name.removeprefix("linalg.").replace("torch.", ""), **{argument: x})
    shape = shape_of(x)
    if len(shape) < 2:
        raise RuntimeError(algebra.matrix_dimensions(name, argument))
    return shape


def check_square(name: str, x: Operand, argument: str = "A") -> tuple[int, ...]:
    """Return the shape of a stack of square matrices.

    Raises:
        RuntimeError: for any other shape.
    """
    shape = check_matrix(name, x, argument)
    if shape[-1] != shape[-2]:
        raise RuntimeError(algebra.not_square(name, argument, shape))
    return shape


def check_floats(name: str, x: Operand, kernel: str = "", *, half: bool = False) -> None:
    """Check that elements are floats or complex numbers, and none of half precision.

    Raises:
        RuntimeError: for integers.
        NotImplementedError: for half precision, with the name of PyTorch's kernel.
    """
    kind = dtype_of(x)
    printed = DTYPES[kind].printed
    if kind.kind not in "fcV":
        raise RuntimeError(algebra.floats_expected(name, printed))
    if is_half(kind) and not half:
        if kernel:
            raise NotImplementedError(errors.no_kernel(kernel).format(printed))
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {printed}")


def check_kind(x: Operand, kernel: str) -> None:
    """Check that a kernel of PyTorch takes the dtype.

    Raises:
        NotImplementedError: for integers and half precision.
    """
    kind = dtype_of(x)
    if kind.kind not in "fcV" or is_half(kind):
        raise NotImplementedError(errors.no_kernel(kernel).format(DTYPES[kind].printed))


def array_of(x: Operand) -> Any:
    """Return the array of a tensor; anything else is returned as it is."""
    return x._array if isinstance(x, Tensor) else x


def needs_gradient(*operands: Operand) -> bool:
    """Return True if a graph is recorded, and one of the operands is in it or traced."""
    return bool(MODES.recording) and any(
        (isinstance(x, Tensor) and x.requires_grad) or isinstance(array_of(x), Tracer)
        for x in operands
    )


def eliminated(x: Array) -> tuple[Array, Array, Array]:
    """Return the factors L and U of matrices, one above the other, the row swapped with each row
    (counted from 1), and the position of the first pivot that is 0, or 0 if there is none.
    """
    work = np.array(x, copy=True, order="C")
    *stack, n, _ = work.shape
    work = work.reshape(-1, n, n)
    found = np.zeros(len(work), np.int32)
    order = np.zeros((len(work), n), np.int32)
    rows = np.arange(len(work))
    for k in range(n):
        best = k + np.argmax(np.abs(work[:, k:, k]), axis=1)
        order[:, k] = best + 1
        held = work[rows, best].copy()
        work[rows, best] = work[:, k]
        work[:, k] = held
        pivot = work[:, k, k]
        found = np.where((found == 0) & (pivot == 0), np.int32(k + 1), found)
        safe = np.where(pivot == 0, 1, pivot)
        factor = work[:, k + 1 :, k] / safe[:, None]
        work[:, k + 1 :, k] = factor
        work[:, k + 1 :, k + 1 :] -= factor[:, :, None] * work[:, None, k, k + 1 :]
    shape = tuple(stack)
    return work.reshape(x.shape), order.reshape(*shape, n), found.reshape(shape).astype(np.int32)


def zero_pivots(x: Array) -> Array:
    """Return, for each matrix, the position of the first pivot that is 0, counted from 1; 0 if
    there is none.
    """
    return eliminated(x)[2]


def bad_minors(x: Array) -> Array:
    """Return, for each matrix, the order of the first leading minor that is not positive definite;
    0 if all are.
    """
    *stack, n, _ = x.shape
    flat = x.reshape(-1, n, n)
    found = np.zeros(len(flat), np.int32)
    for k, matrix in enumerate(flat):
        low, high = 0, n  # the minors up to `low` are positive definite
        while low < high:
            middle = (low + high + 1) // 2
            try:
                np.linalg.cholesky(matrix[:middle, :middle])
                low = middle
            except np.linalg.LinAlgError:
                high = middle - 1
        found[k] = 0 if low == n else low + 1
    return found.reshape(stack)


def first_bad(info: Array) -> tuple[str, int]:
    """Return "(Batch element k): " for the first matrix that failed, and its information."""
    if not info.ndim:
        return "", int(info)
    places = np.flatnonzero(info)
    place = int(places[0]) if len(places) else 0
    return f"(Batch element {place}): ", int(info.reshape(-1)[place])


def failed(name: str, info: Array) -> LinAlgError:
    """Return the error of a function, from what tells why its matrices have no factors."""
    where, number = first_bad(info)
    if "cholesky" in name:
        return LinAlgError(algebra.not_positive_definite(name, where, number))
    if "solve" in name:
        return LinAlgError(algebra.solver_failed(name, where))
    return LinAlgError(algebra.singular(name, where, number))


def info_of(A: Operand, found: Operand, test: Callable[[Array], Array]) -> Array:
    """Return 0, or what is wrong, for each matrix.

    Args:
        found: the result, which is not finite where something is wrong if the handler of a
            dispatch mode ran another operation: no error was raised then.
        test: finds out what is wrong.
    """
    array = array_of(A)
    if MODES.dispatch is not None and not np.isfinite(array_of(found)).all():
        return np.asarray(test(array))
    return np.zeros(array.shape[:-2], np.int32)


def show_check(name: str, A: Operand, found: Operand, test: Callable[[Array], Array]) -> None:
    """Show a dispatch mode that matrices are checked, as PyTorch does after factorizing.

    Args:
        found, test: see `info_of`.

    Raises:
        LinAlgError: if a matrix has no factors.
    """
    if MODES.dispatch is not None:
        info, is_matrix = info_of(A, found, test), len(shape_of(A)) == 2

        def check() -> None:
            if info.any():
                raise failed(name, info)

        given = (fresh(info), name)
        MODES.dispatch.make("_linalg_check_errors", given, {"is_matrix": is_matrix}, check)
