"""Loop nests: elementwise operations, reductions and views as data, from which a backend can emit loops.

A plan, usually that of a fusion group, becomes a sequence of nests and of steps that are none. A nest runs its statements,
in order, at every point of its space. A statement loads elements, computes one, and stores it, or reduces it into another.

Note [What stands in one nest]
    A statement may read what another one of the nest has computed at the same point, and nothing else of it: no result of a
    reduction, and no other element through a view. Where it does, another nest begins. So the points of a nest may run in
    any order, and in parallel but for reductions; and what is read in its own nest only can stay in a register. Results may
    be written where `functrace.executor.plan.Step.into` says. The arena is for steps that run one after the other (a group
    is one step): within a nest its arrays may overlap.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from functrace.executor.groups import REDUCTIONS, is_pointwise
from functrace.executor.memory import View, c_strides, memory_roots
from functrace.ops.checks import require_p

if TYPE_CHECKING:
    from functrace.executor.plan import Plan, Step


class Access(NamedTuple):
    """Which element of an array is read or written at a point ``i`` of a space: ``offset + sum(strides[a] * i[a])``.

    Args:
        variable: the array, in C order; a view is counted in its root.
        dtype: of the element. (That of a root may be another one: real numbers lie in complex ones.)
        offset: in such elements.
        strides: likewise, one per axis of the space; 0 along axes that are broadcast, or reduced.
    """

    variable: int
    dtype: np.dtype[Any]
    offset: int
    strides: tuple[int, ...]


class Statement(NamedTuple):
    """An operation in a nest.

    Args:
        first: its variable, which says the primitive; `functrace.executor.plan.Plan.typed` says in which dtypes it computes.
        operands: elements, or numbers.
        result: where the element goes.
        by: of a reduction, the ufunc that combines the elements of a result, which starts with the first one.
        reduced: the axes of the space that are reduced. Without elements along them, the result is the ufunc's identity.
    """

    first: int
    operands: tuple[Access | np.generic, ...]
    result: Access
    by: np.ufunc | None = None
    reduced: tuple[int, ...] = ()


class Nest(NamedTuple):
    """Statements that run at every point of a space; see Note [What stands in one nest].

    Args:
        space: sizes of the loops, outermost first.
        statements: in order.
    """

    space: tuple[int, ...]
    statements: tuple[Statement, ...]


Part: TypeAlias = "Nest | Step"


def nests_of(plan: Plan) -> Iterator[Part]:
    """Yield the nests of a plan, and the steps that are none; operations that show memory are part of who reads it."""
    roots = memory_roots(plan)
    space: tuple[int, ...] = ()
    held: list[Statement] = []
    for step in plan.steps:
        primitive = plan.program.ops[step.first][0]
        if plan.views.get(step.first) is not None and primitive is not require_p:
            continue
        found = _statement(plan, step)
        if held and (found is None or found[0] != space or not _fits(held, found[1], roots)):
            yield Nest(space, tuple(held))
            held = []
        if found is None:
            yield step
        else:
            space = found[0]
            held.append(found[1])
    if held:
        yield Nest(space, tuple(held))


def _statement(plan: Plan, step: Step) -> tuple[tuple[int, ...], Statement] | None:
    """Return the space of an operation, and the statement; ``None`` where it is no loop over elements."""
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


def _access(plan: Plan, i: int, space: tuple[int, ...], axes: tuple[int, ...] | None = None) -> Access:
    """Return how a variable is read or written; ``axes`` are those of the space that its own are, by default the last."""
    aval = plan.program.avals[i]
    root, offset, strides = plan.views.get(i) or View(i, 0, c_strides(aval))
    each = aval.dtype.itemsize
    found = [0] * len(space)
    rank = len(aval.shape)
    for a, n, stride in zip(axes or range(len(space) - rank, len(space)), aval.shape, strides, strict=True):
        found[a] = stride // each if n != 1 else 0
    return Access(root, aval.dtype, offset // each, tuple(found))


def _fits(held: list[Statement], new: Statement, roots: dict[int, int]) -> bool:
    """Whether a statement may run at every point right after others."""

    def clash(a: Access, b: Access, one: Statement) -> bool:
        """Whether one of two statements reads or writes what the other writes, at another point."""
        shared = roots.get(a.variable, a.variable) == roots.get(b.variable, b.variable)
        return shared and (a[1:] != b[1:] or bool(one.reduced))

    for one in held:
        if any(isinstance(x, Access) and clash(x, one.result, one) for x in (*new.operands, new.result)):
            return False
        if any(isinstance(x, Access) and clash(x, new.result, new) for x in one.operands):
            return False
    return True
