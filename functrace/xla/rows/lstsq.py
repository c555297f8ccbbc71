"""Lowerings of `functrace.ops.lstsq`, by singular values.

Layer: 7.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from functrace.ops import PRIMITIVES
from functrace.xla.lowering import Operation, Value, cast, register
from functrace.xla.rows.linalg import eigh, require_svd
from functrace.xla.rows.matrices import adjoint, in_one_stack, product

_DEFAULT = 1e-15
"""NumPy's ``rcond``."""


def _inverses(s: Value, limit: Value) -> tuple[Any, Any]:
    """Return 1 / s of singular values that are greater than a limit, 0 of others; and which are."""
    is_large = s > limit
    return jnp.where(is_large, 1 / jnp.where(is_large, s, 1), 0).astype(s.dtype), is_large


@register(PRIMITIVES["pinv"])
def _pinv(op: Operation, x: Value, *rest: Value) -> Any:
    *limits, hermitian, _ = rest
    x = jnp.asarray(cast(x, op.dtype))
    if not x.size:
        return jnp.zeros(op.shape, op.dtype)
    rcond = jnp.asarray(limits[0] if limits else _DEFAULT)[..., None]
    if hermitian:
        values, u = eigh(op, x, "L")
        s, vh = jnp.abs(values), adjoint(u) * jnp.sign(values)[..., None].astype(u.dtype)
    else:
        u, s, vh = lax.linalg.svd(x, full_matrices=False)
        require_svd(op, x, s)
    inverses, _ = _inverses(s, rcond * jnp.max(s, axis=-1, keepdims=True))
    return product(adjoint(vh), inverses[..., None] * adjoint(u))


@register(PRIMITIVES["lstsq"])
def _lstsq(op: Operation, a: Value, b: Value, rcond: float) -> Any:
    a, b = in_one_stack(op, [a, b])
    m, n = a.shape[-2:]
    x, rank = op.outputs
    if not m or not n or not a.size:
        return jnp.zeros(x.shape, x.dtype), jnp.zeros(rank.shape, rank.dtype)
    op.require(
        jnp.isfinite(a), np.linalg.LinAlgError, "SVD did not converge in Linear Least Squares"
    )
    u, s, vh = lax.linalg.svd(a, full_matrices=False)
    eps = jnp.finfo(a.dtype).eps
    inverses, is_large = _inverses(s, (eps if rcond < 0 else rcond) * s[..., :1])
    solution = product(adjoint(vh), inverses[..., None] * product(adjoint(u), b))
    return solution, jnp.sum(is_large, axis=-1)
