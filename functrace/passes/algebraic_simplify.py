"""Algebraic simplification: exact rewrites that save an operation (signs, powers of two,
broadcasts).

Each rewrite is a row with an example, which is its test. The rule's docstring says why it is exact
in floating point. All NaNs count as equal, whatever their sign and payload.

Layer: 6.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrace.ir.parts import Rewrite, compact
from functrace.ir.primitive import Primitive
from functrace.ir.program import Program
from functrace.ops.elementwise import Elementwise, add, div, mul, neg, sub
from functrace.ops.indexing import embed_p
from functrace.ops.shaping import broadcast_to_p, permute_p, reshape_p, roll_p
from functrace.passes.broadcast_factoring import SMALLER
from functrace.passes.rewrite_rules import RewriteContext, RuleEffect, rules_by_root

MOVES: frozenset[Primitive] = frozenset({roll_p, reshape_p, permute_p, broadcast_to_p})
"""Operations that only move elements: they commute with a sign."""

LARGEST_POWER = 1 << 14
"""Largest power of two in rewrites: it and its reciprocal are exact in every float dtype."""

LARGEST_SCALED = 1 << 12
"""Maximum bytes of a constant array that a rewrite scales."""


def simplify(program: Program) -> Program:
    """Apply the rules of `SAVINGS`; returns an equal program with fewer operations.

    Cost:
        about 0.6 us per equation; 2 where a rule applies.
    """
    sought, rules = RewriteContext(program), rules_by_root(SAVINGS, program.kinds)
    for k, _ in program.schedule:
        for rule in rules.get(program.ops[k][0], ()):
            found = rule(sought, k)
            if found is not None:
                sought.replace(k, found)
                break
        else:
            sought.keep(k)
    return sought.finish()


def _add_negative(sought: RewriteContext, k: int) -> int | None:
    """a + (-b) is a - b: IEEE 754 defines the difference so; integers wrap identically."""
    return _signed_sum(sought, k, sub, is_ordered=False)


def _subtract_negative(sought: RewriteContext, k: int) -> int | None:
    """a - (-b) is a + b, likewise."""
    return _signed_sum(sought, k, add, is_ordered=True)


def _signed_sum(
    sought: RewriteContext, k: int, other: Primitive, *, is_ordered: bool
) -> int | None:
    a, b = sought.program.ops[k][1]
    for x, y in ((a, b),) if is_ordered else ((a, b), (b, a)):
        positive = _without_sign(sought, y, k)
        if positive is not None:
            return sought.put(k, other, sought.write.operand(x), positive)
    return None


def _without_sign(sought: RewriteContext, i: int, k: int) -> int | None:
    """Write the operand of which a variable is the negative, for operation ``k``; None if it is not
    a negative.
    """
    program = sought.program
    if i < 0 or program.avals[i] is not program.avals[k]:
        return None
    inner = sought.operands(i, neg)
    if inner is not None:
        return sought.write.operand(inner[0]) if inner[0] >= 0 else None
    if sought.readers[i] > 1:  # another reader needs the sign
        return None
    primitive, operands, params = program.ops[i]
    if primitive in MOVES and sought.readers[operands[0]] == 1:
        inner = sought.operands(operands[0], neg)
        if inner is not None and inner[0] >= 0:
            write = sought.write
            return write.place(primitive, (write.operand(inner[0]),), params, write.position(i))
    # (-a) * b is -(a * b): a sign does not affect rounding. Not for integers (they wrap) or complex
    # products (signs of zeros)
    if primitive is mul and sought.is_float(i):
        for x, y in (operands, operands[::-1]):
            inner = sought.operands(x, neg)
            if (
                inner is not None
                and inner[0] >= 0
                and sought.readers[x] == 1
                and sought.is_float(x)
            ):
                write = sought.write
                factors = (write.operand(inner[0]), write.operand(y))
                return write.place(
                    mul, factors if x == operands[0] else factors[::-1], (), write.position(i)
                )
    return None


def _times_negative(sought: RewriteContext, k: int) -> int | None:
    """(-x) * c is x * (-c), for real floats and a number c."""
    for x, y in (sought.program.ops[k][1], sought.program.ops[k][1][::-1]):
        inner, number = sought.operands(x, neg), sought.number(y)
        if (
            inner is not None
            and inner[0] >= 0
            and number is not None
            and sought.is_float(k)
            and sought.is_float(x)
        ):
            return sought.put(k, mul, sought.write.operand(inner[0]), sought.write.literal(-number))
    return None


def _negative_product(sought: RewriteContext, k: int) -> int | None:
    """-(x * c) is x * (-c), likewise."""
    (i,) = sought.program.ops[k][1]
    factors = sought.operands(i, mul)
    if factors is None or sought.readers[i] > 1 or not sought.is_float(k):
        return None
    for x, y in (factors, factors[::-1]):
        number = sought.number(y)
        if number is not None and x >= 0 and sought.is_float(x):
            return sought.put(k, mul, sought.write.operand(x), sought.write.literal(-number))
    return None


def _divided_by_power(sought: RewriteContext, k: int) -> int | None:
    """x / c is x * (1 / c) for real floats and a power of two c: 1 / c is exact, so both round the
    same number.
    """
    x, y = sought.program.ops[k][1]
    number = sought.number(y)
    if x < 0 or number is None or not (sought.is_float(k) and sought.is_float(x)):
        return None
    if not 1 <= abs(number) <= LARGEST_POWER or abs(math.frexp(number)[0]) != 0.5:
        return None
    return sought.put(k, mul, sought.write.operand(x), sought.write.literal(1.0 / number))


def _merged_powers(sought: RewriteContext, k: int) -> int | None:
    """(x * c) * d is x * (c * d), for a power of two c and any d, both at least 1: both round, or
    overflow, alike.

    The first product is exact, or overflows together with the second. ``d`` is a number, or a small
    constant array.
    """
    program = sought.program
    for i, second in (program.ops[k][1], program.ops[k][1][::-1]):
        factors = sought.operands(i, mul)
        if factors is None or sought.readers[i] > 1 or not sought.is_float(k):
            continue
        for x, first in (factors, factors[::-1]):
            c = sought.number(first)
            if c is None or x < 0 or not sought.is_float(x) or not _is_power(c):
                continue
            d = sought.number(second)
            if d is not None and 1 <= abs(d) <= LARGEST_POWER / abs(c):
                write = sought.write
                return sought.put(k, mul, write.operand(x), write.literal(float(c * d)))
            scaled = _scaled(sought, second, c, k)
            if scaled is not None and program.avals[x].dtype == scaled.dtype:
                write = sought.write
                return sought.put(
                    k, mul, write.operand(x), write.constant(scaled, program.avals[second])
                )
    return None


def _is_power(c: float) -> bool:
    return 1 <= abs(c) <= LARGEST_POWER and abs(math.frexp(c)[0]) == 0.5


def _scaled(sought: RewriteContext, i: int, c: float, k: int) -> np.ndarray[Any, Any] | None:
    """Return a constant array times a power of two; None if it is not constant, large, of another
    dtype, or has elements below 1.
    """
    value = sought.program.constant_values.get(i) if i >= 0 else None
    if (
        not isinstance(value, np.ndarray)
        or value.nbytes > LARGEST_SCALED
        or value.dtype != sought.program.avals[k].dtype
    ):
        return None
    with np.errstate(all="ignore"):
        found = value * value.dtype.type(c)
        is_exact = np.all((np.abs(value) >= 1) & np.isfinite(found))
    found.flags.writeable = False
    return found if is_exact else None


def _moved_sign(sought: RewriteContext, k: int) -> int | None:
    """(-x) * (y * c) is x * (y * -c), for real floats and a number c: a sign does not affect
    rounding.
    """
    program = sought.program
    for i, j in (program.ops[k][1], program.ops[k][1][::-1]):
        inner, factors = sought.operands(i, neg), sought.operands(j, mul)
        if (
            inner is None
            or factors is None
            or sought.readers[j] > 1
            or inner[0] < 0
            or not sought.is_float(k)
        ):
            continue
        for y, second in (factors, factors[::-1]):
            c = sought.number(second)
            if (
                c is not None
                and y >= 0
                and sought.is_float(y)
                and sought.is_float(i)
                and sought.is_float(j)
            ):
                write = sought.write
                turned = write.place(
                    mul, (write.operand(y), write.literal(-c)), (), write.position(j)
                )
                return sought.put(k, mul, write.operand(inner[0]), turned)
    return None


def _sum_of_embedded(sought: RewriteContext, k: int) -> int | None:
    """embed(x) + embed(y) at the same index is embed(x + y): 0.0 + 0.0 is 0.0."""
    program = sought.program
    i, j = program.ops[k][1]
    x, y = sought.operands(i, embed_p), sought.operands(j, embed_p)
    if (
        x is None
        or y is None
        or program.ops[i][2] != program.ops[j][2]
        or program.avals[i].dtype != program.avals[j].dtype
    ):
        return None
    if max(sought.readers[i], sought.readers[j]) > 1 or i == j or min(x[0], y[0]) < 0:
        return None
    write = sought.write
    total = write.place(add, (write.operand(x[0]), write.operand(y[0])), (), write.position(k))
    return write.place(embed_p, (total,), program.ops[i][2], write.position(k))


SAVINGS = (
    RuleEffect(
        "a sign in a sum",
        add,
        _add_negative,
        before="""
            program(x: f64[3], y: f64[3], z: f64[3]) {
              a: f64[3] = neg x
              b: f64[3] = add y a
              c: f64[3] = neg y
              d: f64[3] = mul c z
              e: f64[3] = add d b
              return e
            }""",
        after="""
            program(x: f64[3], y: f64[3], z: f64[3]) {
              b: f64[3] = sub y x
              a: f64[3] = mul y z
              e: f64[3] = sub b a
              return e
            }""",
        reads=(neg,),
    ),
    RuleEffect(
        "a sign in a difference",
        sub,
        _subtract_negative,
        before="""
            program(x: f64[3], y: f64[3]) {
              a: f64[3] = neg x
              b: f64[3] = roll a {shift=1, axis=0}
              c: f64[3] = sub y b
              return c
            }""",
        after="""
            program(x: f64[3], y: f64[3]) {
              a: f64[3] = roll x {shift=1, axis=0}
              c: f64[3] = add y a
              return c
            }""",
        reads=(neg,),
    ),
    RuleEffect(
        "a sign in a factor",
        mul,
        _times_negative,
        before="""
            program(x: f64[3]) {
              a: f64[3] = neg x
              b: f64[3] = mul 3.0 a
              return b
            }""",
        after="""
            program(x: f64[3]) {
              b: f64[3] = mul x -3.0
              return b
            }""",
        reads=(neg,),
    ),
    RuleEffect(
        "a factor with a sign",
        neg,
        _negative_product,
        before="""
            program(x: f64[3]) {
              a: f64[3] = mul x 3.0
              b: f64[3] = neg a
              return b
            }""",
        after="""
            program(x: f64[3]) {
              b: f64[3] = mul x -3.0
              return b
            }""",
        reads=(mul,),
    ),
    RuleEffect(
        "division by a power of two",
        div,
        _divided_by_power,
        before="""
            program(x: f64[3]) {
              a: f64[3] = div x 1024
              return a
            }""",
        after="""
            program(x: f64[3]) {
              a: f64[3] = mul x 0.0009765625
              return a
            }""",
    ),
    RuleEffect(
        "two powers of two",
        mul,
        _merged_powers,
        before="""
            program(x: f64[3]) {
              a: f64[3] = mul x 2.0
              b: f64[3] = mul 4 a
              return b
            }""",
        after="""
            program(x: f64[3]) {
              b: f64[3] = mul x 8.0
              return b
            }""",
    ),
    RuleEffect(
        "a sign in a factor's factor",
        mul,
        _moved_sign,
        before="""
            program(x: f64[3], y: f64[3]) {
              a: f64[3] = neg x
              b: f64[3] = mul y 2.0
              c: f64[3] = mul a b
              return c, x
            }""",
        after="""
            program(x: f64[3], y: f64[3]) {
              a: f64[3] = mul y -2.0
              c: f64[3] = mul x a
              return c, x
            }""",
        reads=(neg,),
    ),
    RuleEffect(
        "parts in one place",
        add,
        _sum_of_embedded,
        before="""
            program(x: f64[3], y: f64[3]) {
              a: f64[4] = embed x {index=((None, -1, None),), shape=(4,)}
              b: f64[4] = embed y {index=((None, -1, None),), shape=(4,)}
              c: f64[4] = add a b
              return c
            }""",
        after="""
            program(x: f64[3], y: f64[3]) {
              a: f64[3] = add x y
              c: f64[4] = embed a {index=((None, -1, None),), shape=(4,)}
              return c
            }""",
        reads=(embed_p,),
    ),
    *SMALLER,
)
"""All rules; the first that applies is used."""


def sink_broadcasts(program: Program) -> Program:
    """Let elementwise operations read the operand of ``broadcast_to``, if another operand has the
    full shape.
    """
    ops, avals = program.ops, program.avals
    if broadcast_to_p not in program.kinds:
        return program
    spread = {
        k
        for k, _ in program.schedule
        if ops[k][0] is broadcast_to_p and _is_array(program, ops[k][1][0])
    }
    write: Rewrite | None = None
    kept: list[int] = []
    for k, _ in program.schedule:
        primitive, operands, params = ops[k]
        if (
            spread.isdisjoint(operands)
            or not isinstance(primitive, Elementwise)
            or primitive.many
            or not any(
                i >= 0 and i not in spread and avals[i].shape == avals[k].shape for i in operands
            )
        ):
            kept.append(k)
            continue
        write = write or Rewrite(program)
        write.keep_each(kept)
        kept = []
        read = tuple([write.operand(ops[i][1][0] if i in spread else i) for i in operands])
        write.replace(k, [write.place(primitive, read, params, write.position(k))])
    if write is None:
        return program
    write.keep_each(kept)
    return compact(write.finish())


def _is_array(program: Program, i: int) -> bool:
    """Return True if an operand has axes; without axes it may be a Python number, which does not
    affect promotion.
    """
    return i >= 0 and program.avals[i].shape != ()
