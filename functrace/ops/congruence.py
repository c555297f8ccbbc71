"""What the rule of the Cholesky factorization is made of: products with a triangle, and L^-1 X L^-H for Hermitian X.

LAPACK has both for half the flops of general products and solves (``trmm`` and ``sygst``), which is why they are primitives.

Floor: 2.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.errors import NotDifferentiableError
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import Flags, Operand, Primitive, Tangents, Values, always, is_linear
from functrace.ops import counts
from functrace.ops.contraction import matmul, swap_last
from functrace.ops.elementwise import add, neg
from functrace.ops.matrices import adjoint as adjoint_of
from functrace.ops.matrices import aligned, check_square, conjugate, mask, right_sides_aval
from functrace.ops.triangular import solve_adjoint, solve_triangular, solved, triangle
from functrace.tracing.recording import Value, bind
from functrace.typing import Array

# -- products with a triangle --------------------------------------------------------------------------


@functools.lru_cache(maxsize=16)
def _lapack(name: str, code: str) -> Callable[..., Any] | None:
    """A routine of SciPy's BLAS or LAPACK for a dtype; ``None`` without SciPy, or for a dtype that it is not made for."""
    if code not in "fdFD":
        return None
    try:
        from scipy.linalg import blas, lapack
    except ImportError:
        return None
    letter = {"f": "s", "d": "d", "F": "c", "D": "z"}[code]
    return getattr(blas if name == "trmm" else lapack, letter + name, None)


def _stacked(one: Callable[..., Any], a: Array, b: Array, dtype: np.dtype[Any]) -> Any:
    """Apply a function of two matrices to all of two stacks."""
    a, b = np.asarray(a, dtype), np.asarray(b, dtype)
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if not stack:
        return one(a, b)
    a, b = np.broadcast_to(a, stack + a.shape[-2:]), np.broadcast_to(b, stack + b.shape[-2:])
    out = np.empty(b.shape, dtype)
    for k in np.ndindex(stack):
        out[k] = one(a[k], b[k])
    return out


def _product_eval(a: Array, b: Array, lower: bool) -> Any:
    dtype = np.result_type(a, b)
    trmm = _lapack("trmm", dtype.char)
    if trmm is None or not b.size:
        return triangle(a, lower, unit=False) @ b

    def one(a: Array, b: Array) -> Any:  # a x is (x^T a^T)^T: in Fortran's order nothing is copied
        if a.flags.f_contiguous and not a.flags.c_contiguous:
            return trmm(1.0, a, b.T, side=1, lower=lower, trans_a=1).T
        return trmm(1.0, a.T, b.T, side=1, lower=not lower).T

    return _stacked(one, a, b, dtype)


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
    eval=_product_eval,
    aval=lambda a, b, lower: right_sides_aval("multiply_triangular", a, b),
    jvp=_product_jvp,
    transpose=_product_transpose,
    batch=_product_batch,
    params=("lower",),
    flops=counts.solve_triangular,
)


def multiply_triangular(a: Value, b: Value, *, lower: bool) -> Any:
    """Multiply stacks of matrices by triangles: ``tril(a) @ b``, or ``triu(a) @ b``.

    Args:
        a: float or complex, shape (..., n, n), of which one triangle is read.
        b: shape (..., n, k).
        lower: which triangle.

    Cost:
        n**2 k flops, by SciPy's BLAS; twice that without SciPy.
    """
    return bind(multiply_triangular_p, (a, b), (lower,))


# -- L^-1 X L^-H ---------------------------------------------------------------------------------------


def _congruence_eval(lower: Array, x: Array, adjoint: bool) -> Any:
    dtype = np.result_type(lower, x)
    lower, x = np.asarray(lower, dtype), np.asarray(x, dtype)
    half = x + np.conj(x.swapaxes(-1, -2))
    half *= 0.5
    reduce = _lapack("sygst", dtype.char)
    if reduce is None or not x.size:
        upper = np.conj(lower.swapaxes(-1, -2))
        first = solved(upper, half, lower=False, unit=False) if adjoint else solved(lower, half, lower=True, unit=False)
        turned = np.conj(first.swapaxes(-1, -2))
        return solved(upper, turned, lower=False, unit=False) if adjoint else solved(lower, turned, lower=True, unit=False)
    if not np.all(np.diagonal(lower, axis1=-2, axis2=-1)):
        raise np.linalg.LinAlgError("Singular matrix")
    return _stacked(functools.partial(_reduced, reduce, adjoint), lower, half, dtype)


def _reduced(reduce: Callable[..., Any], adjoint: bool, lower: Array, x: Array) -> Any:
    """Compute one real matrix with LAPACK, which writes one triangle only, and has no form with the adjoint of L.

    Turned by 180 degrees, L^T is lower triangular; so the other form is the first one, of turned matrices.
    """
    if adjoint:
        factor, given = np.ascontiguousarray(lower[::-1, ::-1]), np.ascontiguousarray(x[::-1, ::-1])
        found = reduce(given.T, factor.T, itype=1, lower=1, overwrite_a=1)[0][::-1, ::-1]
    else:
        found = reduce(x.T, np.ascontiguousarray(lower).T, itype=1, lower=0)[0]
    made = np.tril(found.T)
    whole = made + made.T
    np.fill_diagonal(whole, made.diagonal())
    return whole


def _congruence_jvp(primals: Values, outputs: Values, tangents: Tangents, adjoint: bool) -> Any:
    (lower, _), (y,), (d_lower, dx) = primals, outputs, tangents
    parts = [] if dx is None else [solve_congruence(lower, dx, adjoint=adjoint)]
    if d_lower is not None:
        if adjoint:
            moved = solve_adjoint(lower, multiply_triangular(adjoint_of(d_lower), y, lower=False), lower=True)
        else:
            moved = solve_triangular(lower, multiply_triangular(d_lower, y, lower=True), lower=True)
        parts.append(neg(add(moved, adjoint_of(moved))))
    return parts[0] if len(parts) == 1 else add(*parts)


def _congruence_transpose(ct: Array, lower: Operand, x: Operand, adjoint: bool) -> Any:
    if is_linear(lower):
        raise NotDifferentiableError(
            "solve_congruence is not linear in its matrix", fix="differentiate with functrace.vjp instead"
        )
    return None, conjugate(solve_congruence(lower, conjugate(ct), adjoint=not adjoint))


def _congruence_batch(operands: Values, is_batched: Flags, adjoint: bool) -> Any:
    return solve_congruence(*aligned(operands, is_batched, (2, 2)), adjoint=adjoint)


def _congruence_aval(lower: ShapeDtype, x: ShapeDtype, adjoint: bool) -> ShapeDtype:
    check_square("solve_congruence", x)
    return right_sides_aval("solve_congruence", lower, x)


solve_congruence_p = Primitive(
    "solve_congruence",
    eval=_congruence_eval,
    aval=_congruence_aval,
    jvp=_congruence_jvp,
    transpose=_congruence_transpose,
    batch=_congruence_batch,
    params=("adjoint",),
    fails=always,
    flops=counts.solve_triangular,
    scratch=4.0,
)


def solve_congruence(lower: Value, x: Value, *, adjoint: bool = False) -> Any:
    """Compute ``L^-1 H L^-H``, or ``L^-H H L^-1``, where ``H = (x + x^H) / 2``; linear in ``x``.

    Args:
        lower: float or complex, shape (..., n, n), of which the lower triangle is read.
        x: shape (..., n, n).
        adjoint: which of both.

    Returns:
        Hermitian matrices.

    Raises:
        LinAlgError: if an element of the diagonal is 0.

    Cost:
        n**3 flops, by SciPy's LAPACK; twice that for complex numbers, six times without SciPy.
    """
    return bind(solve_congruence_p, (lower, x), (adjoint,))
