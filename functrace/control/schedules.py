"""Schedules of checkpointed loops: which carries a reverse pass keeps, and which steps it runs
again.

A schedule is plain data, a param of operations: ``("every", k)``, ``("binomial", slots)``, or
``("actions", ...)``. For a loop of ``n`` steps it is a list of actions (`actions_of`), of which those
up to ``("end",)`` belong to the forward sweep:

* ``("forward", i, j)``: run the steps from ``i`` to ``j - 1``, without residuals;
* ``("save", i)``, ``("load", i)``, ``("drop", i)``: keep the carry before step ``i``, make it the
  current one, free it. The carry before step 0 is an operand of the loop: it is never saved;
* ``("save", i, "disk")``: keep it in a file; ``("move", i, "disk")``, ``("move", i, "memory")``: keep
  it there from now on;
* ``("tape", i, j)``: run these steps, and keep their residuals;
* ``("reverse", i)``: the reverse of step ``i``, from its residuals, or else from the current carry.

Note [Binomial schedules]
    With ``s`` carries, the initial one included, and ``r`` runs of each step at most,
    ``C(s + r, s)`` steps can be reversed. For ``n`` steps, with the least such ``r``, the optimum is
    ``r n - C(s + r, r - 1)`` runs of a step, besides the one in its own reverse. It includes the
    forward sweep up to the last step, but not the last step, which only the value of the loop needs.
    (Griewank and Walther, "Algorithm 799: revolve", ACM TOMS 26 (2000).)

Layer: 5.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

Action: TypeAlias = tuple[Any, ...]
Schedule: TypeAlias = tuple[Any, ...]

END: Action = ("end",)


def reversible(slots: int, runs: int) -> int:
    """Return the largest number of steps that can be reversed with a number of kept carries, and of
    runs of each step.
    """
    return math.comb(slots + runs, slots) if runs >= 0 else 0


def fewest_runs(steps: int, slots: int) -> int:
    """Return the least number of runs per step with which steps can be reversed."""
    runs = 0
    while reversible(slots, runs) < steps:
        runs += 1
    return runs


def binomial_cost(steps: int, slots: int) -> int:
    """Return the least number of steps to run besides those in their own reverse; see Note
    [Binomial schedules].
    """
    if steps < 2:
        return 0
    slots = min(slots, steps)
    runs = fewest_runs(steps, slots)
    return runs * steps - math.comb(slots + runs, runs - 1)


@functools.lru_cache(maxsize=1 << 14)
def best_split(steps: int, slots: int) -> int:
    """Return how many of the steps after a kept carry to run before the next one is kept."""
    slots = min(slots, steps)
    runs = fewest_runs(steps, slots)
    return max(1, min(reversible(slots, runs - 1), steps - max(1, reversible(slots - 1, runs - 1))))


def reverse_steps(first: int, last: int, slots: int) -> Iterator[Action]:
    """Yield the actions that reverse the steps from ``first`` to ``last - 1``.

    Args:
        first, last: the steps. The carry before the first is kept, and is the current one.
        slots: number of carries that may be kept, that one included.
    """
    stack: list[tuple[str, int, int, int]] = [("steps", first, last, slots)]
    while stack:
        kind, begin, end, free = stack.pop()
        if kind != "steps":
            yield (kind, begin)
        elif end - begin == 1:
            yield ("reverse", begin)
        elif free == 1:
            for k in range(end - 1, begin, -1):
                yield ("forward", begin, k)
                yield ("reverse", k)
                yield ("load", begin)
            yield ("reverse", begin)
        else:
            middle = begin + best_split(end - begin, free)
            yield ("forward", begin, middle)
            yield ("save", middle)
            stack += [
                ("steps", begin, middle, free),
                ("load", begin, 0, 0),
                ("drop", middle, 0, 0),
                ("steps", middle, end, free - 1),
            ]


def _binomial(steps: int, slots: int) -> Iterator[Action]:
    """Yield the actions of a binomial schedule; the forward sweep goes on to the end."""
    ended, last, saved = False, steps - 1, set[int]()
    for action in reverse_steps(0, steps, slots):
        if not ended and action == ("reverse", last):
            # The carry before the last step is kept until the reverse pass starts.
            kept_already = last in saved or not last
            if not kept_already:
                yield ("save", last)
            yield ("forward", last, steps)
            yield END
            yield ("load", last)
            if not kept_already:
                yield ("drop", last)
            ended = True
        if action[0] == "save":
            saved.add(action[1])
        yield action


def _every(steps: int, size: int) -> Iterator[Action]:
    """Yield the actions of a schedule that keeps every ``size``-th carry, and the residuals of one
    part of the loop.
    """
    starts = range(0, steps, size)
    for begin in starts:
        if begin:
            yield ("save", begin)
        yield ("forward", begin, min(begin + size, steps))
    yield END
    for begin in reversed(starts):
        end = min(begin + size, steps)
        yield ("load", begin)
        if begin:
            yield ("drop", begin)
        yield ("tape", begin, end)
        for k in range(end - 1, begin - 1, -1):
            yield ("reverse", k)


def actions_of(schedule: Schedule, steps: int) -> Iterator[Action]:
    """Return the actions for a loop of a known number of steps, one or more; they are made one by
    one, since there are a few per step.
    """
    kind = schedule[0]
    if kind == "actions":
        return iter(schedule[1])
    return _every(steps, schedule[1]) if kind == "every" else _binomial(steps, schedule[1])


def reverse_actions(schedule: Schedule, steps: int) -> Iterator[Action]:
    """Return the actions of the reverse pass."""
    found = actions_of(schedule, steps)
    for action in found:
        if action == END:
            break
    return found


@functools.lru_cache(maxsize=64)
def saved_forward(schedule: Schedule, steps: int) -> tuple[int, ...]:
    """Return the steps before which the carry is still kept at the end of the forward sweep."""
    if schedule[0] == "every":
        return tuple(range(schedule[1], steps, schedule[1]))
    kept = set[int]()
    for action in actions_of(schedule, steps):
        if action == END:
            break
        if action[0] == "save":
            kept.add(action[1])
        elif action[0] == "drop":
            kept.discard(action[1])
    return tuple(sorted(kept))


@functools.lru_cache(maxsize=64)
def saved_on_disk(schedule: Schedule, steps: int) -> frozenset[int]:
    """Return those of `saved_forward` that are in files."""
    if schedule[0] != "actions":
        return frozenset()
    found = set[int]()
    for action in actions_of(schedule, steps):
        if action == END:
            break
        if action[0] in ("save", "move", "drop"):
            found.discard(action[1])
            if action[2:] == ("disk",):
                found.add(action[1])
    return frozenset(found)


@functools.lru_cache(maxsize=64)
def runs_of_schedule(schedule: Schedule, steps: int) -> int:
    """Return the number of times that the reverse pass of a schedule runs a step, for its carry, its
    residuals, or both.
    """
    taped = set[int]()
    count = 0
    for action in reverse_actions(schedule, steps):
        if action[0] in ("forward", "tape"):
            count += action[2] - action[1]
            if action[0] == "tape":
                taped.update(range(action[1], action[2]))
        elif action[0] == "reverse" and action[1] not in taped:
            count += 1
    return count


def most_saved(actions: Iterable[Action]) -> int:
    """Return the largest number of carries kept at a time, without the initial one."""
    kept, most = set[int](), 0
    for action in actions:
        if action[0] == "save":
            kept.add(action[1])
            most = max(most, len(kept))
        elif action[0] == "drop":
            kept.discard(action[1])
    return most


def steps_run(actions: Iterable[Action]) -> int:
    """Return the number of steps that actions run, besides those in their own reverse."""
    return sum(action[2] - action[1] for action in actions if action[0] in ("forward", "tape"))


# -- loops of unknown length -----------------------------------------------------------------------


class OnlineSlots:
    """Slots of a loop whose number of steps is unknown: which carry to keep, and which to replace.

    Args:
        count: number of slots, without that of the initial carry.

    Source:
        Wang, Moin and Iaccarino, "Minimal repetition dynamic checkpointing algorithm for unsteady
        adjoint calculation", SIAM J. Sci. Comput. 31 (2009), algorithm 1.
    """

    __slots__ = ("count", "levels", "slots", "steps")

    def __init__(self, count: int) -> None:
        self.count = count
        self.steps: list[int] = []
        """Steps of the kept carries, in order."""
        self.levels: list[int] = []
        self.slots: list[int] = []

    def place(self, step: int) -> int:
        """Return the slot for the carry before a step, which is later than all kept ones."""
        level = 0
        if len(self.steps) < self.count:
            slot = len(self.steps)
        else:
            found = self._dispensable()
            if found is None:
                found, level = len(self.steps) - 1, self.levels[-1] + 1
            slot = self.slots.pop(found)
            del self.steps[found], self.levels[found]
        self.steps.append(step)
        self.levels.append(level)
        self.slots.append(slot)
        return slot

    def _dispensable(self) -> int | None:
        """Return the last kept carry before one of a higher level; None without one."""
        highest = -1
        for k in range(len(self.steps) - 1, -1, -1):
            if self.levels[k] < highest:
                return k
            highest = max(highest, self.levels[k])
        return None


def reverse_kept(kept: Sequence[int], steps: int, slots: int) -> Iterator[Action]:
    """Yield the actions of the reverse pass of a loop whose forward sweep kept some carries.

    Args:
        kept: the steps before which the carry is kept, in order, without 0.
        steps: number of steps of the loop.
        slots: number of carries that may be kept, the initial one included.
    """
    ends = [0, *kept, steps]
    for k in range(len(kept), -1, -1):
        yield ("load", ends[k])
        if ends[k] < ends[k + 1]:
            yield from reverse_steps(ends[k], ends[k + 1], max(1, slots - k))
        if k:
            yield ("drop", ends[k])
