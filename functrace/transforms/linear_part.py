"""The linear part of a program: what it does to inputs in which it is linear, apart from what it computes of the others.

A rule that a user brings is linear in tangents or cotangents, and may compute anything of the other values; the operations
that it consists of, loops and calls above all, often do both at once. Where the linear part alone is wanted, to be
transposed or to be put onto a linear tape, the program is linearized: the derivative of a linear function is that function,
and `linearize` tells what depends on tangents from what does not, inside of whatever holds programs and by the rules of
whatever has rules. A program that is not linear shows by residuals that depend on what it should be linear in.

Floor: 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from functrace.ir.parts import Assembly, Rewrite, restrict
from functrace.ir.primitive import Joint
from functrace.ir.program import Program
from functrace.ops.shaping import broadcast_to_p
from functrace.transforms.linearize import remembered, split_program
from functrace.transforms.transpose import transpose_program
from functrace.transforms.vmap import reached_outputs


class LinearPart(NamedTuple):
    """What `linear_part` returns.

    Args:
        known: from the inputs that do not move to the first outputs, then residuals.
        linear: from the residuals and the inputs that move to those of the other outputs that depend on these.
        active: which of the other outputs these are.
    """

    known: Program
    linear: Program
    active: tuple[bool, ...]


def is_mixed(program: Program) -> bool:
    """Whether a program has operations that may compute of all their operands together: they hold programs."""
    return any(type(primitive.jvp) is Joint for primitive in program.kinds)


def linear_part(program: Program, moving: Sequence[bool], first: int = 0, *, effects: bool = False) -> LinearPart | None:
    """Return the linear part of a program, made once; ``None`` if it is not linear.

    Args:
        program: a program, linear in some of its inputs.
        moving: one flag per input: whether it is one of them.
        first: how many of the outputs, from the first on, do not depend on them.
        effects: whether operations that are carried out in any case belong to what is computed of the others.
    """
    return remembered(_linear_part, program, moving, first, effects)


def _linear_part(program: Program, moving: Sequence[bool], first: int, effects: bool) -> LinearPart | None:
    split = split_program(program, moving)
    forward, total = split.forward, len(program.output_ids)
    by_output = iter(split.linear.output_ids)
    moved = [next(by_output) if flag else None for flag in split.active][first:]
    residuals, others = split.linear.input_ids[: len(split.sources)], split.linear.input_ids[len(split.sources) :]
    chosen = [i for i in moved if i is not None]
    used = set(restrict(split.linear, split.linear.input_ids, chosen).used)
    places = [k for k, i in enumerate(residuals) if i in used]
    linear = restrict(split.linear, [*[residuals[k] for k in places], *others], chosen, keep=True).program
    variables = {"input": forward.input_ids, "output": forward.output_ids, "new": forward.output_ids[total:]}
    kept = [variables[word][place] for word, place in (split.sources[k] for k in places)]
    depends = reached_outputs(restrict(forward, forward.input_ids, kept, keep=True).program, moving)
    if any(reached_outputs(linear, [*depends, *[False] * len(others)])):
        return None
    # What moves is read at zero: of what is computed of it, nothing matters, but an operation may compute both.
    write = Rewrite(forward, [k for k, flag in enumerate(moving) if not flag])
    for i, flag in zip(forward.input_ids, moving, strict=True):
        if flag:
            aval = forward.avals[i]
            write.moved[i] = write.place(broadcast_to_p, (write.literal(aval.dtype.type(0)),), (aval.shape,))
    write.keep_all()
    known = write.finish([*map(write.operand, forward.output_ids[:first]), *map(write.operand, kept)])
    known = restrict(known, known.input_ids, known.output_ids, keep=True, effects=effects).program
    return LinearPart(known, linear, tuple([i is not None for i in moved]))


def transposed_part(program: Program, moving: Sequence[bool]) -> Program | None:
    """Return the transpose of a program that is linear in the inputs flagged by ``moving``; ``None`` if it is not.

    Returns:
        A program like that of `functrace.transforms.transpose.transpose_program`.

    Raises:
        NotDifferentiableError: if it is not linear, and shows so by an operation that cannot be transposed.
    """
    if not is_mixed(program):
        return transpose_program(program, moving)
    part = linear_part(program, moving)
    if part is None:
        return None
    count = len(part.known.output_ids)
    back = transpose_program(part.linear, [False] * count + [True] * sum(moving))
    build = Assembly()
    inputs = [build.input(program.avals[i]) for i, flag in zip(program.input_ids, moving, strict=True) if not flag]
    given = [build.input(program.avals[i]) for i in program.output_ids]
    reached = [i for i, flag in zip(given, part.active, strict=True) if flag]
    outputs = build.splice(back, [*build.splice(part.known, inputs), *reached])
    return build.program(outputs, back.name)
