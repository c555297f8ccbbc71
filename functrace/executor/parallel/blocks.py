"""Blocked execution of fusion groups: operations on large arrays run block by block, in cache, on
all cores.

Intermediate results are buffers of one block, and results are written to their final arrays, so a
group passes over memory once, however long it is (executor/plan/fusion.py forms the groups).
Measured on a million float32, the gradients of a quotient: 1.9 -> 0.8 ms on two cores.

Note [Blocks, bit for bit the same]
    The same ufuncs compute every element from the same operands, every row is reduced whole, and a
    sum over all axes adds in NumPy's order: results depend neither on blocks nor on threads. If
    arguments are not in C order, NumPy would choose another layout for results, and the group runs
    whole. It also runs whole if ``np.errstate`` raises floating-point errors or calls a user
    function; warnings are collected in the blocks, and issued once.

Layer: 7.
"""

from __future__ import annotations

import functools
import itertools
import math
import sys
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import FunctionType
from typing import Any, final

import numpy as np

from functrace.executor.backend import Backend
from functrace.executor.kernels import spelled_literal, spelled_sizes, spelled_target
from functrace.executor.parallel.concurrent import ConcurrentOperations
from functrace.executor.parallel.matmul import multiply
from functrace.executor.parallel.operations import modes_noting
from functrace.executor.parallel.sums import added_up, summed_bounds
from functrace.executor.plan.fusion import REDUCTIONS, VIEWS, brought
from functrace.executor.plan.planner import Plan, Step
from functrace.ir.parts import Compiled
from functrace.ir.program import Program
from functrace.ir.structures import FusionGroup
from functrace.ops.blas import one_thread
from functrace.ops.contraction import matmul_in_parts_p
from functrace.ops.elementwise import loop_dtypes
from functrace.ops.indexing import decode_index, embed_p
from functrace.ops.joining import concatenate_p, stack_p
from functrace.ops.shaping import broadcast_to_p, convert_p, permute_p, reshape_p
from functrace.threads import BLOCK, SHARED, THREADS, Take
from functrace.tracing.lines import GENERATED, CurrentOperation, warn_at
from functrace.typing import Array

SMALLEST_BUFFER = 16
"""Size of NumPy's own ufunc buffers while blocks run, in elements.

NumPy copies an operand that is broadcast along rows into such a buffer, if the buffer holds more
than a row. Measured on 64 rows of 1,024 float32: times a column 21 us, with small buffers 7.5, like
any other product.
"""

USUAL_WIDTH = 4
"""Item size, in bytes, for which block sizes are given; wider items give proportionally smaller
blocks.
"""

MOST_SCRATCH = 16 << 20
"""Maximum size, in bytes, of buffers that stay allocated between runs."""


def in_blocks(step: Step, whole: Backend) -> Compiled:
    """Compile a fusion group to a function from its operands to its results, which are fresh
    arrays.

    Args:
        step: the group.
        whole: compiles the version without blocks.
    """
    (plan,) = step.bodies
    blocks = step.structure
    assert isinstance(blocks, FusionGroup)
    run = whole.compile(plan)
    if not blocks.rows:
        return ConcurrentOperations(plan, run)
    tiles = _TileFunction(plan, _TileFunctionSource(plan, blocks), blocks.rows, step.onto, run)
    return tiles if blocks.tile is None else blocks.tile(tiles)


@final
class _TileFunctionSource:
    """Source code of a group: a function that computes one block after the other.

    Args:
        plan: the plan of the group's body.
        blocks: its tiling.
    """

    def __init__(self, plan: Plan, blocks: FusionGroup) -> None:
        program = self.program = plan.program
        self.count, self.whole = len(blocks.rows), frozenset(blocks.whole)
        self.has_products = blocks.has_products
        self.bound: dict[str, Any] = {}
        self.buffers: list[tuple[int, np.dtype[Any], tuple[int, ...]]] = []
        """By buffer: its slot, its dtype, and the shape of a row."""
        self.slots: list[int] = []
        """By slot: its bytes per row."""
        self.totals = [k for k in program.output_ids if not program.avals[k].shape]
        self.contiguous = {i for k in self.totals for i in program.ops[k][1]}
        """Variables that a sum over all axes reads."""
        self.row = max(
            [self._row_size(step.first) for step in plan.steps if step.first not in self.totals],
            default=1,
        )
        self.width = max(
            [program.avals[step.first].dtype.itemsize for step in plan.steps], default=4
        )
        """Largest item size, in bytes."""
        self.operations: dict[int, CurrentOperation] = {}
        self.converts = any(not _is_taken_as_it_is(program, step.first) for step in plan.steps)
        """True if an operation makes NumPy convert operands, which uses NumPy's buffers."""
        self._names = {i: f"x{n}" for n, i in enumerate(program.input_ids)}
        self._roots: dict[int, int] = {}
        self._places: dict[int, int] = {}
        self._free: list[int] = []
        self.source = self._write(plan, blocks)

    def tail(self, i: int) -> tuple[int, ...]:
        """Return the shape of a row of a variable."""
        return self.program.avals[i].shape[self.count :]

    def _row_size(self, i: int) -> int:
        return math.prod(self.tail(i))

    def _write(self, plan: Plan, blocks: FusionGroup) -> str:
        program = self.program
        steps = list(plan.steps)
        last: dict[int, int] = {}
        for n, step in enumerate(steps):
            primitive, operands, _ = program.ops[step.first]
            if primitive in VIEWS:
                self._roots[step.first] = self._roots.get(operands[0], operands[0])
            for i in operands:
                last[self._roots.get(i, i)] = n
        made = {k: f"out{n}" for n, k in enumerate(program.output_ids)}
        body: list[list[str]] = []
        left = set(brought(program, blocks))
        for n, step in enumerate(steps):
            here = [i for i in program.ops[step.first][1] if i in left]
            body.append([line for i in dict.fromkeys(here) for line in self._bring(i)])
            left.difference_update(here)
            dying = {
                self._roots.get(i, i)
                for i in program.ops[step.first][1]
                if last[self._roots.get(i, i)] == n
            }
            body[-1] += self._operation(step.first, made, dying)
        inputs = range(len(program.input_ids))
        outputs = range(len(program.output_ids))
        lines = ["def run(take, starts, views, given, made):"]
        lines += [f"    g{n} = given[{n}]" for n in inputs] + [
            f"    m{n} = made[{n}]" for n in outputs
        ]
        lines += [f"    x{n} = g{n}" for n in inputs if n in self.whole]
        lines += [
            "    size = -1",
            "    while True:",
            "        n = take()",
            "        if n + 1 >= len(starts):",
        ]
        lines += ["            return", "        first, last = starts[n], starts[n + 1]"]
        if self.buffers:
            names = ", ".join([f"b{n}" for n in range(len(self.buffers))])
            lines += ["        if last - first != size:", "            size = last - first"]
            lines += [f"            {names}, = views(size)"]
        else:
            lines += ["        size = last - first"]
        lines += [f"        x{n} = g{n}[first:last]" for n in inputs if n not in self.whole]
        lines += [
            f"        out{n} = m{n}[first:last]"
            for n in outputs
            if program.output_ids[n] not in self.totals
        ]
        for step, statements in zip(steps, body, strict=True):
            k = step.first
            position = program.positions[k] if k < len(program.positions) else None
            for statement in statements:
                self.operations[len(lines) + 1] = CurrentOperation(program.ops[k][0], position)
                lines.append(f"        {statement}")
        return "\n".join(lines) + "\n"

    def _bring(self, i: int) -> list[str]:
        """Copy an input into a buffer."""
        name = self._names[i]
        return [f"{self._target(i, {})}[...] = {name}"]

    def _operation(self, k: int, made: dict[int, str], dying: set[int]) -> list[str]:
        """Write one operation; ``dying`` are the owners of memory whose last use it is."""
        program, names = self.program, self._names
        primitive, operands, params = program.ops[k]
        arguments = [
            names[i] if i >= 0 else spelled_literal(program, i, k, self._bind) for i in operands
        ]
        if primitive is reshape_p:
            names[k] = f"v{k}"
            return [f"v{k} = {self._full(operands[0])}.reshape({self._shape(k)})"]
        if primitive is broadcast_to_p:  # its readers broadcast
            names[k] = arguments[0]
            return []
        if primitive in VIEWS:
            names[k] = f"v{k}"
            if primitive is permute_p:
                return [f"v{k} = {self._full(operands[0])}.transpose({self._axes(params[0])})"]
            return [f"v{k} = {self._full(operands[0])}[{self._index(params[0])}]"]
        if primitive is embed_p:
            target = self._target(k, made)
            self._end(dying)
            return [
                f"{target}[...] = 0",
                f"{target}[{self._index(params[0])}] = {self._full(operands[0])}",
            ]
        if primitive is stack_p or primitive is concatenate_p:
            target = self._target(k, made)
            self._end(dying)
            return [f"{target}[{place}] = {self._full(i)}" for place, i in self._parts(k)]
        if primitive is matmul_in_parts_p:
            target = self._target(k, made)
            self._end(dying)
            return [
                (
                    f"{self._bind(multiply)}({self._full(operands[0])}, {self._full(operands[1])}, "
                    f"{target})"
                )
            ]
        if primitive in REDUCTIONS:
            reduce = f"{self._bind(REDUCTIONS[primitive].reduce)}({self._full(operands[0])}"
            if k in self.totals:
                names[k] = made[k]
                self._end(dying)
                return [f"m{made[k][3:]}[n] = {reduce}, None)"]
            axes = spelled_sizes(tuple([axis - self.count + 1 for axis in params[0]]))
            target = self._target(k, made)
            self._end(dying)
            return [f"{reduce}, {axes}, None, {target})"]
        self._end(dying)
        target = self._target(k, made)
        if primitive.is_ufunc:
            return [
                f"{self._bind(primitive.eval)}({', '.join((*arguments, spelled_target(primitive, target)))})"
            ]
        if primitive is convert_p:
            return [f"{target}[...] = {arguments[0]}"]
        return [f"{target}[...] = {self._bind(primitive.eval)}({', '.join(arguments)})"]

    def _end(self, dying: set[int]) -> None:
        """Release the buffers of dead variables."""
        self._free += [self._places.pop(i) for i in dying if i in self._places]

    def _target(self, k: int, made: dict[int, str]) -> str:
        """Return the target of a result: an output, or a buffer."""
        if k in made:
            self._names[k] = made[k]
            return made[k]
        aval = self.program.avals[k]
        nbytes = self._row_size(k) * aval.dtype.itemsize
        slot = next((s for s in reversed(self._free) if self.slots[s] == nbytes), None)  # in cache
        if slot is None:
            slot = len(self.slots)
            self.slots.append(nbytes)
        else:
            self._free.remove(slot)
        self._places[k] = slot
        buffer = (slot, aval.dtype, self.tail(k))
        if buffer not in self.buffers:
            self.buffers.append(buffer)
        self._names[k] = f"b{self.buffers.index(buffer)}"
        return self._names[k]

    def _full(self, i: int) -> str:
        """Return an operand in its full shape."""
        if self.program.ops[i][0] is not broadcast_to_p:
            return self._names[i]
        return f"{self._bind(np.broadcast_to)}({self._names[i]}, ({self._shape(i)}))"

    def _axes(self, axes: Sequence[int]) -> str:
        """Return the axes of an array in a block, where all row axes are one."""
        return spelled_sizes((0, *[axis - self.count + 1 for axis in axes[self.count :]]))

    def _index(self, index: tuple[Any, ...]) -> str:
        return self._bind((slice(None), *decode_index(index)[self.count :]))

    def _parts(self, k: int) -> Iterator[tuple[str, int]]:
        """Yield the index and the operand of each part of a concatenation or stack."""
        primitive, operands, params = self.program.ops[k]
        axis: int = params[0]
        before = ":, " * (axis - self.count + 1)
        start = 0
        for i in operands:
            stop: int = start + (1 if primitive is stack_p else self.program.avals[i].shape[axis])
            yield before + (str(start) if primitive is stack_p else f"{start}:{stop}"), i
            start = stop

    def _shape(self, k: int) -> str:
        return f"size, {spelled_sizes(self.tail(k))[1:-1]}"

    def _bind(self, value: object) -> str:
        name = f"k{len(self.bound)}"
        self.bound[name] = value
        return name


_kept = threading.local()
"""Memory for buffers by thread, as attribute ``scratch``."""


@final
class _TileFunction:
    """A compiled group, as a function of its operands."""

    def __init__(
        self,
        plan: Plan,
        written: _TileFunctionSource,
        rows: Sequence[int],
        onto: Sequence[int | None],
        whole: Compiled,
    ) -> None:
        program = plan.program
        self._whole, self._written = whole, written
        self._onto = (*onto, *[None] * (len(program.output_ids) - len(onto)))
        filename = f"<blocks of {program.name}>"
        exec(compile(written.source, filename, "exec"), written.bound)
        self._run: FunctionType = written.bound["run"]
        written.bound[GENERATED] = {filename: written.operations}
        self._made = [program.avals[i] for i in program.output_ids]
        self._contiguous = [i in written.contiguous for i in program.input_ids]
        self._tails = [written.tail(i) for i in program.input_ids]
        self._count = math.prod(rows)
        self._is_complex = any(program.avals[k].dtype.kind == "c" for k in written.totals)
        self._starts: dict[int, list[int] | None] = {}

    def _divided(self, block: int) -> list[int] | None:
        """Return the bounds of the blocks; None if NumPy's summation order would divide rows."""
        if block not in self._starts:
            row = self._written.row
            if self._written.totals:
                ends = summed_bounds(self._count * row, max(block, row), self._is_complex)
                self._starts[block] = (
                    None if any(end % row for end in ends) else [0, *[end // row for end in ends]]
                )
            else:
                self._starts[block] = [*range(0, self._count, max(1, block // row)), self._count]
        return self._starts[block]

    def __call__(self, *arguments: Array) -> tuple[Any, ...]:
        """Run the group."""
        has_products = self._written.has_products
        block = (
            SHARED * BLOCK if has_products else THREADS.block_of(self._count * self._written.row)
        )
        block = max(1, block * USUAL_WIDTH // max(USUAL_WIDTH, self._written.width))
        starts, given = self._divided(block), self._given(arguments)
        noted = set[tuple[int, str]]()
        modes = self._modes(noted)
        if starts is None or given is None or modes is None:
            return self._whole(*arguments)
        parts, count = len(starts) - 1, self._written.count
        results: list[Any] = []
        rows: list[Any] = []
        for aval, place in zip(self._made, self._onto, strict=True):
            found = None if place is None else arguments[place]
            if found is None or not found.flags.carray:
                found = np.empty(aval.shape, aval.dtype) if aval.shape else [None] * parts
            results.append(found)
            rows.append(
                results[-1].reshape(self._count, *aval.shape[count:]) if aval.shape else results[-1]
            )
        most = max([stop - start for start, stop in itertools.pairwise(starts)])

        def work(take: Take) -> None:
            scratch = self._scratch(most)
            self._run(take, starts, functools.partial(self._views, scratch, most), given, rows)
            if scratch.nbytes <= MOST_SCRATCH:
                _kept.scratch = scratch

        limit = (one_thread() if has_products else None) or nullcontext()
        with (
            np.errstate(**modes),
            _buffers_of(np.getbufsize() if self._written.converts else SMALLEST_BUFFER),
            limit,
        ):
            THREADS.share(work, parts)
            row = self._written.row
            for n, aval in enumerate(self._made):
                if not aval.shape:
                    results[n] = added_up(
                        results[n], self._count * row, self._is_complex, max(block, row)
                    )
        for line, kind in sorted(noted):
            warn_at(kind, self._written.operations[line])
        return tuple(results)

    def _given(self, arguments: Sequence[Any]) -> list[Any] | None:
        """Return the arguments by rows, or whole; None if their layout does not allow blocks."""
        given: list[Any] = []
        is_divided = False
        whole = self._written.whole
        for n, x in enumerate(arguments):
            if n in whole:
                given.append(
                    _without_ones(x) if type(x) is np.ndarray and x.shape[:1] == (1,) else x
                )
            elif x.flags.c_contiguous and x.flags.aligned:
                given.append(x.reshape(self._count, *self._tails[n]))
                is_divided = True
            elif any(x.strides) or self._contiguous[n]:
                return None
            else:  # one number, broadcast
                given.append(np.broadcast_to(x[(0,) * x.ndim], (self._count, *self._tails[n])))
        return given if is_divided else None

    def _modes(self, noted: set[tuple[int, str]]) -> dict[str, Any] | None:
        """Return arguments of ``np.errstate`` that collect warnings; None if errors have any other
        effect.
        """
        code, lines = self._run.__code__, self._written.operations
        last = max(lines)

        def note(kind: str, _flag: int) -> None:
            frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # documented for CPython
            while frame is not None and frame.f_code is not code:
                frame = frame.f_back
            noted.add((last if frame is None else frame.f_lineno, kind))  # else: partial sums

        return modes_noting(note)

    def _scratch(self, most: int) -> Array:
        """Return memory for the buffers of one thread; reuses that of the last run if it is large
        enough.
        """
        nbytes = sum([_rounded(slot * most) for slot in self._written.slots])
        found: Array | None = getattr(_kept, "scratch", None)
        _kept.scratch = None  # a nested run, by the collector or a signal, allocates its own
        return found if found is not None and found.nbytes >= nbytes else _aligned(nbytes)

    def _views(self, scratch: Array, most: int, size: int) -> Iterator[Array]:
        """Yield the buffers for a block of ``size`` rows."""
        offsets = [
            0,
            *itertools.accumulate([_rounded(slot * most) for slot in self._written.slots]),
        ]
        for slot, dtype, tail in self._written.buffers:
            nbytes = self._written.slots[slot] * size
            yield scratch[offsets[slot] : offsets[slot] + nbytes].view(dtype).reshape(size, *tail)


@contextmanager
def _buffers_of(size: int) -> Generator[None]:
    before = np.setbufsize(size)
    try:
        yield
    finally:
        np.setbufsize(before)


def _is_taken_as_it_is(program: Program, k: int) -> bool:
    """Return True if an operation's ufunc has a loop for the dtypes of its arrays, so that nothing
    is converted.
    """
    primitive, operands, _ = program.ops[k]
    ufunc: Any = primitive.eval
    if not isinstance(ufunc, np.ufunc):
        return True
    specs = [program.avals[i] if i >= 0 else type(program.literals[~i]) for i in operands]
    found = loop_dtypes(ufunc, specs)
    return all(
        program.avals[i].dtype == dtype for i, dtype in zip(operands, found, strict=False) if i >= 0
    )


def _aligned(nbytes: int) -> Array:
    """Allocate memory aligned to a cache line: otherwise half of all vector loads and stores cross
    two lines.

    Measured on 65,536 float32 in cache, times themselves: 12.2 us at NumPy's own alignment, 5.7 at
    a line's.
    """
    memory = np.empty(nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + nbytes]


def _rounded(nbytes: int) -> int:
    return -(-nbytes // 64) * 64


def _without_ones(x: Array) -> Array:
    return x.reshape(x.shape[next((k for k, n in enumerate(x.shape) if n != 1), x.ndim) :])
