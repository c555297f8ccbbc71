"""Horizontal fusion: independent large operations (matrix products, and sums over rows) run
concurrently.

The gradients of a layer's weights are a matrix product and sums over all rows. Separately, each one
would be distributed to the threads and joined; concurrently, that happens once, and all threads
take parts of all operations from one queue. An operation is delayed until its first reader, or
until the delayed operations have enough work or hold too many bytes of operands. Together they
become one operation of the program, ``blocks`` without rows.

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
from functrace.executor.plan.fusion import write_group
from functrace.ir.parts import Compiled, Rewrite
from functrace.ir.program import Program
from functrace.ir.structures import FusionGroup
from functrace.ops.blas import one_thread
from functrace.ops.contraction import matmul_in_parts_p
from functrace.ops.reductions import reduce_sum_p
from functrace.threads import THREADS, Take
from functrace.typing import Array

if TYPE_CHECKING:
    from functrace.executor.plan.planner import Plan

ENOUGH = 1 << 28
"""Multiplications after which more delayed work does not balance threads better (float32: 2 ms on
one thread).
"""

MOST_WAITING = 32 << 20
"""Maximum bytes of operands that delayed operations may hold."""

LEAST_SUMMED = 1 << 16
"""Minimum elements of a sum that is delayed."""

CONCURRENT = FusionGroup(())


def group_concurrent(program: Program) -> Program:
    """Fuse independent large products and sums over rows into groups that run concurrently; returns
    an equal program.

    Args:
        program: a program that is ready to be planned; it is unchanged without large products.
    """
    if matmul_in_parts_p not in program.kinds or one_thread() is None:
        return program
    write = Rewrite(program)
    waiting = _DelayedOperations(program, write)
    for k, _ in program.schedule:
        waiting.read(program.ops[k][1])
        if not waiting.takes(k):
            write.keep(k)
    waiting.end()
    return write.finish() if waiting.changed else program


@final
class _DelayedOperations:
    """The delayed operations."""

    def __init__(self, program: Program, write: Rewrite) -> None:
        self._program, self._write = program, write
        self._order: list[int] = []
        self._kept: set[int] = set()
        self._work = 0
        self.changed = False

    def takes(self, k: int) -> bool:
        """Delay an operation, if possible; returns True if it is delayed."""
        (primitive, operands, params), avals = self._program.ops[k], self._program.avals
        if not all(i >= 0 and all(type(n) is int for n in avals[i].shape) for i in operands):
            return False
        shapes = [avals[i].shape for i in operands]
        if primitive is matmul_in_parts_p:
            if any(len(shape) > 2 for shape in shapes):
                return False
            work = math.prod(shapes[0]) * shapes[1][-1]
        else:
            is_over_rows = (
                primitive is reduce_sum_p and 0 in params[0] and len(params[0]) < len(shapes[0])
            )
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
        """Write the delayed operations before an operation that reads one of them."""
        if not set(self._order).isdisjoint(operands):
            self.end()

    def end(self) -> None:
        """Write the delayed operations."""
        program, write, order = self._program, self._write, self._order
        self._order, self._kept, self._work = [], set(), 0
        if len(order) < 2 or not any(program.ops[k][0] is matmul_in_parts_p for k in order):
            for k in order:
                write.keep(k)
            return
        write_group(
            write,
            order,
            list(dict.fromkeys([i for k in order for i in program.ops[k][1]])),
            order,
            CONCURRENT,
        )
        self.changed = True


@final
class ConcurrentOperations:
    """Concurrent operations, as a function of their operands.

    Args:
        plan: the plan of the program that contains them.
        whole: sequential version, for floating-point errors that raise or warn.
    """

    def __init__(self, plan: Plan, whole: Compiled) -> None:
        self._whole = whole
        program = self._program = plan.program
        places = {i: n for n, i in enumerate(program.input_ids)}
        self._steps = [
            (program.ops[k], tuple([places[i] for i in program.ops[k][1]]))
            for k in program.output_ids
        ]

    def __call__(self, *arguments: Array) -> tuple[Any, ...]:
        """Run the operations."""
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
        work = [*products, *sums]  # longest first

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
