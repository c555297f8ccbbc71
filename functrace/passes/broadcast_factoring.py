"""Rewrites that move work from large arrays to small operands that are broadcast against them:
signs, quotients.

The derivative of a row-wise reduction has one factor per row. These rewrites combine such factors
before broadcasting, if that is exact. They are rows of `functrace.passes.algebraic_simplify`; all
NaNs count as equal there.

Layer: 6.
"""

from __future__ import annotations

import numpy as np

from functrace.ir.primitive import Primitive
from functrace.ops.elementwise import (
    Elementwise,
    add,
    div,
    equal,
    isinf,
    logical_and,
    mul,
    neg,
    sub,
    where,
)
from functrace.ops.indexing import embed_p
from functrace.ops.reductions import reduce_sum_p
from functrace.ops.shaping import Shape, convert_p, reshape_p
from functrace.passes.memory_layouts import is_array_of_its_own
from functrace.passes.rewrite_rules import RewriteContext, RuleEffect


def _is_smaller(sought: RewriteContext, i: int, k: int) -> bool:
    """Return True if an operand is a number, or an array smaller than the result of ``k``, of the
    same float dtype.
    """
    if i < 0:
        return sought.number(i) is not None
    mine, whole = sought.program.avals[i], sought.program.avals[k]
    is_concrete = all(type(n) is int for n in (*mine.shape, *whole.shape))
    return (
        is_concrete
        and mine.dtype == whole.dtype
        and mine.shape != ()
        and mine.nbytes < whole.nbytes
    )


def _negated(sought: RewriteContext, i: int, k: int) -> int:
    """Write the negative of a small operand."""
    number = sought.number(i)
    if number is not None:
        return sought.write.literal(-number)
    return sought.put(k, neg, sought.write.operand(i))


def _negative_of(sought: RewriteContext, k: int, primitive: Primitive) -> int | None:
    (i,) = sought.program.ops[k][1]
    found = sought.operands(i, primitive)
    if found is None or sought.readers[i] > 1 or not sought.is_float(k):
        return None
    for place, j in enumerate(found):
        other = found[1 - place]
        if (
            other >= 0
            and sought.program.avals[other] is sought.program.avals[k]
            and _is_smaller(sought, j, k)
        ):
            moved, kept = _negated(sought, j, k), sought.write.operand(other)
            return sought.put(k, primitive, *((kept, moved) if place else (moved, kept)))
    return None


def _negative_quotient(sought: RewriteContext, k: int) -> int | None:
    """-(x / y) is x / -y, or -x / y: a sign does not affect rounding."""
    return _negative_of(sought, k, div)


def _negative_product(sought: RewriteContext, k: int) -> int | None:
    """-(x * y) is x * -y, likewise."""
    return _negative_of(sought, k, mul)


def _negative_sum(sought: RewriteContext, k: int) -> int | None:
    """The sum of -x is 0.0 - sum(x): the sum starts with 0.0, so it is never -0.0."""
    program = sought.program
    (i,) = program.ops[k][1]
    inner = sought.operands(i, neg)
    if inner is None or inner[0] < 0 or sought.readers[i] > 1 or not sought.is_float(k):
        return None
    made = program.ops[inner[0]][0]  # a view's negative may sum in another order
    if (
        program.avals[k].shape == ()
        or not isinstance(made, Elementwise)
        or made.view
        or not _sums_begin_with_zero()
    ):
        return None
    write = sought.write
    found = write.place(
        reduce_sum_p, (write.operand(inner[0]),), program.ops[k][2], write.position(k)
    )
    return sought.put(k, sub, write.literal(0.0), found)


def _sums_begin_with_zero() -> bool:
    return not np.signbit(np.add.reduce(np.full((2, 2), -0.0), axis=1)).any()


def _three_times(sought: RewriteContext, k: int) -> int | None:
    """(x + x) + x is x * 3 for real floats: doubling is exact, or both overflow, so both round
    three times x.
    """
    for i, x in (sought.program.ops[k][1], sought.program.ops[k][1][::-1]):
        if (
            x >= 0
            and sought.operands(i, add) == (x, x)
            and sought.is_float(k)
            and sought.readers[i] == 1
        ):
            return sought.put(k, mul, sought.write.operand(x), sought.write.literal(3.0))
    return None


def _shared_by_ties(sought: RewriteContext, k: int) -> int | None:
    """c * (t / n) is t * (c * (n / n / n)), if t is 0 or 1, n counts the ones along rows, and c is
    small.

    This is the derivative of a maximum. Elements with t = 1 get c * (1 / n) both ways; those with t
    = 0 get a zero with the sign of c, or NaN if c is not finite. For n = 0 (the maximum is NaN), 0
    / 0 is NaN both ways.
    """
    program = sought.program
    for c, i in (program.ops[k][1], program.ops[k][1][::-1]):
        found = sought.operands(i, div)
        if (
            found is None
            or sought.readers[i] > 1
            or not sought.is_float(k)
            or not _is_smaller(sought, c, k)
        ):
            continue
        ties, count = found
        if (
            ties < 0
            or count < 0
            or program.avals[ties] is not program.avals[k]
            or not _is_smaller(sought, count, k)
        ):
            continue
        if (
            c >= 0
            and np.broadcast_shapes(program.avals[c].shape, program.avals[count].shape)
            == program.avals[k].shape
        ):
            continue
        source = sought.operands(ties, convert_p)
        total = sought.operands(count, reshape_p) or (count,)
        if (
            source is None
            or program.avals[source[0]].dtype != np.bool_
            or not _counts(sought, count, total[0], ties)
        ):
            continue
        write = sought.write
        n = write.operand(count)
        share = sought.put(
            k, mul, write.operand(c), sought.put(k, div, sought.put(k, div, n, n), n)
        )
        return sought.put(k, mul, write.operand(ties), share)
    return None


def _counts(sought: RewriteContext, count: int, total: int, ties: int) -> bool:
    """Return True if a variable, ``total`` or a reshape of it, is the number of ones in each
    element's row.
    """
    avals = sought.program.avals
    if (
        sought.operands(total, reduce_sum_p) != (ties,) or avals[ties].dtype.itemsize < 4
    ):  # float16 ends at 65504
        return False
    (axes,) = sought.program.ops[total][2]
    shape = avals[count].shape
    beside = tuple([1 if axis in axes else n for axis, n in enumerate(avals[ties].shape)])
    return (1,) * (len(beside) - len(shape)) + shape == beside


def _infinite_and_a_number(sought: RewriteContext, k: int) -> int | None:
    """Simplify a difference of two ``where`` with mask isinf(x) and x == c, for finite c: the mask
    is always False.

    This occurs in the derivative of ``logaddexp``. A difference ``x - 0.0`` is ``x``.
    """
    program = sought.program
    a, b = program.ops[k][1]
    left, right = sought.operands(a, where), sought.operands(b, where)
    both = None if left is None else sought.operands(left[0], logical_and)
    if left is None or right is None or left[0] != right[0] or both is None:
        return None
    infinite, same = sought.operands(both[0], isinf), sought.operands(both[1], equal)
    if infinite is None or same is None or infinite[0] != same[0] or sought.finite(same[1]) is None:
        return None
    x, y = left[2], right[2]
    if (
        x < 0
        or program.avals[x] is not program.avals[k]
        or not (y < 0 or program.avals[y].dtype == program.avals[b].dtype)
    ):
        return None
    number, write = sought.finite(y), sought.write
    if number == 0 and not np.signbit(number) and is_array_of_its_own(program, x):
        return write.operand(x)
    return sought.put(k, sub, write.operand(x), write.operand(y))


def _reshaped_twice(sought: RewriteContext, k: int) -> int | None:
    """A reshape of a reshape is one reshape, or none back to the first shape, if only axes of size
    1 change: strides agree.
    """
    program = sought.program
    (i,) = program.ops[k][1]
    inner = sought.operands(i, reshape_p)
    if (
        inner is None
        or inner[0] < 0
        or len({_without_ones(program.avals[j].shape) for j in (inner[0], i, k)}) > 1
    ):
        return None
    write = sought.write
    if program.avals[inner[0]] is program.avals[k]:
        return write.operand(inner[0])
    return write.place(reshape_p, (write.operand(inner[0]),), program.ops[k][2], write.position(k))


def _embedded_whole(sought: RewriteContext, k: int) -> int | None:
    """An ``embed`` that covers all zeros is a reshape, if at most one axis is not 1: with several,
    layouts may differ.
    """
    program = sought.program
    _, (i,), (index, shape) = program.ops[k]
    is_whole = all(
        part is None or type(part) is int or part == (None, None, None) for part in index
    )
    if i < 0 or not is_whole or not all(type(n) is int for n in shape):
        return None
    if (
        _without_ones(program.avals[i].shape) != _without_ones(shape)
        or len(_without_ones(shape)) > 1
    ):
        return None
    root = i
    while (inner := sought.operands(root, reshape_p)) is not None and inner[0] >= 0:
        (root,) = inner
    made = program.ops[root][0]  # another view may have gaps
    if made is not reduce_sum_p and not (isinstance(made, Elementwise) and not made.view):
        return None
    write = sought.write
    return write.place(reshape_p, (write.operand(root),), (shape,), write.position(k))


def _without_ones(shape: Shape) -> Shape:
    return tuple([n for n in shape if type(n) is not int or n != 1])


SMALLER = (
    RuleEffect(
        "the sign of a quotient",
        neg,
        _negative_quotient,
        before="""
            program(x: f64[3,4], y: f64[3,1]) {
              a: f64[3,4] = div x y
              b: f64[3,4] = neg a
              return b
            }""",
        after="""
            program(x: f64[3,4], y: f64[3,1]) {
              a: f64[3,1] = neg y
              b: f64[3,4] = div x a
              return b
            }""",
        reads=(div,),
    ),
    RuleEffect(
        "the sign of a product",
        neg,
        _negative_product,
        before="""
            program(x: f64[3,4], y: f64[3,1]) {
              a: f64[3,4] = mul y x
              b: f64[3,4] = neg a
              return b
            }""",
        after="""
            program(x: f64[3,4], y: f64[3,1]) {
              a: f64[3,1] = neg y
              b: f64[3,4] = mul a x
              return b
            }""",
        reads=(mul,),
    ),
    RuleEffect(
        "the sign of a sum",
        reduce_sum_p,
        _negative_sum,
        before="""
            program(x: f64[3,4]) {
              a: f64[3,4] = exp x
              b: f64[3,4] = neg a
              c: f64[3] = reduce_sum b {axes=(1,)}
              return c
            }""",
        after="""
            program(x: f64[3,4]) {
              a: f64[3,4] = exp x
              b: f64[3] = reduce_sum a {axes=(1,)}
              c: f64[3] = sub 0.0 b
              return c
            }""",
        reads=(neg,),
    ),
    RuleEffect(
        "three times the same",
        add,
        _three_times,
        before="""
            program(x: f64[3]) {
              a: f64[3] = add x x
              b: f64[3] = add a x
              return b
            }""",
        after="""
            program(x: f64[3]) {
              b: f64[3] = mul x 3.0
              return b
            }""",
    ),
    RuleEffect(
        "what ties share",
        mul,
        _shared_by_ties,
        before="""
            program(x: f64[3,4], y: f64[3,1]) {
              a: f64[3] = reduce_max x {axes=(1,)}
              b: f64[3,1] = reshape a {shape=(3, 1)}
              c: bool[3,4] = equal x b
              d: f64[3,4] = convert c {dtype=f64}
              e: f64[3] = reduce_sum d {axes=(1,)}
              f: f64[3,1] = reshape e {shape=(3, 1)}
              g: f64[3,4] = div d f
              h: f64[3,4] = mul y g
              return h
            }""",
        after="""
            program(x: f64[3,4], y: f64[3,1]) {
              a: f64[3] = reduce_max x {axes=(1,)}
              b: f64[3,1] = reshape a {shape=(3, 1)}
              c: bool[3,4] = equal x b
              d: f64[3,4] = convert c {dtype=f64}
              e: f64[3] = reduce_sum d {axes=(1,)}
              f: f64[3,1] = reshape e {shape=(3, 1)}
              g: f64[3,1] = div f f
              i: f64[3,1] = div g f
              j: f64[3,1] = mul y i
              h: f64[3,4] = mul d j
              return h
            }""",
        reads=(div, convert_p, reduce_sum_p),
    ),
    RuleEffect(
        "infinite and equal to a number",
        sub,
        _infinite_and_a_number,
        before="""
            program(x: f64[3]) {
              const c: f64[] = 2.0
              a: bool[3] = isinf x
              b: bool[3] = equal x c
              d: bool[3] = logical_and a b
              e: f64[3] = where d 0.0 x
              f: f64[3] = where d 0.0 c
              g: f64[3] = sub e f
              return g
            }""",
        after="""
            program(x: f64[3]) {
              const c: f64[] = 2.0
              g: f64[3] = sub x c
              return g
            }""",
        reads=(where, logical_and, isinf, equal),
    ),
    RuleEffect(
        "a reshape of a reshape",
        reshape_p,
        _reshaped_twice,
        before="""
            program(x: f64[3]) {
              a: f64[3,1] = reshape x {shape=(3, 1)}
              b: f64[1,3] = reshape a {shape=(1, 3)}
              c: f64[1,3] = exp b
              return c
            }""",
        after="""
            program(x: f64[3]) {
              b: f64[1,3] = reshape x {shape=(1, 3)}
              c: f64[1,3] = exp b
              return c
            }""",
    ),
    RuleEffect(
        "what is written over all zeros",
        embed_p,
        _embedded_whole,
        before="""
            program(x: f64[2,3]) {
              a: f64[3] = reduce_sum x {axes=(0,)}
              b: f64[1,3] = reshape a {shape=(1, 3)}
              c: f64[3] = embed b {index=(None, (None, None, None)), shape=(3,)}
              d: f64[3] = exp c
              return d
            }""",
        after="""
            program(x: f64[2,3]) {
              a: f64[3] = reduce_sum x {axes=(0,)}
              c: f64[3] = reshape a {shape=(3,)}
              d: f64[3] = exp c
              return d
            }""",
    ),
)
"""All rules of this file."""
