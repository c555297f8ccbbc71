"""Write a schedule as a program: calls that recompute, in which calls that recompute.

Layer: 8.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from functrace.api.residuals.derivative_costs import results_of
from functrace.api.residuals.schedules import Items, Kept, Recomputed
from functrace.api.residuals.segments import Workload
from functrace.control.call import call_p
from functrace.control.policies import RECOMPUTE
from functrace.ir.parts import Assembly
from functrace.ir.program import Program
from functrace.ops.naming import BUDGET_PREFIX, name_p


def scheduled(program: Program, items: Items) -> Program:
    """Return an equal program whose derivative follows a schedule.

    Args:
        program: a program without plain calls.
        items: what happens to its operations, in order.
    """
    if all(isinstance(item, Kept) and item.selection is None for item in items):
        return program
    build = Assembly()
    moved = {i: build.input(program.avals[i]) for i in program.input_ids}
    for i, value in program.constant_values.items():
        moved[i] = build.constant(value, program.avals[i])
    _write(build, program, items, moved, set(program.output_ids), is_outer=True)
    names = {moved[i]: name for i, name in program.names.items() if i in moved}
    return build.program(
        [moved[i] for i in program.output_ids], program.name, program.input_names, names
    ).interned()


def operations_of(items: Items) -> Iterator[int]:
    """Yield the operations of a schedule, in order."""
    for item in items:
        if isinstance(item, Kept):
            yield from item.operations
        else:
            yield from operations_of(item.items)


def has_effects(program: Program, k: int) -> bool:
    """Return True if an operation must run once, and only once."""
    primitive, _, params = program.ops[k]
    return primitive.kept is not None and primitive.kept(*params)


def _write(
    build: Assembly,
    program: Program,
    items: Items,
    moved: dict[int, int],
    needed: set[int],
    *,
    is_outer: bool,
) -> None:
    """Write items; operations with side effects follow outermost calls, outside of all calls.

    Args:
        build: the program that is written.
        program: the source.
        items: the items.
        moved: the variable there of each variable of the source.
        needed: variables that are read after the items.
        is_outer: True if the program is no sub-program.
    """
    parts = [list(operations_of((item,))) for item in items]
    after: list[set[int]] = []
    later = set(needed)
    for part in reversed(parts):
        after.append(later)
        later = later | {i for k in part for i in program.ops[k][1]}
    for item, part, later in zip(items, parts, reversed(after), strict=True):
        effects = [k for k in part if has_effects(program, k)]
        pure = [k for k in part if k not in effects] if effects else part
        if isinstance(item, Kept) and item.selection is None:
            for k in part if is_outer else pure:
                build.copy(program, k, moved)
            continue
        read = {i for k in effects for i in program.ops[k][1]}
        _call(build, program, item, pure, moved, later | read)
        if is_outer:
            for k in effects:
                build.copy(program, k, moved)


def _call(
    build: Assembly,
    program: Program,
    item: Kept | Recomputed,
    part: list[int],
    moved: dict[int, int],
    needed: set[int],
) -> None:
    """Write an item as a call that recomputes."""
    made = {j for k in part for j in results_of(program, k)}
    outputs = sorted(made & needed)
    if not outputs:
        return
    read = [i for k in part for i in program.ops[k][1] if i >= 0 and i not in made]
    inputs = list(dict.fromkeys(read))  # constants, too: they may be traced values
    inner = Assembly()
    inside = {i: inner.input(program.avals[i]) for i in inputs}
    policy = RECOMPUTE
    if isinstance(item, Recomputed):
        _write(inner, program, item.items, inside, set(outputs), is_outer=False)
    else:
        assert item.selection is not None
        names: list[str] = []
        for k in part:
            inner.copy(program, k, inside)
            for j in results_of(program, k):
                if j in item.selection.values:
                    names.append(f"{BUDGET_PREFIX}{len(names)}")
                    inside[j] = inner.place(name_p, (inside[j],), (names[-1],))
        policy = (*RECOMPUTE, *names)
    called = inner.program([inside[j] for j in outputs], program.name).interned()
    last = part[-1]
    position = program.positions[last] if last < len(program.positions) else None
    first = build.place(call_p, tuple([moved[i] for i in inputs]), (called, policy), position)
    moved.update(zip(outputs, range(first, first + len(outputs)), strict=True))


def extra_cost(work: Workload, items: Items) -> float:
    """Return what the second runs of a schedule cost."""
    return sum([count * work.costs[k] for k, count in second_runs(work, items).items()])


def second_runs(work: Workload, items: Items) -> Counter[int]:
    """Count how often the reverse pass of a schedule runs each operation again."""
    found: Counter[int] = Counter()
    for item in items:
        if isinstance(item, Recomputed):
            found.update(second_run(work, item.items))
            found.update(second_runs(work, item.items))
        elif item.selection is not None:
            found.update(item.selection.repeated)
    return found


def second_run(work: Workload, items: Items) -> list[int]:
    """Return the operations of one second run: those that the reverse pass depends on."""
    program, reads = work.program, work.reads
    wanted: set[int] = set()
    for item in items:
        part = list(operations_of((item,)))
        if isinstance(item, Kept) and item.selection is None:
            for k in part:
                wanted |= reads.values[k]
                if k in reads.repeated:
                    wanted.add(k)
        else:
            made = {j for k in part for j in results_of(program, k)}
            wanted |= {i for k in part for i in program.ops[k][1] if i not in made}
            if isinstance(item, Kept) and item.selection is not None:
                wanted |= item.selection.values
    found: list[int] = []
    for k in reversed(list(operations_of(items))):
        if not wanted.isdisjoint(results_of(program, k)) and not has_effects(program, k):
            found.append(k)
            wanted.update(program.ops[k][1])
    return found
