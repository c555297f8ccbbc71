"""Lowerings of `functrace.ops.triangular`.

Layer: 7.
"""

from __future__ import annotations

from typing import Any

from jax import lax

from functrace.ops import PRIMITIVES
from functrace.xla.lowering import Operation, Value, register
from functrace.xla.rows.matrices import diagonal, in_one_stack, require_pivots


@register(PRIMITIVES["solve_triangular"])
def solve_triangular(op: Operation, a: Value, b: Value, lower: bool, unit: bool) -> Any:
    """Solve triangular systems; raises NumPy's error if an element of a diagonal is 0."""
    a, b = in_one_stack(op, [a, b])
    if not unit:
        require_pivots(op, diagonal(a))
    return lax.linalg.triangular_solve(a, b, left_side=True, lower=lower, unit_diagonal=unit)
