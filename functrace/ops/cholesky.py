"""The Cholesky factorization, its tangent, and its pullback.

Source: I. Murray, "Differentiation of the Cholesky decomposition" (2016): the pullback is its
blocked form.

Layer: 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.errors import NotDifferentiableError
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import Flags, Operand, Primitive, Tangents, Values, always, is_linear
from functrace.ops import counts, work
from functrace.ops.congruence import (
    congruence_aval,
    congruence_of,
    multiplied,
    multiply_triangular,
    solve_congruence,
    turned,
)
from functrace.ops.elementwise import add, neg
from functrace.ops.matrices import (
    adjoint,
    aligned,
    conjugate,
    half_lower,
    mask,
    native_batch,
    not_linear,
    same_square,
)
from functrace.ops.triangular import solve_adjoint, solve_triangular, solved
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.typing import Array

BLOCK = 128
"""Columns per block of the pullback; all work between blocks is matrix products."""


def _cholesky_eval(x: Array) -> Any:
    return np.linalg.cholesky(x)


def _cholesky_jvp(_primals: Values, outputs: Values, tangents: tuple[Array]) -> Any:
    return bind(cholesky_change_p, (outputs[0], tangents[0]))


cholesky_p = Primitive(
    "cholesky",
    eval=_cholesky_eval,
    aval=same_square("cholesky"),
    jvp=_cholesky_jvp,
    transpose=not_linear("cholesky"),
    batch=native_batch(lambda: cholesky_p),
    written="np.linalg.cholesky({0})",
    fails=always,
    flops=counts.cubic(1 / 3),
    scratch=work.lapack(work.factorization),
)


def cholesky(x: Value) -> Any:
    """Lower Cholesky factors. See Note [Functions of symmetric matrices] in
    functrace/ops/linalg.py.
    """
    return bind(cholesky_p, (x,))


# -- L phi(L^-1 H L^-H), where phi keeps the lower triangle, and half of the diagonal --------------


def _half(x: Array) -> Array:
    """Keep the lower triangles of plain matrices, and half of their diagonals."""
    kept = np.tril(x)
    n: int = x.shape[-1]
    k = np.arange(n)
    kept[..., k, k] *= 0.5
    return kept


def _change_eval(lower: Array, x: Array) -> Any:
    return multiplied(lower, _half(congruence_of(lower, x, False)), True)


def _change_jvp(primals: Values, outputs: Values, tangents: Tangents) -> Any:
    (lower, _), (y,), (d_lower, dx) = primals, outputs, tangents
    parts = [] if dx is None else [bind(cholesky_change_p, (lower, dx))]
    if d_lower is not None:
        half = solve_triangular(lower, y, lower=True)  # phi(S), where S is L^-1 H L^-H
        moved = solve_triangular(
            lower, multiply_triangular(d_lower, add(half, adjoint(half)), lower=True), lower=True
        )  # L^-1 L' S
        inner = mask(add(moved, adjoint(moved)), half_lower(lower.shape[-1]))
        parts += [
            multiply_triangular(d_lower, half, lower=True),
            neg(multiply_triangular(lower, inner, lower=True)),
        ]
    return _total(parts)


def _total(parts: list[Any]) -> Any:
    total, *rest = parts
    for part in rest:
        total = add(total, part)
    return total


def _check_linear(lower: Operand) -> None:
    if is_linear(lower):
        raise NotDifferentiableError(
            "the derivative of cholesky is not linear in the factor",
            fix="differentiate with functrace.vjp instead",
        )


def _change_transpose(ct: Array, lower: Operand, _x: Operand) -> Any:
    _check_linear(lower)
    return None, conjugate(bind(cholesky_pullback_p, (lower, conjugate(ct))))


def _change_batch(operands: Values, is_batched: Flags) -> Any:
    return bind(cholesky_change_p, aligned(operands, is_batched, (2, 2)))


def _aval(lower: ShapeDtype, x: ShapeDtype) -> ShapeDtype:
    return congruence_aval(lower, x, False)


cholesky_change_p = Primitive(
    "cholesky_change",
    eval=_change_eval,
    aval=_aval,
    jvp=_change_jvp,
    transpose=_change_transpose,
    batch=_change_batch,
    fails=always,
    flops=counts.products_of_triangles(3),
    scratch=3.0,
)

# -- its adjoint: L^-H H L^-1 of the Hermitian part H of phi(L^H Y) --------------------------------


def _pullback_eval(lower: Array, y: Array) -> Any:
    dtype = np.result_type(lower, y)
    lower = np.asarray(lower, dtype)
    n = lower.shape[-1]
    out = np.empty(np.broadcast_shapes(lower.shape, y.shape), dtype)
    out[...] = y
    most = max(
        [max((n - first - BLOCK) * first, BLOCK * (first + BLOCK)) for first in range(0, n, BLOCK)],
        default=0,
    )
    room = np.empty(min(most * (out.size // (n * n)), out.size) if n > BLOCK else 0, dtype)
    for first in reversed(range(0, n, BLOCK)):
        last = min(first + BLOCK, n)
        here, before, after = slice(first, last), slice(first), slice(last, n)
        rows, corner = lower[..., here, before], lower[..., here, here]
        if last < n:
            x = turned(
                solved(turned(corner), turned(out[..., after, here]), False, False)
            )  # x = y corner^-1
            x_turned = turned(x)
            _subtract_product(out[..., after, before], x, rows, room)
            _subtract_product(out[..., here, :last], x_turned, lower[..., after, :last], room)
            np.multiply(x, 0.5, out=out[..., after, here])
            np.multiply(x_turned, 0.5, out=out[..., here, after])
        inner = _half(multiplied(turned(corner), np.tril(out[..., here, here]), False))
        made = congruence_of(corner, inner, True)
        out[..., here, here] = made
        if first:
            _subtract_product(out[..., here, before], 2 * made, rows, room)
    return out


def _subtract_product(x: Array, a: Array, b: Array, room: Array) -> None:
    """Subtract ``a @ b`` from an array in place; ``room`` is a flat scratch array."""
    product = np.matmul(a, b, out=room[: x.size].reshape(x.shape))
    np.subtract(x, product, out=x)


def _pullback_jvp(primals: Values, outputs: Values, tangents: Tangents) -> Any:
    (lower, y), (made,), (d_lower, dy) = primals, outputs, tangents
    parts = [] if dy is None else [bind(cholesky_pullback_p, (lower, dy))]
    if d_lower is not None:
        turn = adjoint(d_lower)
        inner = mask(multiply_triangular(turn, y, lower=False), half_lower(lower.shape[-1]))
        moved = solve_adjoint(lower, multiply_triangular(turn, made, lower=False), lower=True)
        parts += [solve_congruence(lower, inner, adjoint=True), neg(add(moved, adjoint(moved)))]
    return _total(parts)


def _pullback_transpose(ct: Array, lower: Operand, _y: Operand) -> Any:
    _check_linear(lower)
    return None, conjugate(bind(cholesky_change_p, (lower, conjugate(ct))))


def _pullback_batch(operands: Values, is_batched: Flags) -> Any:
    return bind(cholesky_pullback_p, aligned(operands, is_batched, (2, 2)))


cholesky_pullback_p = Primitive(
    "cholesky_pullback",
    eval=_pullback_eval,
    aval=_aval,
    jvp=_pullback_jvp,
    transpose=_pullback_transpose,
    batch=_pullback_batch,
    fails=always,
    flops=counts.products_of_triangles(2 / 3),
    scratch=1.0,
)
