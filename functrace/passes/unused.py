"""Unused results: operations that hold programs compute only those of their results that somebody reads.

A loop whose stacked results are not needed does not stack them; a choice whose result is not needed does not make it.

Floor: 5.
"""

from __future__ import annotations

from typing import Any

from functrace.control.cond import cond_p
from functrace.control.scan import scan_p
from functrace.ir.parts import Assembly, restrict
from functrace.ir.program import Program


def drop_unused(program: Program) -> Program:
    """Return an equal program in which loops and choices have no results that nothing depends on.

    Args:
        program: any program.

    Cost:
        nothing, if there are no loops or choices; else about 2 us per equation.
    """
    if not any(op[0] in (scan_p, cond_p) for op in program.ops):
        return program
    read = set(program.output_ids)
    for k, _ in program.schedule:
        read.update(program.ops[k][1])
    build = Assembly()
    moved = {i: build.input(program.avals[i]) for i in program.input_ids}
    for i, value in program.constant_values.items():
        moved[i] = build.constant(value, program.avals[i])
    for k, _ in program.schedule:
        primitive, operands, params = program.ops[k]
        results = range(k, k + program.result_count(k))
        if primitive is scan_p:
            always = params[4]  # a carry that nobody reads at the end may still serve the next step
            kept = [j for j in results if j in read or j < k + always]
        elif primitive is cond_p:
            kept = [j for j in results if j in read]
        else:
            kept = list(results)
        if len(kept) == len(results):
            build.copy(program, k, moved)
            continue
        position = program.positions[k] if k < len(program.positions) else None
        chosen = _with_results(params, [j - k for j in kept])
        first = build.place(primitive, tuple([moved[i] for i in operands]), chosen, position)
        moved.update({j: first + n for n, j in enumerate(kept)})
    return build.program([moved[i] for i in program.output_ids], program.name, program.input_names)


def _with_results(params: tuple[Any, ...], places: list[int]) -> tuple[Any, ...]:
    """The params of a loop or a choice of which only some results are wanted."""

    def part(held: Program) -> Program:
        outputs = [held.output_ids[n] for n in places]
        return restrict(held, held.input_ids, outputs, keep=True).program.interned()

    held = params[0]
    return (part(held) if isinstance(held, Program) else tuple(map(part, held)), *params[1:])
