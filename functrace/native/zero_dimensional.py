"""Results without axes: NumPy returns scalars of most functions, and arrays of some.

Machine code returns scalars. What are arrays in NumPy's run (views, and what ``np.where`` chooses)
become arrays here.

Layer: 7.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.control.cond import cond_p
from functrace.ir.parts import Compiled
from functrace.ir.primitive import RESULT
from functrace.ir.program import Program
from functrace.ops import checks, foreign, naming, solutions
from functrace.ops.elementwise import stop_gradient, where

_SAME = frozenset(
    {
        checks.require_p, solutions.required_p, solutions.undifferentiated_p,
        solutions.reverse_only_p, foreign.returned_p, naming.name_p,
    }
)  # fmt: skip
"""Primitives whose result is their first operand."""


def with_arrays(program: Program, run: Compiled) -> Compiled:
    """Return the function of a compiled program, whose results are arrays where NumPy's are.

    Args:
        program: the program.
        run: its function; may return None where NumPy's form has to run.
    """
    places = [k for k, i in enumerate(program.output_ids) if _is_array(program, i)]
    if not places:
        return run

    def call(*arguments: object) -> Any:
        results: Any = run(*arguments)
        if results is None:
            return None
        made: list[object] = list(results)
        for k in places:
            made[k] = np.asarray(made[k])
        return tuple(made)

    return call


def has_branch_results(program: Program) -> bool:
    """Return True if a result without axes is one of a branch: which one runs decides whether it is
    an array or a scalar."""
    for i in program.output_ids:
        while i >= 0 and program.ops[i][0] in _SAME:
            i = program.ops[i][1][0]
        if i >= 0 and program.avals[i].shape == ():
            while program.ops[i][0] is RESULT:
                i -= 1
            if program.ops[i][0] is cond_p:
                return True
    return False


def _is_array(program: Program, i: int) -> bool:
    """Return True if a variable without axes is an array in NumPy's run."""
    while i >= 0 and program.ops[i][0] in _SAME:
        i = program.ops[i][1][0]
    if i < 0 or program.avals[i].shape != ():
        return False
    primitive, operands, params = program.ops[i]
    if primitive in (where, stop_gradient):
        return True
    if not primitive.view or len(operands) != 1 or operands[0] < 0:
        return False
    aval = program.avals[operands[0]]
    if any(type(n) is not int for n in aval.shape):
        return False
    given = np.zeros((), aval.dtype)
    view = primitive.eval(np.broadcast_to(given, aval.shape) if aval.shape else given[()], *params)
    return isinstance(view, np.ndarray)
