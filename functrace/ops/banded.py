"""Banded systems by SciPy's LAPACK, given by diagonals: ``ab[upper + i - j, j] = a[i, j]``.

Layer: 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.errors import NotDifferentiableError, ShapeError
from functrace.ir.aval import ShapeDtype, shape_of
from functrace.ir.primitive import Flags, Operand, Primitive, Tangents, Values, always, is_linear
from functrace.ops.elementwise import add, mul, neg, sub
from functrace.ops.indexing import index_static
from functrace.ops.joining import concatenate
from functrace.ops.matrices import aligned
from functrace.ops.shaping import broadcast_to, reshape
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.typing import Array

_ALL = (None, None, None)


def _shifted(x: Array, axis: int, shift: int) -> Any:
    """Return ``y[i] = x[i + shift]`` along an axis counted from the end, with 0 outside."""
    if shift == 0:
        return x
    shape = shape_of(x)
    n = shape[axis]
    size = min(abs(shift), n)
    rest = (_ALL,) * (-axis - 1)
    kept = index_static(
        x, (Ellipsis, (size, None, None) if shift > 0 else (None, n - size, None), *rest)
    )
    zeros = broadcast_to(
        np.zeros((), x.dtype), (*shape[:axis], size, *shape[len(shape) + axis + 1 :])
    )
    parts = (kept, zeros) if shift > 0 else (zeros, kept)
    return concatenate(parts, len(shape) + axis)


def _row(ab: Array, k: int) -> Any:
    return index_static(ab, (Ellipsis, k, _ALL))


def banded_matmul(ab: Array, x: Array, lower: int, upper: int) -> Any:
    """Multiply banded matrices, (..., lower + upper + 1, n), by columns, (..., n, k)."""
    total = None
    for r in range(lower + upper + 1):
        row = _row(ab, r)
        part = _shifted(mul(reshape(row, (*shape_of(row), 1)), x), -2, upper - r)
        total = part if total is None else add(total, part)
    return total


def transposed_bands(ab: Array, lower: int, upper: int) -> Any:
    """Return the diagonals of the transposed matrices, with lower and upper ones swapped."""
    rows: list[Array] = []
    for r in range(lower + upper + 1):
        row = _shifted(_row(ab, lower + upper - r), -1, r - lower)
        rows.append(reshape(row, (*shape_of(row)[:-1], 1, shape_of(row)[-1])))
    return concatenate(tuple(rows), len(shape_of(ab)) - 2)


def _eval(ab: Array, b: Array, lower: int, upper: int) -> Any:
    import scipy.linalg

    dtype = np.result_type(ab, b)
    stack = np.broadcast_shapes(ab.shape[:-2], b.shape[:-2])
    ab, b = (np.broadcast_to(x, stack + x.shape[-2:]) for x in (ab, b))
    out = np.empty(b.shape, dtype)
    for k in np.ndindex(stack):
        if b[k].size:
            out[k] = scipy.linalg.solve_banded((lower, upper), ab[k], b[k], check_finite=False)
    return out


def _aval(ab: ShapeDtype, b: ShapeDtype, lower: int, upper: int) -> ShapeDtype:
    if (
        ab.ndim < 2
        or b.ndim < 2
        or ab.shape[-2] != lower + upper + 1
        or ab.shape[-1] != b.shape[-2]
    ):
        raise ShapeError(
            f"{ab} are not {lower} + {upper} + 1 diagonals of matrices that solve for {b}",
            fix="pass shapes (lower + upper + 1, n) and (n, k)",
        )
    stack = np.broadcast_shapes(ab.shape[:-2], b.shape[:-2])
    return ShapeDtype((*stack, *b.shape[-2:]), np.result_type(ab.dtype, b.dtype))


def _jvp(primals: Values, outputs: Values, tangents: Tangents, lower: int, upper: int) -> Any:
    (ab, _), (x,), (dab, db) = primals, outputs, tangents
    if dab is None:
        assert db is not None  # one of them is there
        return solve_banded(ab, db, lower, upper)
    moved = banded_matmul(dab, x, lower, upper)
    return solve_banded(ab, neg(moved) if db is None else sub(db, moved), lower, upper)


def _transpose(ct: Array, ab: Operand, b: Operand, lower: int, upper: int) -> Any:
    if is_linear(ab):
        raise NotDifferentiableError(
            "solve_banded is not linear in its matrix", fix="differentiate with functrace.vjp"
        )
    return None, solve_banded(transposed_bands(ab, lower, upper), ct, upper, lower)  # type: ignore[arg-type]


def _batch(operands: Values, is_batched: Flags, lower: int, upper: int) -> Any:
    ab, b = aligned(operands, is_batched, (2, 2))
    return solve_banded(ab, b, lower, upper)


solve_banded_p = Primitive(
    "solve_banded",
    eval=_eval,
    aval=_aval,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    params=("below", "above"),
    fails=always,
)
"""``solve_banded ab b {below=1, above=2}``: solve ``a x = b`` with given numbers of diagonals."""


def solve_banded(ab: Value, b: Value, lower: int, upper: int) -> Any:
    """Solve ``a x = b`` for stacks of banded matrices.

    Args:
        ab: diagonals of the matrices, float or complex, shape (..., lower + upper + 1, n).
        b: right-hand sides, shape (..., n, k).
        lower, upper: number of diagonals below and above the main one.

    Raises:
        LinAlgError: if a matrix is singular.

    Cost:
        n (lower + 1) (lower + upper) flops, by SciPy's LAPACK; the same for derivatives.
    """
    return bind(solve_banded_p, (ab, b), (lower, upper))
