"""Conditions that values have to meet: where one fails, the function returns a status.

Layer: 7.
"""

from __future__ import annotations

import math

import numpy as np

from functrace.ir.primitive import Primitive
from functrace.native.lowering import TINY, Lowering, Operation, Row
from functrace.native.values import Value
from functrace.ops.checks import require_p

_BOOL = np.dtype(bool)
FAILED = 1
"""Status of a function in which a condition does not hold."""


def _require(low: Lowering, op: Operation) -> Value:
    x, holds = op.operands
    let, shape = low.builder.let, holds.shape
    if math.prod(shape) <= TINY:
        for atom in low.elements(holds).ravel():
            low.builder.fail(let("not", _BOOL, atom), FAILED)
        return x
    found = low.computed(holds)
    low.to_memory(found)
    with low.builder.loops(shape) as index:
        low.builder.fail(let("not", _BOOL, low.atom(found, index)), FAILED)
    return x


ROWS: dict[Primitive, Row] = {require_p: _require}
"""Lowering by primitive."""
