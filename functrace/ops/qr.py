"""QR factorizations: reduced, complete, and as LAPACK's reflectors.

Note [Vectors that complete a basis]
    ``Q`` is a product of reflectors, ``I - V T V^H``, determined by the first ``n`` columns: with
    ``Q1`` for these, and ``W = Q1 - E1`` for their difference from the identity's, ``W = V (-T
    V1^H)`` is an LU factorization, and the other columns are ``E2 + W M``, where ``W1^H M = W2^H``
    (``W1`` and ``W2`` are the upper and the lower part). So all of ``Q``, and the reflectors, have
    derivatives, which follow from the derivative of ``Q1``.

Source: H. Walter, L. Lehmann, "Algorithmic differentiation of linear algebra functions" (2010); G.
Ballard et al., "Reconstructing Householder vectors from tall-skinny QR" (2014).

Layer: 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.ir.aval import ShapeDtype, shape_of
from functrace.ir.primitive import Primitive, Values
from functrace.ops import counts, work
from functrace.ops.contraction import matmul
from functrace.ops.elementwise import add, imag, mul, neg, sub
from functrace.ops.indexing import index_static
from functrace.ops.joining import concatenate
from functrace.ops.linalg import solve
from functrace.ops.matrices import adjoint, diagonal_of, mask, native_batch, not_linear
from functrace.ops.triangular import right_solve, solve_triangular
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.typing import Array

_ALL = (None, None, None)


def _rows(x: Array, start: int | None, stop: int | None) -> Any:
    return index_static(x, (Ellipsis, (start, stop, None), _ALL))


def _columns(x: Array, start: int | None, stop: int | None) -> Any:
    return index_static(x, (Ellipsis, (start, stop, None)))


def _join(parts: list[Any], axis: int) -> Any:
    return concatenate(parts, len(shape_of(parts[0])) + axis)


# -- reduced ---------------------------------------------------------------------------------------


def _qr_aval(x: ShapeDtype) -> tuple[ShapeDtype, ShapeDtype]:
    *stack, m, n = x.shape
    k = min(m, n)
    return ShapeDtype((*stack, m, k), x.dtype), ShapeDtype((*stack, k, n), x.dtype)


def _qr_jvp(_primals: Values, outputs: Values, tangents: tuple[Array]) -> Any:
    (q, r), (t,) = outputs, tangents
    return _qr_change(q, r, t)


def _qr_change(q: Array, r: Array, t: Array) -> tuple[Any, Any]:
    k, n = r.shape[-2:]
    head, r_head = (t, r) if k == n else (_columns(t, None, k), _columns(r, None, k))
    x = right_solve(head, r_head, lower=False)
    c = matmul(adjoint(q), x)
    below = mask(c, np.tri(k, k=-1))
    omega = sub(below, adjoint(below))  # Q^H dQ, skew-Hermitian
    if c.dtype.kind == "c":
        omega = add(omega, mul(mask(imag(c), np.eye(k)), 1j))
    dq = matmul(q, omega)
    if q.shape[-2] > k:
        dq = add(dq, sub(x, matmul(q, c)))
    return dq, sub(matmul(adjoint(q), t), matmul(omega, r))


qr_p = Primitive(
    "qr",
    eval=lambda x: tuple(np.linalg.qr(x)),
    aval=_qr_aval,
    jvp=_qr_jvp,
    transpose=not_linear("qr"),
    batch=native_batch(lambda: qr_p),
    many=True,
    written="np.linalg.qr({0})",
    flops=counts.tall(4, -4 / 3),
    scratch=work.orthogonal_factors,
)


def qr(x: Value) -> Any:
    """Factors ``q`` (..., m, k) and ``r`` (..., k, n), k = min(m, n)."""
    return bind(qr_p, (x,))


# -- complete --------------------------------------------------------------------------------------


def _complete_aval(x: ShapeDtype) -> tuple[ShapeDtype, ShapeDtype]:
    *stack, m, n = x.shape
    return ShapeDtype((*stack, m, m), x.dtype), ShapeDtype((*stack, m, n), x.dtype)


def _complete_jvp(_primals: Values, outputs: Values, tangents: tuple[Array]) -> Any:
    # See Note [Vectors that complete a basis].
    (q, r), (t,) = outputs, tangents
    m, n = r.shape[-2:]
    if m <= n:
        return _qr_change(q, r, t)
    first = _columns(q, None, n)
    dq, dr = _qr_change(first, _rows(r, None, n), t)
    w = sub(first, np.eye(m, n, dtype=q.dtype))
    upper = adjoint(_rows(w, None, n))
    completing = solve(upper, adjoint(_rows(w, n, None)))
    d_upper, d_lower = adjoint(_rows(dq, None, n)), adjoint(_rows(dq, n, None))
    d_completing = solve(upper, sub(d_lower, matmul(d_upper, completing)))
    rest = add(matmul(dq, completing), matmul(w, d_completing))
    below = mul(_rows(r, n, None), 0.0)
    return _join([dq, rest], -1), _join([dr, below], -2)


qr_complete_p = Primitive(
    "qr_complete",
    eval=lambda x: tuple(np.linalg.qr(x, "complete")),
    aval=_complete_aval,
    jvp=_complete_jvp,
    transpose=not_linear("qr"),
    batch=native_batch(lambda: qr_complete_p),
    many=True,
    written="np.linalg.qr({0}, 'complete')",
    flops=counts.tall(4, -4 / 3),
    scratch=work.orthogonal_factors,
)


def qr_complete(x: Value) -> Any:
    """Factors ``q`` (..., m, m) and ``r`` (..., m, n)."""
    return bind(qr_complete_p, (x,))


# -- reflectors ------------------------------------------------------------------------------------


def _raw_eval(x: Array) -> Any:
    h, tau = np.linalg.qr(x, "raw")
    return np.swapaxes(h, -1, -2), tau


def _raw_aval(x: ShapeDtype) -> tuple[ShapeDtype, ShapeDtype]:
    *stack, m, n = x.shape
    return x, ShapeDtype((*stack, min(m, n)), x.dtype)


def _raw_jvp(primals: Values, outputs: Values, tangents: tuple[Array]) -> Any:
    # W = L U, with the reflectors for L, and T's diagonal, tau, for minus U's. The last reflector
    # of a square real matrix is the identity.
    (x,), (h, tau), (t,) = primals, outputs, tangents
    m, n = x.shape[-2:]
    k = min(m, n)
    count = k if m > n or x.dtype.kind == "c" else m - 1
    q, r = qr(x)
    dq, dr = _qr_change(q, r, t)
    if not count:
        return dr, mul(tau, 0.0)
    w, dw = (
        sub(_columns(q, None, count), np.eye(m, count, dtype=x.dtype)),
        _columns(dq, None, count),
    )
    lower = mask(_columns(h, None, count), np.tri(m, count, k=-1))
    top = add(_rows(lower, None, count), np.eye(count, dtype=x.dtype))
    upper = solve_triangular(top, _rows(w, None, count), lower=True, unit=True)
    inner = solve_triangular(top, _rows(dw, None, count), lower=True, unit=True)
    inner = right_solve(inner, upper, lower=False)
    d_upper = matmul(mask(inner, np.tri(count).T), upper)
    d_lower = matmul(top, mask(inner, np.tri(count, k=-1)))
    if m > count:
        below = sub(_rows(dw, count, None), matmul(_rows(lower, count, None), d_upper))
        d_lower = _join([d_lower, right_solve(below, upper, lower=False)], -2)
    if n > count:
        d_lower = _join([d_lower, mul(_columns(h, count, None), 0.0)], -1)
    dr = mask(dr, np.tri(n, k, dtype=float).T)
    if m > k:
        dr = _join([dr, mul(_rows(h, k, None), 0.0)], -2)
    d_tau = neg(diagonal_of(d_upper))
    if k > count:
        d_tau = _join([d_tau, mul(_columns(tau, count, None), 0.0)], -1)
    return add(d_lower, dr), d_tau


qr_raw_p = Primitive(
    "qr_raw",
    eval=_raw_eval,
    aval=_raw_aval,
    jvp=_raw_jvp,
    transpose=not_linear("qr"),
    batch=native_batch(lambda: qr_raw_p),
    many=True,
    flops=counts.tall(2, -2 / 3),
)


def qr_raw(x: Value) -> Any:
    """Return ``r`` in the upper triangle and the reflectors below it, (..., m, n), and ``tau``
    (..., k)."""
    return bind(qr_raw_p, (x,))
