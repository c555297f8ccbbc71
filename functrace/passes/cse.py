"""Common subexpression elimination (CSE), views of arrays included.

Two operations are equal if they apply the same primitive to the same operands with the same params; the order of the two
operands of ``add``, ``mul`` … does not matter. Numbers are equal if they have the same bits (0.0 is not -0.0, 1 not 1.0).

Note [What is computed again on purpose]
    `functrace.checkpoint` computes values again so that they need not be kept. Where such a call is put in line, its
    operands get names (`functrace.ops.naming`), and no two names are one: nothing after them is merged with anything before.
    Names are dropped when that is done. A large array whose last reader is long past is computed again too, if that takes
    one pass over memory: to keep it would.

Layer: 6.
"""

from __future__ import annotations

from typing import Any

from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import Rewrite
from functrace.ir.primitive import Primitive
from functrace.ir.program import Program
from functrace.keys import exact_key
from functrace.ops.elementwise import Elementwise, add, bitwise_and, bitwise_or, bitwise_xor, equal, mul, not_equal
from functrace.ops.naming import name_p

COMMUTATIVE: frozenset[Primitive] = frozenset({add, mul, equal, not_equal, bitwise_and, bitwise_or, bitwise_xor})
"""Primitives whose operands may change places, and not a bit of the result with them."""

LARGE = 1 << 16
"""Bytes: smaller results are kept however long it is until they are read again."""

LONG_PAST = 8
"""A large result that nobody has read while so many arrays of its size were computed is computed again."""


def merge_common_subexpressions(program: Program, *, is_kept: bool = False) -> Program:
    """Return an equal program in which nothing is computed twice.

    Args:
        program: any program.
        is_kept: whether large arrays cost nothing to keep, and are not computed again however long they wait.

    Cost:
        about 2 us per equation; 4 where there is something to merge.
    """
    same = _same(program, is_kept)
    if not same:
        return program
    write = Rewrite(program)
    for k, _ in program.schedule:
        first = same.get(k)
        if first is None:
            write.keep(k)
        else:
            results = program.result_count(k) if program.ops[k][0].many else 1
            write.replace(k, [write.operand(first + j) for j in range(results)])
    return write.finish()


def _same(program: Program, is_kept: bool) -> dict[int, int]:
    """By operation that is computed twice: the one that has computed it."""
    ops, avals = program.ops, program.avals
    numbers = [exact_key(value) for value in program.literals]
    places: dict[int, int] = {}  # variables that stand for another one
    found: dict[Any, int] = {}
    same: dict[int, int] = {}
    traffic = 0  # bytes that have been computed
    last: dict[int, int] = {}  # by operation, how many they were when it was read last
    for k, _ in program.schedule:
        primitive, operands, params = ops[k]
        if not primitive.view:
            traffic += _bytes(avals[k])
        reads = tuple([places.get(i, i) if i >= 0 else numbers[~i] for i in operands])
        for i in reads:
            if type(i) is int:
                last[i] = traffic
        last[k] = traffic
        if primitive.effects or primitive is name_p or (primitive.kept is not None and primitive.kept(*params)):
            continue
        if primitive in COMMUTATIVE and avals[k].dtype.kind != "c":  # of complex products, parts are rounded in order
            reads = tuple(sorted(reads, key=_order))
        key = (primitive, reads, params)
        first = found.setdefault(key, k)
        if first == k:
            continue
        is_past = traffic - last[first] > (LONG_PAST + 1) * _bytes(avals[k]) >= (LONG_PAST + 1) * LARGE
        if is_past and not is_kept and isinstance(primitive, Elementwise):
            found[key] = k
            continue
        same[k] = first
        last[first] = traffic
        for j in range(program.result_count(k) if primitive.many else 1):
            places[k + j] = first + j
    return same


def _bytes(aval: ShapeDtype) -> int:
    return aval.nbytes if all(type(n) is int for n in aval.shape) else 0


def _order(read: object) -> tuple[int, int]:
    return (0, read) if type(read) is int else (1, 0)  # of two numbers, the order is kept


def drop_names(program: Program) -> Program:
    """Return an equal program without names for values: the last that refers to them has run."""
    if name_p not in program.kinds:
        return program
    write = Rewrite(program)
    for k, _ in program.schedule:
        if program.ops[k][0] is name_p and program.ops[k][1][0] >= 0:
            write.replace(k, [write.operand(program.ops[k][1][0])])
        else:
            write.keep(k)
    return write.finish()
