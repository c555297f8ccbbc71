"""Peephole rewrites: replace an operation by one of its operands. Each is a row with an example,
which is its test.

They are exact, bit for bit. `functrace.passes.constant_folding` applies them, since it has the
values of constants.

Layer: 6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from functrace.ir.primitive import Primitive
from functrace.ir.program import Program
from functrace.ops.elementwise import mul
from functrace.ops.shaping import broadcast_to_p
from functrace.typing import Array

Rule = Callable[[Program, int, Mapping[int, Any]], int | None]
"""From a program, an operation and the values of constants to the operand that equals the result,
if any.
"""


@final
@dataclass(frozen=True, slots=True)
class IdentityRule:
    """A rule for operations whose result equals an operand.

    Args:
        primitive: the operation.
        rule: returns the operand.
        before: an example: the listing of a program.
        after: the rewritten example.
    """

    primitive: Primitive
    rule: Rule
    before: str
    after: str


def _times_one(program: Program, k: int, known: Mapping[int, Any]) -> int | None:
    x, y = program.ops[k][1]
    kept = y if _is_one(x, known, program) else x if _is_one(y, known, program) else None
    # A complex one is 1 + 0j, and 0j times inf is nan.
    is_same = kept is not None and kept >= 0 and program.avals[kept] is program.avals[k]
    return kept if is_same and program.avals[k].dtype.kind != "c" else None


def _is_one(i: int, known: Mapping[int, Any], program: Program) -> bool:
    if i < 0:
        literal = program.literals[~i]
        return literal == 1 and type(literal) is not bool
    value = known.get(i)
    if value is None and program.ops[i][0] is broadcast_to_p:
        return 0 not in program.avals[i].shape and _is_one(program.ops[i][1][0], known, program)
    is_one = (
        value is not None
        and type(value) is not bool
        and bool(np.all(value == 1))
        and np.size(value) > 0
    )
    return is_one and _has_no_order(np.asarray(value))


def _has_no_order(value: Array) -> bool:
    """Return True if an operand does not determine the layout of an elementwise result."""
    return (
        len([n for n, step in zip(value.shape, value.strides, strict=True) if n > 1 and step]) < 2
    )


ROWS = (
    IdentityRule(
        mul,
        _times_one,
        before="""
            program(x: f64[3]) {
              a: f64[3] = mul x 1.0
              b: f64[3] = exp a
              return b
            }""",
        after="""
            program(x: f64[3]) {
              b: f64[3] = exp x
              return b
            }""",
    ),
)
"""All rules."""

RULES: dict[Primitive, tuple[Rule, ...]] = {
    primitive: tuple([row.rule for row in ROWS if row.primitive is primitive])
    for primitive in {r.primitive for r in ROWS}
}
"""The rules by operation."""


def equal_operand(program: Program, k: int, known: Mapping[int, Any]) -> int | None:
    """Return the operand that equals an operation's result by one of the rules, if there is one.

    Args:
        program: any program.
        k: the variable of the result.
        known: values of constant variables.

    Returns:
        the operand; the caller checks that its layout is the result's.
    """
    for rule in RULES.get(program.ops[k][0], ()):
        operand = rule(program, k, known)
        if operand is not None:
            return operand
    return None
