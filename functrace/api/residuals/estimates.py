"""Estimate the peak bytes of a schedule's derivative from the lifetimes of its values.

The derivative is not written: its operations are walked in the order in which they run, with the
bytes of values of the program, of their second runs and of gradients. An elementwise operation
writes into an operand that has its last use there; a view has no bytes. It is 20 to 50 times faster
than a plan of the derivative. On programs without loops it differs by less than 10 %; plans decide
what fits (functrace/api/residuals/frontier.py), and these estimates which candidates are planned.

Layer: 8.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

import numpy as np

from functrace.api.residuals.derivative_costs import results_of
from functrace.api.residuals.rewriting import operations_of, second_run
from functrace.api.residuals.schedules import Items, Kept
from functrace.api.residuals.segments import Workload
from functrace.ops.broadcasting import ELEMENTWISE
from functrace.ops.indexing import gather_p
from functrace.transforms import is_differentiable


@final
class Estimator:
    """The operations of a program, as lists that walks of schedules read.

    Args:
        work: the program.
    """

    def __init__(self, work: Workload) -> None:
        program = work.program
        self.work = work
        constants = program.constant_values
        active = set(work.active)
        sizes = {i: work.size(i) for i in program.input_ids}
        self.operands: dict[int, list[int]] = {}
        self.results: dict[int, list[int]] = {}
        self.active: dict[int, list[int]] = {}
        self.roots: dict[int, int] = {}
        self.elementwise: set[int] = set()
        self.makers: dict[int, int] = {}
        for k in work.steps:
            primitive, operands, _ = program.ops[k]
            self.operands[k] = [i for i in dict.fromkeys(operands) if i >= 0 and i not in constants]
            self.results[k] = results = list(results_of(program, k))
            self.active[k] = moved = [i for i in self.operands[k] if i in active]
            if moved:
                active.update([j for j in results if is_differentiable(program.avals[j])])
            if primitive.batch is ELEMENTWISE:
                self.elementwise.add(k)
            if primitive.view and primitive is not gather_p and self.operands[k]:
                self.roots[k] = self.operands[k][0]
            for j in results:
                sizes[j] = work.size(j)
                self.makers[j] = k
        self.sizes = sizes
        self.outputs = [j for j in program.output_ids if j in sizes]
        self.seeds = [j for j in dict.fromkeys(self.outputs) if j in active]

    def peak(self, items: Items) -> float:
        """Return the estimated bytes of a schedule, with inputs, outputs and cotangents.

        Args:
            items: the schedule; empty if everything is kept.
        """
        walk = _Walk(self)
        schedule = items or (Kept(tuple(self.work.steps)),)
        for item in schedule:
            is_kept = isinstance(item, Kept) and item.selection is None
            for k in operations_of((item,)):
                walk.run(k, is_kept=is_kept)
        return walk.finish(schedule)


class _Walk:
    """One walk of a schedule: values as they are allocated, with their first and last event.

    An event is a run of an operation or of its derivative.

    Attributes:
        places: by variable, its newest value.
        gradients: by variable, its gradient.
        stacks: by loop, the stacks of its last run.
        stale: operations of which a second run is due as soon as the derivative reads a result.
    """

    def __init__(self, table: Estimator) -> None:
        self.table = table
        self.sizes: list[float] = []
        self.first: list[int] = []
        self.last: list[int] = []
        self.in_place = [False]
        self.temporary = [0.0]
        program = table.work.program
        self.inputs = [self._allocate(table.sizes[i]) for i in program.input_ids]
        self.places = dict(zip(program.input_ids, self.inputs, strict=True))
        self.gradients: dict[int, int] = {}
        self.stacks: dict[int, int] = {}
        self.stale: set[int] = set()

    def _allocate(self, nbytes: float) -> int:
        event = len(self.in_place) - 1
        self.sizes.append(nbytes)
        self.first.append(event)
        self.last.append(event)
        return len(self.sizes) - 1

    def run(self, k: int, *, is_kept: bool) -> None:
        """Run an operation, perhaps for the second time; ``is_kept``: with its residuals."""
        table, places, last = self.table, self.places, self.last
        event = len(self.in_place)
        for i in table.operands[k]:
            last[places[i]] = event
        self.in_place.append(k in table.elementwise)
        self.temporary.append(0.0)
        root = table.roots.get(k)
        for j in table.results[k]:
            places[j] = places[root] if root is not None else self._allocate(table.sizes[j])
        stacks = table.work.reads.other.get(k)
        if is_kept and stacks:
            self.stacks[k] = self._allocate(stacks)

    def _differentiate(self, k: int) -> None:
        """Run the derivative of an operation."""
        table, places, last, gradients = self.table, self.places, self.last, self.gradients
        given = [j for j in table.results[k] if j in gradients]
        if not given or not table.active[k]:
            return
        reads = table.work.reads.values[k]
        if self.stale:
            self._run_again(reads)
        event = len(self.in_place)
        for i in reads:
            if i in places:
                last[places[i]] = event
        if k in self.stacks:
            last[self.stacks.pop(k)] = event
        for j in given:
            last[gradients.pop(j)] = event
        is_elementwise = k in table.elementwise
        self.in_place.append(is_elementwise)
        self.temporary.append(0.0)
        extra = table.sizes[k] if is_elementwise and reads else 0.0
        for i in table.active[k]:
            if i in gradients:
                last[gradients[i]] = event
                extra = max(extra, table.sizes[i])
            else:
                gradients[i] = self._allocate(table.sizes[i])
        self.temporary[-1] = extra

    def _run_again(self, reads: Iterable[int]) -> None:
        """Run again what was not kept and is read now."""
        table, stale = self.table, self.stale
        waiting, found = list(reads), list[int]()
        while waiting:
            k = table.makers.get(waiting.pop(), -1)
            if k in stale:
                stale.remove(k)
                found.append(k)
                waiting += table.operands[k]
        for k in sorted(found):
            self.run(k, is_kept=True)

    def _reverse(self, items: Items) -> None:
        for item in reversed(items):
            if isinstance(item, Kept):
                self.stale = set() if item.selection is None else set(item.selection.repeated)
                for k in reversed(item.operations):
                    self._differentiate(k)
            else:
                kept = {
                    k
                    for part in item.items
                    if isinstance(part, Kept) and part.selection is None
                    for k in part.operations
                }
                for k in reversed(second_run(self.table.work, item.items)):
                    self.run(k, is_kept=k in kept)
                self._reverse(item.items)

    def finish(self, items: Items) -> float:
        """Run the reverse pass, and return the peak."""
        table = self.table
        ends = [self.places[j] for j in table.outputs]
        for j in table.seeds:
            self.gradients[j] = self._allocate(table.sizes[j])
            self.first[-1] = 0  # an argument
        self._reverse(items)
        count = len(self.in_place)
        ends += self.inputs
        ends += [self.gradients[i] for i in table.work.active if i in self.gradients]
        sizes, first, last = np.array(self.sizes), np.array(self.first), np.array(self.last)
        last[ends] = count
        dies_inside = np.array([*self.in_place, False])[last] & (first < last)
        changes = np.zeros(count + 2)
        np.add.at(changes, first, sizes)
        np.add.at(changes, np.where(dies_inside, last, last + 1), -sizes)
        return float((np.cumsum(changes)[:count] + np.array(self.temporary)).max())
