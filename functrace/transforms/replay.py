"""Derivatives that recompute: programs of tangents, or cotangents, from few saved values.

`linearize_program` (transforms/pushforward.py) saves whatever the linear part reads. Here the caller says which variables
may be saved; everything else that the linear part reads is computed again from them. This is what `checkpoint` is, and what
a backward node of the shim holds: its operands and results are what it may save.

Floor: 3.
"""

from __future__ import annotations

from collections.abc import Sequence

from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import Assembly, restrict
from functrace.ir.program import Program
from functrace.ops.shaping import broadcast_to_p
from functrace.tracing import Recording, Tracer
from functrace.transforms.linearize import finish, operand_of, split_linear, take_residuals
from functrace.transforms.transpose import transpose_program


def tangent_program(
    program: Program, active: Sequence[bool] | None = None, saved: Sequence[int] | None = None
) -> tuple[Program, tuple[int, ...]]:
    """Return the program of the tangents alone, which computes the primals that it reads from saved ones.

    Args:
        program: the program to differentiate.
        active: one flag per input; ``None`` means every input with a float or complex dtype.
        saved: variables of ``program`` that may be saved; its inputs by default. They must suffice to compute the
            others that are needed.

    Returns:
        the program, and those of ``saved`` that it needs. Its inputs are their values, then one tangent per active input;
        its outputs are the tangents of the outputs.

    Cost:
        1 to 3 times the program: it is run again as far as its derivative needs it.
    """
    walk, linear = split_linear(program, active)
    outs = [_output(linear, walk.tangents.get(i), program.avals[i]) for i in program.output_ids]
    residuals = take_residuals(linear)
    pushed = finish(linear, outs, program, f"tangents_of_{program.name}")
    chosen = {walk.moved[i]: i for i in (program.input_ids if saved is None else saved)}
    primals = restrict(finish(walk.known, residuals, program, program.name), tuple(chosen), residuals)
    build = Assembly()
    inputs = [build.input(program.avals[chosen[i]]) for i in primals.used]
    tangents = [build.input(pushed.avals[i]) for i in pushed.input_ids[len(residuals) :]]
    outputs = build.splice(pushed, [*build.splice(primals.program, inputs), *tangents])
    return build.program(outputs, pushed.name), tuple(chosen[i] for i in primals.used)


def _output(linear: Recording, tangent: Tracer | None, aval: ShapeDtype) -> int:
    """The variable that an output's tangent stands in; zeros take no memory, and their sizes need not be known."""
    if tangent is None:
        tangent = linear.record(broadcast_to_p, (aval.dtype.type(0),), (aval.shape,))
    return operand_of(linear, tangent, aval)


def backward_program(
    program: Program, active: Sequence[bool] | None = None, saved: Sequence[int] | None = None
) -> tuple[Program, tuple[int, ...]]:
    """Return the program of the cotangents alone: the transpose of `tangent_program`.

    Returns:
        the program, and the variables of ``program`` that it needs. Its inputs are their values, then one cotangent per
        output; its outputs are the cotangents of the active inputs.
    """
    tangents, needed = tangent_program(program, active, saved)
    count = len(tangents.input_ids) - len(needed)
    return transpose_program(tangents, [False] * len(needed) + [True] * count), needed
