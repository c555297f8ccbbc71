"""A program as a chain of segments, with what each costs to keep, to recompute and to
differentiate.

Segments end where few bytes are live. Their sizes are estimates: plans of the derivative decide
whether something fits (functrace/api/residuals/frontier.py).

Layer: 8.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from copy import copy
from typing import NamedTuple, final

import numpy as np

from functrace.api.residuals.derivative_costs import DerivativeReads, results_of
from functrace.ir.program import Program


class Workload(NamedTuple):
    """A program to be divided.

    Args:
        program: without plain calls.
        size: returns the bytes of a variable, of all examples of mapped functions around it.
        costs: by operation, what it takes to run it: flops or seconds.
        reads: the values that the reverse pass reads.
        active: the inputs by which the derivative is.
    """

    program: Program
    size: Callable[[int], float]
    costs: dict[int, float]
    reads: DerivativeReads
    active: frozenset[int]

    @property
    def steps(self) -> list[int]:
        """The operations, in order."""
        return [k for k, _ in self.program.schedule]


@final
class Chain:
    """A program as a chain of segments.

    Args:
        work: the program.
        most: largest number of segments.
        share: bytes kept per byte of residuals, since the planner recomputes cheap values.

    Attributes:
        bounds: places in the schedule at which segments begin, and its end.
        costs: by segment, what one run of it takes.
        kept: by segment, the bytes that its derivative keeps, with its values that later segments
            read.
        needed: by segment, the bytes of its reverse pass, besides what is kept.
        gradients: by segment, the bytes of gradients of inputs that its reverse pass allocates.
        crossing: ``crossing[s, t]``: the bytes of values of the segments from s on that segments
            from t on read.
    """

    def __init__(self, work: Workload, most: int, share: float) -> None:
        program, size, steps = work.program, work.size, work.steps
        live = live_bytes(work)
        self.work = work
        self.bounds = bounds = _bounds(work, live, most)
        count = len(bounds) - 1
        places = {k: n for n, (a, b) in enumerate(itertools.pairwise(bounds)) for k in steps[a:b]}
        last: dict[int, int] = dict.fromkeys(program.output_ids, count)
        for k in reversed(steps):
            for i in program.ops[k][1]:
                last.setdefault(i, places[k])
        read = frozenset[int]().union(*work.reads.values.values())
        self.costs = np.zeros(count)
        self.needed = np.zeros(count)
        self.gradients = np.zeros(count)
        changes = np.zeros((count + 1, count + 2))
        residuals = np.zeros(count)
        passed = np.zeros(count)
        for k, n in places.items():
            made = sum([size(j) for j in results_of(program, k)])
            self.costs[n] += work.costs[k]
            self.needed[n] = max(self.needed[n], made)
            residuals[n] += work.reads.kept[k]
            for j in results_of(program, k):
                until = last.get(j, n)
                if until > n:
                    changes[n, n + 1] += size(j)
                    changes[n, until + 1] -= size(j)
                    if j not in read:
                        passed[n] += size(j)
        made_by = np.cumsum(changes, axis=1)[:, : count + 1]
        self.crossing = np.cumsum(made_by[::-1], axis=0)[::-1]
        self._parts = residuals, passed
        self.kept = share * residuals + passed
        for i in program.input_ids:
            if i in last and i in work.active:
                self.gradients[min(last[i], count - 1)] += size(i)

    @property
    def count(self) -> int:
        """Number of segments."""
        return len(self.bounds) - 1

    def scaled(self, share: float) -> Chain:
        """Return the chain with another share of kept bytes."""
        made = copy(self)
        residuals, passed = self._parts
        made.kept = share * residuals + passed
        return made

    def operations(self, first: int, end: int) -> list[int]:
        """Return the operations of some segments."""
        return self.work.steps[self.bounds[first] : self.bounds[end]]


def live_bytes(work: Workload) -> list[float]:
    """Return, by place in the schedule, the bytes computed before it and read from it on."""
    program, steps, size = work.program, work.steps, work.size
    last: dict[int, int] = dict.fromkeys(program.output_ids, len(steps))
    for place in range(len(steps) - 1, -1, -1):
        for i in program.ops[steps[place]][1]:
            last.setdefault(i, place)
    changes = [0.0] * (len(steps) + 2)
    for place, k in enumerate(steps):
        for j in results_of(program, k):
            if j in last:
                changes[place + 1] += size(j)
                changes[last[j] + 1] -= size(j)
    return list(itertools.accumulate(changes))[: len(steps) + 1]


def _bounds(work: Workload, live: Sequence[float], most: int) -> list[int]:
    """Choose at most ``most`` segments, between which few bytes are live."""
    steps, program = work.steps, work.program
    count = len(steps)
    inner = [
        n
        for n in range(1, count)
        if live[n] <= live[n - 1] and live[n] <= live[n + 1] and live[n] < max(live)
    ]
    if count <= most:
        inner = list(range(1, count))
    elif len(inner) >= most:
        done = list(
            itertools.accumulate(
                [sum([work.size(j) for j in results_of(program, k)]) + 1.0 for k in steps]
            )
        )
        buckets: dict[int, list[int]] = {}
        for n in inner:
            buckets.setdefault(int(most * done[n - 1] / done[-1]), []).append(n)
        inner = [min(places, key=lambda n: (live[n], n)) for places in buckets.values()]
    elif len(inner) < most // 2:
        spare = most - len(inner)
        inner = sorted({*inner, *[round(count * n / spare) for n in range(1, spare)]} - {0, count})
    return [0, *inner, count]
