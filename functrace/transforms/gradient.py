"""Gradients: the program of a function and its gradient, forward and backward in one.

It is made by the rules of the operations, or put together of templates (transforms/templates.py): the same tape.

Floor: 3.
"""

# A tracer's own fields are underscored for users; the library's rooms read them.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from functrace.ir.aval import ShapeDtype
from functrace.ir.program import Program
from functrace.ops.elementwise import add
from functrace.ops.shaping import broadcast_to
from functrace.steps import finished
from functrace.transforms.linearize import finish, linearize_by_rules, operand_of, split_linear
from functrace.transforms.splice import Splice, with_slots
from functrace.transforms.templates import Chosen, choose
from functrace.transforms.transpose import linear_variables, pull_cotangents, transpose_program


def grad_program(program: Program, active: Sequence[bool], with_value: bool = True) -> Program:
    """Return the program that computes outputs, then gradients of the first output by the active inputs.

    The backward pass is recorded onto the continued tape itself, so that forward and backward are one program.

    Args:
        program: a program whose first output is a scalar.
        active: one flag per input.
        with_value: whether the first output is among the results; otherwise what only it needs is not computed.

    Cost:
        2 to 4 times the program, whatever the number of inputs.
    """
    chosen = choose(program, active)
    if chosen is None:
        return grad_program_by_rules(program, active, with_value)
    return finished(splicing(program, chosen, active, with_value, sys.maxsize))


def grad_program_by_rules(program: Program, active: Sequence[bool], with_value: bool = True) -> Program:
    """Return what `grad_program` does, by the rules."""
    walk, linear = split_linear(program, active, 1)
    known, tangents = walk.known, walk.tangents
    by_input = [i for i, flag in zip(program.input_ids, active, strict=True) if flag]
    starts = list(linear.inputs)
    cotangents: dict[int, Any] = {}
    out = program.output_ids[0]
    if out in tangents:
        aval = program.avals[out]
        seed = known.handle(known.constant(np.ones((), aval.dtype)[()], ShapeDtype((), aval.dtype)))
        cotangents[tangents[out]._id] = broadcast_to(seed, aval.shape)
    captured = linear.constants
    literals = linear.literals

    def value(i: int) -> Any:
        return captured[i] if i >= 0 else literals[~i]

    lin = linear_variables(linear.ops, starts)
    pull_cotangents(linear.ops, linear.avals, lin, value, cotangents, known, linear.origins)
    outs = [operand_of(known, cotangents.get(s), program.avals[i]) for s, i in zip(starts, by_input, strict=True)]
    linear.close()
    kept = walk.outputs if with_value else walk.outputs[1:]
    return finish(known, (*kept, *outs), program, f"grad_of_{program.name}")


def splicing(
    program: Program, chosen: Chosen, active: Sequence[bool], with_value: bool, size: int
) -> Generator[None, None, Program]:
    """Make the program that the rules give of templates, in steps of ``size`` operations.

    Cost:
        about 1.5 us per operation.
    """
    write = Splice(program)
    templates, roots = chosen.templates, chosen.roots
    out, count = program.output_ids[0], len(program.ops)
    slots: dict[int, list[int]] = {}
    done = 0
    for k, template, here in with_slots(program, chosen, (out,)):
        slots[k] = here
        write.pieces(template, 0, template.ahead, here, k)
        done += 1
        if not done % size:
            yield
    cotangents: list[int | None] = [None] * count
    if chosen.active[out]:
        first = roots[out] if roots[out] in slots else None  # whose rule comes first
        cotangents[roots[out]] = write.constant(np.ones((), program.avals[out].dtype)[()], program.avals[out])
        write.origins[-1] = first
    for k in range(out, -1, -1):
        cotangent = cotangents[k]
        if cotangent is None or k not in slots:
            continue
        template = templates[k]
        assert template is not None
        here = slots.pop(k)
        operands = program.ops[k][1]
        here[len(operands) + 1] = cotangent
        written = template.ahead
        for place, slot, length in template.contributions:
            write.pieces(template, written, length, here, k)
            written = length
            i, found = roots[operands[place]], here[slot]
            before = cotangents[i]
            cotangents[i] = found if before is None else write.place(add, (before, found), program.avals[i], k)
        write.pieces(template, written, len(template.pieces), here, k)
        done += 1
        if not done % size:
            yield
    outs = list(program.output_ids if with_value else program.output_ids[1:])
    for i, flag in zip(program.input_ids, active, strict=True):
        if flag:
            found, aval = cotangents[i], program.avals[i]
            outs.append(write.constant(np.zeros(aval.shape, aval.dtype)[()], aval) if found is None else found)
    return write.finish(outs, f"grad_of_{program.name}")


def pullback_programs(program: Program, active: Sequence[bool], count: int) -> tuple[Program, Program]:
    """Return the forward program of a pullback, and the program of its cotangents.

    Args:
        program: the program to be differentiated.
        active: one flag per input.
        count: how many of the outputs, from the first on, are differentiated.

    Returns:
        ``forward``, whose outputs are the program's, then residuals, and ``backward``, from residuals and one cotangent
        per differentiated output to those of the active inputs.

    Cost:
        about 9 us per operation by the rules, 3 by templates.
    """
    chosen = choose(program, active)
    if chosen is not None:
        return _pullback_by_templates(program, chosen, active, count)
    forward, linear = linearize_by_rules(program, active, count)
    moving = sum(active)
    return forward, transpose_program(linear, [False] * (len(linear.input_ids) - moving) + [True] * moving)


def _pullback_by_templates(program: Program, chosen: Chosen, active: Sequence[bool], count: int) -> tuple[Program, Program]:
    """Make both programs of templates."""
    ahead = Splice(program)
    templates, roots, avals = chosen.templates, chosen.roots, program.avals
    slots: dict[int, list[int]] = {}
    residuals: dict[int, int] = {}
    behind = Splice(program, empty=True)
    outputs = program.output_ids[:count]
    for k, template, here in with_slots(program, chosen, outputs):
        slots[k] = here
        ahead.residuals(template, here, k, behind, residuals)
    given = [behind.input(avals[i]) for i in outputs]
    cotangents: dict[int, int] = {}
    for i, cotangent in zip(outputs, given, strict=True):
        if chosen.active[i]:
            before = cotangents.get(roots[i])
            added = cotangent if before is None else behind.place(add, (before, cotangent), avals[i], None)
            cotangents[roots[i]] = added
    for k in sorted(slots, reverse=True):
        cotangent, template = cotangents.pop(k, None), templates[k]
        if cotangent is None or template is None:
            continue
        operands = program.ops[k][1]
        here = [residuals.get(i, i) if i >= 0 else i for i in slots[k]]
        here[len(operands) + 1] = cotangent
        written = template.ahead
        for place, slot, length in template.contributions:
            behind.pieces(template, written, length, here, k)
            written = length
            i, found = roots[operands[place]], here[slot]
            before = cotangents.get(i)
            cotangents[i] = found if before is None else behind.place(add, (before, found), avals[i], k)
        behind.pieces(template, written, len(template.pieces), here, k)
    outs: list[int] = []
    for i, flag in zip(program.input_ids, active, strict=True):
        if flag:
            found = cotangents.get(i)
            outs.append(behind.constant(np.zeros(avals[i].shape, avals[i].dtype)[()], avals[i]) if found is None else found)
    forward = ahead.finish((*program.output_ids, *residuals), f"forward_of_{program.name}")
    return forward, behind.finish(outs, f"transpose_of_linear_of_{program.name}")
