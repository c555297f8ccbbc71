"""Lowerings of `functrace.ops.linalg`: LAPACK on the CPU, as in NumPy, and XLA's own elsewhere.

XLA has no errors: JAX fills the results with nan where LAPACK reports one, and the rows tell these
from the nan that NumPy returns.

Layer: 7.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from functrace.ops import PRIMITIVES
from functrace.xla.lowering import Operation, Value, cast, register
from functrace.xla.rows.elementwise import widened
from functrace.xla.rows.matrices import (
    SINGULAR,
    adjoint,
    diagonal,
    flat,
    in_one_stack,
    product,
    require_converged,
    require_pivots,
    turned,
)

_NOT_POSITIVE = "Matrix is not positive definite"
_NO_EIGENVALUES = "Eigenvalues did not converge"
_NO_SINGULAR_VALUES = "SVD did not converge"

# -- inv, solve ------------------------------------------------------------------------------------


def factored(x: Value) -> tuple[Any, Any, Any]:
    """Return the LU factors of square matrices in one matrix, the pivots, and the order of rows."""
    return tuple(lax.linalg.lu(jnp.asarray(x)))  # type: ignore[return-value]


def solved(factors: Value, order: Value, b: Value) -> Any:
    """Solve systems of one stack with their factors."""
    stack = tuple(range(len(order.shape) - 1))
    row = len(stack)
    numbers = lax.GatherDimensionNumbers((row + 1,), (row,), (row,), stack, stack)
    sizes = (*[1] * (row + 1), b.shape[-1])
    b = lax.gather(b, order[..., None], numbers, sizes, mode="promise_in_bounds")
    b = lax.linalg.triangular_solve(factors, b, left_side=True, lower=True, unit_diagonal=True)
    return lax.linalg.triangular_solve(factors, b, left_side=True, lower=False)


def solve(op: Operation, a: Value, b: Value, message: str | None = SINGULAR) -> Any:
    """Solve ``a x = b``; raises an error for a singular matrix, unless ``message`` is None."""
    factors, _, order = factored(cast(a, op.dtype))
    if message is not None:
        require_pivots(op, diagonal(factors), message)
    b = cast(b, op.dtype)
    stack = np.broadcast_shapes(factors.shape[:-2], b.shape[:-2])
    factors = widened(factors, (*stack, *factors.shape[-2:]))
    order = widened(order, (*stack, order.shape[-1]))
    return solved(factors, order, widened(b, (*stack, *b.shape[-2:])))


register(PRIMITIVES["solve"])(solve)


def _identities(x: Value) -> Any:
    return jnp.broadcast_to(jnp.eye(x.shape[-1], dtype=x.dtype), x.shape)


register(PRIMITIVES["inv"])(lambda op, x: solve(op, x, _identities(x)))


@register(PRIMITIVES["inv_or_nan"])
def inv_or_nan(op: Operation, x: Value) -> Any:
    """Inverses; nan for singular matrices."""
    factors, _, order = factored(cast(x, op.dtype))
    is_regular = jnp.all(diagonal(factors) != 0, axis=-1)[..., None, None]
    return jnp.where(is_regular, solved(factors, order, _identities(x)), np.nan).astype(op.dtype)


# -- determinants ----------------------------------------------------------------------------------


def _signed_log(x: Value) -> tuple[Any, Any]:
    """Return sign and logarithm of determinants from LU factors, as NumPy computes them."""
    factors, pivots, _ = factored(x)
    elements = diagonal(factors)
    last, zero = (len(elements.shape) - 1,), x.dtype.type(0)
    places = lax.broadcasted_iota(pivots.dtype, pivots.shape, last[0])
    swaps = lax.reduce_sum(cast(lax.ne(pivots, places), np.int32), last)
    sizes = lax.abs(elements)
    if x.dtype.kind == "c":
        signs = lax.div(elements, cast(sizes, x.dtype))
    else:
        signs = _minus_one_where(lax.lt(elements, lax.full_like(elements, zero)), x.dtype)
    is_singular = lax.reduce_or(lax.eq(elements, lax.full_like(elements, zero)), last)
    is_odd = lax.eq(lax.rem(swaps, lax.full_like(swaps, 2)), lax.full_like(swaps, 1))
    sign = lax.mul(lax.reduce_prod(signs, last), _minus_one_where(is_odd, x.dtype))
    log = lax.reduce_sum(lax.log(sizes), last)
    return (
        lax.select(is_singular, lax.full_like(sign, zero), sign),
        lax.select(is_singular, lax.full_like(log, -np.inf), log),
    )


def _minus_one_where(condition: Value, dtype: np.dtype[Any]) -> Any:
    """Return -1 where a condition holds, and else 1."""
    return lax.select(condition, *[lax.full(condition.shape, n, dtype) for n in (-1, 1)])


register(PRIMITIVES["slogdet"])(lambda op, x: _signed_log(jnp.asarray(cast(x, op.dtype))))


@jax.custom_jvp
def _det(x: Value) -> Any:
    sign, log = _signed_log(x)
    return sign * jnp.exp(log).astype(x.dtype)


@_det.defjvp
def _det_jvp(primals: tuple[Any], tangents: tuple[Any]) -> Any:
    # (JAX's derivative is right for singular matrices; programs have their own)
    return _det(*primals), jax.jvp(jnp.linalg.det, primals, tangents)[1]


register(PRIMITIVES["det"])(lambda op, x: _det(jnp.asarray(cast(x, op.dtype))))

_WELL_CONDITIONED = 1e3
"""As in `functrace.ops.linalg`."""


def _cross_products(x: Value, y: Value) -> Any:
    """Return cross products of the rows of 3 x 3 matrices: rows k + 1 of ``x``, k + 2 of ``y``."""
    rows = []
    for i in range(3):
        a, b = x[..., (i + 1) % 3, :], y[..., (i + 2) % 3, :]
        rows.append([
            a[..., (j + 1) % 3] * b[..., (j + 2) % 3] - a[..., (j + 2) % 3] * b[..., (j + 1) % 3]
            for j in range(3)
        ])  # fmt: skip
    return jnp.stack([jnp.stack(row, -1) for row in rows], -2)


def _small_cofactor(x: Value) -> Any:
    """Cofactors of matrices of size 1, 2 and 3."""
    n = x.shape[-1]
    if n < 2:
        return jnp.ones_like(x)
    if n == 2:
        above = jnp.stack([x[..., 1, 1], -x[..., 1, 0]], -1)
        return jnp.stack([above, jnp.stack([-x[..., 0, 1], x[..., 0, 0]], -1)], -2)
    return _cross_products(x, x)


def _scaled(x: Value, exponents: Value) -> Any:
    """Multiply by powers of two, even if the powers alone are out of range."""
    if x.dtype.kind != "c":
        return jnp.ldexp(x, exponents)
    return lax.complex(jnp.ldexp(x.real, exponents), jnp.ldexp(x.imag, exponents))


def _balanced(x: Value) -> tuple[Any, Any, Any]:
    """Scale rows and columns to similar size by powers of two; return the exponents."""
    rows = jnp.frexp(jnp.max(jnp.abs(x), axis=-1, keepdims=True))[1]
    x = _scaled(x, -rows)
    columns = jnp.frexp(jnp.max(jnp.abs(x), axis=-2, keepdims=True))[1]
    return _scaled(x, -columns), rows, columns


def _unbalanced(x: Value, rows: Value, columns: Value) -> Any:
    """Undo `_balanced` for cofactors: each has the factors of all rows and columns but its own."""
    others = jnp.sum(rows, -2, keepdims=True) - rows + jnp.sum(columns, -1, keepdims=True) - columns
    return _scaled(x, others)


def _finite(x: Value) -> tuple[Any, Any]:
    """Replace non-finite matrices by 0; return which they are."""
    is_bad = ~jnp.all(jnp.isfinite(x), axis=(-2, -1), keepdims=True)
    return jnp.where(is_bad, 0, x), is_bad


def _unit(u: Value, vh: Value) -> Any:
    return (_det(u) * _det(vh))[..., None, None]


def _singular_cofactor(x: Value) -> Any:
    """Cofactors from singular values, without divisions: see `functrace.ops.linalg`."""
    x, is_bad = _finite(x)
    x, rows, columns = _balanced(x)
    u, s, vh = lax.linalg.svd(x, full_matrices=False)
    one = jnp.ones_like(s[..., :1])
    before = jnp.concatenate([one, jnp.cumprod(s[..., :-1], -1)], -1)
    after = jnp.concatenate([jnp.cumprod(s[..., :0:-1], -1)[..., ::-1], one], -1)
    inner = jnp.conj(u) * (before * after)[..., None, :]
    made = _unbalanced(_unit(u, vh) * product(inner, jnp.conj(vh)), rows, columns)
    return jnp.where(is_bad, np.nan, made).astype(x.dtype)


@register(PRIMITIVES["cofactor"])
def _cofactor(op: Operation, x: Value) -> Any:
    """det(x) x^-T of well-conditioned matrices; the others by singular values, if there are some."""
    x = jnp.asarray(cast(x, op.dtype))
    if x.shape[-1] <= 3:
        return _small_cofactor(x)
    if not x.size:
        return x
    inverse, d = inv_or_nan(op, x), _det(x)
    norms = [jnp.max(jnp.sum(jnp.abs(y), -1), -1) for y in (x, inverse)]
    limits, size = jnp.finfo(x.dtype), jnp.abs(d)
    is_normal = (size >= limits.tiny) & (size <= limits.max)
    is_regular = (norms[0] * norms[1] < _WELL_CONDITIONED) & is_normal
    made = d[..., None, None] * turned(inverse)
    return lax.cond(
        jnp.all(is_regular),
        lambda x, made: made,
        lambda x, made: jnp.where(is_regular[..., None, None], made, _singular_cofactor(x)),
        x,
        made,
    )


@register(PRIMITIVES["cofactor_change"])
def _cofactor_change(op: Operation, x: Value, t: Value) -> Any:
    """In the basis of singular vectors: see `functrace.ops.linalg`."""
    x, t = in_one_stack(op, [x, t])
    n = x.shape[-1]
    if n < 2 or not x.size:
        return jnp.zeros_like(x)
    if n == 2:
        return _small_cofactor(t)
    if n == 3:
        return _cross_products(x, t) + _cross_products(t, x)
    x, is_bad = _finite(x)
    x, rows, columns = _balanced(x)
    t, is_bad_too = _finite(t)
    t = _scaled(t, -rows - columns)
    u, s, vh = lax.linalg.svd(x, full_matrices=False)
    on_diagonal = np.eye(n, dtype=bool)
    left_out = on_diagonal[:, None, :] | on_diagonal[None, :, :]
    p = jnp.prod(jnp.where(left_out, 1.0, s[..., None, None, :]), axis=-1).astype(s.dtype)
    p = jnp.where(on_diagonal, 0, p)
    uh, v = adjoint(u), adjoint(vh)
    e = product(uh, t, v)
    on_it = product(p.astype(e.dtype), diagonal(e)[..., None])
    inner = jnp.where(on_diagonal, on_it, -p * e)
    made = _unbalanced(turned(_unit(u, vh) * product(v, inner, uh)), rows, columns)
    return jnp.where(is_bad | is_bad_too, np.nan, made).astype(x.dtype)


# -- symmetric matrices ----------------------------------------------------------------------------


def eigh(op: Operation, x: Value, uplo: str) -> tuple[Any, Any]:
    """Eigenvalues and vectors of one triangle of symmetric matrices."""
    x = jnp.asarray(x)
    if not x.size:
        return jnp.zeros(x.shape[:-1], x.real.dtype), jnp.zeros(x.shape, x.dtype)
    vectors, values = lax.linalg.eigh(x, lower=uplo == "L", symmetrize_input=False)
    # (infinite matrices have nan as values and finite vectors, without an error)
    require_converged(op, flat(vectors), True, _NO_EIGENVALUES)
    return values, vectors


@register(PRIMITIVES["eigh"])
def _eigh(op: Operation, x: Value, uplo: str) -> Any:
    return eigh(op, cast(x, op.outputs[1].dtype), uplo)


register(PRIMITIVES["eigvalsh"])(lambda op, x, uplo: eigh(op, x, uplo)[0])


@register(PRIMITIVES["cholesky"])
def _cholesky(op: Operation, x: Value) -> Any:
    x = jnp.asarray(cast(x, op.dtype))
    if not x.size:
        return x
    lower = lax.linalg.cholesky(x, symmetrize_input=False)
    # (nan in the matrix is no error; after one, all of the factor is nan)
    has_failed = jnp.isnan(lower[..., 0, 0]) & ~jnp.isnan(x[..., 0, 0])
    op.require(~has_failed, np.linalg.LinAlgError, _NOT_POSITIVE)
    return lower


# -- singular values -------------------------------------------------------------------------------


def require_svd(op: Operation, x: Value, s: Value) -> None:
    """Raise NumPy's error where LAPACK finds no singular values; it returns nan for infinite
    matrices, without an error.
    """
    is_infinite = jnp.any(jnp.isinf(x), axis=(-2, -1)) & ~jnp.any(jnp.isnan(x), axis=(-2, -1))
    require_converged(op, s, ~is_infinite, _NO_SINGULAR_VALUES)


@register(PRIMITIVES["svd"])
def _svd(op: Operation, x: Value, full: bool) -> Any:
    x = jnp.asarray(cast(x, op.dtype))
    u, s, vh = lax.linalg.svd(x, full_matrices=full)
    require_svd(op, x, s)
    return u, s, vh


@register(PRIMITIVES["svdvals"])
def _svdvals(op: Operation, x: Value) -> Any:
    x = jnp.asarray(x)
    s = lax.linalg.svd(x, compute_uv=False)
    require_svd(op, x, s)
    return s


# -- the Euclidean norm ----------------------------------------------------------------------------


def euclidean_norm(x: Value, axes: tuple[int, ...]) -> Any:
    """sqrt(sum(abs(x)**2)) over axes."""
    squares = jnp.square(x) if x.dtype.kind != "c" else jnp.square(x.real) + jnp.square(x.imag)
    return jnp.sqrt(jnp.sum(squares, axis=axes))


register(PRIMITIVES["norm"])(lambda op, x, axes: euclidean_norm(x, axes))
