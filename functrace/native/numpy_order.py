"""The order in which NumPy adds the elements of an array, found from its memory layout.

NumPy's iterator walks memory: the axis with the smallest stride is innermost, and axes that continue
each other are one. If the innermost axis is summed over, each run along it is summed pairwise (eight
partial sums in blocks of at most 128 elements, blocks in a binary tree), and runs are added up one
after the other. Otherwise rows are added to the result one after the other. So the layout that an
array has in NumPy's run of the program decides the bits of its sums: `Layouts` follows it.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from functrace.executor.plan.planner import Plan, Step
from functrace.ir.primitive import Primitive
from functrace.ir.program import Program
from functrace.native.values import Order, Shape, c_strides
from functrace.ops import (
    checks,
    cholesky,
    contraction,
    foreign,
    indexing,
    joining,
    linalg,
    naming,
    norms,
    reductions,
    shaping,
    solutions,
    sorting,
    triangular,
)
from functrace.ops.cumulative import cummax_p, cummin_p, cumprod_p, cumsum_p, linear_recurrence_p
from functrace.ops.elementwise import ELEMENTWISE

Strides: TypeAlias = tuple[int, ...]
"""Steps along the axes, in elements."""

LANES: Final = 8
"""Partial sums of floats in NumPy's pairwise sum; half as many of complex numbers."""
BLOCKS: Final = 16
"""Steps of the partial sums up to which NumPy does not halve a run."""


def order_of(shape: Shape, strides: Strides, summed: Sequence[int]) -> tuple[Order, bool]:
    """Return the order of a sum, and False where NumPy copies the array in parts before it adds, so
    that its runs are longer.

    Args:
        shape, strides: of the array.
        summed: axes to sum over.
    """
    axes = _memory_order(shape, strides)
    run = 0
    while run < len(axes) and axes[-1 - run] in summed:
        outer, inner = axes[-1 - run], axes[-run] if run else -1
        if run and strides[outer] != shape[inner] * strides[inner]:
            return Order(tuple(axes), run), False
        run += 1
    return Order(tuple(axes), run), True


def _memory_order(shape: Shape, strides: Strides) -> list[int]:
    """Return the axes with more than one element in NumPy's order: an insertion sort by strides, for
    which strides of 0 are equal to all others.
    """
    found: list[int] = []  # (the innermost first)
    for axis in reversed([k for k, n in enumerate(shape) if n > 1]):
        place = len(found)
        for k in reversed(range(len(found))):
            mine, other = abs(strides[axis]), abs(strides[found[k]])
            if not mine or not other:
                continue
            if other <= mine:
                break
            place = k
        found.insert(place, axis)
    return found[::-1]


def are_results_in_c_order(plan: Plan) -> bool:
    """Return True if all results are in C order in NumPy's run, for inputs in C order."""
    layouts = Layouts(plan.program)
    for step in plan.steps:
        layouts.add(step)
    return all(map(layouts.is_c_order, plan.program.output_ids))


@final
class Layouts:
    """Memory layouts of the variables in NumPy's run of a program whose inputs are in C order.

    Args:
        program: the program; its operations are added one by one.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._others: dict[int, Strides | None] = {}
        """Strides of variables that are not in C order; ``None`` where they are unknown."""
        for i, constant in program.constant_values.items():
            value = np.asarray(constant)
            if not value.flags.c_contiguous:
                self._others[i] = tuple(n // value.itemsize for n in value.strides)

    def strides(self, i: int) -> Strides | None:
        """Return the strides of a variable; ``None`` if they are unknown."""
        shape = self._program.avals[i].shape
        return self._others[i] if i in self._others else c_strides(shape)

    def is_c_order(self, i: int) -> bool:
        """Return True if a variable is in C order."""
        return i not in self._others

    def add(self, step: Step) -> None:
        """Add the operation of a step of a plan."""
        primitive, operands, params = self._program.ops[step.first]
        given = [i for i in operands if i >= 0]
        in_order = all(map(self.is_c_order, given))
        if self._is_fresh(step) or (in_order and self._keeps_c_order(step)):
            return
        count = self._program.result_count(step.first) if primitive.many else 1
        for j in range(step.first, step.first + count):
            shape = tuple(self._program.avals[j].shape)
            found = self._result(primitive, given, params, shape) if count == 1 else None
            if found is None:
                rank = sum(n > 1 for n in shape)
                if rank > 1 or (rank and _may_turn(step, primitive)):
                    self._others[j] = None
            elif not _is_c_order(shape, found):
                self._others[j] = found

    def _keeps_c_order(self, step: Step) -> bool:
        """Return True if results are in C order where all operands are."""
        primitive = self._program.ops[step.first][0]
        if step.structure is not None:
            return all(map(_is_in_c_order, step.bodies))
        if primitive in _VIEWS or primitive in (cumsum_p, cumprod_p):
            return False
        return primitive in _KEEP or _is_elementwise(primitive)

    def _is_fresh(self, step: Step) -> bool:
        """Return True if the result is always in C order."""
        primitive = self._program.ops[step.first][0]
        if primitive.fresh is None or primitive.many or step.structure is not None:
            return False
        return primitive.fresh(self._program.avals[step.first])

    def _result(
        self, primitive: Primitive, given: Sequence[int], params: tuple[Any, ...], shape: Shape
    ) -> Strides | None:
        avals = self._program.avals
        strides = [self.strides(i) for i in given]
        if not given or any(one is None for one in strides):
            return None
        shapes = [tuple(avals[i].shape) for i in given]
        steps = [one for one in strides if one is not None]
        if primitive in _SAME:
            return steps[0] if shapes[0] == shape else None
        if primitive is shaping.convert_p:
            return _of_copy(shapes[0], steps[0])
        if primitive in _VIEWS:
            return _of_view(primitive.eval, shapes[0], steps[0], params, shape)
        if _is_elementwise(primitive):
            return _of_elementwise(shapes, steps, shape)
        if primitive in _SUMS:
            return _of_reduction(shapes[0], steps[0], params[0], shape)
        if primitive in (cumsum_p, cumprod_p) and not any(params[1:]):
            return c_strides(shape) if _is_c_order(shape, steps[0]) else None
        return None


def _may_turn(step: Step, primitive: Primitive) -> bool:
    """Return True if a vector that an operation returns may be a view that is reversed."""
    return (
        primitive.view
        or primitive in _SAME
        or primitive in (cumsum_p, cumprod_p)
        or step.structure is not None
    )


def _is_elementwise(primitive: Primitive) -> bool:
    return primitive.batch is ELEMENTWISE or primitive is shaping.convert_p


def _is_in_c_order(plan: Plan) -> bool:
    """Return True if the results of a body are in C order where its inputs are."""
    layouts = Layouts(plan.program)
    for step in plan.steps:
        layouts.add(step)
    return all(map(layouts.is_c_order, plan.program.output_ids))


_VIEWS = frozenset(
    {
        shaping.broadcast_to_p, shaping.reshape_p, shaping.permute_p, shaping.diagonal_p,
        indexing.index_p,
    }
)  # fmt: skip
_SAME = frozenset(
    {
        checks.require_p, solutions.required_p, solutions.undifferentiated_p,
        solutions.reverse_only_p, foreign.returned_p, naming.name_p,
    }
)  # fmt: skip
"""Primitives whose result is their first operand."""
_SUMS = frozenset(
    {
        reductions.reduce_sum_p, reductions.reduce_prod_p, reductions.reduce_max_p,
        reductions.reduce_min_p, reductions.reduce_any_p, reductions.reduce_all_p,
    }
)  # fmt: skip
_KEEP = _SUMS | {
    *_SAME, reductions.argmax_p, reductions.argmin_p, reductions.variance_p, reductions.softmax_p,
    reductions.log_softmax_p, reductions.logsumexp_p, reductions.shared_p, reductions.same_p,
    linalg.norm_p, linalg.det_p, linalg.slogdet_p, norms.vector_norm_p, contraction.matmul_p,
    contraction.dot_p,
    joining.concatenate_p, joining.stack_p, shaping.roll_p, shaping.embed_diagonal_p,
    indexing.embed_p, indexing.scatter_add_p, indexing.scatter_set_p, indexing.scatter_each_p,
    indexing.is_last_write_p, sorting.sort_p, sorting.argsort_p, sorting.searchsorted_p,
    sorting.take_along_axis_p, linalg.solve_p, linalg.inv_p, cholesky.cholesky_p,
    triangular.solve_triangular_p, cummax_p, cummin_p, linear_recurrence_p,
}  # fmt: skip
"""Primitives whose results are in C order where all operands are."""


def _is_c_order(shape: Shape, strides: Strides) -> bool:
    return 0 in shape or all(
        n == 1 or one == other
        for n, one, other in zip(shape, strides, c_strides(shape), strict=True)
    )


def compact(shape: Shape, strides: Strides) -> Strides:
    """Return the strides of a new array with the memory order of another one."""
    found = [0] * len(shape)
    step = 1
    for axis in reversed(_memory_order(shape, strides)):
        found[axis] = step
        step *= shape[axis]
    return tuple(found)


def _of_view(
    evaluate: Callable[..., Any],
    shape: Shape,
    strides: Strides,
    params: tuple[Any, ...],
    result: Shape,
) -> Strides | None:
    """Return the strides of a view, by making it."""
    if 0 in shape or 0 in result:
        return c_strides(result)
    steps = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    first = -sum(s for s in steps if s < 0)
    memory = np.zeros(first + sum(s for s in steps if s > 0) + 1, np.uint8)
    try:
        found: Any = evaluate(as_strided(memory[first:], shape, strides), *params)
    except (TypeError, ValueError):
        return None  # (a view of bytes is refused where one of another dtype is not)
    return found.strides if np.shape(found) == result and result else c_strides(result)


def _of_copy(shape: Shape, strides: Strides) -> Strides:
    """Return the strides of ``x.astype(…)``."""
    if 0 in shape:
        return c_strides(shape)
    return np.empty_like(as_strided(np.zeros(1, np.uint8), shape, strides)).strides


def _of_elementwise(
    shapes: Sequence[Shape], strides: Sequence[Strides], result: Shape
) -> Strides | None:
    """Return the strides of a new array, as NumPy's iterator allocates it."""
    if 0 in result or not shapes or max(len(shape) for shape in shapes) > 32:
        return c_strides(result)
    nothing = np.zeros(1, np.uint8)
    given = [as_strided(nothing, *pair) for pair in zip(shapes, strides, strict=True)]
    flags = [["readonly"]] * len(given) + [["writeonly", "allocate"]]
    made = np.nditer([*given, None], op_flags=flags, op_dtypes=[np.dtype(np.uint8)] * (len(given) + 1))  # type: ignore[arg-type]  # fmt: skip
    found = made.operands[-1]
    return found.strides if found.shape == result else None


def _of_reduction(
    shape: Shape, strides: Strides, axes: Sequence[int], result: Shape
) -> Strides | None:
    """Return the strides of the result of a reduction: its axes are in the order of memory."""
    if 0 in shape:
        return c_strides(result)
    summed = {axis % len(shape) for axis in axes}
    found = compact(shape, strides)
    kept = [k for k in range(len(shape)) if k not in summed]
    return compact(result, tuple(found[k] for k in kept)) if len(kept) == len(result) else None


@final
class Halves(NamedTuple):
    """Halving of a run of ``lanes * blocks + rest`` elements.

    Args:
        depth: how often; all parts are made by so many cuts, or by one less.
        is_even: True if all parts are made by so many cuts.
        last: the part that the rest belongs to.
    """

    depth: int
    is_even: bool
    last: int


def halves(blocks: int, rest: int) -> Halves:
    """Return how a run is halved.

    The blocks of part ``j`` are ``(blocks + reversed_bits(j)) >> depth``: the first half of an odd
    number of blocks is the smaller one.
    """
    depth = 0
    while -(-blocks >> depth) * 2 + (rest > 0) > 2 * BLOCKS:
        depth += 1
    if not depth:
        return Halves(0, True, 0)
    least, most = blocks >> (depth - 1), -(-blocks >> (depth - 1))
    is_last_cut = most > BLOCKS or (most == BLOCKS and rest > 0)
    is_even = least > BLOCKS or (is_last_cut and most == least and depth == 1)
    parts = 1 << depth
    return Halves(depth, is_even, parts - 1 if is_last_cut else parts - 2)
