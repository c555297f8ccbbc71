"""Products with triangular matrices, and L^-1 X L^-H for Hermitian X, for the Cholesky rules.

BLAS multiplies by triangular matrices for half the flops of general products (``trmm``). For L^-1 X
L^-H, LAPACK has ``sygst``, with half the flops of two triangular solves; but with the copies that
it needs, it takes longer.

Layer: 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.errors import NotDifferentiableError
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import Flags, Operand, Primitive, Tangents, Values, always, is_linear
from functrace.ops import counts
from functrace.ops.blas import triangular
from functrace.ops.contraction import matmul, swap_last
from functrace.ops.elementwise import add, neg
from functrace.ops.matrices import adjoint as adjoint_of
from functrace.ops.matrices import aligned, check_square, conjugate, mask, right_sides_aval
from functrace.ops.triangular import solve_adjoint, solve_triangular, solved, triangle
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.typing import Array

# -- products with a triangle ----------------------------------------------------------------------


def multiplied(a: Array, b: Array, lower: bool) -> Any:
    """Multiply plain arrays by triangles; see `multiply_triangular`."""
    dtype = np.result_type(a, b)
    multiply = triangular("trmm", dtype)
    if multiply is None or not b.size or not a.size:
        return triangle(a, lower, unit=False) @ b
    return multiply(np.asarray(a, dtype), np.asarray(b, dtype), lower, False)


def _product_jvp(primals: Values, _outputs: Values, tangents: Tangents, lower: bool) -> Any:
    (a, b), (da, db) = primals, tangents
    parts = [] if da is None else [multiply_triangular(da, b, lower=lower)]
    parts += [] if db is None else [multiply_triangular(a, db, lower=lower)]
    return parts[0] if len(parts) == 1 else add(*parts)


def _product_transpose(ct: Array, a: Operand, b: Operand, lower: bool) -> Any:
    if is_linear(a):
        kept = np.tri(a.shape[-1])
        return mask(matmul(ct, swap_last(b)), kept if lower else kept.T), None
    return None, multiply_triangular(swap_last(a), ct, lower=not lower)


def _product_batch(operands: Values, is_batched: Flags, lower: bool) -> Any:
    return multiply_triangular(*aligned(operands, is_batched, (2, 2)), lower=lower)


multiply_triangular_p = Primitive(
    "multiply_triangular",
    eval=multiplied,
    aval=lambda a, b, lower: right_sides_aval("multiply_triangular", a, b),
    jvp=_product_jvp,
    transpose=_product_transpose,
    batch=_product_batch,
    params=("lower",),
    flops=counts.solve_triangular,
)


def multiply_triangular(a: Value, b: Value, *, lower: bool) -> Any:
    """Multiply stacks of matrices by triangular ones: ``tril(a) @ b``, or ``triu(a) @ b``.

    Args:
        a: float or complex, shape (..., n, n), of which one triangle is read.
        b: shape (..., n, k).
        lower: True for the lower triangle.

    Cost:
        n**2 k flops, by NumPy's or SciPy's BLAS; twice that without either.
    """
    return bind(multiply_triangular_p, (a, b), (lower,))


# -- L^-1 X L^-H -----------------------------------------------------------------------------------


def turned(x: Array) -> Any:
    """Return conjugate transposes of plain matrices; views if they are real."""
    swapped = x.swapaxes(-1, -2)
    return swapped.conj() if x.dtype.kind == "c" else swapped


def congruence_of(lower: Array, x: Array, adjoint: bool) -> Any:
    """Evaluate `solve_congruence` on plain arrays."""
    half = x + turned(x)
    half *= 0.5
    a = turned(lower) if adjoint else lower
    return solved(a, turned(solved(a, half, not adjoint, False)), not adjoint, False)


def _congruence_jvp(primals: Values, outputs: Values, tangents: Tangents, adjoint: bool) -> Any:
    (lower, _), (y,), (d_lower, dx) = primals, outputs, tangents
    parts = [] if dx is None else [solve_congruence(lower, dx, adjoint=adjoint)]
    if d_lower is not None:
        if adjoint:
            moved = solve_adjoint(
                lower, multiply_triangular(adjoint_of(d_lower), y, lower=False), lower=True
            )
        else:
            moved = solve_triangular(lower, multiply_triangular(d_lower, y, lower=True), lower=True)
        parts.append(neg(add(moved, adjoint_of(moved))))
    return parts[0] if len(parts) == 1 else add(*parts)


def _congruence_transpose(ct: Array, lower: Operand, x: Operand, adjoint: bool) -> Any:
    if is_linear(lower):
        raise NotDifferentiableError(
            "solve_congruence is not linear in its matrix",
            fix="differentiate with functrace.vjp instead",
        )
    return None, conjugate(solve_congruence(lower, conjugate(ct), adjoint=not adjoint))


def _congruence_batch(operands: Values, is_batched: Flags, adjoint: bool) -> Any:
    return solve_congruence(*aligned(operands, is_batched, (2, 2)), adjoint=adjoint)


def congruence_aval(lower: ShapeDtype, x: ShapeDtype, adjoint: bool) -> ShapeDtype:
    """Infer the aval of `solve_congruence`; raises `ShapeError`."""
    check_square("solve_congruence", x)
    return right_sides_aval("solve_congruence", lower, x)


solve_congruence_p = Primitive(
    "solve_congruence",
    eval=congruence_of,
    aval=congruence_aval,
    jvp=_congruence_jvp,
    transpose=_congruence_transpose,
    batch=_congruence_batch,
    params=("adjoint",),
    fails=always,
    flops=counts.products_of_triangles(2),
    scratch=2.0,
)


def solve_congruence(lower: Value, x: Value, *, adjoint: bool = False) -> Any:
    """Compute ``L^-1 H L^-H``, or ``L^-H H L^-1``, where ``H = (x + x^H) / 2``; linear in ``x``.

    Args:
        lower: float or complex, shape (..., n, n), of which the lower triangle is read.
        x: shape (..., n, n).
        adjoint: True for the second form.

    Returns:
        Hermitian matrices, up to rounding.

    Raises:
        LinAlgError: if an element of the diagonal is 0.

    Cost:
        2 n**3 flops.
    """
    return bind(solve_congruence_p, (lower, x), (adjoint,))
