"""`jvp_program` and `linearize_program`: by the rules (transforms/linearize.py), or put together of templates.

Floor: 3.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from functrace.ir.program import Program
from functrace.transforms.linearize import active_inputs, jvp_by_rules, linearize_by_rules, remembered
from functrace.transforms.splice import Splice, with_slots
from functrace.transforms.templates import Chosen, choose


def jvp_program(program: Program, active: Sequence[bool] | None = None, count: int | None = None) -> Program:
    """Return the program that computes outputs and their tangents.

    Args:
        program: the program to differentiate.
        active: one flag per input; ``None`` means every input with a float or complex dtype.
        count: how many of the outputs, from the first on, are differentiated (all by default); the others are auxiliary.

    Returns:
        A program whose inputs are the primals, then one tangent per active input, and whose outputs are the outputs,
        then one tangent per differentiated output (zeros where an output does not depend on an active input).

    Cost:
        2 to 3 times the program. To make it takes about 4 us per operation by the rules, 2 by templates.
    """
    return remembered(_jvp_program, program, active, count)


def _jvp_program(program: Program, active: Sequence[bool] | None, count: int | None) -> Program:
    chosen = _chosen(program, active)
    if chosen is None or any(template is not None and template.interleaves for template in set(chosen.templates)):
        return jvp_by_rules(program, active, count)
    avals = program.avals
    write = Splice(program)
    tangents = {i: write.input(avals[i]) for i in active_inputs(program, active)}
    for k, template, here in with_slots(program, chosen, program.output_ids[:count]):
        write.pieces(template, 0, template.ahead, here, k)
        tangents[k] = write.pushing(template, _of_operands(program, chosen, tangents, k), here, k)
    return write.finish([*program.output_ids, *_outputs(write, program, chosen, tangents, count)], f"jvp_of_{program.name}")


def linearize_program(
    program: Program, active: Sequence[bool] | None = None, count: int | None = None
) -> tuple[Program, Program]:
    """Split a program into a forward program and a linear one.

    Args:
        program: the program to linearize.
        active: one flag per input; ``None`` means every input with a float or complex dtype.
        count: how many of the outputs, from the first on, are differentiated (all by default); the others are auxiliary.

    Returns:
        ``forward``, with the program's inputs; its outputs are the program's, then the residuals. ``linear``, whose
        inputs are the residuals, then one tangent per active input, and whose outputs are the tangents of the
        differentiated outputs.

    Cost:
        forward: 1 to 2 times the program; residuals are at most a few values per equation.
    """
    chosen = _chosen(program, active)
    if chosen is None:
        return linearize_by_rules(program, active, count)
    avals = program.avals
    ahead, behind = Splice(program), Splice(program, empty=True)
    tangents = {i: behind.input(avals[i]) for i in active_inputs(program, active)}
    first, behind.inputs = behind.inputs, []
    residuals: dict[int, int] = {}
    for k, template, here in with_slots(program, chosen, program.output_ids[:count]):
        ahead.residuals(template, here, k, behind, residuals)
        read = [residuals.get(i, i) if i >= 0 else i for i in here]
        tangents[k] = behind.pushing(template, _of_operands(program, chosen, tangents, k), read, k)
    outs = _outputs(behind, program, chosen, tangents, count)
    behind.inputs += first
    forward = ahead.finish([*program.output_ids, *residuals], f"forward_of_{program.name}")
    return forward, behind.finish(outs, f"linear_of_{program.name}")


def _chosen(program: Program, active: Sequence[bool] | None) -> Chosen | None:
    moving = set(active_inputs(program, active))
    return choose(program, [i in moving for i in program.input_ids])


def _of_operands(program: Program, chosen: Chosen, tangents: dict[int, int], k: int) -> list[int]:
    """The tangents of what an operation reads; -1 where there is none."""
    return [tangents.get(chosen.roots[i], -1) if i >= 0 else -1 for i in program.ops[k][1]]


def _outputs(write: Splice, program: Program, chosen: Chosen, tangents: dict[int, int], count: int | None) -> list[int]:
    """The tangents of the outputs; zeros where there is none."""
    found: list[int] = []
    for i in program.output_ids[:count]:
        tangent, aval = tangents.get(chosen.roots[i]), program.avals[i]
        found.append(write.constant(np.zeros(aval.shape, aval.dtype)[()], aval) if tangent is None else tangent)
    return found
