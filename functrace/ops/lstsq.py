"""Least squares and pseudoinverses, differentiable where the rank is constant.

Note [Cut-off singular values]
    ``rcond`` says which singular values count as 0. If those are 0 up to rounding, as by default,
    the rank is constant and the derivative is Golub and Pereyra's. Otherwise, the pseudoinverse is
    that of a truncated matrix, whose singular vectors rotate with the discarded ones: for a pair of
    values, ``s`` kept and ``z`` discarded, the factor 1 / s^2 becomes 1 / (s^2 - z^2), and
    z / (s (s^2 - z^2)) times the mirrored term is added.

Source: G. H. Golub, V. Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares
problems whose variables separate" (1973).

Layer: 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.errors import ShapeError
from functrace.ir.aval import ShapeDtype, shape_of
from functrace.ir.primitive import Flags, Primitive, Tangents, Values, always
from functrace.ops import counts, work
from functrace.ops.contraction import matmul, swap_last
from functrace.ops.elementwise import (
    add,
    div,
    greater,
    logical_and,
    logical_not,
    mul,
    neg,
    plus,
    square,
    sub,
    where,
)
from functrace.ops.indexing import index_static
from functrace.ops.linalg import svd_p
from functrace.ops.matrices import (
    adjoint,
    aligned,
    as_column,
    as_row,
    check_square,
    hermitian_part,
    not_linear,
)
from functrace.ops.shaping import reshape
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Tracer, Value
from functrace.typing import Array

_ROUNDING = 1e-10
"""Discarded values up to this, relative to the largest one, do not matter in double precision."""

# -- pinv ------------------------------------------------------------------------------------------


def _pinv_aval(x: ShapeDtype, *rest: Any) -> ShapeDtype:
    *limits, hermitian, _ = rest
    *stack, m, n = x.shape
    if hermitian:
        check_square("pinv with hermitian=True", x)
    for limit in limits:
        if not isinstance(limit, type):
            try:
                stack = np.broadcast_shapes(tuple(stack), limit.shape)
            except ValueError:
                raise ShapeError(
                    f"pinv: rcond of shape {limit.shape} does not fit {x}",
                    fix="pass one per matrix",
                ) from None
    return ShapeDtype((*stack, n, m), x.dtype)


def _pinv_eval(x: Array, *rest: Any) -> Any:
    *limits, hermitian, _ = rest
    stack = np.broadcast_shapes(x.shape[:-2], *map(np.shape, limits))
    return np.linalg.pinv(np.broadcast_to(x, stack + x.shape[-2:]), *limits, hermitian=hermitian)


def _pinv_jvp(
    primals: Values, outputs: Values, tangents: Tangents, hermitian: bool, cuts: bool
) -> Any:
    a, p, t = primals[0], outputs[0], tangents[0]
    if t is None:  # rcond has no derivative
        return None
    if hermitian:
        t = hermitian_part(t)
    th, ph = adjoint(t), adjoint(p)
    total = neg(matmul(matmul(p, t), p))
    left = matmul(matmul(p, ph), th)
    total = add(total, sub(left, matmul(matmul(left, a), p)))
    right = matmul(th, matmul(ph, p))
    total = add(total, sub(right, matmul(p, matmul(a, right))))
    return add(total, _cut_off(a, primals[1], t)) if cuts else total


def _cut_off(a: Array, rcond: Value, t: Array) -> Any:
    """Return the additional derivative for nonzero discarded singular values.

    See Note [Cut-off singular values].
    """
    u, s, vh = bind(svd_p, (a,), (False,))
    if not shape_of(s)[-1]:
        return 0.0
    inner = matmul(matmul(adjoint(u), t), adjoint(vh))
    largest = index_static(s, (Ellipsis, (0, 1, None)))
    limit = reshape(rcond, (*shape_of(rcond), 1)) if shape_of(rcond) else rcond
    kept = greater(s, mul(largest, limit))
    mixed = logical_and(as_column(kept), as_row(logical_not(kept)))
    high, low = where(mixed, as_column(s), 1.0), where(mixed, as_row(s), 0.0)
    gap = mul(sub(high, low), add(high, low))
    same, turned = div(square(div(low, high)), gap), div(div(low, high), gap)
    same, turned = add(same, swap_last(same)), add(turned, swap_last(turned))
    change = add(mul(same, inner), mul(turned, adjoint(inner)))
    return matmul(matmul(adjoint(vh), adjoint(change)), adjoint(u))


def _pinv_batch(operands: Values, is_batched: Flags, *params: object) -> Any:
    return bind(pinv_p, aligned(operands, is_batched, (2, 0)[: len(operands)]), params)


pinv_p = Primitive(
    "pinv",
    eval=_pinv_eval,
    aval=_pinv_aval,
    jvp=_pinv_jvp,
    transpose=not_linear("pinv"),
    batch=_pinv_batch,
    params=("hermitian", "cuts"),
    fails=always,
    flops=counts.tall(14, 8),
    scratch=work.pseudo_inverse,
)


def pinv(x: Value, rcond: Value | None = None, *, hermitian: bool = False) -> Any:
    """Return pseudoinverses; singular values up to ``rcond`` (per matrix) times the largest one
    count as 0."""
    if rcond is None:
        return bind(pinv_p, (x,), (hermitian, False))
    return bind(
        pinv_p, (x, rcond), (hermitian, isinstance(rcond, Tracer) or cuts_off(np.asarray(rcond)))
    )


def cuts_off(rcond: float | Array) -> bool:
    """Return True if more than rounding may be cut off. See Note [Cut-off singular values]."""
    return bool(np.any(np.greater(rcond, _ROUNDING)))


# -- lstsq -----------------------------------------------------------------------------------------


def _lstsq_eval(a: Array, b: Array, rcond: float) -> Any:
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if not stack:
        x, _, rank, _ = np.linalg.lstsq(a, b, rcond)
        return x, np.int32(rank)
    a, b = np.broadcast_to(a, stack + a.shape[-2:]), np.broadcast_to(b, stack + b.shape[-2:])
    x = np.empty((*stack, a.shape[-1], b.shape[-1]), np.result_type(a, b))
    rank = np.empty(stack, np.int32)
    for k in np.ndindex(stack):
        x[k], _, rank[k], _ = np.linalg.lstsq(a[k], b[k], rcond)
    return x, rank


def _lstsq_aval(a: ShapeDtype, b: ShapeDtype, rcond: float) -> tuple[ShapeDtype, ShapeDtype]:
    if a.ndim < 2 or b.ndim < 2 or a.shape[-2] != b.shape[-2]:
        raise ShapeError(
            f"lstsq cannot solve {a} for the right-hand sides {b}",
            fix="pass a matrix (m, n) and right-hand sides (m, k)",
        )
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x = ShapeDtype((*stack, a.shape[-1], b.shape[-1]), np.result_type(a.dtype, b.dtype))
    return x, ShapeDtype(stack, np.int32)


def _lstsq_jvp(primals: Values, outputs: Values, tangents: Tangents, rcond: float) -> Any:
    # x = A+ b: dx = A+ (db - dA x) + A+ A+^H dA^H (b - A x) + (1 - A+ A) dA^H A+^H x
    (a, b), (x, _), (da, db) = primals, outputs, tangents
    inverse = pinv(a, rcond)
    total = None if db is None else matmul(inverse, db)
    if da is not None and cuts_off(rcond):
        change = _pinv_jvp(
            (a, np.asarray(rcond)), (inverse,), (da, None), hermitian=False, cuts=True
        )
        total = plus(total, matmul(change, b))
    elif da is not None:
        change = matmul(da, x)
        total = plus(total, neg(matmul(inverse, change)))
        turned = adjoint(da)
        left = matmul(turned, sub(b, matmul(a, x)))
        total = add(total, matmul(inverse, matmul(adjoint(inverse), left)))
        right = matmul(turned, matmul(adjoint(inverse), x))
        total = add(total, sub(right, matmul(inverse, matmul(a, right))))
    return total, None


lstsq_p = Primitive(
    "lstsq",
    eval=_lstsq_eval,
    aval=_lstsq_aval,
    jvp=_lstsq_jvp,
    transpose=not_linear("lstsq"),
    batch=lambda operands, flags, rcond: bind(lstsq_p, aligned(operands, flags, (2, 2)), (rcond,)),
    params=("rcond",),
    many=True,
    fails=always,
    flops=counts.tall(14, 8),
    scratch=work.lapack(work.solution),
)


def lstsq(a: Value, b: Value, rcond: float) -> Any:
    """Least-squares solutions of least norm, (..., n, k), and the ranks of ``a``.

    Args:
        a: float or complex, shape (..., m, n).
        b: right-hand sides of the same dtype, shape (..., m, k).
        rcond: singular values up to this times the largest one count as 0.
    """
    return bind(lstsq_p, (a, b), (rcond,))
