"""Rewrite programs before reverse mode differentiates them.

Layer: 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from functrace.ir.primitive import Primitive
from functrace.ir.program import Program
from functrace.transforms.building import remembered

BEFORE_REVERSE: dict[Primitive, Callable[[Program, Sequence[bool]], Program]] = {}
"""By primitive, a pass for programs that have it: from a program, and one flag per input (True if it
carries derivatives), to an equal program with the same inputs and outputs. Modules of primitives add
to it.
"""


def prepared(program: Program, active: Sequence[bool]) -> Program:
    """Apply the passes of `BEFORE_REVERSE`.

    Args:
        program: a program that will be linearized, or transposed.
        active: one flag per input: True if it carries derivatives.
    """
    for primitive, rewrite in BEFORE_REVERSE.items():
        if primitive in program.kinds:
            program = remembered(rewrite, program, active)
    return program
