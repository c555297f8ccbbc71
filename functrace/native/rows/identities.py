"""Operations whose result is an operand, and checks: a check that fails lets NumPy's form raise.

Layer: 7.
"""

from __future__ import annotations

import math

import numpy as np

from functrace.ir.primitive import Primitive
from functrace.native.loop_ir import Const
from functrace.native.lowering import TINY, Lowering, NoNativeForm, Operation, Row
from functrace.native.rows.elementwise import truth
from functrace.native.values import Value
from functrace.ops import checks, foreign, naming, reductions, solutions

BOOL = np.dtype(bool)


def _operand(place: int) -> Row:
    return lambda low, op: _plain(op, op.operands[place])


def _plain(op: Operation, x: Value) -> Value:
    if x.shape != op.shape or x.dtype != op.dtype:
        raise NoNativeForm(f"{op.primitive.name} of another dtype")
    return x


def fail_unless(low: Lowering, value: Value) -> None:
    """Fail unless all elements are true."""
    b = low.builder
    found = low.computed(value)
    if math.prod(found.shape) <= TINY:
        for atom in low.elements(found).ravel():
            b.fail(b.let("not", BOOL, truth(b, atom)), 1)
        return
    low.to_memory(found)
    all_ = b.declare(Const(True, BOOL))
    with b.loops(found.shape) as index:
        holds = truth(b, low.atom(found, index))
        b.assign(all_, b.let("and", BOOL, b.get(all_), holds))
    b.fail(b.let("not", BOOL, b.get(all_)), 1)


def _require(low: Lowering, op: Operation) -> Value:
    if len(op.operands) != 2:
        raise NoNativeForm("a check of nothing")
    fail_unless(low, op.operands[1])
    return _plain(op, op.operands[0])


ROWS: dict[Primitive, Row] = {
    checks.require_p: _require,
    solutions.required_p: _require,
    solutions.undifferentiated_p: _operand(0),
    solutions.reverse_only_p: _operand(0),
    foreign.returned_p: _operand(0),
    naming.name_p: _operand(0),
    reductions.shared_p: _operand(1),
}
"""Lowering by primitive."""
