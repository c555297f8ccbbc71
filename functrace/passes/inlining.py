"""Inlining: replace calls by the operations of the called program.

Layer: 6.
"""

from __future__ import annotations

from functrace.control.call import call_p
from functrace.control.residuals import unpack_p
from functrace.control.storages import recomputes
from functrace.ir.parts import Rewrite, inline
from functrace.ir.program import Program
from functrace.ir.tape import Op
from functrace.ops.naming import name_p
from functrace.passes.dce import drop_dead_results
from functrace.passes.derivative_links import without_links


def called_program(op: Op) -> Program | None:
    """Return the program that an operation calls, if it can be inlined; ``None`` if not."""
    holds = op[0].holds
    return None if holds is None or holds.called_program is None else holds.called_program(*op[2])


def inline_calls(program: Program) -> Program:
    """Inline calls: replace them by the operations of the called programs, recursively.

    Args:
        program: any program.

    Returns:
        an equal program without calls.

    Example:
        >>> import numpy as np, functrace as ft
        >>> program = ft.trace(lambda x: ft.jit(lambda y: np.sin(y) * 2.0)(x))(1.0)
        >>> len(program.equations), len(ft.passes.inline_calls(program).equations)
        (1, 2)

    Cost:
        nothing without calls; otherwise about 2 us per equation.
    """
    if any(
        primitive.holds is not None and primitive.holds.called_program is not None
        for primitive in program.kinds
    ):
        program = inline(program, called_program, _apart)
    return without_links(program, _inlined)


def _inlined(program: Program) -> Program:
    return drop_dead_results(inline_calls(program)).interned()


def _apart(write: Rewrite, k: int, operands: list[int]) -> list[int]:
    """Name the operands of a call that rematerializes; see Note [Deliberate rematerialization] in
    passes/cse.py. A packed operand stays packed until it is needed, and equals no other value.
    """
    primitive, _, params = write.source.ops[k]
    if primitive is not call_p or not recomputes(params[1]):
        return operands
    called: Program = params[0]
    packed = {op[1][0] for op in called.ops if op[0] is unpack_p}
    return [
        write.place(name_p, (i,), ("recompute",), write.position(k))
        if i >= 0 and j not in packed
        else i
        for i, j in zip(operands, called.input_ids, strict=True)
    ]
