"""Loop nests: elementwise operations, reductions and views as data, for backends that emit loops.

The plan of a fusion group (or another plan) becomes a sequence of loop nests and of steps that are
not loops over elements. A loop nest runs its statements, in order, at every point of its iteration
space. A statement loads elements, computes one, and stores it, or reduces it into another element.

Note [Statements of one loop nest]
    A statement may read an element that an earlier statement of the loop nest computes at the same
    point. If it reads another element (through a view), or the result of a reduction, it begins a
    new loop nest. So the points of a loop nest may run in any order, and in parallel except for
    reductions; a value that only its own loop nest reads can stay in a register. Results may be
    written where `functrace.executor.plan.planner.Step.into` says. Places in the arena are valid
    for steps that run one after the other (a group is one step): within a loop nest, arrays of the
    arena may overlap.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from functrace.executor.plan.arena import StaticView, c_strides, memory_roots
from functrace.executor.plan.fusion import REDUCTIONS, is_pointwise
from functrace.ops.checks import require_p

if TYPE_CHECKING:
    from functrace.executor.plan.planner import Plan, Step


class Access(NamedTuple):
    """Index map: at a point ``i`` of the space the statement accesses element ``offset +
    sum(strides[a] * i[a])``.

    Args:
        variable: the array, in C order; for a view, its root.
        dtype: of the element. (The root may have another one: `x.real` is a view of a complex
            array.)
        offset: in elements of this dtype.
        strides: likewise, one per axis of the space; 0 along axes that are broadcast, or reduced.
    """

    variable: int
    dtype: np.dtype[Any]
    offset: int
    strides: tuple[int, ...]


class Statement(NamedTuple):
    """An operation in a loop nest.

    Args:
        first: its variable, which determines the primitive;
            `functrace.executor.plan.planner.Plan.typed` has its compute dtypes.
        operands: elements, or numbers.
        result: the element that is written.
        by: ufunc of a reduction; it starts with the first element.
        reduced: the axes of the space that are reduced. If they have no elements, the result is the
            ufunc's identity.
    """

    first: int
    operands: tuple[Access | np.generic, ...]
    result: Access
    by: np.ufunc | None = None
    reduced: tuple[int, ...] = ()


class LoopNest(NamedTuple):
    """Statements that run at every point of an iteration space; see Note
    [Statements of one loop nest].

    Args:
        space: sizes of the loops, outermost first.
        statements: in order.
    """

    space: tuple[int, ...]
    statements: tuple[Statement, ...]


Part: TypeAlias = "LoopNest | Step"


def nests_of(plan: Plan) -> Iterator[Part]:
    """Yield the loop nests of a plan, and the other steps. Views become index maps of the
    statements that read them.
    """
    roots = memory_roots(plan)
    space: tuple[int, ...] = ()
    held: list[Statement] = []
    for step in plan.steps:
        primitive = plan.program.ops[step.first][0]
        if plan.views.get(step.first) is not None and primitive is not require_p:
            continue
        found = _statement(plan, step)
        if held and (found is None or found[0] != space or not _fits(held, found[1], roots)):
            yield LoopNest(space, tuple(held))
            held = []
        if found is None:
            yield step
        else:
            space = found[0]
            held.append(found[1])
    if held:
        yield LoopNest(space, tuple(held))


def _statement(plan: Plan, step: Step) -> tuple[tuple[int, ...], Statement] | None:
    """Return the iteration space and the statement of an operation; ``None`` if it is not a loop
    over elements.
    """
    program, k = plan.program, step.first
    primitive, operands, params = program.ops[k]
    by = REDUCTIONS.get(primitive)
    if by is None and not is_pointwise(program, k):
        return None
    space = program.avals[k].shape if by is None else program.avals[operands[0]].shape
    if not all(type(n) is int for i in (k, *operands) if i >= 0 for n in program.avals[i].shape):
        return None
    read: list[Access | np.generic] = []
    for i, number in zip(operands, plan.typed[k].numbers, strict=True):
        if number is not None and not isinstance(number, np.generic):
            return None
        read.append(_access(plan, i, space) if number is None else number)
    reduced = params[0] if by is not None else ()
    result = _access(plan, k, space, tuple([a for a in range(len(space)) if a not in reduced]))
    return space, Statement(k, tuple(read), result, by, reduced)


def _access(
    plan: Plan, i: int, space: tuple[int, ...], axes: tuple[int, ...] | None = None
) -> Access:
    """Return the index map of a variable; ``axes`` are the axes of the space that its axes
    correspond to, by default the last.
    """
    aval = plan.program.avals[i]
    root, offset, strides = plan.views.get(i) or StaticView(i, 0, c_strides(aval))
    each = aval.dtype.itemsize
    found = [0] * len(space)
    rank = len(aval.shape)
    for a, n, stride in zip(
        axes or range(len(space) - rank, len(space)), aval.shape, strides, strict=True
    ):
        found[a] = stride // each if n != 1 else 0
    return Access(root, aval.dtype, offset // each, tuple(found))


def _fits(held: list[Statement], new: Statement, roots: dict[int, int]) -> bool:
    """Return True if a statement may join a loop nest."""

    def clash(a: Access, b: Access, one: Statement) -> bool:
        """Return True if two accesses share memory, but not the same element at each point."""
        shared = roots.get(a.variable, a.variable) == roots.get(b.variable, b.variable)
        return shared and (a[1:] != b[1:] or bool(one.reduced))

    for one in held:
        if any(
            isinstance(x, Access) and clash(x, one.result, one) for x in (*new.operands, new.result)
        ):
            return False
        if any(isinstance(x, Access) and clash(x, new.result, new) for x in one.operands):
            return False
    return True
