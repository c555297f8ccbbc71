"""The pass that each operation of a program belongs to: forward, reverse, or recomputed.

Operations of a reverse pass are marked in their positions (Note [Positions of the reverse pass] in
ir/program.py). A sub-program of a reverse operation that has unmarked operations next to marked
ones recomputes these (`functrace.checkpoint`); one without any mark is a user's derivative rule, and
belongs to the reverse pass as a whole.

Layer: 8 (api).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from functrace.ir.check import sub_programs_of
from functrace.ir.primitive import Primitive
from functrace.ir.program import Program

Role: TypeAlias = Literal["forward", "reverse", "recomputed"]


def roles_of(program: Program, within: Role = "forward") -> dict[int, Role]:
    """Return the role of every operation, by the variable of its first result.

    Args:
        program: the program.
        within: role of the operation that it is a sub-program of.
    """
    ids = program.equation_ids
    if within == "reverse" and not has_reverse(program):
        return dict.fromkeys(ids, "reverse")
    plain: Role = "forward" if within == "forward" else "recomputed"
    return {k: "reverse" if program.is_reverse(k) else plain for k in ids}


def has_reverse(program: Program) -> bool:
    """Return True if an operation of a program, at any depth, belongs to a reverse pass."""
    return any(program.is_reverse(k) for k in program.equation_ids) or any(
        has_reverse(held) for k in program.equation_ids for _, held, _ in held_by(program, k)
    )


def held_by(program: Program, k: int) -> Iterator[tuple[str, Program, int]]:
    """Yield the sub-programs of an operation: where each stands among the params, and how often it
    runs: 0 if that depends on values, -1 for a rule that does not run here."""
    primitive, operands, params = program.ops[k]
    held = [
        found
        for name, value in zip(primitive.params, params, strict=True)
        for found in sub_programs_of(value, name)
    ]
    if held:
        times = _runs(primitive, program, operands, params)
        for path, inner in held:
            yield path, inner, times.get(id(inner), -1)


def _runs(
    primitive: Primitive, program: Program, operands: tuple[int, ...], params: tuple[object, ...]
) -> dict[int, int]:
    """Return the number of runs of sub-programs, by their ids."""
    holds = primitive.holds
    if holds is None:
        return {}
    found: dict[int, int] = {}
    for way in holds.runs(tuple(map(program.spec, operands)), *params):
        for times, inner in way:
            found[id(inner)] = max(times, found.get(id(inner), 0))
    return found
