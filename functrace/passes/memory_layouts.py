"""How what stands for a value lies in memory: an array that stands for another one must lie as that would.

NumPy adds, and multiplies matrices, in an order that depends on strides. So where an operation is left out whose result
would be an array of its own, what is read instead is one too, or is only read by operations that do not see a difference.

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
"""Primitives whose results have no gaps, beside elementwise ones."""


def is_array_of_its_own(program: Program, i: int) -> bool:
    """Whether a variable has no gaps in memory, as a result of NumPy has none: arguments, slices and broadcasts may."""
    while i >= 0 and program.ops[i][0] in (permute_p, reshape_p, roll_p):
        (i,) = program.ops[i][1]
    return i >= 0 and is_made(program.ops[i][0])


def is_made(primitive: Primitive) -> bool:
    """Whether results of a primitive are arrays of their own."""
    return (isinstance(primitive, Elementwise) and not primitive.view) or primitive in _MADE


def read_as_they_lie(program: Program) -> set[int]:
    """The variables that the caller reads, or an operation to which it may matter how they lie."""
    found = set(program.output_ids)
    for k, _ in program.schedule:
        primitive, operands, _ = program.ops[k]
        if not (isinstance(primitive, Elementwise) and not primitive.view):
            found.update(operands)
    return found
