"""Lowerings of primitives to ``jax.lax``: a module for each module of `functrace.ops` and of
`functrace.control`.

Layer: 7.
"""

from functrace.xla.rows import (
    checks,
    contraction,
    control,
    cumulative,
    elementwise,
    indexing,
    joining,
    reductions,
    shaping,
    sorting,
)

__all__ = [
    "checks", "contraction", "control", "cumulative", "elementwise", "indexing", "joining",
    "reductions", "shaping", "sorting",
]  # fmt: skip
