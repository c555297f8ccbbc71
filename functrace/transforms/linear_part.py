"""The linear part of a program: what it does to inputs in which it is linear, apart from what it computes of the others.

A rule that a user brings is linear in tangents or cotangents, and may compute anything of the other values; the operations
that it consists of, loops and calls above all, often do both at once. Where the linear part alone is wanted, to be
transposed or to be put onto a linear tape, the program is linearized: the derivative of a linear function is that function,
and `linearize` tells what depends on tangents from what does not, inside of whatever holds programs and by the rules of
whatever has rules. A program that is not linear shows by residuals that depend on what it should be linear in, or by
operations on that which have no derivative (``round``, comparisons).

Layer: 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from functrace.errors import NotDifferentiableError
from functrace.ir.parts import Assembly, Rewrite, restrict
from functrace.ir.primitive import ZERO, Joint
from functrace.ir.program import Program
from functrace.ops.foreign import callback_p
from functrace.ops.shaping import broadcast_to_p
from functrace.tracing.evaluate import evaluate_program
from functrace.transforms.building import is_differentiable, remembered
from functrace.transforms.derivatives import split_program
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


def is_mixed(program: Program, moving: Sequence[bool]) -> bool:
    """Tell whether operations may compute of all their operands together: they hold programs.

    Foreign code that is applied to what moves cannot be linearized. A program of it is transposed operation by operation,
    which uses the rules that the code was given, or says that there are none.
    """
    holds = any(type(primitive.jvp) is Joint for primitive in program.kinds)
    return holds and not remembered(_applies_foreign_code, program, moving)


def _applies_foreign_code(program: Program, moving: Sequence[bool]) -> bool:
    found = {i for i, flag in zip(program.input_ids, moving, strict=True) if flag}
    for k, _ in program.schedule:
        primitive, operands, params = program.ops[k]
        flags = [i in found for i in operands]
        if not any(flags):
            continue
        if primitive is callback_p:
            return True
        if primitive.holds is not None and primitive.holds.moving is not None:
            held = primitive.holds.moving(flags, *params)
            if any(remembered(_applies_foreign_code, body, inputs) for body, inputs in held):
                return True
        found.update(range(k, k + program.result_count(k)))
    return False


def _is_smooth(program: Program, moving: Sequence[bool]) -> bool:
    """Whether everything that matters, and depends on inputs that move, does so by operations that have derivatives."""
    return remembered(_has_derivatives, program, moving)


def _has_derivatives(program: Program, moving: Sequence[bool]) -> bool:
    found = {i for i, flag in zip(program.input_ids, moving, strict=True) if flag}
    for k, _ in program.schedule:
        primitive, operands, params = program.ops[k]
        flags = [i in found for i in operands]
        if not any(flags) or (primitive.kept is not None and primitive.kept(*params) and primitive.holds is None):
            continue
        results: Sequence[int] = range(k, k + program.result_count(k))
        holds = primitive.holds
        if holds is not None and holds.moving is not None:
            if not all(_is_smooth(held, inputs) for held, inputs in holds.moving(flags, *params)):
                return False
        elif primitive.jvp is ZERO or not any(is_differentiable(program.avals[j]) for j in results):
            return False
        if holds is not None and holds.depends is not None:
            results = [j for j, flag in zip(results, holds.depends(flags, *params), strict=True) if flag]
        found.update(results)
    return True


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
    if not _is_smooth(program, moving):
        return None
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


def apply_linear(program: Program, known: Sequence[Any], moved: Sequence[Any]) -> list[Any]:
    """Apply a program that is linear in its last inputs; what it computes of the others is recorded with these.

    Returns:
        its outputs, ``None`` for those that do not depend on ``moved``. One that is not linear is applied as it is: where it
        is transposed, that is refused.
    """
    moving = [False] * len(known) + [True] * len(moved)
    part = linear_part(program, moving) if is_mixed(program, moving) else None
    if part is None:
        return list(evaluate_program(program, [*known, *moved]))
    found = iter(evaluate_program(part.linear, [*evaluate_program(part.known, known), *moved]))
    return [next(found) if flag else None for flag in part.active]


def transposed_part(program: Program, moving: Sequence[bool]) -> Program:
    """Return the transpose of a program that is linear in the inputs flagged by ``moving``, and may hold programs.

    Returns:
        A program like that of `functrace.transforms.transpose.transpose_program`.

    Raises:
        NotDifferentiableError: if it is not linear.
    """
    inputs = [program.avals[i] for i, flag in zip(program.input_ids, moving, strict=True) if flag]
    if not is_mixed(program, moving) or not all(map(is_differentiable, inputs)):
        return transpose_program(program, moving)
    part = linear_part(program, moving)
    if part is None:
        raise NotDifferentiableError(
            f"what is transposed here, {program.name}, is not linear: its derivative depends on what it should be linear in",
            fix="make it linear; a custom_vjp whose backward rule is not linear has forward mode by a jvp rule of its own",
        )
    count = len(part.known.output_ids)
    back = transpose_program(part.linear, [False] * count + [True] * sum(moving))
    build = Assembly()
    known = [build.input(program.avals[i]) for i, flag in zip(program.input_ids, moving, strict=True) if not flag]
    given = [build.input(program.avals[i]) for i in program.output_ids]
    reached = [i for i, flag in zip(given, part.active, strict=True) if flag]
    outputs = build.splice(back, [*build.splice(part.known, known), *reached])
    return build.program(outputs, back.name)
