"""Sign elimination: if all readers of a negated value can absorb the sign, compute the value
without it.

Derivative rules negate cotangents. If all readers of ``-x``, or of products of it, can absorb the
sign (``a + (-x)`` is ``a - x``, ``(-x) * 2.0`` is ``x * -2.0``), then they read ``x``, and the
negation is dead. IEEE 754 rounds a number and its negative alike, so no bit changes; a rewrite that
would change the sign of a zero (``-a - x``) is not done.

Layer: 6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from functrace.ir.parts import Rewrite
from functrace.ir.primitive import Primitive
from functrace.ir.program import Program
from functrace.ops.elementwise import absolute, add, div, mul, neg, square, sub
from functrace.ops.shaping import broadcast_to_p, permute_p, reshape_p, roll_p
from functrace.passes.memory_layouts import is_array_of_its_own

MOVES: frozenset[Primitive] = frozenset({roll_p, reshape_p, permute_p, broadcast_to_p})
"""Operations that only move elements."""

EVEN: frozenset[Primitive] = frozenset({square, absolute})
"""Even functions."""

MOST = 24
"""Maximum number of variables that lose their sign together."""


def eliminate_signs(program: Program) -> Program:
    """Eliminate negations; returns an equal program.

    Cost:
        0.1 us per equation without negations; about 3 with some.
    """
    ops = program.ops
    if neg not in program.kinds:
        return program
    readers: dict[int, list[int]] = {}
    for k, _ in program.schedule:
        operands = ops[k][1]
        for i in operands if len(operands) < 2 else set(operands):
            if i in readers:
                readers[i].append(k)
            else:
                readers[i] = [k]
    outputs = set(program.output_ids)
    without: set[int] = set()
    for k, _ in program.schedule:
        if ops[k][0] is neg and ops[k][1][0] >= 0 and k not in without:
            found = _reached(program, k, without, readers, outputs)
            if found is not None:
                without |= found
    return _written(program, without) if without else program


def _reached(
    program: Program,
    start: int,
    without: set[int],
    readers: Mapping[int, Sequence[int]],
    outputs: set[int],
) -> set[int] | None:
    """Return the variables that lose their sign with ``start``; ``None`` if a reader cannot absorb
    it.
    """
    ops, avals = program.ops, program.avals
    found: set[int] = set()
    waiting = [start]
    while waiting:
        i = waiting.pop()
        if i in found:
            continue
        found.add(i)
        if len(found) > MOST or i in outputs or i in without or avals[i].dtype.kind != "f":
            return None
        for k in readers.get(i, ()):
            primitive, operands, _ = ops[k]
            if avals[k].dtype != avals[i].dtype:
                return None
            is_product = (
                primitive in (mul, div)
                and len(set(operands)) == 2
                and not _has_number(program, operands)
            )
            if primitive in MOVES or (is_product and without.isdisjoint(operands)):
                waiting.append(k)
    both = without | found
    return (
        found
        if all(_takes(program, k, both) for i in found for k in (i, *readers.get(i, ())))
        else None
    )


def _has_number(program: Program, operands: Sequence[int]) -> bool:
    """Return True if an operand is a nonzero number, which can absorb a sign."""
    return any(
        i < 0 and type(program.literals[~i]) in (int, float) and program.literals[~i]
        for i in operands
    )


def _takes(program: Program, k: int, without: set[int]) -> bool:
    """Return True if an operation is still correct when these variables lose their signs."""
    primitive, operands, _ = program.ops[k]
    signs = [i in without for i in operands]
    if primitive in MOVES:
        return (k in without) == signs[0]
    if primitive in (mul, div):
        if _has_number(program, operands):
            return k not in without
        return (k in without) == (sum(signs) == 1)
    if primitive is neg:
        return (k in without) != signs[0] and (
            not signs[0] or _is_made_without(program, operands[0], without)
        )
    if k in without:
        return False
    if primitive is add:
        return sum(signs) <= 1
    if primitive is sub:
        return not signs[0]
    return primitive in EVEN or not any(signs)


def _is_made_without(program: Program, i: int, without: Set[int]) -> bool:
    """Return True if the replacement of a variable has the layout of its negative."""
    while i in without and program.ops[i][0] in (neg, reshape_p, permute_p, roll_p):
        (i,) = program.ops[i][1]
    return is_array_of_its_own(program, i)


def _written(program: Program, without: set[int]) -> Program:
    write = Rewrite(program)
    bare: dict[int, int] = {}  # variables without their signs; no user names

    def operand(i: int) -> int:
        return bare[i] if i in bare else write.operand(i)

    kept: list[int] = []
    for k, _ in program.schedule:
        primitive, operands, params = program.ops[k]
        if k not in without and without.isdisjoint(operands):
            kept.append(k)
            continue
        write.keep_each(kept)
        kept = []
        given = tuple(map(operand, operands))
        if primitive is neg:
            made = given[0]
        elif primitive is add:
            made = write.place(
                sub, given[::-1] if operands[0] in without else given, (), write.position(k)
            )
        elif primitive is sub:
            made = write.place(add, given, (), write.position(k))
        else:
            if primitive in (mul, div) and _has_number(program, operands):
                given = tuple(
                    [
                        write.literal(-program.literals[~i]) if i < 0 else g
                        for i, g in zip(operands, given, strict=True)
                    ]
                )
            made = write.place(primitive, given, params, write.position(k))
        if k in without:
            bare[k] = made
        else:
            write.replace(k, [made])
    write.keep_each(kept)
    return write.finish()
