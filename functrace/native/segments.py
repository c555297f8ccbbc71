"""Split programs: what has a native form becomes single operations, NumPy runs the others.

Operations are grouped by how many operations without a native form precede them in the data flow,
so there are as few segments as possible. Loops and branches with such operations stay the NumPy
backend's, and their bodies are split likewise.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from functrace.control.call import call_p, evaluate_fresh
from functrace.executor.plan.layouts import Layouts
from functrace.executor.plan.planner import Plan, planned
from functrace.executor.policy import Policy
from functrace.ir.parts import Compiled, Rewrite, output_avals, restrict
from functrace.ir.primitive import RuleArgument, always
from functrace.ir.program import Program
from functrace.native.llvm_text import block_bytes
from functrace.native.lowering import (
    NoNativeForm,
    RowTable,
    lower,
    operations_without_native_form,
)
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


def _block_bytes(_inputs: object, _outputs: object, params: Mapping[str, Any]) -> int:
    """Return the bytes of a segment's temporaries. A ``scratch`` rule."""
    program: Program = params["program"]
    found = program.derived.get(_block_bytes)
    if found is None:
        function = lower(planned(program, Policy()), ROWS, program.name)
        found = program.derived[_block_bytes] = block_bytes(function)
    return found


native_p = replace(
    call_p,
    name="native",
    eval=_eval,
    aval=_aval,
    params=("program",),
    holds=None,
    written=None,
    fresh=always,
    scratch=_block_bytes,
)
"""``native x y {program={…}}``: a segment that is machine code. Only the native backend makes it, so
transforms never see it.
"""


def segmented(program: Program, compile_segment: Compile, rows: RowTable = ROWS) -> Program:
    """Return an equal program whose operations with a native form are in segments.

    Args:
        program: an optimized program.
        compile_segment: compiles the program of a segment; raises `NoNativeForm` if it is too long.
        rows: lowering by primitive.
    """
    plan = planned(program, Policy())
    hosts = operations_of_numpy(plan, rows) | _kept(plan)
    if len(hosts) == len(plan.steps):
        return program
    write = Rewrite(program)
    for own, others in _levels(plan, hosts):
        segment = None
        if sum(program.ops[k][0] not in layout.ROWS for k in own) >= FEWEST:
            segment = _segment(plan, own, compile_segment)
        if segment is None:
            others = sorted([*own, *others])
        else:
            operands = tuple(write.operand(i) for i in segment.inputs)
            first = write.place(native_p, operands, (segment.program,), write.position(own[0]))
            write.moved.update((j, first + n) for n, j in enumerate(segment.outputs))
        for k in others:
            write.keep(k)
    return write.finish()


def operations_of_numpy(plan: Plan, rows: RowTable) -> set[int]:
    """Return the operations of a split program that NumPy runs, by the variable of the first result."""
    found = operations_without_native_form(plan, rows)
    return found | _in_other_order(plan) if rows.is_exact else found


def _in_other_order(plan: Plan) -> set[int]:
    """Return the operations whose results are not in C order in NumPy's run: segments return arrays
    in C order, of which NumPy would compute other sums.
    """
    layouts = Layouts(plan.program)
    found: set[int] = set()
    for step in plan.steps:
        layouts.add(step)
        if not all(map(layouts.is_c_order, plan.results(step))):
            found.add(step.first)
    return found


def _kept(plan: Plan) -> set[int]:
    """Return the operations that run once in every run; they stay in their order."""
    ops = plan.program.ops
    return {
        step.first
        for step in plan.steps
        if (kept := ops[step.first][0].kept) is not None and kept(*ops[step.first][2])
    }


def _levels(plan: Plan, hosts: set[int]) -> list[tuple[list[int], list[int]]]:
    """Return, in order, the operations of a segment, and those that NumPy runs after it.

    An operation comes after those that it reads, and as early as possible. Those that run once in
    every run come in their own order.
    """
    kept = _kept(plan)
    of_hosts = {j for step in plan.steps if step.first in hosts for j in plan.results(step)}
    found: list[tuple[list[int], list[int]]] = []
    level_of: dict[int, int] = {}
    last = 0
    for step in plan.steps:
        k = step.first
        is_host = k in hosts
        read = [i for i in plan.program.ops[k][1] if i in level_of]
        level = max([level_of[i] + (not is_host and i in of_hosts) for i in read], default=0)
        if k in kept:
            level = last = max(level, last)
        found.extend(([], []) for _ in range(level + 1 - len(found)))
        found[level][is_host].append(k)
        level_of.update(dict.fromkeys(plan.results(step), level))
    return found


class _Segment(NamedTuple):
    """A segment: its program, and the variables that are its inputs and outputs."""

    program: Program
    inputs: list[int]
    outputs: list[int]


def _segment(plan: Plan, own: Sequence[int], compile_segment: Compile) -> _Segment | None:
    """Compile the operations of a segment; ``None`` if they are too many."""
    program, mine = plan.program, set(own)
    results = [j for step in plan.steps if step.first in mine for j in plan.results(step)]
    read_beyond = set(program.output_ids)
    for step in plan.steps:
        if step.first not in mine:
            read_beyond.update(program.ops[step.first][1])
    given = dict.fromkeys(i for k in own for i in program.ops[k][1] if i >= 0)
    inside = {*results, *program.constant_values}
    inputs = [i for i in given if i not in inside]
    outputs = [j for j in results if j in read_beyond]
    part = restrict(program, inputs, outputs, keep=True, effects=False).program.interned()
    try:
        part.derived[native_p] = compile_segment(part)
    except NoNativeForm:
        return None
    return _Segment(part, inputs, outputs)
