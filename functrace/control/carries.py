"""Carries and constants of loops: fixed points of flags (tangents, batch axes), and hoisting of
loop invariants.

A carry that is constant at first may depend on more after a step: a carry that gets a tangent, a
cotangent or a batch axis in a step has it from the start. Residuals that depend only on constants
of the loop are computed once, and not stacked.

Layer: 5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functrace.control.call import call_program, zeros_of
from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import restrict
from functrace.ir.primitive import Values
from functrace.ir.program import Program
from functrace.transforms.derivatives import SplitProgram, split_program


def settled(
    flagged_outputs: Callable[[Program, Sequence[bool]], Sequence[bool]],
    body: Program,
    flags: Sequence[bool],
    constants: int,
    carries: int,
) -> tuple[list[bool], list[bool]]:
    """Propagate flags to a fixed point: a carry that gets a flag in a step has it from the start.

    Args:
        flagged_outputs: from a program and flags of its inputs to flags of its outputs.
        body: from constants, carry and others to carry and others.
        flags: of its inputs, at the first step.
        constants, carries: numbers of these inputs.

    Returns:
        the flags of inputs and outputs, at every step.
    """
    inputs = list(flags)
    while True:
        outputs = flagged_outputs(body, inputs)
        before = inputs[constants : constants + carries]
        grown = [a or b for a, b in zip(before, outputs, strict=False)]
        if grown == before:
            return inputs, [*grown, *outputs[carries:]]
        inputs[constants : constants + carries] = grown


def split_body(
    body: Program, flags: Sequence[bool], constants: int, carries: int
) -> tuple[list[bool], SplitProgram]:
    """Split the body, with tangents for carries that start with one or get one in a step.

    Returns:
        flags of the inputs that have tangents, and the split.
    """
    inputs = list(flags)
    while True:
        needed = [
            *inputs[constants : constants + carries],
            *[False] * (len(body.output_ids) - carries),
        ]
        made = split_program(body, inputs, needed)
        active = made.active[:carries]
        if active == tuple(inputs[constants : constants + carries]):
            return inputs, made
        inputs[constants : constants + carries] = active


def zeros_where(
    flags: Sequence[bool], values: Sequence[Any], like: Sequence[ShapeDtype]
) -> list[Any]:
    """Return the flagged values, with zeros for missing ones."""
    return [
        zeros_of(aval) if value is None else value
        for flag, value, aval in zip(flags, values, like, strict=True)
        if flag
    ]


def source_variables(forward: Program, count: int) -> dict[str, tuple[int, ...]]:
    """Return the variables to which the sources of residuals refer."""
    return {
        "input": forward.input_ids,
        "output": forward.output_ids,
        "new": forward.output_ids[count:],
    }


def hoisted(split: SplitProgram, body: Program, constants: int) -> tuple[list[int], list[int]]:
    """Divide the residuals into loop-invariant and per-step ones; returns their indices."""
    forward, count = split.forward, len(body.output_ids)
    varying = set(forward.input_ids[constants:])
    for k, _ in forward.schedule:
        if forward.ops[k][0].effects or not varying.isdisjoint(forward.ops[k][1]):
            varying.update(range(k, k + forward.result_count(k)))
    variable = source_variables(forward, count)
    flags = [variable[word][place] in varying for word, place in split.sources]
    return [n for n, flag in enumerate(flags) if not flag], [
        n for n, flag in enumerate(flags) if flag
    ]


def invariants(
    forward: Program,
    split: SplitProgram,
    invariant: list[int],
    primals: Values,
    constants: int,
    count: int,
) -> list[Any]:
    """Compute the loop-invariant residuals, once."""
    variable = source_variables(forward, count)
    wanted = [variable[word][place] for word, place in (split.sources[n] for n in invariant)]
    direct = {i: primals[k] for k, i in enumerate(forward.input_ids[:constants])}
    computed = [i for i in dict.fromkeys(wanted) if i not in direct]
    if computed:
        part = restrict(forward, forward.input_ids[:constants], computed)
        results = call_program(part.program.interned(), [direct[i] for i in part.used])
        direct.update(zip(computed, results, strict=True))
    return [direct[i] for i in wanted]
