"""Unused results: operations that hold programs compute only those of their results that somebody reads.

A loop whose stacked results are not needed does not stack them; a choice whose result is not needed does not make it.

Floor: 5.
"""

from __future__ import annotations

from typing import Any

from functrace.ir.parts import Assembly, restrict
from functrace.ir.program import Program


def drop_unused(program: Program) -> Program:
    """Return an equal program in which loops and choices have no results that nothing depends on.

    Args:
        program: any program.

    Cost:
        nothing, if there are no loops or choices; else about 2 us per equation.
    """
    if not any(primitive.holds is not None and primitive.holds.kept is not None for primitive, _, _ in program.ops):
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
        kept = list(results)
        if primitive.holds is not None and primitive.holds.kept is not None:
            kept = [k + place for place in primitive.holds.kept({j - k for j in results if j in read}, *params)]
        if len(kept) == len(results):
            build.copy(program, k, moved)
            continue
        position = program.positions[k] if k < len(program.positions) else None
        chosen = _with_results(params, [j - k for j in kept])
        first = build.place(primitive, tuple([moved[i] for i in operands]), chosen, position)
        moved.update({j: first + n for n, j in enumerate(kept)})
    return build.program([moved[i] for i in program.output_ids], program.name, program.input_names)


def _with_results(params: Any, places: list[int]) -> Any:
    """Params whose programs have only some of their results."""
    if isinstance(params, Program):
        outputs = [params.output_ids[n] for n in places]
        return restrict(params, params.input_ids, outputs, keep=True).program.interned()
    return tuple([_with_results(part, places) for part in params]) if type(params) is tuple else params
