"""Split programs: what has a native form becomes single operations, NumPy runs the others.

Operations are grouped by how many operations without a native form precede them in the data flow,
so there are as few segments as possible. Loops and branches with such operations stay the NumPy
backend's, and their bodies are split likewise.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from functrace.control.call import call_p, evaluate_fresh
from functrace.executor.plan.planner import Plan, planned
from functrace.executor.policy import Policy
from functrace.ir.parts import Compiled, Rewrite, output_avals, restrict
from functrace.ir.primitive import RuleArgument, always
from functrace.ir.program import Program
from functrace.native.lowering import operations_without_native_form
from functrace.native.rows import ROWS, layout

FEWEST = 2
"""Operations, views not counted, from which a segment is compiled."""

Compile = Callable[[Program], Compiled]


def _eval(*rest: RuleArgument) -> tuple[Any, ...]:
    """Run a segment: by its machine code, once that is there."""
    program = rest[-1]
    run = program.derived.get(native_p)
    return evaluate_fresh(program, rest[:-1]) if run is None else run(*rest[:-1])


def _aval(*rest: RuleArgument) -> Any:
    return output_avals(rest[-1])


native_p = replace(
    call_p,
    name="native",
    eval=_eval,
    aval=_aval,
    params=("program",),
    holds=None,
    written=None,
    fresh=always,
)
"""``native x y {program={…}}``: a segment that is machine code. Only the native backend makes it, so
transforms never see it.
"""


def segmented(program: Program, compile_segment: Compile) -> Program:
    """Return an equal program whose operations with a native form are in segments.

    Args:
        program: an optimized program.
        compile_segment: compiles the program of a segment.
    """
    plan = planned(program, Policy())
    hosts = operations_without_native_form(plan, ROWS)
    if len(hosts) == len(plan.steps):
        return program
    depth: dict[int, int] = {}
    last = 0
    segments: dict[int, list[int]] = {}
    others: dict[int, list[int]] = {}
    for step in plan.steps:
        k = step.first
        primitive, operands, params = program.ops[k]
        is_host = k in hosts
        level = 0
        for i in operands:
            if i in depth:
                level = max(level, depth[i] + (not is_host and owner_is_host(i, hosts, plan)))
        if is_host and primitive.kept is not None and primitive.kept(*params):
            level = last = max(level, last)
        (others if is_host else segments).setdefault(level, []).append(k)
        for j in plan.results(step):
            depth[j] = level
    steps = {step.first: step for step in plan.steps}
    write = Rewrite(program)
    read = {
        k: [i for i in program.ops[k][1] if i >= 0] for k in (step.first for step in plan.steps)
    }
    for level in range(max((*segments, *others), default=-1) + 1):
        own = segments.get(level, [])
        results = [j for k in own for j in plan.results(steps[k])]
        if sum(program.ops[k][0] not in layout.ROWS for k in own) < FEWEST:
            for k in own:
                write.keep(k)
        elif own:
            inside, mine = set(results), set(own)
            wanted = {i for k, ids in read.items() if k not in mine for i in ids}
            wanted.update(program.output_ids)
            outputs = [j for j in results if j in wanted]
            inputs = list(dict.fromkeys(
                i for k in own for i in read[k] if i not in inside and i not in program.constant_values
            ))  # fmt: skip
            part = restrict(program, inputs, outputs, keep=True, effects=False).program.interned()
            part.derived[native_p] = compile_segment(part)
            first = write.place(
                native_p, tuple(write.operand(i) for i in inputs), (part,), write.position(own[0])
            )
            for place, j in enumerate(outputs):
                write.moved[j] = first + place
        for k in others.get(level, []):
            write.keep(k)
    return write.finish()


def owner_is_host(i: int, hosts: Sequence[int] | set[int], plan: Plan) -> bool:
    """Return True if an operation without a native form computes a variable."""
    for step in plan.steps:
        if i in plan.results(step):
            return step.first in hosts
    return False
