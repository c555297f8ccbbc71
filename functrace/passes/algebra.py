"""Rewrites that save an operation, and change no bit: signs taken into additions, divisions by powers of two, broadcasts.

Each is a row with its own example, which is its test. What floating-point numbers say to it stands at the rule. Two nans
count as one, whatever their sign and payload.

Floor: 5.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator

from functrace.ir.parts import Rewrite
from functrace.ir.primitive import Primitive
from functrace.ir.program import Program
from functrace.ops.elementwise import Elementwise, add, div, mul, neg, sub
from functrace.ops.shaping import broadcast_to_p, permute_p, reshape_p, roll_p
from functrace.passes.savings import Rule, Saving, Sought
from functrace.passes.smaller import SMALLER
from functrace.steps import finished

MOVES: frozenset[Primitive] = frozenset({roll_p, reshape_p, permute_p, broadcast_to_p})
"""Operations that only move elements: a sign may be taken before or after."""

LARGEST_POWER = 1 << 14
"""Powers of two up to this, and what is 1 over them, are numbers of every float dtype."""


def simplify(program: Program) -> Program:
    """Return an equal program with fewer operations, by the rows of `SAVINGS`.

    Cost:
        about 3 us per equation; 5 where a row applies.
    """
    return finished(simplifying(program, len(program.ops)))


def simplifying(program: Program, size: int) -> Generator[None, None, Program]:
    """Simplify in steps of ``size`` equations; see `simplify`."""
    write = Rewrite(program)
    readers = Counter(program.output_ids)
    for k, _ in program.schedule:
        readers.update(program.ops[k][1])
    sought = Sought(program, write, readers)
    changed = False
    for count, (k, _) in enumerate(program.schedule, 1):
        if not count % size:
            yield
        for rule in _RULES.get(program.ops[k][0], ()):
            found = rule(sought, k)
            if found is not None:
                write.replace(k, [found])
                changed = True
                break
        else:
            write.keep(k)
    if not changed:
        return program
    program = write.finish()
    write = Rewrite(program)  # what nobody reads any more stays behind
    for count, (k, _) in enumerate(program.schedule, 1):
        if not count % size:
            yield
        write.keep(k)
    return write.finish()


def _add_negative(sought: Sought, k: int) -> int | None:
    """a + (-b) is a - b: IEEE 754 defines the difference so; integers wrap around alike."""
    return _signed_sum(sought, k, sub, is_ordered=False)


def _subtract_negative(sought: Sought, k: int) -> int | None:
    """a - (-b) is a + b, likewise."""
    return _signed_sum(sought, k, add, is_ordered=True)


def _signed_sum(sought: Sought, k: int, other: Primitive, *, is_ordered: bool) -> int | None:
    a, b = sought.program.ops[k][1]
    for x, y in ((a, b),) if is_ordered else ((a, b), (b, a)):
        positive = _without_sign(sought, y, k)
        if positive is not None:
            return sought.put(k, other, sought.write.operand(x), positive)
    return None


def _without_sign(sought: Sought, i: int, k: int) -> int | None:
    """Write what a variable is the negative of, for operation ``k``; None if it is none."""
    program, write = sought.program, sought.write
    if i < 0 or program.avals[i] is not program.avals[k]:
        return None
    inner = sought.operands(i, neg)
    if inner is not None:
        return write.operand(inner[0]) if inner[0] >= 0 else None
    if sought.readers[i] > 1:  # it is needed as it is, too
        return None
    primitive, operands, params = program.ops[i]
    if primitive in MOVES and sought.readers[operands[0]] == 1:
        inner = sought.operands(operands[0], neg)
        if inner is not None and inner[0] >= 0:
            return write.place(primitive, (write.operand(inner[0]),), params, write.position(i))
    if primitive is mul and sought.is_float(i):  # (-a) * b is -(a * b): a sign is no rounding; complex zeros differ
        for x, y in (operands, operands[::-1]):
            inner = sought.operands(x, neg)
            if inner is not None and inner[0] >= 0 and sought.readers[x] == 1:
                factors = (write.operand(inner[0]), write.operand(y))
                return write.place(mul, factors if x == operands[0] else factors[::-1], (), write.position(i))
    return None


def _times_negative(sought: Sought, k: int) -> int | None:
    """(-x) * c is x * (-c), for real floats and a number c."""
    for x, y in (sought.program.ops[k][1], sought.program.ops[k][1][::-1]):
        inner, number = sought.operands(x, neg), sought.number(y)
        if inner is not None and inner[0] >= 0 and number is not None and sought.is_float(k) and sought.is_float(x):
            return sought.put(k, mul, sought.write.operand(inner[0]), sought.write.literal(-number))
    return None


def _negative_product(sought: Sought, k: int) -> int | None:
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


def _divided_by_power(sought: Sought, k: int) -> int | None:
    """x / c is x * (1 / c) for real floats, if c is a power of two: both round the same number, and 1 / c is exact."""
    x, y = sought.program.ops[k][1]
    number = sought.number(y)
    if x < 0 or number is None or not (sought.is_float(k) and sought.is_float(x)):
        return None
    if not 1 <= abs(number) <= LARGEST_POWER or abs(math.frexp(number)[0]) != 0.5:
        return None
    return sought.put(k, mul, sought.write.operand(x), sought.write.literal(1.0 / number))


def _merged_powers(sought: Sought, k: int) -> int | None:
    """(x * c) * d is x * (c * d) for powers of two of at least 1: they scale exactly, or up to infinity both ways."""
    for i, second in (sought.program.ops[k][1], sought.program.ops[k][1][::-1]):
        factors, d = sought.operands(i, mul), sought.number(second)
        if factors is None or d is None or sought.readers[i] > 1 or not sought.is_float(k):
            continue
        for x, first in (factors, factors[::-1]):
            c = sought.number(first)
            if c is None or x < 0 or not sought.is_float(x) or abs(c * d) > LARGEST_POWER or min(abs(c), abs(d)) < 1:
                continue
            if abs(math.frexp(c)[0]) == abs(math.frexp(d)[0]) == 0.5:
                return sought.put(k, mul, sought.write.operand(x), sought.write.literal(float(c * d)))
    return None


SAVINGS = (
    Saving(
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
    ),
    Saving(
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
    ),
    Saving(
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
    ),
    Saving(
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
    ),
    Saving(
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
    Saving(
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
    *SMALLER,
)
"""All of them; the first that applies is taken."""

_RULES: dict[Primitive, tuple[Rule, ...]] = {
    primitive: tuple([row.rule for row in SAVINGS if row.primitive is primitive])
    for primitive in {row.primitive for row in SAVINGS}
}


def sink_broadcasts(program: Program) -> Program:
    """Return an equal program in which elementwise operations read what was broadcast for them, if the shape stays."""
    ops, avals = program.ops, program.avals
    if not any(primitive is broadcast_to_p for primitive, _, _ in ops):
        return program
    write = Rewrite(program)
    changed = False
    for k, _ in program.schedule:
        primitive, operands, params = ops[k]
        spread = [i for i in operands if i >= 0 and ops[i][0] is broadcast_to_p and _is_array(program, ops[i][1][0])]
        is_full = any(i >= 0 and i not in spread and avals[i].shape == avals[k].shape for i in operands)
        if not spread or not is_full or not isinstance(primitive, Elementwise) or primitive.many:
            write.keep(k)
            continue
        read = tuple([write.operand(ops[i][1][0] if i in spread else i) for i in operands])
        write.replace(k, [write.place(primitive, read, params, write.position(k))])
        changed = True
    return _pruned(write.finish()) if changed else program


def _is_array(program: Program, i: int) -> bool:
    """Whether an operand has axes; one that has none may be a Python number, which counts as no dtype."""
    return i >= 0 and program.avals[i].shape != ()


def _pruned(program: Program) -> Program:
    """Return the program without operations that nobody reads any more."""
    write = Rewrite(program)
    write.keep_all()
    return write.finish()
