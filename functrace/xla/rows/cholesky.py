"""Lowerings of `functrace.ops.cholesky`: tangent and pullback of the factorization.

Layer: 7.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from functrace.ops import PRIMITIVES
from functrace.xla.lowering import Operation, Value, register
from functrace.xla.rows.congruence import solve_congruence
from functrace.xla.rows.matrices import adjoint, half_lower, in_one_stack, product


@register(PRIMITIVES["cholesky_change"])
def _change(op: Operation, lower: Value, x: Value) -> Any:
    """L phi(L^-1 H L^-H), where phi keeps the lower triangle, and half of the diagonal."""
    lower, x = in_one_stack(op, [lower, x])
    return product(jnp.tril(lower), half_lower(solve_congruence(op, lower, x, False)))


@register(PRIMITIVES["cholesky_pullback"])
def _pullback(op: Operation, lower: Value, y: Value) -> Any:
    """L^-H H L^-1 of the Hermitian part H of phi(L^H Y)."""
    lower, y = in_one_stack(op, [lower, y])
    inner = half_lower(product(adjoint(jnp.tril(lower)), jnp.tril(y)))
    return solve_congruence(op, lower, inner, True)
