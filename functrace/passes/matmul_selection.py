"""Matrix products: choose the NumPy function with the lowest overhead, and divide large products
among threads.

Small products use ``dot`` instead of ``matmul``. Measured on 4 x 4: 0.5 us, against 1.4; on 50 x 50
and a vector 0.5 and 0.9. Both call BLAS, and give the same bits for operands in C or Fortran order
without axes of size 1; for others ``dot`` copies, and ``matmul`` sums without BLAS.

A stack of matrices times one matrix is one product of a tall matrix. Measured on 1,000 x 3 x 3 and
3 x 3: 6.5 us, against 28; a transformer block (jit-attention) takes 0.92 times as long.

functrace's threads share large products (`functrace.executor.parallel.matmul`): stacks always,
since NumPy computes one matrix after the other; single matrices if other operations are
multi-threaded, too, since BLAS's own threads would compete with them.

Layer: 6.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, final

import numpy as np

from functrace.control.residuals import packs
from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import Rewrite
from functrace.ir.primitive import Primitive
from functrace.ir.program import Program
from functrace.ir.tape import Op
from functrace.ops.contraction import dot_p, matmul_in_parts_p, matmul_p
from functrace.ops.elementwise import Elementwise
from functrace.ops.shaping import reshape_p

LARGEST = 1 << 16
"""Maximum bytes of an operand of a product by ``dot``."""

LEAST = 1 << 23
"""Multiplications: below this, dispatching half of a product takes as long as computing it
(float32: 115 us on one thread).
"""

NARROWEST = 128
"""Minimum rows or columns of a part: BLAS copies the other operand for every part. With more than
two parts, the minimum is twice as large.
"""

MOST_PARTS = 16

THREADED = 1 << 18
"""Multiplications from which BLAS uses its own threads."""

BLOCKED = 1 << 18
"""Elements from which elementwise operations run block by block, on several threads
(executor/plan/fusion.py).
"""


def choose_dot(program: Program) -> Program:
    """Use ``dot`` for small products, also in sub-programs.

    Args:
        program: any program.

    Cost:
        0.1 us per equation; 2 if there are such products.
    """
    return _rewritten(program, _is_small, _by_dot)


def flatten_stacks(program: Program) -> Program:
    """Replace products of a stack of matrices and one matrix by one product, also in sub-programs.

    Args, cost: see `choose_dot`.
    """
    return _rewritten(program, _is_of_stack, _of_tall)


def divide_products(program: Program, *, always: bool = False) -> Program:
    """Divide large products into parts, also in sub-programs.

    Args:
        program: any program.
        always: also products of two matrices in a program without other work for threads, which
            BLAS could divide itself.

    Cost:
        as `choose_dot`.
    """
    return _rewritten(program, _IsDivisible(always), _in_parts)


def parts_of(rows: int, inner: int, columns: int) -> tuple[bool, int]:
    """Return True if the columns of a product are divided (False: the rows), and the number of
    parts.
    """
    longer = max(rows, columns)
    most = min(max(2, longer // (2 * NARROWEST)), MOST_PARTS, longer // NARROWEST)
    is_small = rows * inner * columns < LEAST or most < 2
    return columns > rows, 1 if is_small else 1 << most.bit_length() - 1


Applies = Callable[[Program, Op], bool]
Writes = Callable[[Program, Rewrite, int], int]


def _rewritten(program: Program, applies: Applies, put: Writes) -> Program:
    if not _has_some(program, applies) or packs(program):
        return program

    def inside(body: Program) -> Program:
        return _rewritten(body, applies, put)

    write = Rewrite(program)
    kept: list[int] = []
    for k, _ in program.schedule:
        is_product = applies(program, program.ops[k])
        if not is_product and program.ops[k][0].holds is None:
            kept.append(k)
            continue
        write.keep_each(kept)
        kept = []
        if program.ops[k][0].holds is not None:
            write.keep(k, bodies=inside)
        else:
            write.replace(k, (put(program, write, k),))
    write.keep_each(kept)
    return write.finish()


def _has_some(program: Program, applies: Applies) -> bool:
    def hold_some(param: Any) -> bool:
        parts: Any = param
        return (
            any(map(hold_some, parts))
            if type(param) is tuple
            else isinstance(param, Program) and _has_some(param, applies)
        )

    return any(
        applies(program, op) or (op[0].holds is not None and hold_some(op[2])) for op in program.ops
    )


def _by_dot(program: Program, write: Rewrite, k: int) -> int:
    return write.place(dot_p, tuple(map(write.operand, program.ops[k][1])), (), write.position(k))


def _in_parts(program: Program, write: Rewrite, k: int) -> int:
    return write.place(
        matmul_in_parts_p, tuple(map(write.operand, program.ops[k][1])), (), write.position(k)
    )


@final
class _IsDivisible:
    """Predicate: the operation is a product to divide, of two operands of the same float dtype."""

    def __init__(self, always: bool) -> None:
        self._always = always
        self._last: tuple[Program, bool] | None = None

    def __call__(self, program: Program, op: Op) -> bool:
        if op[0] is not matmul_p or any(i < 0 for i in op[1]):
            return False
        x, y = [program.avals[i] for i in op[1]]
        if min(x.ndim, y.ndim) < 2 or x.dtype != y.dtype or x.dtype.char not in "fdFD":
            return False
        if not all(type(n) is int and n > 1 for n in (*x.shape, *y.shape)):
            return False
        (rows, inner), columns = x.shape[-2:], y.shape[-1]
        if y.ndim == 2:
            rows *= math.prod(x.shape[:-2])
            if self._always:
                return parts_of(rows, inner, columns)[1] > 1
            return rows * inner * columns >= THREADED and self._divides_other_work(program)
        return (
            math.prod(np.broadcast_shapes(x.shape[:-2], y.shape[:-2])) * rows * inner * columns
            >= LEAST
        )

    def _divides_other_work(self, program: Program) -> bool:
        """Return True if functrace's threads run other operations; BLAS is then sequential."""
        if self._last is None or self._last[0] is not program:
            stacks = (
                op
                for op in program.ops
                if op[0] is matmul_p and op[1][1] >= 0 and program.avals[op[1][1]].ndim > 2
            )
            self._last = (
                program,
                _has_large_elementwise(program) or any(self(program, op) for op in stacks),
            )
        return self._last[1]


def _has_large_elementwise(program: Program) -> bool:
    return any(
        isinstance(op[0], Elementwise)
        and not op[0].view
        and type(aval.size) is int
        and aval.size >= BLOCKED
        for op, aval in zip(program.ops, program.avals, strict=True)
    )


def _of_tall(program: Program, write: Rewrite, k: int) -> int:
    x, y = program.ops[k][1]
    shape, position = program.avals[x].shape, write.position(k)

    def shaped(i: int, to: tuple[int, ...]) -> int:
        return write.place(reshape_p, (i,), (to,), position)

    tall = shaped(write.operand(x), (math.prod(shape[:-1]), shape[-1]))
    return shaped(
        write.place(matmul_p, (tall, write.operand(y)), (), position), program.avals[k].shape
    )


def _is_small(program: Program, op: Op) -> bool:
    """Return True for a product of a small matrix and a vector or a matrix, of the same float
    dtype.
    """
    if op[0] is not matmul_p or any(i < 0 for i in op[1]):
        return False
    x, y = [program.avals[i] for i in op[1]]
    return (
        {x.ndim, y.ndim} in ({2}, {1, 2})
        and x.dtype == y.dtype
        and x.dtype.char in "fdFD"
        and _fits(x)
        and _fits(y)
    )


def _fits(aval: ShapeDtype) -> bool:
    return all(type(n) is int and n > 1 for n in aval.shape) and aval.nbytes <= LARGEST


def _is_of_stack(program: Program, op: Op) -> bool:
    """Return True for a product of one matrix with a stack whose layout is C order, as far as is
    known.
    """
    if op[0] is not matmul_p or any(i < 0 for i in op[1]):
        return False
    x, y = [program.avals[i] for i in op[1]]
    maker: Primitive = program.ops[op[1][0]][0]
    return (
        x.ndim > 2
        and y.ndim == 2
        and x.dtype == y.dtype
        and x.dtype.char in "fdFD"
        and all(type(n) is int and n > 1 for n in (*x.shape, *y.shape))
        and (not maker.view or maker is reshape_p)
    )
