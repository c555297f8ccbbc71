"""Products and linear systems with sparse matrices, whose elements may be traced.

A matrix is in SciPy's CSR format: its elements ``data``, their columns ``index``, and the offsets
``starts`` of the rows (one more than there are rows), plus the row of each element. Duplicate
elements are added. The last three are integer operands without derivatives and batch axes.

Layer: 2.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from functrace.errors import NotDifferentiableError, ShapeError
from functrace.ir.aval import ShapeDtype, shape_of
from functrace.ir.primitive import Flags, Operand, Primitive, Tangents, Values, is_linear
from functrace.ops.elementwise import mul, neg, plus, result_dtype, sub
from functrace.ops.indexing import ARRAY, gather
from functrace.ops.matrices import aligned
from functrace.ops.reductions import reduce_sum
from functrace.ops.shaping import reshape
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.typing import Array

Pattern = tuple[Any, Any, Any]
"""Columns of elements, row offsets, and rows of elements."""


def _summed(x: Array, shape: tuple[int, ...]) -> Any:
    """Sum out a stack's axes that ``shape`` does not have, or has with size 1."""
    extra = len(shape_of(x)) - len(shape)
    x = reduce_sum(x, tuple(range(extra))) if extra else x
    axes = tuple([k for k, (n, m) in enumerate(zip(shape_of(x), shape, strict=True)) if n != m])
    return reshape(reduce_sum(x, axes), shape) if axes else x


def _batched(operands: Values, is_batched: Flags) -> tuple[Any, Any]:
    data, *_, x = operands
    if any(is_batched[1:-1]):
        raise ShapeError(
            "a sparse matrix under vmap has one pattern for all examples",
            fix="map its elements only",
        )
    return aligned((data, x), (is_batched[0], is_batched[-1]), (1, 2))


def _matrix(data: Array, index: Array, starts: Array, shape: tuple[int, int]) -> Any:
    import scipy.sparse

    return scipy.sparse.csr_array((data, index, starts), shape=shape)


# -- products --------------------------------------------------------------------------------------


def _matmul_eval(
    data: Array,
    index: Array,
    starts: Array,
    _row: Array,
    x: Array,
    rows: int,
    columns: int,
    backwards: bool,
) -> Any:
    dtype = np.result_type(data, x)
    stack = np.broadcast_shapes(data.shape[:-1], x.shape[:-2])
    count = columns if backwards else rows
    out = np.empty((*stack, count, x.shape[-1]), dtype)
    if data.ndim == 1:  # one matrix: all stacks are columns of one
        a = _matrix(data, index, starts, (rows, columns))
        flat = np.moveaxis(x, -2, 0)
        found = (a.T if backwards else a) @ flat.reshape(flat.shape[0], -1)
        out[...] = np.moveaxis(found.reshape(count, *flat.shape[1:]), 0, -2)
        return out
    data, x = (
        np.broadcast_to(data, (*stack, data.shape[-1])),
        np.broadcast_to(x, (*stack, *x.shape[-2:])),
    )
    for k in np.ndindex(stack):
        a = _matrix(data[k], index, starts, (rows, columns))
        out[k] = (a.T if backwards else a) @ x[k]
    return out


def _matmul_aval(
    data: ShapeDtype,
    index: ShapeDtype,
    starts: ShapeDtype,
    row: ShapeDtype,
    x: ShapeDtype,
    rows: int,
    columns: int,
    backwards: bool,
) -> ShapeDtype:
    taken, made = (rows, columns) if backwards else (columns, rows)
    if (
        x.ndim < 2
        or x.shape[-2] != taken
        or data.shape[-1:] != index.shape
        or index.shape != row.shape
    ):
        raise ShapeError(
            f"a sparse matrix of {rows} rows and {columns} columns does not fit {x}",
            fix=f"pass {taken} rows",
        )
    stack = np.broadcast_shapes(data.shape[:-1], x.shape[:-2])
    return ShapeDtype((*stack, made, x.shape[-1]), result_dtype(data, x))


def _matmul_jvp(
    primals: Values, _outputs: Values, tangents: Tangents, rows: int, columns: int, backwards: bool
) -> Any:
    (data, *pattern, x), (d, *_, t) = primals, tangents
    given = (rows, columns, backwards)
    first = None if d is None else bind(sparse_matmul_p, (d, *pattern, x), given)
    return plus(first, None if t is None else bind(sparse_matmul_p, (data, *pattern, t), given))


def _matmul_transpose(
    ct: Array,
    data: Operand,
    index: Array,
    starts: Array,
    row: Array,
    x: Operand,
    rows: int,
    columns: int,
    backwards: bool,
) -> Any:
    nothing = (None, None, None)
    if is_linear(x):
        found = bind(
            sparse_matmul_p, (data, index, starts, row, ct), (rows, columns, not backwards)
        )  # type: ignore[arg-type]
        return (None, *nothing, _summed(found, x.shape))
    by_row, by_column = (x, ct) if backwards else (ct, x)
    template = (Ellipsis, ARRAY, (None, None, None))
    products = mul(gather(by_row, template, (row,)), gather(by_column, template, (index,)))
    found = reduce_sum(products, (len(shape_of(products)) - 1,))
    return (_summed(found, data.shape), *nothing, None)


def _matmul_batch(operands: Values, is_batched: Flags, *params: object) -> Any:
    data, x = _batched(operands, is_batched)
    return bind(sparse_matmul_p, (data, *operands[1:-1], x), params)


sparse_matmul_p = Primitive(
    "sparse_matmul",
    eval=_matmul_eval,
    aval=_matmul_aval,
    jvp=_matmul_jvp,
    transpose=_matmul_transpose,
    batch=_matmul_batch,
    params=("rows", "columns", "backwards"),
    flops=lambda inputs, outputs, _: (
        2 * inputs[0].shape[-1] * math.prod(outputs[0].shape[:-2]) * outputs[0].shape[-1]
    ),
)


def sparse_matmul(
    data: Value, pattern: Pattern, x: Value, shape: tuple[int, int], *, backwards: bool = False
) -> Any:
    """Multiply a sparse matrix, or with ``backwards`` its transpose, with columns.

    Args:
        data: elements, shape (..., nz).
        pattern: positions of the elements.
        x: shape (..., n, k).
        shape: shape of the matrix.
        backwards: True to transpose the matrix.

    Cost:
        2 nz k flops.
    """
    return bind(sparse_matmul_p, (data, *pattern, x), (*shape, backwards))


# -- systems of equations --------------------------------------------------------------------------


def _solved(data: Array, index: Array, starts: Array, b: Array, backwards: bool) -> Any:
    import scipy.sparse.linalg

    matrix = _matrix(data, index, starts, (b.shape[0], b.shape[0])).tocsc()
    matrix.sum_duplicates()
    try:
        factors = scipy.sparse.linalg.splu(matrix)
    except RuntimeError:  # like SciPy's spsolve
        warnings.warn(
            "Matrix is exactly singular", scipy.sparse.linalg.MatrixRankWarning, stacklevel=2
        )
        return np.full(b.shape, np.nan, b.dtype)
    return factors.solve(np.ascontiguousarray(b), "T" if backwards else "N")


def _solve_eval(
    data: Array, index: Array, starts: Array, _row: Array, b: Array, backwards: bool
) -> Any:
    dtype = np.result_type(data, b)
    stack = np.broadcast_shapes(data.shape[:-1], b.shape[:-2])
    out = np.empty((*stack, *b.shape[-2:]), dtype)
    data, b = data.astype(dtype), b.astype(dtype)
    if data.ndim == 1:
        flat = np.moveaxis(b, -2, 0)
        found = _solved(data, index, starts, flat.reshape(flat.shape[0], -1), backwards)
        out[...] = np.moveaxis(found.reshape(flat.shape), 0, -2)
        return out
    data, b = (
        np.broadcast_to(data, (*stack, data.shape[-1])),
        np.broadcast_to(b, (*stack, *b.shape[-2:])),
    )
    for k in np.ndindex(stack):
        out[k] = _solved(data[k], index, starts, b[k], backwards)
    return out


def _solve_aval(
    data: ShapeDtype,
    index: ShapeDtype,
    starts: ShapeDtype,
    row: ShapeDtype,
    b: ShapeDtype,
    backwards: bool,
) -> ShapeDtype:
    if (
        b.ndim < 2
        or starts.shape != (b.shape[-2] + 1,)
        or data.shape[-1:] != index.shape
        or index.shape != row.shape
    ):
        raise ShapeError(
            f"a sparse matrix with {starts.shape[0] - 1} rows does not fit {b}",
            fix="pass one row per equation",
        )
    return ShapeDtype(
        (*np.broadcast_shapes(data.shape[:-1], b.shape[:-2]), *b.shape[-2:]), result_dtype(data, b)
    )


def _solve_jvp(primals: Values, outputs: Values, tangents: Tangents, backwards: bool) -> Any:
    (data, *pattern, _), (x,), (d, *_, right) = primals, outputs, tangents
    n = shape_of(x)[-2]
    if d is not None:
        moved = bind(sparse_matmul_p, (d, *pattern, x), (n, n, backwards))
        right = neg(moved) if right is None else sub(right, moved)
    assert right is not None  # one of the two is there
    return bind(sparse_solve_p, (data, *pattern, right), (backwards,))


def _solve_transpose(
    ct: Array, data: Operand, index: Array, starts: Array, row: Array, b: Operand, backwards: bool
) -> Any:
    if is_linear(data):
        raise NotDifferentiableError(
            "a sparse solve is not linear in its matrix",
            fix="differentiate with functrace.vjp instead",
        )
    assert is_linear(b)
    found = bind(sparse_solve_p, (data, index, starts, row, ct), (not backwards,))
    return (None, None, None, None, _summed(found, b.shape))


def _solve_batch(operands: Values, is_batched: Flags, backwards: bool) -> Any:
    data, b = _batched(operands, is_batched)
    return bind(sparse_solve_p, (data, *operands[1:-1], b), (backwards,))


sparse_solve_p = Primitive(
    "sparse_solve",
    eval=_solve_eval,
    aval=_solve_aval,
    jvp=_solve_jvp,
    transpose=_solve_transpose,
    batch=_solve_batch,
    params=("backwards",),
)
"""``sparse_solve data index starts row b {backwards=False}``: NaN, with SciPy's warning, for a
singular matrix."""


def sparse_solve(data: Value, pattern: Pattern, b: Value, *, backwards: bool = False) -> Any:
    """Solve with a sparse matrix, or with ``backwards`` its transpose, by SuperLU.

    Args:
        data: elements, float or complex in double or single precision, shape (..., nz).
        pattern: positions of the elements.
        b: right-hand sides, shape (..., n, k).
        backwards: True to transpose the matrix.
    """
    return bind(sparse_solve_p, (data, *pattern, b), (backwards,))
