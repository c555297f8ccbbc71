"""Memory layouts: replacing a variable by another one must preserve its layout.

The order in which NumPy adds, and multiplies matrices, depends on strides. So where a rewrite
eliminates an operation whose result would be a contiguous array, the replacement is contiguous,
too, or only layout-independent operations read it.

Layer: 6.
"""

from __future__ import annotations

from collections.abc import Collection, Set
from typing import Any

from functrace.ir.primitive import INPUT, RESULT, Primitive
from functrace.ir.program import Program
from functrace.ops.contraction import dot_p, matmul_p
from functrace.ops.elementwise import Elementwise
from functrace.ops.indexing import embed_p
from functrace.ops.joining import concatenate_p, stack_p
from functrace.ops.naming import name_p
from functrace.ops.reductions import reduce_max_p, reduce_min_p, reduce_sum_p
from functrace.ops.shaping import permute_p, reshape_p, roll_p

_MADE: frozenset[Primitive] = frozenset(
    {concatenate_p, dot_p, embed_p, matmul_p, reduce_max_p, reduce_min_p, reduce_sum_p, stack_p}
)
"""Primitives with contiguous results, besides elementwise ones."""


def is_array_of_its_own(program: Program, i: int, own: Set[int] = frozenset()) -> bool:
    """Return True if a variable has no gaps in memory: results of NumPy have none; arguments,
    slices and broadcasts may.

    Args:
        program: any program.
        i: the variable.
        own: inputs that are known to have no gaps.
    """
    calls: list[tuple[Program, int]] = []  # in which the variable is, the outermost first
    while i >= 0:
        first = i
        while program.ops[first][0] is RESULT:
            first -= 1
        primitive, operands, params = program.ops[first]
        called = called_program(primitive, params)
        if called is not None:
            calls.append((program, first))
            program, i = called, called.output_ids[i - first]
        elif primitive is INPUT and calls:
            place = program.input_ids.index(i)
            program, first = calls.pop()
            i = program.ops[first][1][place]
        elif primitive in (permute_p, reshape_p, roll_p, name_p):
            (i,) = operands
        else:
            return (i in own and not calls) or is_made(primitive)
    return False


def own_inputs(program: Program, k: int, own: Set[int] = frozenset()) -> frozenset[int]:
    """Return the inputs of a called program that have no gaps in memory."""
    primitive, operands, params = program.ops[k]
    called = called_program(primitive, params)
    assert called is not None
    return frozenset([
        j for i, j in zip(operands, called.input_ids, strict=True)
        if is_array_of_its_own(program, i, own)
    ])  # fmt: skip


def called_program(primitive: Primitive, params: Any) -> Program | None:
    """Return the program that an operation calls, if any."""
    holds = primitive.holds
    return None if holds is None or holds.called_program is None else holds.called_program(*params)


def is_made(primitive: Primitive) -> bool:
    """Return True if results of a primitive are freshly allocated arrays."""
    return (isinstance(primitive, Elementwise) and not primitive.view) or primitive in _MADE


def layout_dependent_values(program: Program, read: Collection[int] | None = None) -> set[int]:
    """Return the variables read by the caller, or by operations that may depend on layout.

    Args:
        program: any program.
        read: the outputs of which the caller reads the layout; by default all.
    """
    found = set(program.output_ids if read is None else read)
    for k in range(len(program.ops) - 1, -1, -1):
        primitive, operands, params = program.ops[k]
        called = called_program(primitive, params)
        if called is not None:
            inner = layout_dependent_values(called, read_outputs(program, k, found))
            found.update([
                i for i, j in zip(operands, called.input_ids, strict=True) if j in inner
            ])  # fmt: skip
        elif primitive is name_p:
            found.update(operands if k in found else ())
        elif not (isinstance(primitive, Elementwise) and not primitive.view):
            found.update(operands)
    return found


def read_outputs(program: Program, k: int, read: Collection[int]) -> list[int]:
    """Return the outputs of a called program whose layout is read: its results among ``read``."""
    called = called_program(program.ops[k][0], program.ops[k][2])
    assert called is not None
    return [i for n, i in enumerate(called.output_ids) if k + n in read]
