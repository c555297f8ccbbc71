"""Memory layouts that arrays have in NumPy's run of a program: strides, by variable.

A view has the strides of its operand, a ufunc's result has the order of its operands' memory. Layouts
decide which reshapes, contractions and fusion groups copy, and the order in which NumPy adds
(`functrace.native.numpy_order`).

Layer: 7.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from functrace.executor.plan.arena import SHOWN
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import Primitive
from functrace.ir.program import Program
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
from functrace.typing import Array

if TYPE_CHECKING:
    from functrace.executor.plan.planner import Plan, Step

Shape: TypeAlias = tuple[int, ...]
Strides: TypeAlias = tuple[int, ...]
"""Steps along the axes, in elements."""


def c_strides(shape: Sequence[int]) -> Strides:
    """Return the strides of an array in C order, in elements."""
    return tuple([math.prod(shape[k + 1 :]) for k in range(len(shape))])


def are_results_in_c_order(plan: Plan) -> bool:
    """Return True if all results are in C order in NumPy's run, for inputs in C order."""
    layouts = Layouts(plan.program)
    for step in plan.steps:
        layouts.add(step)
    return all(map(layouts.is_c_order, plan.program.output_ids))


@final
class Layouts:
    """Memory layouts of the variables in NumPy's run of a program.

    Args:
        program: the program; its operations are added one by one.
        given: strides of inputs that are not in C order.
    """

    def __init__(self, program: Program, given: Mapping[int, Strides] | None = None) -> None:
        self._program = program
        self._others: dict[int, Strides | None] = dict(given or {})
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

    def set(self, i: int, strides: Strides) -> None:
        """Set the strides of the result of an operation that is not added."""
        if not _is_c_order(tuple(self._program.avals[i].shape), strides):
            self._others[i] = strides

    def is_copied(self, k: int) -> bool:
        """Return True if a view operation returns a new array: a ``reshape`` of one that is not in
        order, and a ``gather`` by arrays.
        """
        primitive, operands, params = self._program.ops[k]
        if primitive is indexing.gather_p:
            specs = map(self._program.spec, operands[1:])
            return any(type(x) is ShapeDtype and x.shape for x in specs)
        if primitive is not shaping.reshape_p or operands[0] < 0 or self.is_c_order(operands[0]):
            return False
        strides = self.strides(operands[0])
        shape = tuple(self._program.avals[operands[0]].shape)
        return strides is not None and _shown(primitive, shape, strides, params) is None

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
            return _of_view(primitive, shapes[0], steps[0], params, shape)
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
    for axis in reversed(memory_order(shape, strides)):
        found[axis] = step
        step *= shape[axis]
    return tuple(found)


def _of_view(
    primitive: Primitive,
    shape: Shape,
    strides: Strides,
    params: tuple[Any, ...],
    result: Shape,
) -> Strides | None:
    """Return the strides of a view, by making it; of a ``reshape`` that copies, those of the copy."""
    if 0 in shape or 0 in result:
        return c_strides(result)
    try:
        found = _shown(primitive, shape, strides, params)
    except TypeError:
        return None
    return found.strides if found is not None and found.shape == result else c_strides(result)


def _shown(
    primitive: Primitive, shape: Shape, strides: Strides, params: tuple[Any, ...]
) -> Array | None:
    """Return a view of an array, whose elements are never read; ``None`` where NumPy copies."""
    try:
        return SHOWN[primitive](as_strided(np.empty(1, np.uint8), shape, strides), *params)
    except ValueError:
        return None


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


def memory_order(shape: Shape, strides: Strides) -> list[int]:
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
