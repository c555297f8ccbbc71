"""Small products: of vectors and small matrices, by NumPy's ``dot`` instead of ``matmul``, which takes longer to begin.

Measured on 4 x 4: 0.5 us, against 1.4; on 50 x 50 and a vector 0.5 and 0.9. Both hand over to BLAS, and give the same bits
for operands in C or Fortran order without axes of size 1; others ``dot`` copies, and ``matmul`` sums by itself.

Floor: 5.
"""

from __future__ import annotations

from typing import Any

from functrace.control.residuals import packs
from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import Rewrite
from functrace.ir.program import Program
from functrace.ir.tape import Op
from functrace.ops.contraction import dot_p, matmul_p

LARGEST = 1 << 16
"""Bytes of an operand: larger products take long enough."""


def choose_dot(program: Program) -> Program:
    """Return an equal program, at any depth, whose small products are by ``dot``.

    Args:
        program: any program.

    Cost:
        0.1 us per equation; 2 where there are such products.
    """
    if not _has_some(program) or packs(program):
        return program
    write = Rewrite(program)
    for k, _ in program.schedule:
        primitive, operands, params = program.ops[k]
        if primitive.holds is None and not _is_small(program, program.ops[k]):
            write.keep(k)
            continue
        made = dot_p if primitive.holds is None else primitive
        first = write.place(made, tuple(map(write.operand, operands)), tuple(map(_inside, params)), write.position(k))
        write.replace(k, range(first, first + (program.result_count(k) if primitive.many else 1)))
    return write.finish()


def _inside(param: Any) -> Any:
    parts: Any = param
    if type(param) is tuple:
        return tuple(map(_inside, parts))
    return choose_dot(param).interned() if isinstance(param, Program) else param


def _has_some(program: Program) -> bool:
    return any(_is_small(program, op) or (op[0].holds is not None and _hold_some(op[2])) for op in program.ops)


def _hold_some(param: Any) -> bool:
    parts: Any = param
    return any(map(_hold_some, parts)) if type(param) is tuple else isinstance(param, Program) and _has_some(param)


def _is_small(program: Program, op: Op) -> bool:
    """Whether an operation is a product of a small matrix and a vector or a matrix, of the same floats."""
    if op[0] is not matmul_p or any(i < 0 for i in op[1]):
        return False
    x, y = [program.avals[i] for i in op[1]]
    return {x.ndim, y.ndim} in ({2}, {1, 2}) and x.dtype == y.dtype and x.dtype.char in "fdFD" and _fits(x) and _fits(y)


def _fits(aval: ShapeDtype) -> bool:
    return all(type(n) is int and n > 1 for n in aval.shape) and aval.nbytes <= LARGEST
