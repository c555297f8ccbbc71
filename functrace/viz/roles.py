"""The pass that each operation of a program belongs to: forward, reverse, or recomputed.

Operations of a reverse pass are marked in their positions (Note [Positions of the reverse pass] in
ir/program.py). A sub-program of a reverse operation that has unmarked operations next to marked
ones recomputes these (`functrace.checkpoint`); one without any mark is a user's derivative rule, and
belongs to the reverse pass as a whole.

Layer: 8 (api).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


def role_inside(role: Role, inner: Program, held: Sequence[Program]) -> Role:
    """Return the role that a sub-program is in: that of its operation; but next to sub-programs with
    a reverse pass, one without recomputes what they read.

    Args:
        role: of the operation.
        inner: the sub-program.
        held: all sub-programs of the operation.
    """
    if role == "reverse" and not has_reverse(inner) and any(map(has_reverse, held)):
        return "recomputed"
    return role


def has_reverse(program: Program) -> bool:
    """Return True if an operation of a program, at any depth, belongs to a reverse pass."""
    return any(program.is_reverse(k) for k in program.equation_ids) or any(
        has_reverse(held) for k in program.equation_ids for _, held, _ in held_by(program, k)
    )


def held_by(program: Program, k: int) -> Iterator[tuple[str, Program, int]]:
    """Yield the sub-programs of an operation: where each stands among the params, and how often it
    runs: 0 if that depends on values, -1 for a rule that does not run here.

    Of an operation that runs only programs derived from its params, these are yielded.
    """
    primitive, operands, params = program.ops[k]
    held = [
        found
        for name, value in zip(primitive.params, params, strict=True)
        for found in sub_programs_of(value, name)
    ]
    if not held:
        return
    runs = list(_runs(primitive, program, operands, params))
    times: dict[int, int] = {}
    for count, inner in runs:
        times[id(inner)] = max(count, times.get(id(inner), 0))
    if any(id(inner) in times for _, inner in held):
        for path, inner in held:
            yield path, inner, times.get(id(inner), -1)
    elif runs:
        for count, inner in runs:
            yield "derived", inner, count
    else:
        for path, inner in held:
            yield path, inner, 0


def _runs(
    primitive: Primitive, program: Program, operands: tuple[int, ...], params: tuple[object, ...]
) -> Iterator[tuple[int, Program]]:
    """Yield the programs that an operation runs, in all of its alternatives, with their numbers of
    runs."""
    if primitive.holds is not None:
        for way in primitive.holds.runs(tuple(map(program.spec, operands)), *params):
            yield from way
