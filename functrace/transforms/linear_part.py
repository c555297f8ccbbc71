"""The linear part of a program: its action on the inputs in which it is linear.

A custom rule is linear in tangents or cotangents, and may compute anything from other values; its
operations, loops and calls above all, often do both at once. To transpose the linear part alone, or
to put it onto a linear tape, the program is linearized: the derivative of a linear function is that
function, and `linearize` separates operations that depend on tangents from others, inside of
sub-programs and by custom rules. A program that is not linear is detected by residuals that depend
on its linear inputs, or by operations on these that have no derivative (``round``, comparisons).

Layer: 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from functrace.errors import NotDifferentiableError
from functrace.ir.parts import Assembly, Rewrite, restrict
from functrace.ir.primitive import ZERO, ReplacingJvp
from functrace.ir.program import Program
from functrace.ops.foreign import callback_p
from functrace.ops.shaping import broadcast_to_p
from functrace.tracing.evaluate import evaluate_program
from functrace.transforms.building import is_differentiable, remembered
from functrace.transforms.derivatives import split_program
from functrace.transforms.transpose import transpose_program
from functrace.transforms.vmap import reached_outputs


class LinearPart(NamedTuple):
    """Result of `linear_part`.

    Args:
        known: from the inputs that are not linear to the first outputs, then residuals.
        linear: from the residuals and the linear inputs to the other outputs that depend on these.
        active: one flag per other output: True if it depends on a linear input.
    """

    known: Program
    linear: Program
    active: tuple[bool, ...]


def is_mixed(program: Program, moving: Sequence[bool]) -> bool:
    """Return True if operations may mix linear and other operands: they have sub-programs.

    Foreign code on linear operands cannot be linearized. A program with it is transposed operation
    by operation, which uses the rules of the code, or raises that there are none.
    """
    holds = any(type(primitive.jvp) is ReplacingJvp for primitive in program.kinds)
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
    """Return True if live dependence on moving inputs is through operations with derivatives."""
    return remembered(_has_derivatives, program, moving)


def _has_derivatives(program: Program, moving: Sequence[bool]) -> bool:
    found = {i for i, flag in zip(program.input_ids, moving, strict=True) if flag}
    for k, _ in program.schedule:
        primitive, operands, params = program.ops[k]
        flags = [i in found for i in operands]
        if not any(flags) or (
            primitive.kept is not None and primitive.kept(*params) and primitive.holds is None
        ):
            continue
        results: Sequence[int] = range(k, k + program.result_count(k))
        holds = primitive.holds
        if holds is not None and holds.moving is not None:
            if not all(_is_smooth(held, inputs) for held, inputs in holds.moving(flags, *params)):
                return False
        elif primitive.jvp is ZERO or not any(is_differentiable(program.avals[j]) for j in results):
            return False
        if holds is not None and holds.depends is not None:
            results = [
                j for j, flag in zip(results, holds.depends(flags, *params), strict=True) if flag
            ]
        found.update(results)
    return True


def linear_part(
    program: Program, moving: Sequence[bool], first: int = 0, *, effects: bool = False
) -> LinearPart | None:
    """Return the linear part of a program, memoized; ``None`` if it is not linear.

    Args:
        program: a program, linear in some of its inputs.
        moving: one flag per input: True if the program is linear in it.
        first: number of leading outputs that do not depend on linear inputs.
        effects: True to include side effects in the non-linear part.
    """
    return remembered(_linear_part, program, moving, first, effects)


def _linear_part(
    program: Program, moving: Sequence[bool], first: int, effects: bool
) -> LinearPart | None:
    if not _is_smooth(program, moving):
        return None
    split = split_program(program, moving)
    forward, total = split.forward, len(program.output_ids)
    by_output = iter(split.linear.output_ids)
    moved = [next(by_output) if flag else None for flag in split.active][first:]
    residuals, others = (
        split.linear.input_ids[: len(split.sources)],
        split.linear.input_ids[len(split.sources) :],
    )
    chosen = [i for i in moved if i is not None]
    used = set(restrict(split.linear, split.linear.input_ids, chosen).used)
    places = [k for k, i in enumerate(residuals) if i in used]
    linear = restrict(
        split.linear, [*[residuals[k] for k in places], *others], chosen, keep=True
    ).program
    variables = {
        "input": forward.input_ids,
        "output": forward.output_ids,
        "new": forward.output_ids[total:],
    }
    kept = [variables[word][place] for word, place in (split.sources[k] for k in places)]
    depends = reached_outputs(restrict(forward, forward.input_ids, kept, keep=True).program, moving)
    if any(reached_outputs(linear, [*depends, *[False] * len(others)])):
        return None
    # Linear inputs are zero here: values computed from them are dead, but an operation may compute
    # both.
    write = Rewrite(forward, [k for k, flag in enumerate(moving) if not flag])
    for i, flag in zip(forward.input_ids, moving, strict=True):
        if flag:
            aval = forward.avals[i]
            write.moved[i] = write.place(
                broadcast_to_p, (write.literal(aval.dtype.type(0)),), (aval.shape,)
            )
    write.keep_all()
    known = write.finish(
        [*map(write.operand, forward.output_ids[:first]), *map(write.operand, kept)]
    )
    known = restrict(known, known.input_ids, known.output_ids, keep=True, effects=effects).program
    return LinearPart(known, linear, tuple([i is not None for i in moved]))


def apply_linear(program: Program, known: Sequence[Any], moved: Sequence[Any]) -> list[Any]:
    """Apply a program that is linear in its last inputs; record its non-linear part with ``known``.

    Returns:
        its outputs, ``None`` for those that do not depend on ``moved``. A program that is not
        linear is applied as it is: transposing it raises.
    """
    moving = [False] * len(known) + [True] * len(moved)
    part = linear_part(program, moving) if is_mixed(program, moving) else None
    if part is None:
        return list(evaluate_program(program, [*known, *moved]))
    found = iter(evaluate_program(part.linear, [*evaluate_program(part.known, known), *moved]))
    return [next(found) if flag else None for flag in part.active]


def transposed_part(program: Program, moving: Sequence[bool]) -> Program:
    """Return the transpose of a program, with sub-programs, that is linear in inputs in ``moving``.

    Returns:
        A program like the result of `functrace.transforms.transpose.transpose_program`.

    Raises:
        NotDifferentiableError: if it is not linear.
    """
    inputs = [program.avals[i] for i, flag in zip(program.input_ids, moving, strict=True) if flag]
    if not is_mixed(program, moving) or not all(map(is_differentiable, inputs)):
        return transpose_program(program, moving)
    part = linear_part(program, moving)
    if part is None:
        raise NotDifferentiableError(
            f"the transposed function {program.name} is not linear: its derivative depends on what "
            "it should be linear in",
            fix="make it linear; a custom_vjp whose backward rule is not linear has forward mode "
            "by a jvp rule of its own",
        )
    count = len(part.known.output_ids)
    back = transpose_program(part.linear, [False] * count + [True] * sum(moving))
    build = Assembly()
    known = [
        build.input(program.avals[i])
        for i, flag in zip(program.input_ids, moving, strict=True)
        if not flag
    ]
    given = [build.input(program.avals[i]) for i in program.output_ids]
    reached = [i for i, flag in zip(given, part.active, strict=True) if flag]
    outputs = build.splice(back, [*build.splice(part.known, known), *reached])
    return build.program(outputs, back.name)
