"""Lowerings of `functrace.ops.congruence`.

Layer: 7.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from functrace.ops import PRIMITIVES
from functrace.xla.lowering import Operation, Value, register
from functrace.xla.rows.matrices import adjoint, in_one_stack, product
from functrace.xla.rows.triangular import solve_triangular


@register(PRIMITIVES["multiply_triangular"])
def _multiply_triangular(op: Operation, a: Value, b: Value, lower: bool) -> Any:
    a, b = in_one_stack(op, [a, b])
    return product((jnp.tril if lower else jnp.triu)(a), b)


@register(PRIMITIVES["solve_congruence"])
def solve_congruence(op: Operation, lower: Value, x: Value, is_adjoint: bool) -> Any:
    """L^-1 H L^-H of the Hermitian part H, or L^-H H L^-1."""
    lower, x = in_one_stack(op, [lower, x])
    a = adjoint(lower) if is_adjoint else lower
    half = 0.5 * (x + adjoint(x))
    inner = solve_triangular(op, a, half, not is_adjoint, False)
    return solve_triangular(op, a, adjoint(inner), not is_adjoint, False)
