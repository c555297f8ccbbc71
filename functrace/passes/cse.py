"""Common subexpression elimination (CSE), for views of arrays, too.

Two operations are equal if they apply the same primitive to the same operands with the same params;
the order of the two operands of ``add``, ``mul`` … does not matter. Numbers are equal if they have
the same bits (0.0 is not -0.0, 1 not 1.0).

Note [Deliberate rematerialization]
    `functrace.checkpoint` recomputes values so that they need not be kept. Where such a call is
    inlined, its operands get names (`functrace.ops.naming`), and no two names are equal: CSE merges
    nothing after a name with anything before. Afterwards, names are dropped. CSE also leaves an
    elementwise recomputation of a large array whose last use is long past: keeping it costs as much
    memory traffic.

Layer: 6.
"""

from __future__ import annotations

from typing import Any

from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import Rewrite
from functrace.ir.primitive import Primitive
from functrace.ir.program import Program
from functrace.keys import exact_key
from functrace.ops.elementwise import (
    Elementwise,
    add,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    equal,
    mul,
    not_equal,
)
from functrace.ops.naming import name_p

COMMUTATIVE: frozenset[Primitive] = frozenset(
    {add, mul, equal, not_equal, bitwise_and, bitwise_or, bitwise_xor}
)
"""Bitwise commutative primitives."""

LARGE = 1 << 16
"""Bytes: smaller results are always merged."""

LONG_PAST = 8
"""A large result is recomputed if, since its last use, more arrays of its size than this have been
computed.
"""


def merge_common_subexpressions(program: Program, *, is_kept: bool = False) -> Program:
    """Merge equal operations; returns an equal program.

    Args:
        program: any program.
        is_kept: True to merge large arrays regardless of the time between uses.

    Cost:
        about 1 us per equation; 2 if there is something to merge.
    """
    same = _same(program, is_kept)
    if not same:
        return program
    write = Rewrite(program)
    kept: list[int] = []
    for k, _ in program.schedule:
        first = same.get(k)
        if first is None:
            kept.append(k)
            continue
        write.keep_each(kept)
        kept = []
        results = program.result_count(k) if program.ops[k][0].many else 1
        write.replace(k, [write.operand(first + j) for j in range(results)])
    write.keep_each(kept)
    return write.finish()


def _same(program: Program, is_kept: bool) -> dict[int, int]:
    """Return, by redundant operation, the equal earlier one."""
    ops, avals = program.ops, program.avals
    numbers = [exact_key(value) for value in program.literals]
    sizes = {aval: _bytes(aval) for aval in set(avals)}
    has_large = max(sizes.values(), default=0) >= LARGE and not is_kept
    places: dict[int, int] = {}  # replacements of redundant variables
    found: dict[Any, int] = {}
    same: dict[int, int] = {}
    traffic = 0  # bytes computed so far
    last: dict[int, int] = {}  # by operation, the traffic at its last use
    for k, _ in program.schedule:
        primitive, operands, params = ops[k]
        reads = tuple([places.get(i, i) if i >= 0 else numbers[~i] for i in operands])
        if has_large:
            if not primitive.view:
                traffic += sizes[avals[k]]
            for i in reads:
                if type(i) is int:
                    last[i] = traffic
            last[k] = traffic
        if (
            primitive.effects
            or primitive is name_p
            or (primitive.kept is not None and primitive.kept(*params))
        ):
            continue
        if primitive in COMMUTATIVE and avals[k].dtype.kind != "c":  # complex: rounds in order
            x, y = reads
            if type(y) is int and (type(x) is not int or y < x):  # two numbers keep their order
                reads = (y, x)
        key = (primitive, reads, params)
        first = found.setdefault(key, k)
        if first == k:
            continue
        if has_large:
            size = sizes[avals[k]]
            is_past = traffic - last[first] > (LONG_PAST + 1) * size >= (LONG_PAST + 1) * LARGE
            if is_past and isinstance(primitive, Elementwise):
                found[key] = k
                continue
            last[first] = traffic
        same[k] = first
        for j in range(program.result_count(k) if primitive.many else 1):
            places[k + j] = first + j
    return same


def _bytes(aval: ShapeDtype) -> int:
    return aval.nbytes if all(type(n) is int for n in aval.shape) else 0


def drop_names(program: Program) -> Program:
    """Remove names of values, after the last pass that uses them."""
    if name_p not in program.kinds:
        return program
    write = Rewrite(program)
    for k, _ in program.schedule:
        if program.ops[k][0] is name_p and program.ops[k][1][0] >= 0:
            write.replace(k, [write.operand(program.ops[k][1][0])])
        else:
            write.keep(k)
    return write.finish()
