"""Residuals of a program that has a forward and a reverse pass: the values that cross from one to
the other.

Layer: 8 (api).
"""

from __future__ import annotations

from dataclasses import dataclass

from functrace.ir.primitive import CONSTANT, INPUT, RESULT
from functrace.ir.program import Position, Program, plain_position
from functrace.viz.roles import Role


@dataclass(frozen=True, slots=True)
class CrossingValue:
    """A value that the forward pass makes and the reverse pass reads.

    Args:
        variable: its number.
        readers: operations of the reverse pass that read it.
        why: the operations whose derivative that is.
        is_kept: False for arguments and constants, which take no additional memory.
    """

    variable: int
    readers: tuple[int, ...]
    why: str
    is_kept: bool


def crossing_values(program: Program, roles: dict[int, Role]) -> list[CrossingValue]:
    """List the values that cross from the forward to the reverse pass of a program.

    Args:
        program: the program.
        roles: of its operations, from `functrace.viz.roles.roles_of`.
    """
    if "reverse" not in roles.values():
        return []
    readers: dict[int, list[int]] = {}
    forward: dict[Position, list[str]] = {}
    for k, role in roles.items():
        primitive, operands, _ = program.ops[k]
        if role != "reverse":
            forward.setdefault(instruction(program, k), []).append(primitive.name)
            continue
        for i in dict.fromkeys(operands):
            if i >= 0 and roles.get(maker(program, i), "forward") != "reverse":
                readers.setdefault(i, []).append(k)
    found: list[CrossingValue] = []
    for i, reading in sorted(readers.items()):
        kind = program.ops[maker(program, i)][0]
        if kind is CONSTANT and not program.avals[i].shape:
            continue
        found.append(
            CrossingValue(
                i,
                tuple(reading),
                _why(program, reading[0], forward),
                kind is not INPUT and kind is not CONSTANT,
            )
        )
    return found


def maker(program: Program, i: int) -> int:
    """Return the operation that makes a variable, by its first result; an input or a constant
    itself.
    """
    while program.ops[i][0] is RESULT:
        i -= 1
    return i


def instruction(program: Program, k: int) -> Position:
    """Return the user's instruction that an operation comes from."""
    position = program.position(k)
    return None if position is None else plain_position(position)


def _why(program: Program, reader: int, forward: dict[Position, list[str]]) -> str:
    """Describe the operations whose derivative an operation belongs to."""
    position = instruction(program, reader)
    source = program.source(reader)
    if source is None:
        return "reverse pass"
    # The operations of one instruction: those of the function it calls, and what their derivative
    # computes in the forward pass.
    names = forward.get(position, [])
    name = source.called or (names[0] if names else "")
    return f"derivative of {name} at {source.short}" if name else f"derivative at {source.short}"
