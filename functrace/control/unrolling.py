"""Loop unrolling: several steps of a body as one program.

Layer: 5.
"""

from __future__ import annotations

from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import Assembly, output_avals
from functrace.ir.program import Program
from functrace.ops.indexing import index_p
from functrace.ops.joining import stack_p
from functrace.ops.shaping import broadcast_to_p


def repeated(body: Program, count: int, reverse: bool, constants: int, carries: int) -> Program:
    """Return the program of several steps of a `scan`.

    Args:
        body: from constants, carry and slices to carry and slices.
        count: number of steps.
        reverse: True if the last slice is first.
        constants, carries: numbers of these inputs.

    Returns:
        a program that takes and returns, for each slice, the slices of all steps along a first
        axis.
    """
    build = Assembly()
    avals = [body.avals[i] for i in body.input_ids]
    given = [build.input(a) for a in avals[: constants + carries]]
    fixed, carry = given[:constants], given[constants:]
    arrays = [
        build.input(ShapeDtype((count, *a.shape), a.dtype)) for a in avals[constants + carries :]
    ]
    rows: list[list[int]] = [[]] * count
    for t in range(count - 1, -1, -1) if reverse else range(count):
        outputs = build.splice(
            body, [*fixed, *carry, *[build.place(index_p, (a,), ((t,),)) for a in arrays]]
        )
        carry, rows[t] = outputs[:carries], outputs[carries:]
    stacks = [build.place(stack_p, column, (0,)) for column in zip(*rows, strict=True)]
    if not count:
        for aval in output_avals(body)[carries:]:
            zero = build.constant(aval.dtype.type(0), ShapeDtype((), aval.dtype))
            stacks.append(build.place(broadcast_to_p, (zero,), ((0, *aval.shape),)))
    return build.program([*carry, *stacks], body.name)
