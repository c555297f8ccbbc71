"""Triangular systems: the rules of Cholesky and QR factorizations use them instead of inverses.

Layer: 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.errors import NotDifferentiableError
from functrace.ir.aval import shape_of
from functrace.ir.primitive import Flags, Operand, Primitive, Tangents, Values, always, is_linear
from functrace.ops import counts
from functrace.ops.blas import triangular
from functrace.ops.contraction import matmul, swap_last
from functrace.ops.elementwise import conj, neg, sub
from functrace.ops.matrices import aligned, mask, right_sides_aval
from functrace.ops.shaping import permute, reshape
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.typing import Array


def triangle(a: Array, lower: bool, unit: bool) -> Any:
    """Return one triangle of matrices, optionally with a unit diagonal; the other is 0."""
    made = np.tril(a) if lower else np.triu(a)
    if unit:
        n: int = a.shape[-1]
        k = np.arange(n)
        made[..., k, k] = 1
    return made


def solved(a: Array, b: Array, lower: bool, unit: bool) -> Any:
    """Evaluate `solve_triangular` on plain arrays."""
    dtype = np.result_type(a, b)
    solve = triangular("trsm", dtype)
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if solve is None or not b.size or 0 in stack:
        left: Array = triangle(a, lower, unit)
        return np.linalg.solve(left, b)
    if not unit and not np.all(np.diagonal(a, axis1=-2, axis2=-1)):
        raise np.linalg.LinAlgError("Singular matrix")
    return solve(np.asarray(a, dtype), np.asarray(b, dtype), lower, unit)


def _jvp(primals: Values, outputs: Values, tangents: Tangents, lower: bool, unit: bool) -> Any:
    (a, _), (x,), (da, db) = primals, outputs, tangents
    if da is None:
        assert db is not None  # one of them is there
        return solve_triangular(a, db, lower=lower, unit=unit)
    n = shape_of(da)[-1]
    kept = np.tri(n, k=-1 if unit else 0)
    moved = matmul(mask(da, kept if lower else kept.T), x)
    if db is None:
        return neg(solve_triangular(a, moved, lower=lower, unit=unit))
    return solve_triangular(a, sub(db, moved), lower=lower, unit=unit)


def _transpose(ct: Array, a: Operand, b: Operand, lower: bool, unit: bool) -> Any:
    if is_linear(a):
        raise NotDifferentiableError(
            "solve_triangular is not linear in its matrix",
            fix="differentiate with functrace.vjp instead",
        )
    return None, solve_triangular(swap_last(a), ct, lower=not lower, unit=unit)


def _batch(operands: Values, is_batched: Flags, lower: bool, unit: bool) -> Any:
    (a, b), (p, _) = operands, is_batched
    if (
        not p and len(shape_of(a)) == 2 and len(shape_of(b)) == 3
    ):  # one matrix: all right-hand sides at once
        count, n, k = shape_of(b)
        x = solve_triangular(
            a, reshape(permute(b, (1, 0, 2)), (n, count * k)), lower=lower, unit=unit
        )
        return permute(reshape(x, (n, count, k)), (1, 0, 2))
    a, b = aligned(operands, is_batched, (2, 2))
    return solve_triangular(a, b, lower=lower, unit=unit)


solve_triangular_p = Primitive(
    "solve_triangular",
    eval=solved,
    aval=lambda a, b, lower, unit: right_sides_aval("solve_triangular", a, b),
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    params=("lower", "unit"),
    fails=always,
    flops=counts.solve_triangular,
)


def solve_triangular(a: Value, b: Value, *, lower: bool, unit: bool = False) -> Any:
    """Solve ``a x = b`` for stacks of triangular matrices; ``b`` has at least two axes.

    Args:
        a: float or complex, shape (..., n, n); only one triangle is read.
        b: right-hand sides, shape (..., n, k).
        lower: True for the lower triangle.
        unit: True for a unit diagonal, which is not read.

    Raises:
        LinAlgError: if an element of the diagonal is 0.

    Cost:
        n**2 k flops, by NumPy's or SciPy's BLAS; without either those of ``numpy.linalg.solve``.
    """
    return bind(solve_triangular_p, (a, b), (lower, unit))


def right_solve(b: Value, a: Value, *, lower: bool, unit: bool = False) -> Any:
    """Solve ``x a = b`` likewise."""
    return swap_last(solve_triangular(swap_last(a), swap_last(b), lower=not lower, unit=unit))


def solve_adjoint(a: Array, b: Array, *, lower: bool, unit: bool = False) -> Any:
    """Solve ``a^H x = b`` likewise; ``lower`` describes ``a``."""
    turned = swap_last(conj(a) if a.dtype.kind == "c" else a)
    return solve_triangular(turned, b, lower=not lower, unit=unit)
