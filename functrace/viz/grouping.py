"""Boxes of a graph: operations of one source line, and repetitions of an unrolled loop, are one box.

A group is an interval of a program's operations, so that graphs of groups have no cycles. Groups
are nested: a repetition holds the groups of its lines, a long program is divided into sections.

Layer: 8 (api).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["line", "repeat", "step", "section"]

LONGEST_PERIOD = 48
"""Maximum number of lines of a loop body that is recognized."""
FEWEST_REPEATS = 3
"""Minimum number of equal steps that are shown as one box."""
MOST_CHILDREN = 60
"""Maximum number of boxes in one."""


@dataclass(slots=True)
class Group:
    """Consecutive operations that are shown as one box.

    Args:
        kind: ``"line"``: of one source line; ``"repeat"``: equal steps of an unrolled loop;
            ``"step"``: one of these; ``"section"``: a part of a long program.
        first, end: the interval of operations.
        children: groups in it; operations for a line.
    """

    kind: Kind
    first: int
    end: int
    children: list[Group] = field(default_factory=list["Group"])

    def as_json(self) -> list[object]:
        """Return kind, first, end and children, as JSON data."""
        return [self.kind, self.first, self.end, [child.as_json() for child in self.children]]


Key: TypeAlias = tuple[Hashable, Hashable, Hashable]
"""Role, source line, and instruction of an operation."""


def group_operations(keys: Sequence[Key]) -> list[Group]:
    """Group operations.

    Args:
        keys: for every operation, in order. Groups do not cross from one role to another, but for
            sections of a program that alternates between them. A line that goes back to an earlier
            instruction runs again: that is another group.

    Returns:
        groups that cover all operations, in order.
    """
    found: list[Group] = []
    start = 0
    for k in range(1, len(keys) + 1):
        if k == len(keys) or keys[k][0] != keys[start][0]:
            found += _sections(_repeats(_lines(keys, start, k), keys), MOST_CHILDREN // 2)
            start = k
    return _sections(found)


def _lines(keys: Sequence[Key], first: int, end: int) -> list[Group]:
    """Group consecutive operations of one run of a line."""
    found: list[Group] = []
    instructions: set[Hashable] = set()
    for k in range(first, end):
        role, line, instruction = keys[k]
        is_same = bool(found) and keys[k - 1][:2] == (role, line)
        if not is_same or (instruction in instructions and instruction != keys[k - 1][2]):
            found.append(Group("line", k, k + 1))
            instructions = {instruction}
        else:
            found[-1].end = k + 1
            instructions.add(instruction)
    return found


def _repeats(lines: list[Group], keys: Sequence[Key]) -> list[Group]:
    """Find lines that repeat in the same order: the unrolled steps of a Python loop."""
    names = [(keys[group.first], group.end - group.first) for group in lines]
    places = [keys[group.first] for group in lines]
    found: list[Group] = []
    k = 0
    while k < len(lines):
        period, count = _best_repeat(names, places, k)
        if count < FEWEST_REPEATS:
            found.append(lines[k])
            k += 1
            continue
        steps: list[Group] = []
        for n in range(k, k + period * count, period):
            inner = lines[n : n + period]
            steps.append(Group("step", inner[0].first, inner[-1].end, inner))
        children = _sections(steps) if period > 1 else _sections(lines[k : k + count])
        found.append(Group("repeat", steps[0].first, steps[-1].end, children))
        k += period * count
    return found


def _best_repeat(names: Sequence[Hashable], places: Sequence[Hashable], k: int) -> tuple[int, int]:
    """Return the period, in lines, and the number of repetitions that begin at a line; the number
    is less than `FEWEST_REPEATS` if there are none.
    """
    best = (1, 1)
    for period in range(1, min(LONGEST_PERIOD, (len(names) - k) // FEWEST_REPEATS) + 1):
        # (most periods are refused by the first comparison)
        if places[k] != places[k + period]:
            continue
        count = 1
        step = names[k : k + period]
        while names[k + count * period : k + (count + 1) * period] == step:
            count += 1
        if count >= FEWEST_REPEATS and count * period > best[0] * best[1]:
            best = (period, count)
    return best


def _sections(groups: list[Group], most: int = MOST_CHILDREN) -> list[Group]:
    """Divide many groups into sections, so that none holds more than ``most``."""
    if len(groups) <= most:
        return groups
    size = -(-len(groups) // most)
    parts = [groups[k : k + size] for k in range(0, len(groups), size)]
    return [
        part[0]
        if len(part) == 1
        else Group("section", part[0].first, part[-1].end, _sections(part))
        for part in parts
    ]
