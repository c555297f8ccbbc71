"""Static memory layout: views as offsets and strides, arrays as offsets in one arena.

Everything here follows from a plan, and is computed lazily, when a backend reads it. It holds for
backends that store arrays in C order, inputs included.

Layer: 7.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from functrace.control.residuals import packs
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import Primitive
from functrace.ir.program import Program
from functrace.ir.structures import FusionGroup, HostCall
from functrace.ops.checks import require_p
from functrace.ops.elementwise import imag
from functrace.ops.indexing import decode_index, index_p
from functrace.ops.naming import name_p
from functrace.ops.shaping import broadcast_to_p, diagonal_p, permute_p, real, reshape_p
from functrace.typing import Array

if TYPE_CHECKING:
    from functrace.executor.plan.planner import Plan

LINE = 64
"""Alignment of the arrays in an arena, in bytes: one cache line."""


class StaticView(NamedTuple):
    """A variable that is a view of another one, its root, which is in C order.

    The root's memory stays alive until the last use of the view, also past the last use of the
    root.

    Args:
        root: the variable that owns the memory.
        offset: of the first element, in bytes.
        strides: in bytes, one per axis; 0 along axes that are broadcast.
    """

    root: int
    offset: int
    strides: tuple[int, ...]


def _index(x: Array, index: tuple[Any, ...]) -> Array:
    return x[decode_index(index if Ellipsis in index else (*index, ...))]  # never a scalar


def _itself(x: Array, *_: object) -> Array:
    return x


def _reshape(x: Array, shape: tuple[int, ...]) -> Array:
    return np.reshape(x, shape, copy=False)


SHOWN: Mapping[Primitive, Callable[..., Any]] = {
    index_p: _index,
    reshape_p: _reshape,
    name_p: _itself,
    require_p: _itself,
    **{
        primitive: primitive.eval
        for primitive in (permute_p, broadcast_to_p, diagonal_p, real, imag)
    },
}
"""View operations of their first operand: functions from array and params to the view."""


def static_views(program: Program) -> dict[int, StaticView | None]:
    """Return the view of every variable whose operation may return one.

    The value is ``None`` if the result is not a view (a ``reshape`` of a transposed array copies),
    sizes are unknown, or the result depends on values.
    """
    shown: dict[int, tuple[int, Array]] = {}
    found: dict[int, StaticView | None] = {}

    def in_memory(i: int) -> tuple[int, Array]:
        """Return the root of a variable, and an array with its strides; the array's elements are
        never read.
        """
        if i not in shown:
            aval = program.avals[i]
            nothing = np.empty(1, aval.dtype)
            shown[i] = i, as_strided(nothing, aval.shape, c_strides(aval))
        return shown[i]

    for k, _ in program.schedule:
        primitive, operands, params = program.ops[k]
        if not primitive.view:
            continue
        found[k] = None
        is_static = operands[0] >= 0 and all(
            type(n) is int for i in (k, operands[0]) for n in program.avals[i].shape
        )
        if (
            primitive not in SHOWN
            or not is_static
            or (primitive is imag and program.avals[operands[0]].dtype.kind != "c")
        ):
            continue
        root, x = in_memory(operands[0])
        try:
            view = SHOWN[primitive](x, *params)
        except ValueError:  # NumPy copies
            continue
        shown[k] = root, view
        start = view.ctypes.data - in_memory(root)[1].ctypes.data if view.size else 0
        found[k] = StaticView(root, start, view.strides)
    return found


def c_strides(aval: ShapeDtype) -> tuple[int, ...]:
    """Return the strides of an array in C order, in bytes."""
    return tuple(
        [math.prod(aval.shape[k + 1 :]) * aval.dtype.itemsize for k in range(len(aval.shape))]
    )


# -- arena -----------------------------------------------------------------------------------------


class Arena(NamedTuple):
    """Offsets of the arrays that a program computes, in one buffer that all runs reuse.

    Three kinds of arrays have no offset: arrays that escape the program (outputs that are not
    copied, and arguments of user functions), arrays of unknown size, and views, which are in their
    roots' memory. Code that keeps an array longer than the plan says (a loop that keeps values of
    its steps) copies it.

    Args:
        nbytes: size of the buffer.
        offsets: start of each variable's array, in bytes; a multiple of `LINE`.
        bodies: start of the arena that the sub-programs of an operation share, by operation.
    """

    nbytes: int
    offsets: Mapping[int, int]
    bodies: Mapping[int, int]


def memory_roots(plan: Plan) -> dict[int, int]:
    """Return the variable that owns the memory of each variable that an operation computes."""
    roots: dict[int, int] = {}
    for step in plan.steps:
        operands = plan.program.ops[step.first][1]
        for n, j in enumerate(plan.results(step)):
            view = plan.views.get(j)
            place = step.onto[n] if step.onto else None
            i = j if place is None else operands[place]
            i = view.root if view is not None else step.into if step.into is not None else i
            roots[j] = roots.get(i, i)
    return roots


def arena_of(plan: Plan) -> Arena:
    """Assign offsets: largest array first, each in the smallest gap between arrays alive at that
    time.

    Cost:
        quadratic in the number of arrays: 1 ms for 100, 2 s for 5,000.

    Source:
        Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference" (2020),
        greedy by size.
    """
    program, roots = plan.program, memory_roots(plan)
    spans: dict[int, tuple[int, int]] = {}
    outputs = [roots.get(i, i) for i in program.output_ids]
    leaving = {root for root, is_copied in zip(outputs, plan.copied, strict=True) if not is_copied}
    bodies: dict[int, int] = {}
    for n, step in enumerate(plan.steps):
        primitive, operands, _ = program.ops[step.first]
        results = plan.results(step)
        for i in (*operands, *results):
            root = roots.get(i, i)
            if root in results or root in spans:
                spans[root] = spans.get(root, (n, n))[0], n
        if primitive.effects or isinstance(step.structure, HostCall):
            leaving.update([roots.get(i, i) for i in (*operands, *results)])
        if step.bodies and not isinstance(step.structure, FusionGroup):
            bodies[step.first] = n
    spans.update([(root, (spans[root][0], len(plan.steps))) for root in outputs if root in spans])
    items = [
        (nbytes, *span, root)
        for root, span in spans.items()
        if root not in leaving and type(nbytes := program.avals[root].nbytes) is int and nbytes
    ]
    if packs(program):  # the value of an array may be a packed object
        items = []
    count = len(items)
    steps = {step.first: step for step in plan.steps}
    items += [
        (max([body.arena.nbytes for body in steps[k].bodies]), n, n, k) for k, n in bodies.items()
    ]
    places = [*_places([item[:3] for item in items])]
    ends = [place + item[0] for place, item in zip(places, items, strict=True)]
    found = [(item[3], place) for place, item in zip(places, items, strict=True)]
    return Arena(max(ends, default=0), dict(found[:count]), dict(found[count:]))


def _places(items: Sequence[tuple[int, int, int]]) -> Sequence[int]:
    """Assign offsets to items of (size, first step, last step)."""
    placed: list[tuple[int, int, int, int]] = []  # offset, end, first, last; sorted
    found = [0] * len(items)
    for k in sorted(range(len(items)), key=lambda k: -items[k][0]):
        nbytes, first, last = items[k]
        best, end = None, 0
        for start, stop, begun, ended in placed:
            if begun <= last and first <= ended:
                if start - end >= nbytes and (best is None or start - end < best[0]):
                    best = start - end, end
                end = max(end, -(-stop // LINE) * LINE)
        found[k] = end if best is None else best[1]
        insort(placed, (found[k], found[k] + nbytes, first, last))
    return found


# -- donated inputs --------------------------------------------------------------------------------


class Donation(NamedTuple):
    """A donated input, and the results that are written into its memory.

    Args:
        place: index of the input.
        variables: the results, one after the other; each overwrites a value that has had its last
            use.
        output: index of the output that is the last of them, or ``None``.
    """

    place: int
    variables: tuple[int, ...]
    output: int | None


def donations_of(plan: Plan) -> tuple[Donation, ...]:
    """Return the results that may overwrite donated inputs: in-place results of steps, or else an
    output of the same aval.
    """
    program, roots, last = plan.program, memory_roots(plan), dict[int, int]()
    made = {j: n for n, step in enumerate(plan.steps) for j in plan.results(step)}
    for n, step in enumerate(plan.steps):
        last.update([(roots.get(i, i), n) for i in program.ops[step.first][1]])
    shown = {roots.get(i, i) for i in program.output_ids}
    ends = {roots.get(i, i): n for n, i in enumerate(program.output_ids) if not plan.copied[n]}
    free = {
        home: n
        for n, home in enumerate(plan.homes)
        if home is not None and roots.get(home) == home and n in ends.values()
    }
    found: list[Donation] = []
    for place in plan.donated:
        i = program.input_ids[place]
        variables = tuple(
            [j for j, root in roots.items() if root == i and plan.views.get(j) is None]
        )
        if not variables and i not in shown:
            fits = [
                h
                for h in free
                if program.avals[h] is program.avals[i] and made[h] > last.get(i, -1)
            ]
            variables = tuple(fits[:1])
        if variables:
            output = free.pop(variables[0], None) if variables[0] in free else ends.get(i)
            found.append(Donation(place, variables, output))
    return tuple(found)
