"""Schedules of checkpointed loops: the number of steps that they run, against a brute-force search
and the closed formula.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functrace.control.schedules import (
    END,
    OnlineSlots,
    actions_of,
    binomial_cost,
    most_saved,
    reverse_kept,
    saved_forward,
    steps_run,
)


@functools.cache
def fewest_steps(steps: int, slots: int) -> int:
    """Steps to run besides those in their own reverse: all choices of the next kept carry tried."""
    if steps == 1:
        return 0
    if slots == 1:
        return steps * (steps - 1) // 2
    return min(
        kept + fewest_steps(steps - kept, slots - 1) + fewest_steps(kept, slots)
        for kept in range(1, steps)
    )


def check(actions: Any, steps: int, *, sweeps: bool) -> None:
    """Simulate actions: each finds the carry that it needs, and all steps are reversed."""
    at, kept, taped, left, ended = 0, {0}, set[int](), steps, not sweeps
    for action in actions:
        kind = action[0]
        if kind == "end":
            assert at == steps
            ended = True
        elif kind in ("forward", "tape"):
            assert at == action[1] < action[2]
            at = action[2]
            if kind == "tape":
                taped |= set(range(action[1], action[2]))
        elif kind == "save":
            assert at == action[1] and action[1] not in kept
            kept.add(at)
        elif kind == "load":
            assert action[1] in kept
            at = action[1]
        elif kind == "drop":
            kept.remove(action[1])
        else:
            assert ended and action[1] == left - 1
            left -= 1
            assert left in taped or at == left
    assert not left and kept == {0}


@pytest.mark.parametrize("slots", range(1, 9))
def test_binomial_schedules_are_optimal(slots: int) -> None:
    for steps in range(1, 70):
        actions = [*actions_of(("binomial", slots), steps)]
        check(actions, steps, sweeps=True)
        # the forward sweep takes the last step for its value only
        assert steps_run(actions) - 1 == fewest_steps(steps, slots) == binomial_cost(steps, slots)
        assert (
            most_saved(actions) <= slots
        )  # with that before the last step, without the initial one


@pytest.mark.parametrize(
    ("steps", "slots", "fewest"), [(1000, 10, 3636), (1000, 31, 2439), (10_000, 100, 24_747)]
)
def test_binomial_counts(steps: int, slots: int, fewest: int) -> None:
    runs = next(r for r in range(steps) if math.comb(slots + r, slots) >= steps)
    assert fewest == runs * steps - math.comb(slots + runs, runs - 1)
    actions = [*actions_of(("binomial", slots), steps)]
    assert steps_run(actions) - 1 == fewest
    assert most_saved(actions) == slots


@given(st.integers(1, 60), st.integers(1, 70))
def test_parts_run_every_step_twice(steps: int, size: int) -> None:
    actions = [*actions_of(("every", size), steps)]
    check(actions, steps, sweeps=True)
    assert steps_run(actions) == 2 * steps
    assert saved_forward(("every", size), steps) == tuple(range(size, steps, size))


@given(st.integers(1, 400), st.integers(1, 12))
def test_slots_of_a_loop_of_unknown_length(steps: int, slots: int) -> None:
    online = OnlineSlots(slots - 1)
    found: dict[int, int] = {}
    for step in range(1, steps if slots > 1 else 1):
        found[online.place(step)] = step
    kept = sorted(found.values())
    assert kept == online.steps and len(kept) == min(slots, steps) - 1
    last = steps - 1
    kept = [k for k in kept if k < last]
    rest = list(reverse_kept(kept, last, slots)) if last else []
    assert most_saved([("save", k) for k in kept] + rest) <= slots
    counted = last + steps_run(rest)
    assert binomial_cost(steps, slots) <= counted <= 1.4 * binomial_cost(steps, slots) + 1


def test_the_end_is_marked_once() -> None:
    for schedule in (("binomial", 3), ("every", 4)):
        assert [*actions_of(schedule, 10)].count(END) == 1
