"""Replace a sum of embedded parts that tile an array by a concatenation.

The derivative of ``q, k, v = (x[:, i] for i in range(3))``, or of ``np.split``, is a sum of arrays,
each zero outside of one part (`embed`). If the parts cover the array, each is written once, to its
final place.

Layer: 6.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from functrace.ir.program import Program
from functrace.ops.elementwise import add
from functrace.ops.indexing import embed_p
from functrace.ops.joining import concatenate_p, stack_p
from functrace.passes.rewrite_rules import RewriteContext

ALL = (None, None, None)


def join_embeds(program: Program) -> Program:
    """Replace sums of embedded parts that tile an array by concatenations; the sign of -0.0 is
    preserved.

    Args:
        program: any program; its sub-programs are unchanged.

    Cost:
        0.1 us per equation.
    """
    if sum([op[0] is embed_p for op in program.ops]) < 2:
        return program
    context = RewriteContext(program)
    for k, _ in program.schedule:
        parts = _parts(program, k, context.readers) if program.ops[k][0] is add else None
        joined = None if parts is None else _joined(program, parts)
        if joined is None:
            context.keep(k)
            continue
        (primitive, operands, axis), write = joined, context.write
        made = write.place(
            primitive, tuple(map(write.operand, operands)), (axis,), write.position(k)
        )
        context.replace(k, made)
    return context.finish()


def _parts(program: Program, k: int, readers: Counter[int]) -> list[int] | None:
    """Return the ``embed`` terms of a sum; None if there are other terms, or a term has another
    reader.
    """
    found: list[int] = []
    left = [k]
    while left:
        i = left.pop()
        if i < 0 or program.avals[i] is not program.avals[k] or (i != k and readers[i] > 1):
            return None
        primitive, operands, _ = program.ops[i]
        if primitive is add:
            left += operands
        elif primitive is embed_p and operands[0] >= 0:
            found.append(i)
        else:
            return None
    return found


def _joined(program: Program, parts: list[int]) -> tuple[Any, list[int], int] | None:
    """Return primitive, operands in order, and axis of the concatenation; None if the parts do not
    cover the array.
    """
    shape: tuple[Any, ...] = program.avals[parts[0]].shape
    indices = [program.ops[i][2][0] for i in parts]
    axes = [next((n for n, part in enumerate(index) if part != ALL), None) for index in indices]
    axis = axes[0]
    if (
        axis is None
        or axis >= len(shape)
        or any(n != axis for n in axes)
        or type(shape[axis]) is not int
    ):
        return None
    if any(part != ALL for index in indices for part in index[axis + 1 :]):
        return None
    size, places = shape[axis], [index[axis] for index in indices]
    if all(type(place) is int for place in places):
        order = sorted(
            [
                (place % size if -size <= place < size else size, i)
                for place, i in zip(places, parts, strict=True)
            ]
        )
        is_all = [place for place, _ in order] == list(range(size))
        primitive = stack_p
    elif all(
        type(place) is tuple and all(n is None or type(n) is int for n in place) for place in places
    ):
        spans = [slice(*place).indices(size) for place in places]
        order = sorted([(start, i) for (start, _, _), i in zip(spans, parts, strict=True)])
        ends = sorted([(start, stop) for start, stop, _ in spans])
        starts = [0, *[stop for _, stop in ends]]
        is_all = (
            all(step == 1 for _, _, step in spans)
            and [start for start, _ in ends] + [size] == starts
        )
        primitive = concatenate_p
    else:
        return None
    return (primitive, [program.ops[i][1][0] for _, i in order], axis) if is_all else None
