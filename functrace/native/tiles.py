"""Tiles: fusion groups on large arrays as machine code, block by block, on all cores.

The NumPy backend divides such a group into blocks of rows (`functrace.executor.parallel.blocks`).
Here the body of a group is lowered once for a block, and functrace's threads call that function
without Python's lock. Blocks depend on shapes alone, and so do bits: a sum over all axes adds in
NumPy's order (Note [Sums in NumPy's order] in `functrace.executor.parallel.sums`).

Layer: 7.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, final

import numpy as np

from functrace.executor.parallel.sums import added_up, summed_bounds, sums_are_in_pairs
from functrace.executor.plan.fusion import REDUCTIONS, WHOLE_AXIS, blocks_p, grouped
from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import Compiled, Rewrite
from functrace.ir.program import Program
from functrace.ir.structures import FusionGroup
from functrace.native.engine import PATIENCE, NativeFunction
from functrace.native.loop_ir import Function
from functrace.native.lowering import NoNativeForm
from functrace.native.rows import elementwise
from functrace.ops.contraction import matmul_in_parts_p
from functrace.ops.indexing import embed_p, index_p
from functrace.ops.joining import concatenate_p, stack_p
from functrace.ops.reductions import reduce_sum_p
from functrace.ops.shaping import broadcast_to_p, permute_p, reshape_p, roll_p
from functrace.passes.matmul_selection import divide_products, flatten_stacks
from functrace.threads import THREADS, Take
from functrace.typing import Array

TILE: Final = 1 << 17
"""Elements of a block, unless a row is larger: some 0.1 ms of work; a call takes 2 us."""

DEAR_ELEMENTS: Final = frozenset(elementwise.KERNELS)
"""Operations whose elements are calls of kernels."""

Lower = Callable[[Program], Function]


def in_tiles(program: Program, lower: Lower, *, is_exact: bool) -> Program | None:
    """Return an equal program whose operations on large arrays are groups, of machine code where it
    is possible.

    Args:
        program: an optimized program.
        lower: lowers the program of a block; raises `NoNativeForm`.
        is_exact: True for NumPy's bits: products are not divided, and NumPy's form runs for arguments
            in another order than C.

    Returns:
        None if the program is better compiled as a whole: there are no groups, there is one that is
        neither machine code nor one of products, or rolled arrays are most of the work.
    """
    found = grouped(program if is_exact else flatten_stacks(divide_products(program)))
    if blocks_p not in found.kinds:
        return None
    has_products = any(op[0] is blocks_p and op[2][1].has_products for op in found.ops)
    if not has_products and not is_concurrent(found) and _is_of_rolls(found):
        return None
    write = Rewrite(found)
    for k, _ in found.schedule:
        primitive, operands, params = found.ops[k]
        if primitive is not blocks_p:
            write.keep(k)
            continue
        body, group = params
        try:
            tiles = Tiles(body, group, lower, is_exact=is_exact)
        except NoNativeForm:
            if not has_products:
                return None
            write.keep(k)
            continue
        given = tuple(map(write.operand, operands))
        first = write.place(blocks_p, given, (body, replace(group, tile=tiles)), write.position(k))
        write.replace(k, range(first, first + len(body.output_ids)))
    return write.finish()


def _is_of_rolls(program: Program) -> bool:
    """Return True if more large arrays are rolled than elementary functions are computed of such.

    Loop nests of a whole program read rolled arrays in place, on one core; groups end at them. Measured
    on two cores: 10 steps of a stencil and their gradient on 1,024 x 1,024 float64 take 570 ms in
    blocks, 230 as a whole.
    """
    rolls = kernels = 0
    for k, _ in program.schedule:
        primitive, _, params = program.ops[k]
        if primitive is roll_p:
            rolls += _size(program.avals[k]) >= TILE
        elif primitive is blocks_p:
            body = params[0]
            kernels += sum(
                body.ops[j][0] in DEAR_ELEMENTS and _size(body.avals[j]) >= TILE
                for j, _ in body.schedule
            )
    return rolls > kernels


def is_concurrent(program: Program) -> bool:
    """Return True if large products run concurrently beyond groups: NumPy's plan then runs all but
    the tiles.
    """
    return matmul_in_parts_p in program.kinds


def _size(aval: ShapeDtype) -> int:
    return math.prod(aval.shape) if all(type(n) is int for n in aval.shape) else 0


@final
class Tiles:
    """The machine code of a group, for blocks of one size.

    Args:
        body: the body of the group.
        group: its tiling.
        lower: lowers the program of a block.
        is_exact: True if NumPy's form has to run for arguments in another order than C.

    Raises:
        NoNativeForm: if the group cannot be divided into blocks of one size, or has operations
            without a native form.
    """

    def __init__(self, body: Program, group: FusionGroup, lower: Lower, *, is_exact: bool) -> None:
        if not group.rows or group.has_products or body.constant_values:
            raise NoNativeForm("a group without rows, or with products")
        self._is_exact, self._count = is_exact, len(group.rows)
        self._rows = math.prod(group.rows)
        self._whole = frozenset(group.whole)
        self._made = [body.avals[i] for i in body.output_ids]
        self._given = [body.avals[i] for i in body.input_ids]
        avals = [body.avals[k] for k, _ in body.schedule if body.avals[k].shape]
        row = max([math.prod(aval.shape[self._count :]) for aval in avals], default=1)
        totals = [k for k in body.output_ids if not body.avals[k].shape]
        self._elements, self._is_complex = self._rows * row, False
        self._most = max(TILE, row)
        if totals:
            self._block = self._of_sums(body, totals, row)
        else:
            self._block = min(self._rows, max(1, TILE // row))
        self.function = lower(tile_of(body, group, self._block))
        self._results = [shape for _, shape in self.function.results]
        self._failures = 0

    def _of_sums(self, body: Program, totals: Sequence[int], row: int) -> int:
        """Return the rows of a block whose sums NumPy adds, too.

        Raises:
            NoNativeForm: if there is none.
        """
        for k in totals:
            primitive, operands, _ = body.ops[k]
            if primitive is not reduce_sum_p or _size(body.avals[operands[0]]) != self._elements:
                raise NoNativeForm("another reduction than a sum of whole rows")
            self._is_complex = body.avals[operands[0]].dtype.kind == "c"
        if len({body.avals[k].dtype.kind for k in totals}) > 1 or not sums_are_in_pairs():
            raise NoNativeForm("sums of different kinds")
        for factor in (1, 2, 4):
            most = factor * max(TILE, row)
            ends = summed_bounds(self._elements, most, self._is_complex)
            size = ends[0]
            if size % row == 0 and all(end == (n + 1) * size for n, end in enumerate(ends)):
                self._most = most
                return size // row
        raise NoNativeForm("sums that NumPy divides into parts of different sizes")

    def __call__(self, by_numpy: Compiled) -> Compiled:
        """Compile the group: a function of its operands, which runs NumPy's form where machine code
        fails.
        """
        native = NativeFunction(self.function, None)

        def run(*arguments: object) -> tuple[Any, ...]:
            found = self._run(native, arguments)
            return by_numpy(*arguments) if found is None else found

        return run

    def _run(self, native: NativeFunction, arguments: Sequence[Any]) -> tuple[Any, ...] | None:
        """Run all blocks; returns None if NumPy's form has to run."""
        if self._failures >= PATIENCE or np.geterr()["under"] != "ignore":
            return None
        given = self._pointers(arguments)
        if given is None:
            return None
        kept, places = given
        starts = [*range(0, self._rows - self._block, self._block), self._rows - self._block]
        results: list[Any] = []
        for aval, shape in zip(self._made, self._results, strict=True):
            is_total = not aval.shape
            made = np.empty(len(starts) if is_total else aval.shape, aval.dtype)
            results.append(made)
            bytes_each = made.itemsize if is_total else made.itemsize * math.prod(shape[1:])
            places.append((made.ctypes.data, bytes_each, is_total))
        statuses = [0] * len(starts)
        call, temporary = native.call_unlocked, native.temporary

        def work(take: Take) -> None:
            scratch = np.empty(temporary + 64, np.uint8)
            pointers = (ctypes.c_void_p * (len(places) + 1))()
            pointers[len(places)] = -(-scratch.ctypes.data // 64) * 64
            address = ctypes.addressof(pointers)
            while (n := take()) < len(starts):
                for j, (place, each, is_total) in enumerate(places):
                    pointers[j] = place + each * (n if is_total else starts[n])
                statuses[n] = call(address)

        THREADS.share(work, len(starts))
        del kept
        is_good = all(status == 0 or native.is_ignored(status) for status in statuses)
        for n, aval in enumerate(self._made):
            if is_good and not aval.shape:
                with np.errstate(all="ignore"):
                    results[n] = added_up(
                        list(results[n]), self._elements, self._is_complex, self._most
                    )
                is_good = bool(np.isfinite(results[n]))  # otherwise, NumPy says whether it warns
        if not is_good:
            self._failures += 1
            return None
        return tuple(results)

    def _pointers(
        self, arguments: Sequence[Any]
    ) -> tuple[list[Array], list[tuple[int, int, bool]]] | None:
        """Return the arrays, and for each its address, the bytes of a row, and False; None if their
        layout is another one.
        """
        kept: list[Array] = []
        places: list[tuple[int, int, bool]] = []
        for n, (x, aval) in enumerate(zip(arguments, self._given, strict=True)):
            array = np.asarray(x)
            if array.dtype != aval.dtype or array.shape != aval.shape or not array.dtype.isnative:
                return None
            if not (array.flags.c_contiguous and array.flags.aligned):
                if self._is_exact:
                    return None
                array = array.copy("C")
            kept.append(array)
            is_whole = n in self._whole or not aval.shape
            each = 0 if is_whole else array.itemsize * math.prod(aval.shape[self._count :])
            places.append((array.ctypes.data, each, False))
        return kept, places


def tile_of(body: Program, group: FusionGroup, size: int) -> Program:
    """Return the body of a group for a block of ``size`` rows: the axes of rows are one.

    Raises:
        NoNativeForm: if an operation is not of rows.
    """
    count = len(group.rows)
    write = Rewrite(body, ())

    def of_block(shape: Sequence[int]) -> tuple[int, ...]:
        return (size, *shape[count:])

    for n, i in enumerate(body.input_ids):
        aval = body.avals[i]
        shape = _without_ones(aval.shape) if n in group.whole else of_block(aval.shape)
        write.moved[i] = write.input(ShapeDtype(shape if aval.shape else (), aval.dtype))
    for k, _ in body.schedule:
        primitive, operands, params = body.ops[k]
        if primitive in (reshape_p, broadcast_to_p):
            params = (of_block(params[0]), *params[1:])
        elif primitive is permute_p:
            params = ((0, *[axis - count + 1 for axis in params[0][count:]]), *params[1:])
        elif primitive is index_p:
            params = ((WHOLE_AXIS, *params[0][count:]), *params[1:])
        elif primitive is embed_p:
            params = ((WHOLE_AXIS, *params[0][count:]), of_block(params[1]), *params[2:])
        elif primitive is stack_p or primitive is concatenate_p:
            params = (params[0] - count + 1, *params[1:])
        elif primitive in REDUCTIONS:
            is_total = not body.avals[k].shape
            axes = range(count, len(body.avals[operands[0]].shape)) if is_total else params[0]
            first = (0,) if is_total else ()
            params = ((*first, *[axis - count + 1 for axis in axes]), *params[1:])
        made = write.place(
            primitive, tuple(map(write.operand, operands)), params, write.position(k)
        )
        write.moved[k] = made
        wanted = of_block(body.avals[k].shape) if body.avals[k].shape else ()
        found = write.spec(made)
        if not isinstance(found, ShapeDtype) or found.shape != wanted:
            raise NoNativeForm(f"{primitive.name} in a block")
    return write.finish()


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    first = next((n for n, size in enumerate(shape) if size != 1), len(shape))
    return shape[first:]
