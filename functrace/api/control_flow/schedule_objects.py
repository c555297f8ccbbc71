"""Schedules of the package ``checkpoint-schedules``, as actions of control/schedules.py.

There, "adjoint dependencies" of a step are what its reverse needs besides cotangents. Here these are
its residuals, if they are read in working memory at once; where the package stores them, the carry
before the step is stored, and the step runs again in its reverse.

Layer: 8.
"""

from __future__ import annotations

import copy
from typing import Any, TypeAlias, final

from functrace.control.schedules import END, Action
from functrace.errors import ArgumentError

Foreign: TypeAlias = Any
"""An object of the package."""

MOST_ACTIONS = 50_000_000
"""Actions after which a schedule is assumed not to end."""


def actions_from(schedule: Foreign, steps: int, owner: str) -> tuple[Action, ...]:
    """Return the actions of a schedule of the package ``checkpoint-schedules``.

    Args:
        schedule: the object; it is copied, since it can be iterated once only.
        steps: number of steps of the loop.
        owner: name of the loop, for messages.

    Raises:
        ArgumentError: if it is for another number of steps, has been started, or does not reverse
            every step.
    """
    name = type(schedule).__name__
    if schedule.max_n is not None and schedule.max_n != steps:
        raise ArgumentError(
            f"{owner}: {name} is a schedule for {schedule.max_n} steps, but the loop has {steps}",
            fix=f"create it with max_n={steps}",
        )
    if hasattr(schedule, "iter"):
        raise ArgumentError(
            f"{owner}: {name} has been started already", fix="pass a new schedule object"
        )
    if not steps:
        return (END,)
    reader = _Reader(steps, f"{owner}: {name}")
    own = copy.deepcopy(schedule)
    for count, action in enumerate(own):
        reader.read(action)
        if own.max_n is None and type(action).__name__ == "Forward" and int(action.n1) >= steps:
            own.finalize(steps)
        if type(action).__name__ == "EndReverse" or count > MOST_ACTIONS:
            break
    return reader.finish()


@final
class _Reader:
    """Converts actions, and checks that each finds what it needs.

    Args:
        steps: number of steps of the loop.
        owner: names of loop and schedule, for messages.
    """

    def __init__(self, steps: int, owner: str) -> None:
        self.steps, self.owner = steps, owner
        self.actions: list[Action] = []
        self.at: int | None = 0
        """The step before which the current carry is."""
        self.stored: dict[int, set[str]] = {}
        """By step, the storages that have the carry before it."""
        self.dependent: dict[int, set[str]] = {}
        """The same, of carries that stand for adjoint dependencies."""
        self.places: dict[int, str] = {}
        """Where kept carries are: in memory, if one of their storages is, or on disk."""
        self.taped: set[int] = set()
        self.waiting: int | None = None
        """A step whose residuals are wanted, and have not been computed."""
        self.ended, self.left = False, steps

    def fail(self, what: str) -> ArgumentError:
        """Return the error for an action that cannot be carried out."""
        return ArgumentError(
            f"{self.owner} {what}", fix="pass a schedule that reverses every step of the loop"
        )

    def read(self, action: Foreign) -> None:
        """Convert an action."""
        kind = type(action).__name__
        if kind != "Reverse":
            self._tape_waiting()
        if kind == "Forward":
            self._forward(action)
        elif kind in ("Copy", "Move"):
            source, target = action.from_storage.name, action.to_storage.name
            self._moved(int(action.n), source, target, moves=kind == "Move")
        elif kind == "Reverse":
            for k in range(min(int(action.n1), self.steps) - 1, int(action.n0) - 1, -1):
                self._reverse(k)
        elif kind == "EndForward":
            if self.at != self.steps:
                raise self.fail("ends its forward sweep before the last step")
            self.actions.append(END)
            self.ended = True

    def finish(self) -> tuple[Action, ...]:
        """Return the converted actions."""
        if self.left:
            raise self.fail(f"does not reverse {self.left} of {self.steps} steps")
        return tuple(self.actions)

    def _tape_waiting(self) -> None:
        if self.waiting is not None:
            k, self.waiting = self.waiting, None
            self.actions.append(("tape", k, k + 1))
            self.taped.add(k)
            self.at = k + 1

    def _forward(self, action: Foreign) -> None:
        begin, end = int(action.n0), min(int(action.n1), self.steps)
        storage = action.storage.name
        if self.at != begin:
            raise self.fail(f"runs step {begin} from the carry before step {self.at}")
        if action.write_ics and storage in ("RAM", "DISK"):
            self._store(begin, self.stored, storage)
        if not action.write_adj_deps:
            self.actions.append(("forward", begin, end))
        elif self.ended and storage == "WORK":
            if end - begin == 1:
                self.waiting = begin
                return
            self.actions.append(("tape", begin, end))
            self.taped.update(range(begin, end))
        else:
            for k in range(begin, end):
                self._store(k, self.dependent, "RAM" if storage == "WORK" else storage)
                self.actions.append(("forward", k, k + 1))
        self.at = end

    def _store(self, k: int, where: dict[int, set[str]], storage: str) -> None:
        where.setdefault(k, set()).add(storage)
        self._settle(k)

    def _discard(self, k: int, where: dict[int, set[str]], storage: str) -> None:
        where[k].discard(storage)
        if not where[k]:
            del where[k]
        self._settle(k)

    def _settle(self, k: int) -> None:
        """Keep a carry where its storages are."""
        storages = self.stored.get(k, set()) | self.dependent.get(k, set())
        before = self.places.pop(k, None)
        if not k:
            return  # an operand of the loop
        if not storages:
            self.actions.append(("drop", k))
            return
        place = self.places[k] = "disk" if storages == {"DISK"} else "memory"
        if before is None:
            self.actions.append(("save", k, "disk") if place == "disk" else ("save", k))
        elif before != place:
            self.actions.append(("move", k, place))

    def _moved(self, k: int, source: str, target: str, *, moves: bool) -> None:
        held = [where for where in (self.stored, self.dependent) if source in where.get(k, ())]
        if not held:
            raise self.fail(f"reads step {k} from {source}, where it is not")
        for where in held:
            if target not in ("WORK", "NONE"):
                where[k].add(target)
                self._settle(k)
            if target == "WORK" and where is self.stored:
                self.actions.append(("load", k))
                self.at = k
            elif target == "WORK":
                where[k].add("WORK")
                self._settle(k)
            if moves:
                self._discard(k, where, source)

    def _reverse(self, k: int) -> None:
        if k != self.left - 1:
            raise self.fail(f"reverses step {k} when it is the turn of step {self.left - 1}")
        self.left -= 1
        if self.waiting == k:
            self.waiting = None
            self.actions.append(("reverse", k))
        elif k in self.taped:
            self.taped.remove(k)
            self.actions.append(("reverse", k))
        elif k in self.dependent:
            self.actions += [("load", k), ("reverse", k)]
            self.at = k
            for storage in ("WORK", "RAM", "DISK"):
                if storage in self.dependent.get(k, ()):
                    self._discard(k, self.dependent, storage)
        else:
            raise self.fail(f"reverses step {k} without its dependencies")
