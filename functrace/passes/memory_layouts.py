"""Memory layouts: replacing a variable by another one must preserve its layout.

The order in which NumPy adds, and multiplies matrices, depends on strides. So where a rewrite
eliminates an operation whose result would be a contiguous array, the replacement is contiguous,
too, or only layout-independent operations read it.

Layer: 6.
"""

from __future__ import annotations

from functrace.ir.primitive import Primitive
from functrace.ir.program import Program
from functrace.ops.contraction import dot_p, matmul_p
from functrace.ops.elementwise import Elementwise
from functrace.ops.indexing import embed_p
from functrace.ops.joining import concatenate_p, stack_p
from functrace.ops.reductions import reduce_max_p, reduce_min_p, reduce_sum_p
from functrace.ops.shaping import permute_p, reshape_p, roll_p

_MADE: frozenset[Primitive] = frozenset(
    {concatenate_p, dot_p, embed_p, matmul_p, reduce_max_p, reduce_min_p, reduce_sum_p, stack_p}
)
"""Primitives with contiguous results, besides elementwise ones."""


def is_array_of_its_own(program: Program, i: int) -> bool:
    """Return True if a variable has no gaps in memory: results of NumPy have none; arguments,
    slices and broadcasts may.
    """
    while i >= 0 and program.ops[i][0] in (permute_p, reshape_p, roll_p):
        (i,) = program.ops[i][1]
    return i >= 0 and is_made(program.ops[i][0])


def is_made(primitive: Primitive) -> bool:
    """Return True if results of a primitive are freshly allocated arrays."""
    return (isinstance(primitive, Elementwise) and not primitive.view) or primitive in _MADE


def layout_dependent_values(program: Program) -> set[int]:
    """Return the variables read by the caller, or by operations that may depend on layout."""
    found = set(program.output_ids)
    for k, _ in program.schedule:
        primitive, operands, _ = program.ops[k]
        if not (isinstance(primitive, Elementwise) and not primitive.view):
            found.update(operands)
    return found
