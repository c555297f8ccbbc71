"""Fusion groups: operations on large arrays that run together, block by block
(executor/parallel/blocks.py).

A group consists of elementwise operations, reductions of rows, and views. Its arrays share their
leading axes, the *rows*; each block (tile) takes some of the rows. If no operation reduces or
broadcasts along an axis, all axes are rows, and a row is one number. A sum over all axes may end a
group. A group may also contain large products, of stacks or of rows and one matrix, with views that
permute or slice rows (docs/decisions/0036). A group is one operation of the program, ``blocks``,
with the operations as its body; data flow and results do not change.

Note [What joins a group]
    Operations join in program order. An operation that neither reads the group nor joins it runs
    before the group; one that reads the group without joining runs after it. Once an operation runs
    after the group, only operations that read the group's results still join, and after a few of
    them none: their results would stay alive too long.

Layer: 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import numpy as np

from functrace.control.call import call_p, check_operands, evaluate_fresh, run_once
from functrace.control.residuals import SAVE
from functrace.executor.parallel.sums import SUMMED, summed_bounds, sums_are_in_pairs
from functrace.executor.plan.order import in_least_cache
from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import Assembly, Rewrite, output_avals
from functrace.ir.primitive import (
    AccumulatingTranspose,
    Primitive,
    ReplacingJvp,
    RuleArgument,
    SubPrograms,
)
from functrace.ir.program import Program
from functrace.ir.structures import FusionGroup, Lowering
from functrace.ir.tape import Spec
from functrace.ops.blas import one_thread
from functrace.ops.contraction import matmul_in_parts_p
from functrace.ops.elementwise import (
    Elementwise,
    add,
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    maximum,
    minimum,
    mul,
    neg,
    not_equal,
    square,
    sub,
    where,
)
from functrace.ops.indexing import embed_p, index_p
from functrace.ops.joining import concatenate_p, stack_p
from functrace.ops.reductions import (
    reduce_all_p,
    reduce_any_p,
    reduce_max_p,
    reduce_min_p,
    reduce_prod_p,
    reduce_sum_p,
)
from functrace.ops.shaping import Shape, broadcast_to_p, convert_p, permute_p, reshape_p
from functrace.passes.algebraic_simplify import simplify
from functrace.passes.cse import merge_common_subexpressions
from functrace.passes.sign_elimination import eliminate_signs
from functrace.passes.sink import sink_operations
from functrace.threads import THREADS

REDUCTIONS: dict[Primitive, np.ufunc] = {
    reduce_sum_p: np.add,
    reduce_prod_p: np.multiply,
    reduce_max_p: np.maximum,
    reduce_min_p: np.minimum,
    reduce_any_p: np.logical_or,
    reduce_all_p: np.logical_and,
}
"""Reductions that may join a group, and their ufuncs."""

WINDOW = 256
"""Number of operations after the first one that a group considers."""

LATER = 6
"""Maximum number of operations outside a group that depend on it, before the group is closed."""

LATER_OF_PRODUCTS = 64
"""Likewise for a group with products, whose weight gradients need all of its rows."""

LARGEST_ROW = 8
"""Maximum size of a row in a group with products, in blocks."""

WHOLE_AXIS = (None, None, None)
"""An index entry that selects a whole axis."""

VIEWS: frozenset[Primitive] = frozenset({reshape_p, broadcast_to_p, permute_p, index_p})
"""View operations that may join a group."""

FEWEST_BLOCKS = 4
"""Minimum number of blocks of a group; smaller arrays are computed whole."""


LEAST_WORK = 192
"""Minimum work per element of a block, in bytes that additions would write; below it, dispatch to
threads costs more than it saves.

Time with blocks as a multiple of the time without, measured with two threads on 400,000 float32:
three additions or products 1.9, ``tanh(x) * exp(-x * x)`` 1.1; on a million 1.08 and 0.64, on four
millions 0.8 and 0.5.
"""


def _aval(*specs: *tuple[*tuple[Spec, ...], Program, FusionGroup]) -> Any:
    *operands, program, _ = specs
    check_operands("blocks", program, operands)
    return output_avals(program)


def _lowers(_specs: object, program: Program, blocks: FusionGroup) -> Lowering:
    return Lowering((program,), blocks, fresh=True)


def _called(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Adapt a rule of ``call`` to the params of ``blocks``."""

    def of_call(*rest: object) -> Any:
        return rule(*rest[:-1], SAVE)

    return of_call


def _itself(program: Program, _: FusionGroup) -> Program:
    return program


_CALL: Any = call_p  # its rules have union types


def _eval(*rest: RuleArgument) -> Any:
    return evaluate_fresh(rest[-2], rest[:-2])


blocks_p = Primitive(
    "blocks",
    eval=_eval,
    aval=_aval,
    jvp=ReplacingJvp(jvp=_called(_CALL.jvp.jvp), linearize=_called(_CALL.jvp.linearize)),
    transpose=AccumulatingTranspose(_called(_CALL.transpose.rule)),
    batch=_called(_CALL.batch),
    params=("program", "blocks"),
    many=True,
    fresh=lambda _: True,
    written=call_p.written,
    holds=SubPrograms(run_once, called_program=_itself, lowers=_lowers),
    mapped=_called(_CALL.mapped),
)
"""``blocks x y {program={…}}``: a fusion group. Only planning creates it, so transforms never see
it.
"""


def grouped(program: Program) -> Program:
    """Fuse operations on large arrays into groups; returns an equal program.

    Args:
        program: an optimized program.

    Cost:
        0.2 us per equation if no array is large; else about 5.
    """
    has_products = matmul_in_parts_p in program.kinds and one_thread() is not None
    least = THREADS.block * (1 if has_products else FEWEST_BLOCKS)
    if not any(is_large(aval, least) for aval in set(program.avals)):
        return program
    outputs = set(program.output_ids)
    readers: dict[int, list[int]] = {}
    for k, _ in program.schedule:
        for i in program.ops[k][1]:
            readers.setdefault(i, []).append(k)
    write = Rewrite(program)
    left = [k for k, _ in reversed(program.schedule)]  # a stack: the next operation is last
    changed = False
    while left:
        k = left.pop()
        group = _GroupBuilder.begun(program, k, least)
        before, after = (
            _gathered(group, left[: -WINDOW - 1 : -1]) if group is not None else ([], [])
        )
        made = None if group is None else group.made(readers, outputs)
        if group is None or made is None:
            write.keep(k)
            continue
        for k in before:
            write.keep(k)
        del left[len(left) - len(before) - len(after) - len(group.order) - len(group.refused) + 1 :]
        left += sorted([*made.write(write), *after, *group.refused], reverse=True)
        for k in made.later:
            readers[k] = [j for j in readers[k] if j not in made.order]
            left.insert(max(map(left.index, readers[k])) + 1, k)
        changed = True
    return write.finish() if changed else program


def is_large(aval: ShapeDtype, least: int) -> bool:
    """Return True if an array is large enough for blocks; False if a size is unknown."""
    return all(type(n) is int for n in aval.shape) and math.prod(aval.shape) >= least


def _gathered(group: _GroupBuilder, others: Sequence[int]) -> tuple[list[int], list[int]]:
    """Add operations to a group; returns those that run before it, and those that run after it."""
    program = group.program
    before: list[int] = []
    after: list[int] = []
    behind: set[int] = set()
    for k in others:
        primitive, operands, params = program.ops[k]
        is_kept = primitive.effects or (primitive.kept is not None and primitive.kept(*params))
        if len(after) > (LATER_OF_PRODUCTS if group.has_products else LATER) or is_kept:
            break
        results = range(k, k + (program.result_count(k) if primitive.many else 1))
        reads = not group.members.isdisjoint(operands)
        is_behind = not behind.isdisjoint(operands) or not group.totals.isdisjoint(operands)
        is_new = not primitive.view and any(
            is_large(program.avals[j], group.least) for j in results
        )
        if after and not reads and is_new:
            is_behind = True
        if not is_behind and group.joins(k):
            continue
        if is_behind or reads:
            after.append(k)
            behind.update(results)
        else:
            before.append(k)
    return before, after


@final
@dataclass
class _GroupBuilder:
    """A group under construction: ``count`` leading axes of ``shape`` are rows; ``least`` is the
    size of a large array.
    """

    program: Program
    shape: Shape
    count: int
    least: int
    order: list[int] = field(default_factory=list[int])
    members: set[int] = field(default_factory=set[int])
    totals: set[int] = field(default_factory=set[int])
    refused: list[int] = field(default_factory=list[int])
    strided: set[int] = field(default_factory=set[int])
    """Members with a permuted layout. Elementwise results would inherit it, so elementwise readers
    do not join.
    """
    has_products: bool = False

    @classmethod
    def begun(cls, program: Program, k: int, least: int) -> _GroupBuilder | None:
        """Start a group with an operation; returns ``None`` if it cannot be in a group."""
        primitive, operands, _ = program.ops[k]
        if primitive in REDUCTIONS:
            aval = program.avals[operands[0]] if operands[0] >= 0 else None
        else:
            aval = (
                program.avals[k]
                if is_pointwise(program, k) or primitive is matmul_in_parts_p
                else None
            )
        if aval is None or not is_large(aval, 1 if primitive is matmul_in_parts_p else least):
            return None
        group = cls(program, aval.shape, len(aval.shape), least)
        return group if group.joins(k) else None

    def joins(self, k: int) -> bool:
        """Add an operation if it fits; returns True if it was added."""
        primitive, operands, params = self.program.ops[k]
        if primitive in REDUCTIONS:
            axes = params[0]
            if len(axes) == len(self.shape):
                return self._takes_total(k)
            count = self._reducing(operands[0], axes)
        elif primitive is reshape_p:
            count = self._reshaping(operands[0], k)
        elif primitive is matmul_in_parts_p:
            count = self._multiplying(operands, k)
        elif primitive in (permute_p, index_p, embed_p):
            count = self._showing(operands[0], k)
        elif primitive is stack_p or primitive is concatenate_p:
            count = self._joining(operands, k)
        elif primitive is broadcast_to_p:
            count = self._pointwise(operands, k) if operands[0] >= 0 else 0
        elif is_pointwise(self.program, k):
            count = self._pointwise(operands, k)
        else:
            return False
        if primitive in REDUCTIONS or is_pointwise(self.program, k):
            count = 0 if not self.strided.isdisjoint(operands) else count
        has_products = self.has_products or primitive is matmul_in_parts_p
        if not self._is_divided(count, has_products):
            return False
        self.count, self.has_products = count, has_products
        self.order.append(k)
        self.members.add(k)
        if primitive in (permute_p, index_p) or (
            primitive is reshape_p and operands[0] in self.strided
        ):
            self.strided.add(k)
        return True

    @property
    def _most(self) -> int:
        """Maximum number of elements of a row."""
        return THREADS.block * (LARGEST_ROW if self.has_products else 1)

    def _is_divided(self, count: int, has_products: bool) -> bool:
        """Return True if ``count`` row axes give enough rows, and rows that are small enough."""
        if not count:
            return False
        block = THREADS.block * (LARGEST_ROW if has_products else 1)
        return count == len(self.shape) or (
            math.prod(self.shape[count:]) <= block
            and math.prod(self.shape[:count]) >= FEWEST_BLOCKS
        )

    def _prefix(self, shape: Shape) -> int:
        """Return the number of leading axes that a shape shares with the group."""
        count = 0
        for a, b in zip(shape, self.shape, strict=False):
            if a is not b and (type(a) is not int or a != b):
                break
            count += 1
        return min(count, self.count)

    def _pointwise(self, operands: Sequence[int], k: int) -> int:
        """Return the number of row axes that remain after an elementwise operation joins; 0 if it
        cannot.
        """
        avals = self.program.avals
        shape = avals[k].shape
        count = self._prefix(shape)
        is_alone = shape != self.shape and self.members.isdisjoint(operands)
        if is_alone or math.prod(shape[count:]) > self._most:
            return 0
        for i in operands:
            if i < 0 or not avals[i].shape:
                continue
            other = avals[i].shape
            same = self._prefix(other) if len(other) == len(shape) else 0
            if i in self.members:
                count = min(count, same)
            elif i in self.totals:
                return 0
            else:
                padded = (1,) * (len(shape) - len(other)) + other
                ones = next(
                    (j for j, n in enumerate(padded) if type(n) is not int or n != 1), len(padded)
                )
                count = min(count, max(same, ones))
        return count

    def _reshaping(self, i: int, k: int) -> int:
        avals = self.program.avals
        return (
            min(self._prefix(avals[i].shape), self._prefix(avals[k].shape))
            if i in self.members
            else 0
        )

    def _reducing(self, i: int, axes: Shape) -> int:
        if i < 0 or i in self.totals or not axes:
            return 0
        shape = self.program.avals[i].shape
        count = min(self._prefix(shape), *axes)
        return count if math.prod(shape[count:]) <= self._most else 0

    def _multiplying(self, operands: Sequence[int], k: int) -> int:
        """Return the number of row axes that remain after a product of stacks, or of rows and one
        matrix, joins.
        """
        avals = self.program.avals
        (x, y), shape = operands, avals[k].shape
        left, right = avals[x].shape, avals[y].shape
        is_alone = bool(self.order) and self.members.isdisjoint(operands)
        if is_alone or self.totals or one_thread() is None or len(left) != len(shape):
            return 0
        count = min(self._prefix(shape), self._prefix(left), len(shape) - 2)
        if len(right) == len(shape) > 2:
            return min(count, self._prefix(right))
        return 0 if len(right) > 2 or y in self.members else count

    def _showing(self, i: int, k: int) -> int:
        """Return the number of row axes that remain after a view of a member, or an ``embed`` of
        one, joins.
        """
        primitive, _, params = self.program.ops[k]
        if i not in self.members:
            return 0
        kept = (
            [a == n for n, a in enumerate(params[0])]
            if primitive is permute_p
            else [a == WHOLE_AXIS for a in params[0]]
        )
        count = next((n for n, is_kept in enumerate(kept) if not is_kept), len(kept))
        avals = self.program.avals
        return min(count, self._prefix(avals[i].shape), self._prefix(avals[k].shape))

    def _joining(self, operands: Sequence[int], k: int) -> int:
        """Return the number of row axes that remain after a concatenation or stack joins. NumPy may
        give the result the layout of its operands.
        """
        avals, axis = self.program.avals, self.program.ops[k][2][0]
        if not self.has_products or not self.members.issuperset(operands):
            return 0
        shapes = [avals[i].shape for i in (*operands, k)]
        is_same = all(avals[i].dtype == avals[k].dtype for i in operands)
        return min(axis, *map(self._prefix, shapes)) if is_same else 0

    def _takes_total(self, k: int) -> bool:
        """Add a sum over all axes; returns True if it was added."""
        (primitive, operands, _), avals = self.program.ops[k], self.program.avals
        if self.has_products:
            return False
        aval = avals[operands[0]] if operands[0] >= 0 else None
        if (
            primitive is not reduce_sum_p
            or aval is None
            or aval.shape != self.shape
            or aval.dtype.str[1:] not in SUMMED
        ):
            return False
        if self.program.ops[operands[0]][0] is broadcast_to_p:
            return False
        if (
            any(avals[i].dtype.kind != aval.dtype.kind for i in self.totals)
            or not sums_are_in_pairs()
        ):
            return False
        self.order.append(k)
        self.totals.add(k)
        return True

    def made(self, readers: dict[int, list[int]], outputs: set[int]) -> _FinishedGroup | None:
        """Finish the group; returns None if it is not profitable."""
        if not self.has_products and math.prod(self.shape) < FEWEST_BLOCKS * THREADS.block:
            return None
        program, ops, avals = self.program, self.program.ops, self.program.avals
        if self.totals and not self._sums_fit():
            self.refused = [k for k in self.order if k in self.totals]
            self.order = [k for k in self.order if k not in self.totals]
            self.totals = set()
        work = sum([_weight(ops[k][0]) * avals[k].nbytes for k in self.order])
        if work < LEAST_WORK * THREADS.block:
            return None
        inside = {*self.order}
        read = {
            k
            for k in self.order
            if k in outputs or any(j not in inside for j in readers.get(k, ()))
        }
        shown: list[int] = []
        later: list[int] = []
        for k in reversed(self.order):
            if k in read and k not in outputs and self._is_recomputed(k, readers[k], inside, read):
                later.append(k)
                read.discard(k)
                read.update(i for i in ops[k][1] if i in inside)
            if k in read and ops[k][0] in VIEWS:
                shown.append(k)
                read.discard(k)
                read.update(i for i in ops[k][1] if i in inside)
        needed = set(read)
        for k in reversed(self.order):
            if k in needed:
                needed.update(i for i in ops[k][1] if i in inside)
        order = [k for k in self.order if k in needed]
        roles = self._roles(order)
        if roles is None or not read:
            return None
        return _FinishedGroup(
            program,
            order,
            roles,
            [k for k in order if k in read],
            self.shape[: self.count],
            shown,
            later,
        )

    def _is_recomputed(
        self, k: int, readers: Sequence[int], inside: set[int], read: set[int]
    ) -> bool:
        """Return True if the readers outside should recompute a variable: from fewer bytes, or from
        an array that is written anyway.
        """
        ops, avals = self.program.ops, self.program.avals
        primitive, operands, _ = ops[k]
        outside = [j for j in readers if j not in inside]
        if not all(is_pointwise(self.program, j) or ops[j][0] in REDUCTIONS for j in outside):
            return False
        full = [i for i in operands if i >= 0 and avals[i].shape == avals[k].shape]
        if primitive is convert_p:
            return (
                len(full) == 1
                and full[0] in inside
                and 2 * avals[full[0]].nbytes <= avals[k].nbytes
            )
        is_cheap = len(full) == 1 and is_pointwise(self.program, k) and avals[full[0]] is avals[k]
        return (
            is_cheap
            and len(outside) == len(readers) == 1
            and full[0] in read
            and read.issuperset(inside.intersection(operands))
        )

    def _roles(self, order: Sequence[int]) -> dict[int, bool] | None:
        """Return captured operands, with flags: True if each block reads all; None if one has both
        roles.
        """
        ops, avals, count = self.program.ops, self.program.avals, self.count
        rows = self.shape[:count]
        roles: dict[int, bool] = {}
        for k in order:
            primitive, operands, _ = ops[k]
            rank = len(avals[k].shape)
            for i in operands:
                if i < 0 or i in self.members or i in self.totals:
                    continue
                shape = avals[i].shape
                is_row = shape[:count] == rows and (primitive in REDUCTIONS or len(shape) == rank)
                if primitive is matmul_in_parts_p:
                    is_row = len(shape) == rank
                if roles.setdefault(i, not is_row) is is_row:
                    return None
        return roles

    def _sums_fit(self) -> bool:
        """Return True if block bounds that agree with NumPy's pairwise summation are also bounds of
        rows.
        """
        row = math.prod(self.shape[self.count :])
        is_complex = any(self.program.avals[k].dtype.kind == "c" for k in self.totals)
        return all(
            end % row == 0
            for end in summed_bounds(math.prod(self.shape), max(THREADS.block, row), is_complex)
        )


class _FinishedGroup(NamedTuple):
    """A finished group.

    Args:
        program: the program.
        order: the operations of the group.
        roles: the operands, with flags: True if each block reads all of it.
        outputs: variables that are read outside.
        rows: sizes of the axes that blocks divide.
        shown: views that are read outside, recomputed after the group.
        later: variables that are read outside, recomputed directly before their readers.
    """

    program: Program
    order: list[int]
    roles: dict[int, bool]
    outputs: list[int]
    rows: Shape
    shown: list[int]
    later: list[int]

    def write(self, write: Rewrite) -> list[int]:
        """Write the group as one operation; returns the views to write after it."""
        whole = tuple([n for n, is_whole in enumerate(self.roles.values()) if is_whole])
        has_products = any(self.program.ops[k][0] is matmul_in_parts_p for k in self.order)
        blocks = FusionGroup(self.rows, whole, has_products)
        write_group(
            write,
            self.order,
            [*self.roles],
            self.outputs,
            blocks,
            lambda body: _tidied(body, len(self.rows)),
        )
        return self.shown


def write_group(
    write: Rewrite,
    order: Sequence[int],
    operands: Sequence[int],
    results: Sequence[int],
    blocks: FusionGroup,
    tidy: Callable[[Program], Program] | None = None,
) -> None:
    """Write operations as one fusion group.

    Args:
        write: the rewrite of the program that contains the operations.
        order: the operations, in execution order.
        operands: captured variables that they read.
        results: variables that are read outside.
        blocks: how the group is tiled; a policy without tiling gives the shape as ``rows``.
        tidy: a pass that simplifies the group's body.
    """
    program, build = write.source, Assembly()
    moved = {i: build.input(program.avals[i]) for i in operands}
    for k in order:
        build.copy(program, k, moved)
    names = {moved[i]: name for i, name in program.names.items() if i in moved}
    body = build.program([moved[i] for i in results], program.name, (), names)
    body = (body if tidy is None else tidy(body)).interned()
    first = write.place(
        blocks_p, tuple(map(write.operand, operands)), (body, blocks), write.position(order[0])
    )
    write.moved.update({k: first + n for n, k in enumerate(results)})


def _tidied(body: Program, count: int) -> Program:
    """Simplify a group's body: inside a block, keeping a value costs nothing.

    So rematerialized values become common subexpressions again, and these enable further rewrites.
    """
    made = body
    for _ in range(2):
        made = merge_common_subexpressions(eliminate_signs(simplify(made)), is_kept=True)
    if len({*made.output_ids} - {*made.input_ids}) < len(body.output_ids):  # separate arrays
        made = body
    return in_least_cache(sink_operations(made, are_inputs_held=False), count, CHEAP, VIEWS)


def is_pointwise(program: Program, k: int) -> bool:
    """Return True if an operation is elementwise: one result, not a view, that reads operands at
    its own index only.
    """
    primitive, operands, params = program.ops[k]
    if primitive is convert_p:
        return True
    if not isinstance(primitive, Elementwise) or primitive.view or primitive.many:
        return False
    return primitive.fails is None or not primitive.fails(*map(program.spec, operands), *params)


CHEAP: frozenset[Primitive] = frozenset(
    {*REDUCTIONS, add, sub, mul, neg, square, maximum, minimum, where}
    | {greater, greater_equal, less, less_equal, equal, not_equal}
    | {convert_p, embed_p, stack_p, concatenate_p, matmul_in_parts_p, *VIEWS}
)
"""Memory-bound operations."""


def _weight(primitive: Primitive) -> int:
    """Return the time per element, as a multiple of an addition's."""
    return 1 if primitive in CHEAP else 4


# -- memory ----------------------------------------------------------------------------------------


def brought(body: Program, blocks: FusionGroup) -> frozenset[int]:
    """Return the inputs that every block copies into cache: those whose first reader is
    compute-bound.

    Measured on 65,536 float32: tanh from memory 57 us; 10 to copy, and 20. A memory-bound reader
    copies the data anyway.
    """
    count = len(blocks.rows)
    sizes = {
        i: math.prod(body.avals[i].shape[count:])
        for i in (*body.input_ids, *[k for k, _ in body.schedule])
    }
    row = max([sizes[k] for k, _ in body.schedule if body.avals[k].shape], default=1)
    slow: dict[int, bool] = {}
    for k, _ in body.schedule:
        primitive, operands, _ = body.ops[k]
        for i in operands:
            slow.setdefault(i, primitive not in CHEAP)
    return frozenset(
        [
            i
            for n, i in enumerate(body.input_ids)
            if n not in blocks.whole and sizes[i] == row and slow.get(i)
        ]
    )


def replaceable(body: Program, blocks: FusionGroup) -> list[list[int]]:
    """Return, by output, the indices of inputs of its shape and dtype that a block has read when it
    writes the output. Machine code of tiles writes new arrays: its loops have another order.
    """
    if not blocks.rows or blocks.tile is not None:
        return [[] for _ in body.output_ids]
    ops, avals = body.ops, body.avals
    copied = brought(body, blocks)
    read: dict[int, int] = {}  # when memory outside of the block was last read
    made: dict[int, int] = {}
    for n, (k, _) in enumerate(body.schedule):
        primitive, operands, _ = ops[k]
        made[k] = n
        for i in operands:
            if i not in copied or i not in read:
                is_kept = (primitive.view and i not in copied) or primitive is matmul_in_parts_p
                read[i] = max(read.get(i, 0), len(ops) if is_kept else n)
    divided = [(n, i) for n, i in enumerate(body.input_ids) if n not in blocks.whole]
    return [
        [
            n
            for n, i in divided
            if avals[i] is avals[k] and avals[k].shape and read.get(i, 0) <= made[k]
        ]
        for k in body.output_ids
    ]
