"""Derivatives with rematerialization: programs of tangents, or cotangents, from few saved values.

`linearize_program` (transforms/derivatives.py) saves all residuals of the linear part. Here the
caller says which variables may be saved; all other residuals are recomputed from them. The backward
nodes of the torch shim, which may save their operands and results, are implemented this way.
(`checkpoint` also links recomputed values to the first ones: control/choosing.py.)

Layer: 4.
"""

from __future__ import annotations

from collections.abc import Sequence

from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import Assembly, restrict
from functrace.ir.program import Program
from functrace.ops.shaping import broadcast_to_p
from functrace.transforms.building import active_inputs, finish, operand_of, take_residuals
from functrace.transforms.tape_sink import TapeSink
from functrace.transforms.transpose import transpose_program
from functrace.transforms.walk import forward


def tangent_program(
    program: Program, active: Sequence[bool] | None = None, saved: Sequence[int] | None = None
) -> tuple[Program, tuple[int, ...]]:
    """Make the program of the tangents alone, which recomputes the primals that it reads from saved
    ones.

    Args:
        program: the program to differentiate.
        active: one flag per input; ``None`` means every input with a float or complex dtype.
        saved: variables of ``program`` that may be saved; its inputs by default. The others must be
            computable from them.

    Returns:
        the program, and those of ``saved`` that it needs. Its inputs are their values, then one
        tangent per active input; its outputs are the tangents of the outputs.

    Raises:
        NotDifferentiableError: if an operation has no derivative.

    Example:
        >>> import numpy as np, functrace as ft
        >>> program = ft.trace(lambda x: np.sin(x))(1.0)
        >>> tangents, saved = ft.transforms.tangent_program(program)
        >>> saved == program.input_ids, ft.evaluate(tangents, 0.0, 3.0)  # cos(0) * 3
        (True, np.float64(3.0))

    Cost:
        1 to 3 times the program: the needed part of it is recomputed.
    """
    moving = set(active_inputs(program, active))
    sink = TapeSink(program, "linearize", pushes=True, splits=True)
    # By the rules: a template for symbolic sizes would never be used again.
    walked = forward(program, [i in moving for i in program.input_ids], sink, by_rules=True)
    outs = [
        _output(sink, walked.tangents.get(walked.roots[i]), program.avals[i])
        for i in program.output_ids
    ]
    residuals = take_residuals(sink.second)
    pushed = finish(sink.second, outs, program, f"tangents_of_{program.name}")
    chosen = {sink.moved[i]: i for i in (program.input_ids if saved is None else saved)}
    primals = restrict(
        finish(sink.known, residuals, program, program.name), tuple(chosen), residuals
    )
    build = Assembly()
    inputs = [build.input(program.avals[chosen[i]]) for i in primals.used]
    tangents = [build.input(pushed.avals[i]) for i in pushed.input_ids[len(residuals) :]]
    outputs = build.splice(pushed, [*build.splice(primals.program, inputs), *tangents])
    return build.program(outputs, pushed.name), tuple(chosen[i] for i in primals.used)


def _output(sink: TapeSink, tangent: int | None, aval: ShapeDtype) -> int:
    """Return the variable of an output's tangent; zeros take no memory."""
    if tangent is not None:
        return tangent
    return operand_of(
        sink.second, sink.second.record(broadcast_to_p, (aval.dtype.type(0),), (aval.shape,)), aval
    )


def backward_program(
    program: Program, active: Sequence[bool] | None = None, saved: Sequence[int] | None = None
) -> tuple[Program, tuple[int, ...]]:
    """Make the program of the cotangents alone: the transpose of `tangent_program`.

    Args:
        program: the program to differentiate.
        active: one flag per input; ``None`` means every input with a float or complex dtype.
        saved: variables of ``program`` that may be saved; its inputs by default. The others are
            recomputed from them.

    Returns:
        the program, and those of ``saved`` that it needs. Its inputs are their values, then one
        cotangent per output; its outputs are the cotangents of the active inputs.

    Raises:
        NotDifferentiableError: if an operation has no derivative.

    Example:
        >>> import numpy as np, functrace as ft
        >>> program = ft.trace(lambda x: np.sin(x))(1.0)
        >>> backward, saved = ft.transforms.backward_program(program)
        >>> saved == program.input_ids, ft.evaluate(backward, 0.0, 3.0)  # cos(0) * 3
        (True, np.float64(3.0))

    Cost:
        1 to 3 times the program: the needed part of it is recomputed.
    """
    tangents, needed = tangent_program(program, active, saved)
    count = len(tangents.input_ids) - len(needed)
    return transpose_program(tangents, [False] * len(needed) + [True] * count), needed
