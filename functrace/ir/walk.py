"""The one traversal helper: which operations matter, in order, and what dies when.

Floor: 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from functrace.ir.primitive import CONSTANT, INPUT, RESULT

if TYPE_CHECKING:
    from functrace.ir.program import Program

Schedule = tuple[tuple[int, tuple[int, ...]], ...]


def reachable(program: Program) -> Schedule:
    """Return the operations that outputs depend on, in order, each with the variables that die after it."""
    ops = program.ops
    seen = bytearray(len(ops))
    for i in program.output_ids:
        seen[i] = 1
    schedule: list[tuple[int, tuple[int, ...]]] = []
    append = schedule.append
    for k in range(len(ops) - 1, -1, -1):
        if not seen[k]:
            continue
        primitive, operands, _ = ops[k]
        if not operands and (primitive is INPUT or primitive is CONSTANT):
            continue
        dying: tuple[int, ...] = ()
        for i in operands:
            if i >= 0 and not seen[i]:
                seen[i] = 1
                dying += (i,)
        if primitive is not RESULT:
            append((k, dying))
    schedule.reverse()
    return tuple(schedule)


def aliasing_outputs(program: Program) -> tuple[bool, ...]:
    """Say which outputs may share memory with arguments, constants or outputs before them."""
    roots: dict[int, int] = {}
    viewed: set[int] = set()
    for k, (primitive, operands, _) in enumerate(program.ops):
        if primitive.view and operands:
            viewed.add(k)  # also of a literal: broadcast_to makes a read-only view of it
            if operands[0] >= 0:
                roots[k] = roots.get(operands[0], operands[0])
    owned: set[int] = set()
    copied = []
    for out in program.output_ids:
        root = roots.get(out, out)
        foreign = program.ops[root][0] in (INPUT, CONSTANT) or out in viewed or root in owned
        owned.add(root)
        copied.append(foreign)
    return tuple(copied)
