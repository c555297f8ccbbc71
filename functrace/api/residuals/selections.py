"""The values of a part of a program to keep, so that recomputing the others costs least: an integer
linear program.

An operation runs again if the reverse pass, or another operation that runs again, reads a result
of it that is not kept. The kept bytes are bounded. SciPy (HiGHS) solves it; the number of nodes is
bounded, so that the result does not depend on the machine's load.

Source: Jain et al., "Checkmate", MLSys 2020; Zhao et al., "Rockmate", ICML 2023. Without the bound
it is the minimum cut of PyTorch's ``min_cut_rematerialization_partition``.

Layer: 8.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from functrace.api.residuals.derivative_costs import results_of
from functrace.api.residuals.rewriting import has_effects
from functrace.api.residuals.schedules import Selection
from functrace.api.residuals.segments import Workload
from functrace.caches import MemoTable

NODES = 200
"""Largest number of nodes of the branch-and-bound search."""

SECONDS = 5.0
"""Time limit of one search; the number of nodes is reached before on all programs measured."""

GAP = 0.01
"""Relative distance from the optimum at which a search ends."""

MOST = 500
"""Operations: values of larger programs are not selected. Importing SciPy takes 50 MB."""


def has_solver() -> bool:
    """Return True if SciPy is installed."""
    return importlib.util.find_spec("scipy") is not None


def selections(
    work: Workload, operations: Sequence[int], fractions: Sequence[float]
) -> list[Selection]:
    """Find optimal selections for numbers of bytes.

    Args:
        work: the program.
        operations: the part: operations in order.
        fractions: of the bytes of all values of the part that its derivative reads.
    """
    if len(operations) > MOST:
        return []
    problem = _Problem(work, operations)
    key = (problem.key, tuple(fractions))
    known: tuple[Selection | None, ...] | None = _solved.get(key)
    solved = known or tuple([problem.solve(f * problem.total) for f in fractions])
    if known is None:
        _solved.keep(key, solved)
    found: list[Selection] = []
    for made in solved:
        if made is not None:
            values = frozenset([problem.values[n] for n in made.values])
            repeated = frozenset([problem.operations[n] for n in made.repeated])
            if all(values != other.values for other in found):
                found.append(made._replace(values=values, repeated=repeated))
    return found


_solved = MemoTable("selections of residuals", 256)


class _Problem:
    """The integer program: by operation, whether it runs again; by value, whether it is kept."""

    def __init__(self, work: Workload, operations: Sequence[int]) -> None:
        program, reads = work.program, work.reads
        self.work = work
        self.operations = [k for k in operations if not has_effects(program, k)]
        self.rows = {k: n for n, k in enumerate(self.operations)}
        self.makers = {j: k for k in self.operations for j in results_of(program, k)}
        inside = set(self.operations)
        elsewhere: set[int] = set()
        for k, values in reads.values.items():
            if k not in inside:
                elsewhere |= values
        self.wanted = sorted({j for k in operations for j in reads.values[k] if j in self.makers})
        self.forced = sorted(reads.repeated & inside)
        self.values = [
            j
            for j, k in self.makers.items()
            if not program.ops[k][0].view and k not in reads.repeated
        ]
        self.columns = {j: len(self.operations) + n for n, j in enumerate(self.values)}
        self.sizes = np.array([0.0 if j in elsewhere else work.size(j) for j in self.values])
        self.total = float(
            sum([self.sizes[self.columns[j] - len(self.operations)] for j in self.wanted
                 if j in self.columns])
        )  # fmt: skip

    @property
    def key(self) -> Hashable:
        """All that the solution depends on: equal layers are solved once."""
        program, costs = self.work.program, self.work.costs
        places = {j: n for n, j in enumerate(self.makers)}
        return (
            tuple(
                [
                    (costs[k], tuple([places[i] for i in program.ops[k][1] if i in places]))
                    for k in self.operations
                ]
            ),
            tuple([places[j] for j in self.wanted]),
            tuple([places[j] for j in self.values]),
            tuple([self.rows[k] for k in self.forced]),
            tuple(self.sizes.tolist()),
        )

    def solve(self, most: float) -> Selection | None:
        """Return the best selection of at most so many bytes, with places of `values` and
        `operations` instead of variables; ``None`` if none was found.
        """
        if not self.makers:
            return None
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        program, costs = self.work.program, self.work.costs
        count, width = len(self.operations), len(self.operations) + len(self.values)
        data: list[float] = []
        rows: list[int] = []
        columns: list[int] = []
        lower: list[float] = []

        def require(j: int, reader: int | None) -> None:
            """Require that a value is kept or recomputed, if its reader runs again."""
            row = len(lower)
            terms = [(self.rows[self.makers[j]], 1.0)]
            if j in self.columns:
                terms.append((self.columns[j], 1.0))
            if reader is not None:
                terms.append((self.rows[reader], -1.0))
            for column, value in terms:
                rows.append(row)
                columns.append(column)
                data.append(value)
            lower.append(1.0 if reader is None else 0.0)

        for j in self.wanted:
            require(j, None)
        for k in self.operations:
            for i in dict.fromkeys(program.ops[k][1]):
                if i in self.makers:
                    require(i, k)
        floor = np.zeros(width)
        floor[[self.rows[k] for k in self.forced]] = 1.0
        own = np.array([costs[k] for k in self.operations])
        scale, unit = max(own.sum(), 1e-300), max(self.sizes.sum(), 1.0)
        objective = np.concatenate([own / scale, 1e-6 * self.sizes / unit])
        limits: list[Any] = [
            LinearConstraint(
                csr_array((data, (rows, columns)), (len(lower), width)), np.array(lower), np.inf
            ),
            LinearConstraint(
                csr_array(np.concatenate([np.zeros(count), self.sizes / unit])[None]),
                -np.inf,
                most / unit,
            ),
        ]
        found = milp(
            objective,
            integrality=np.ones(width),
            bounds=Bounds(floor, np.ones(width)),
            constraints=limits,
            options={"time_limit": SECONDS, "node_limit": NODES, "mip_rel_gap": GAP},
        )
        if found.x is None:
            return None
        chosen = found.x > 0.5
        kept = chosen[count:]
        return Selection(
            frozenset(np.flatnonzero(kept).tolist()),
            float(self.sizes[kept].sum()),
            float(own[chosen[:count]].sum()),
            frozenset(np.flatnonzero(chosen[:count]).tolist()),
            float(found.mip_gap or 0.0),
        )
