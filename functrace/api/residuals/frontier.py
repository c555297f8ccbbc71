"""The time-memory frontier of a program's derivative: candidates, their peak bytes by the planner,
and the choice for a budget.

Candidates come from three sources: optimal schedules of the program as a chain of many segments
(functrace/api/residuals/schedules.py); optimal selections of single values
(functrace/api/residuals/selections.py, with SciPy); and schedules of few segments, in which each may
keep a selection. Loops take part as a whole, or with bodies that recompute. What a candidate costs
is exact; what it needs is planned (`functrace.executor.Plan.peak_bytes`), never estimated.

Candidates and their order do not depend on the budget: the cheapest that fits is chosen. So a
larger budget never recomputes more, and the smallest possible budget is the least peak of all.

Layer: 8.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple, final

from functrace.api.residuals.derivative_costs import (
    Batch,
    activity,
    costs_of,
    derivative_reads,
    peak,
    results_of,
)
from functrace.api.residuals.rewriting import extra_cost, scheduled
from functrace.api.residuals.schedules import Items, Kept, Recomputed, Schedules
from functrace.api.residuals.segments import Chain, Workload, live_bytes
from functrace.api.residuals.selections import MOST, has_solver, selections
from functrace.control.call import call_p, plain_call
from functrace.control.policies import RECOMPUTE
from functrace.ir.parts import Assembly, Rewrite, inline
from functrace.ir.program import Program
from functrace.ir.structures import Loop
from functrace.transforms import is_differentiable

RESERVED = (64 << 20, 0.02), (256 << 20, 0.15)
"""Fraction of a budget that is left, if possible, up to a size and from a size on: for Python, and for
gaps between large arrays, which only the resident memory of a process shows."""

SEGMENTS = (4, 8, 16, 48)
"""Numbers of segments of chains. Plans of few large segments are often smaller than estimated."""

PARTS = tuple([0.85**n for n in range(1, 21, 2)])
"""Sizes of parts, as fractions of the bytes kept without a budget. Their plans may need less than
estimated, so they are tried as well."""

SMALLEST = 0.2
"""Minimum bytes of every part, as a fraction of the first part's, regardless of existing
gradients."""

FEW = (3, 8)
"""Numbers of segments of which each may keep a selection of its values."""

FRACTIONS = (0.8, 0.6, 0.45, 0.3, 0.15, 0.0)
"""Kept bytes of selections, as fractions of all residuals of their part."""

POINTS = 24
"""Schedules of one chain."""

LEVELS = 10
"""Candidates of each source that are tried from the cheapest to the smallest, if the program is
small."""

REFINED = 6
"""Candidates that are tried between the first that fits and the one before."""

PLANNED = 12_000
"""Operations of derivatives per source that may be planned: for larger programs, fewer candidates
are tried. It takes 150 to 400 us per operation."""


class Candidate(NamedTuple):
    """A way to run a derivative.

    Args:
        extra: cost of what runs again: flops or seconds.
        source: ``"plain"``, ``"chain"``, ``"values"``, or ``"segments"``.
        work: the program, perhaps with loops whose bodies recompute.
        items: its schedule.
        gap: of integer programs; 0 for others.
    """

    extra: float
    source: str
    work: Workload
    items: Items
    gap: float = 0.0


class Choice(NamedTuple):
    """A candidate with the peak bytes of its derivative.

    Args:
        candidate: the candidate.
        program: its program.
        peak_bytes: by the planner.
        cheaper: the cost of the next cheaper candidate, which does not fit; ``None`` without one.
    """

    candidate: Candidate
    program: Program
    peak_bytes: int
    cheaper: float | None = None


def filled(nbytes: int) -> int:
    """Return the bytes of a budget for arrays, if possible; see `RESERVED`."""
    (small, least), (large, most) = RESERVED
    share = min(1.0, max(0.0, (nbytes - small) / (large - small)))
    return int(nbytes * (1.0 - least - share * (most - least)))


@final
class Frontier:
    """Candidates of a program, planned when needed.

    Args:
        program: the program.
        cost: ``"flops"`` or ``"time"``.
        batches: mapped functions around it, the innermost first.
        active: a flag per input: True if the derivative is by it; by default all that can.
    """

    def __init__(
        self,
        program: Program,
        cost: str,
        batches: Sequence[Batch] = (),
        active: Sequence[bool] | None = None,
    ) -> None:
        begin = time.perf_counter()
        self.cost, self.batches = cost, tuple(batches)
        self.given = program
        flat = inline(program, plain_call)
        self.active = activity(program, active)
        self.work = _workload(flat, cost, self.batches, self.active)
        self.total = sum(self.work.costs.values())
        """Cost of one forward run."""
        self._planned: dict[int, Choice] = {}
        self._programs: dict[Program, int] = {}
        self.evaluations = 0
        """Number of derivatives that were planned."""
        self.plain = self._plan(-1, Candidate(0.0, "plain", self.work, ()), program)
        self._candidates: list[Candidate] | None = None
        self.seconds = time.perf_counter() - begin
        """Time spent, in seconds."""

    def _plan(self, place: int, candidate: Candidate, program: Program | None = None) -> Choice:
        """Return the choice of a candidate, planned at most once."""
        found = self._planned.get(place)
        if found is None:
            begin = time.perf_counter()
            made = (
                scheduled(candidate.work.program, candidate.items) if program is None else program
            )
            made = made.interned()
            nbytes = self._programs.get(made)
            if nbytes is None:
                nbytes = self._programs[made] = peak(made, self.batches, self.active)
                self.evaluations += 1
            found = self._planned[place] = Choice(candidate, made, nbytes)
            if place >= 0:
                self.seconds += time.perf_counter() - begin
        return found

    @property
    def method(self) -> str:
        """Description of the search for candidates."""
        if has_solver():
            return "dynamic programming over segments, integer programming over values"
        return "dynamic programming over segments (no selection of values: SciPy is not installed)"

    @property
    def candidates(self) -> list[Candidate]:
        """All candidates that recompute, the cheapest first."""
        if self._candidates is None:
            begin = time.perf_counter()
            kept = self.plain.peak_bytes - self._given_bytes()
            found = list(_candidates(self.work, kept, 0.0))
            loops = _with_recomputing_loops(self.work, self.batches)
            if loops is not None:
                other, extra = loops
                items = (Kept(tuple(other.steps)),)
                found.append(Candidate(extra, "chain", other, items))
                found += _candidates(other, kept, extra)
            found.sort(key=lambda c: (c.extra, c.source))
            self._candidates = found
            self.seconds += time.perf_counter() - begin
        return self._candidates

    def _given_bytes(self) -> float:
        work = self.work
        return sum([work.size(i) for i in work.program.input_ids])

    def _tries(self, most: int) -> int:
        """Return a number of candidates to try: fewer of large programs."""
        return max(3, min(most, PLANNED // (4 * max(1, len(self.work.steps)))))

    def _levels(self) -> list[int]:
        """Return places of candidates of all costs; sorted."""
        most = self._tries(LEVELS)
        groups: dict[str, list[int]] = {}
        for place, candidate in enumerate(self.candidates):
            groups.setdefault(candidate.source, []).append(place)
        found: set[int] = set()
        for source, places in groups.items():
            count = len(places) if source == "parts" else min(most, len(places))
            found.update([places[n * (len(places) - 1) // max(1, count - 1)] for n in range(count)])
        return sorted(found)

    def best(self, nbytes: int) -> Choice | None:
        """Return the cheapest candidate for a budget; ``None`` if nothing fits."""
        most = filled(nbytes)
        if self.plain.peak_bytes <= most:
            return self.plain
        before = -1
        for place in self._levels():
            found = self._plan(place, self.candidates[place])
            if found.peak_bytes <= most:
                return self._refined(before, place, most)
            before = place
        least = self.least
        return least if least.peak_bytes <= nbytes else None

    def _refined(self, before: int, place: int, most: int) -> Choice:
        """Return the cheapest candidate that fits, between one that does not and one that does."""
        between = range(before + 1, place)
        step = max(1, math.ceil(len(between) / self._tries(REFINED)))
        cheaper = self.candidates[before].extra if before >= 0 else 0.0
        for n in between[::step]:
            found = self._plan(n, self.candidates[n])
            if found.peak_bytes <= most:
                place = n
                break
            cheaper = self.candidates[n].extra
        return self._plan(place, self.candidates[place])._replace(cheaper=cheaper)

    @property
    def least(self) -> Choice:
        """The choice with the least peak; of several, the cheapest."""
        return min(self.points(), key=lambda c: (c.peak_bytes, c.candidate.extra))

    def points(self) -> list[Choice]:
        """Return the choices of which no other one is both smaller and cheaper; the cheapest
        first.
        """
        found = [
            self.plain,
            *[self._plan(place, self.candidates[place]) for place in self._levels()],
        ]
        front: list[Choice] = []
        for choice in sorted(found, key=lambda c: (c.candidate.extra, c.peak_bytes)):
            if not front or choice.peak_bytes < front[-1].peak_bytes:
                front.append(choice)
        return front

    def knee(self) -> Choice:
        """Return the choice at the knee of the frontier: the one farthest below the line between its
        ends.
        """
        front = self.points()
        first, last = front[0], front[-1]
        width = max(1, first.peak_bytes - last.peak_bytes)
        height = max(last.candidate.extra - first.candidate.extra, 1e-300)

        def below(choice: Choice) -> float:
            saved = (first.peak_bytes - choice.peak_bytes) / width
            return saved - (choice.candidate.extra - first.candidate.extra) / height

        return max(front, key=lambda c: (below(c), -c.candidate.extra))


def _workload(
    flat: Program, cost: str, batches: Sequence[Batch], active: Sequence[bool]
) -> Workload:
    factors = _factors(flat, batches)

    def size(i: int) -> float:
        return factors.get(i, 1) * flat.avals[i].nbytes

    costs = costs_of(flat, cost)
    if batches:
        costs = {k: value * factors.get(k, 1) for k, value in costs.items()}
    return Workload(flat, size, costs, derivative_reads(flat, size, active), _chosen(flat, active))


def _chosen(program: Program, active: Sequence[bool]) -> frozenset[int]:
    return frozenset([i for i, flag in zip(program.input_ids, active, strict=True) if flag])


def _factors(flat: Program, batches: Sequence[Batch]) -> dict[int, int]:
    """Return the number of examples of each variable, if not 1."""
    found: dict[int, int] = {}
    for size, flags in batches:
        moving = {i for i, flag in zip(flat.input_ids, flags, strict=True) if flag}
        for k, _ in flat.schedule:
            if not moving.isdisjoint(flat.ops[k][1]):
                moving.update(results_of(flat, k))
        for i in moving:
            found[i] = found.get(i, 1) * size
    return found


def _candidates(work: Workload, kept: float, extra: float) -> Iterator[Candidate]:
    """Yield candidates.

    Args:
        work: the program.
        kept: bytes that its derivative needs without recomputation, besides its inputs.
        extra: cost of what runs again in any case.
    """
    seen: set[Items] = set()

    def all_of(schedules: Schedules, source: str) -> Iterator[Candidate]:
        memories = schedules.memories
        step = max(1, len(memories) // POINTS)
        for memory in memories[::step]:
            items = schedules.schedule(memory)
            if items not in seen:
                seen.add(items)
                gaps = [i.selection.gap for i in items if isinstance(i, Kept) and i.selection]
                own = extra_cost(work, items)
                if own > 0:
                    yield Candidate(own + extra, source, work, items, max(gaps, default=0.0))

    for part in PARTS:
        items = _parts(work, kept, part)
        own = extra_cost(work, items)
        if own > 0 and items not in seen:
            seen.add(items)
            yield Candidate(own + extra, "parts", work, items)
    counts: set[int] = set()
    for most in SEGMENTS:
        chain = Chain(work, most, 1.0)
        if chain.count > 1 and chain.count not in counts:
            counts.add(chain.count)
            yield from all_of(Schedules(_calibrated(chain, kept)), "chain")
    if not has_solver() or len(work.steps) > MOST:
        return
    for selection in selections(work, work.steps, FRACTIONS):
        yield Candidate(
            selection.cost + extra,
            "values",
            work,
            (Kept(tuple(work.steps), selection),),
            selection.gap,
        )
    for most in FEW:
        chain = Chain(work, most, 1.0)
        if 1 < chain.count < len(work.steps):
            options = [
                selections(work, chain.operations(n, n + 1), FRACTIONS) for n in range(chain.count)
            ]
            yield from all_of(Schedules(_calibrated(chain, kept), options), "segments")


def _parts(work: Workload, kept: float, fraction: float) -> Items:
    """Return a schedule in which all parts but the last recompute: parts shrink by the gradients that
    are alive in their second run, and end where few bytes are live.
    """
    program, steps, live = work.program, work.steps, live_bytes(work)
    limit = fraction * kept
    share = kept / max(1.0, sum([work.size(k) for k in steps]))
    waiting = set(work.active)
    ends, least = [len(steps)], SMALLEST * limit
    while ends[-1] > 0:
        start, size = ends[-1], 0.0
        while start > 0 and (size < max(limit, least) or start == ends[-1]):
            start -= 1
            size += share * work.size(steps[start])
            for i in waiting.intersection(program.ops[steps[start]][1]):
                waiting.remove(i)
                limit -= work.size(i)
        if start:
            latest = max(start + 1, ends[-1] - max(1, (ends[-1] - start) // 2))
            start = min(range(start, latest), key=lambda n: (live[n], n))
        ends.append(start)
    parts = [Kept(tuple(steps[a:b])) for a, b in itertools.pairwise(ends[::-1])]
    return (*[Recomputed((part,)) for part in parts[:-1]], *parts[-1:])


def _calibrated(chain: Chain, kept: float) -> Chain:
    """Return a chain whose residuals have the bytes that the planner keeps of them."""
    residuals = float(chain.kept.sum())
    if not residuals:
        return chain
    share = (kept - float(chain.gradients.sum())) / residuals
    return chain.scaled(min(1.0, max(0.05, share)))


def _with_recomputing_loops(
    work: Workload, batches: Sequence[Batch]
) -> tuple[Workload, float] | None:
    """Return the program with loops that keep only carries, and what runs again; ``None`` without
    loops.
    """
    program = work.program
    loops = [k for k, _ in program.schedule if _is_loop(program, k)]
    if not loops:
        return None
    write = Rewrite(program)
    for k, _ in program.schedule:
        write.keep(k, bodies=_recomputing if k in loops else None)
    made = write.finish().interned()
    costs = dict(zip([k for k, _ in made.schedule], work.costs.values(), strict=True))
    factors = _factors(made, batches)

    def size(i: int) -> float:
        return factors.get(i, 1) * made.avals[i].nbytes

    active = [i in work.active for i in program.input_ids]
    reads = derivative_reads(made, size, active)
    other = Workload(made, size, costs, reads, _chosen(made, active))
    return other, sum([work.costs[k] for k in loops])


def _is_loop(program: Program, k: int) -> bool:
    primitive, operands, params = program.ops[k]
    if primitive.holds is None or primitive.holds.lowers is None or primitive.many is False:
        return False
    if not any(is_differentiable(program.avals[j]) for j in results_of(program, k)):
        return False
    lowering = primitive.holds.lowers(tuple(map(program.spec, operands)), *params)
    return isinstance(lowering.structure, Loop) and any(
        len(b.schedule) > 1 for b in lowering.bodies
    )


def _recomputing(body: Program) -> Program:
    """Return a body as one call that recomputes."""
    if body.keeps or not body.output_ids or any(op[0] is call_p for op in body.ops):
        return body
    build = Assembly()
    inputs = [build.input(body.avals[i]) for i in body.input_ids]
    inner = Assembly()
    inside = [inner.input(body.avals[i]) for i in body.input_ids]
    called = inner.program(inner.splice(body, inside), body.name).interned()
    first = build.place(call_p, tuple(inputs), (called, RECOMPUTE))
    outputs = range(first, first + len(called.output_ids))
    return build.program(list(outputs), body.name)
