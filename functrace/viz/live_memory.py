"""Bytes that are live while a program runs operation by operation: its memory timeline.

Arguments and constants are not counted: they exist before. A view takes no memory. Passes and buffers
of ``jit`` are not applied, so a compiled program needs at most this much.

Layer: 8 (api).
"""

from __future__ import annotations

from dataclasses import dataclass

from functrace.ir.program import Program
from functrace.viz.roles import held_by


@dataclass(frozen=True, slots=True)
class Timeline:
    """Live bytes of a program.

    Args:
        operations: the operations that run, by the variable of their first result.
        during: bytes while each of them runs, with the peak of its sub-programs.
        kept: bytes of the values in ``watched`` among them.
    """

    operations: tuple[int, ...]
    during: tuple[int, ...]
    kept: tuple[int, ...]

    @property
    def peak(self) -> int:
        """The maximum."""
        return max(self.during, default=0)


def timeline(program: Program, watched: frozenset[int] = frozenset()) -> Timeline:
    """Compute the live bytes of a program.

    Args:
        program: the program.
        watched: variables whose bytes are counted apart: residuals.
    """
    owners = _owners(program)
    last: dict[int, int] = {}
    schedule = program.schedule
    for n, (k, _) in enumerate(schedule):
        for i in program.ops[k][1]:
            last[owners.get(i, -1)] = n
    for i in program.output_ids:
        last[owners.get(i, -1)] = len(schedule)
    last.pop(-1, None)
    dying: dict[int, list[int]] = {}
    for i, n in last.items():
        dying.setdefault(n, []).append(i)
    watched_owners = {owners.get(i, -1) for i in watched}
    live = held = 0
    during: list[int] = []
    kept: list[int] = []
    for n, (k, _) in enumerate(schedule):
        made = [j for j in range(k, k + program.result_count(k)) if owners[j] == j]
        live += sum([program.avals[j].nbytes for j in made])
        held += sum([program.avals[j].nbytes for j in made if j in watched_owners])
        inner = max([timeline(part).peak for _, part, _ in held_by(program, k)], default=0)
        during.append(live + inner)
        kept.append(held)
        gone = [*dying.get(n, ()), *[j for j in made if j not in last]]
        live -= sum([program.avals[j].nbytes for j in gone])
        held -= sum([program.avals[j].nbytes for j in gone if j in watched_owners])
    return Timeline(tuple([k for k, _ in schedule]), tuple(during), tuple(kept))


def _owners(program: Program) -> dict[int, int]:
    """Return the variable that owns the memory of each, for results of operations; -1 for
    views of arguments and constants.
    """
    owners: dict[int, int] = {}
    for k, _ in program.schedule:
        primitive, operands, _ = program.ops[k]
        for j in range(k, k + program.result_count(k)):
            if not primitive.view:
                owners[j] = j
            else:
                owners[j] = owners.get(operands[0], -1)
    return owners
