"""Large operations that do not need each other run side by side: products of matrices, and sums over rows.

The gradients of a layer's weights are a product of matrices and sums over all rows. Each by itself is handed over to other
threads and waited for; side by side that happens once, and the parts of all are one heap that every thread takes from.

An operation waits until somebody reads its result, or until there is so much work, or so many bytes have been kept for it,
that more would change nothing. Together they are one operation of the program, ``blocks`` without rows.

Layer: 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, final

import numpy as np

from functrace.executor.parallel.matmul import multiply, pieces_of
from functrace.executor.parallel.operations import modes_noting
from functrace.executor.parallel.threads import THREADS, Take
from functrace.executor.plan.fusion import write_group
from functrace.ir.parts import Compiled, Rewrite
from functrace.ir.program import Program
from functrace.ir.structures import Blocks
from functrace.ops.blas import one_thread
from functrace.ops.contraction import matmul_in_parts_p
from functrace.ops.reductions import reduce_sum_p
from functrace.typing import Array

if TYPE_CHECKING:
    from functrace.executor.plan.planner import Plan

ENOUGH = 1 << 28
"""Multiplications: with as many, threads have about as much to do as each other (float32: 2 ms on one thread)."""

MOST_WAITING = 32 << 20
"""Bytes of operands that are kept for operations that wait."""

LEAST_SUMMED = 1 << 16
"""Elements: smaller sums do not wait."""

BESIDE = Blocks(())


def beside(program: Program) -> Program:
    """Return an equal program in which large products, and sums over rows, stand side by side.

    Args:
        program: a program that is ready to be planned; others than those with large products stay as they are.
    """
    if matmul_in_parts_p not in program.kinds or one_thread() is None:
        return program
    write = Rewrite(program)
    waiting = _Waiting(program, write)
    for k, _ in program.schedule:
        waiting.read(program.ops[k][1])
        if not waiting.takes(k):
            write.keep(k)
    waiting.end()
    return write.finish() if waiting.changed else program


@final
class _Waiting:
    """The operations that wait."""

    def __init__(self, program: Program, write: Rewrite) -> None:
        self._program, self._write = program, write
        self._order: list[int] = []
        self._kept: set[int] = set()
        self._work = 0
        self.changed = False

    def takes(self, k: int) -> bool:
        """Let an operation wait, if it is one that may."""
        (primitive, operands, params), avals = self._program.ops[k], self._program.avals
        if not all(i >= 0 and all(type(n) is int for n in avals[i].shape) for i in operands):
            return False
        shapes = [avals[i].shape for i in operands]
        if primitive is matmul_in_parts_p:
            if any(len(shape) > 2 for shape in shapes):
                return False
            work = math.prod(shapes[0]) * shapes[1][-1]
        else:
            is_over_rows = primitive is reduce_sum_p and 0 in params[0] and len(params[0]) < len(shapes[0])
            if not is_over_rows or math.prod(shapes[0]) < LEAST_SUMMED:
                return False
            work = 0
        self._order.append(k)
        self._kept.update(operands)
        self._work += work
        if self._work >= ENOUGH or sum([avals[i].nbytes for i in self._kept]) > MOST_WAITING:
            self.end()
        return True

    def read(self, operands: tuple[int, ...]) -> None:
        """Take note of what an operation reads."""
        if not set(self._order).isdisjoint(operands):
            self.end()

    def end(self) -> None:
        """Write what waits."""
        program, write, order = self._program, self._write, self._order
        self._order, self._kept, self._work = [], set(), 0
        if len(order) < 2 or not any(program.ops[k][0] is matmul_in_parts_p for k in order):
            for k in order:
                write.keep(k)
            return
        write_group(write, order, list(dict.fromkeys([i for k in order for i in program.ops[k][1]])), order, BESIDE)
        self.changed = True


@final
class Beside:
    """Operations side by side, as a function of their operands.

    Args:
        plan: the plan of the program that holds them.
        whole: what runs where NumPy's errors are to be raised, or something is to be warned of.
    """

    def __init__(self, plan: Plan, whole: Compiled) -> None:
        self._whole = whole
        program = self._program = plan.program
        places = {i: n for n, i in enumerate(program.input_ids)}
        self._steps = [(program.ops[k], tuple([places[i] for i in program.ops[k][1]])) for k in program.output_ids]

    def __call__(self, *arguments: Array) -> tuple[Any, ...]:
        """Run."""
        noted: list[str] = []
        modes = modes_noting(lambda kind, _flag: noted.append(kind))
        if modes is None:
            return self._whole(*arguments)
        results: list[Any] = [None] * len(self._steps)
        products: list[Callable[[], object]] = []
        sums: list[Callable[[], object]] = []
        for n, ((primitive, _, params), places) in enumerate(self._steps):
            given = [arguments[place] for place in places]
            if primitive is matmul_in_parts_p:
                results[n], pieces = pieces_of(*given)
                products += [_product(*piece) for piece in pieces]
            else:
                sums.append(_sum(results, n, given[0], params[0]))
        work = [*products, *sums]  # what takes long first

        def take_part(take: Take) -> None:
            while (n := take()) < len(work):
                work[n]()

        with np.errstate(**modes), one_thread() or nullcontext():
            THREADS.share(take_part, len(work))
        return self._whole(*arguments) if noted else tuple(results)


def _product(x: Array, y: Array, out: Array) -> Callable[[], object]:
    return lambda: multiply(x, y, out)


def _sum(results: list[Any], n: int, x: Array, axes: tuple[int, ...]) -> Callable[[], object]:
    def add() -> None:
        results[n] = np.add.reduce(x, axes)

    return add
