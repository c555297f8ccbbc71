"""Transforms of programs: jvp, linearize, transpose, vmap. Each is a walk: read, apply the rule,
write.

Layer: 4.
"""

from functrace.transforms.building import is_differentiable
from functrace.transforms.derivatives import (
    grad_program,
    jvp_program,
    linearize_program,
    pullback_programs,
)
from functrace.transforms.replay import backward_program, tangent_program
from functrace.transforms.transpose import transpose_program
from functrace.transforms.vmap import vmap_program

__all__ = [
    "backward_program", "grad_program", "is_differentiable", "jvp_program", "linearize_program",
    "pullback_programs",
    "tangent_program", "transpose_program", "vmap_program",
]  # fmt: skip
