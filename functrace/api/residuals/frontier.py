"""The time-memory frontier of a program's derivative: candidates, their peak bytes by the planner,
and the choice for a budget.

Candidates come from three sources: optimal schedules of the program as a chain of many segments
(functrace/api/residuals/schedules.py); optimal selections of single values
(functrace/api/residuals/selections.py, with SciPy); and schedules of few segments, in which each may
keep a selection. Loops take part as a whole, or with bodies that recompute. What a candidate costs
is exact; what it needs is planned (`functrace.executor.Plan.peak_bytes`), never estimated.

Candidates and their order do not depend on the budget: the cheapest that fits is chosen. Which are
planned, depends on estimates (functrace/api/residuals/estimates.py).

Layer: 8.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, final

from functrace.api.residuals.derivative_costs import (
    Batch,
    activity,
    costs_of,
    derivative_reads,
    peak_within,
    results_of,
)
from functrace.api.residuals.estimates import Estimator
from functrace.api.residuals.rewriting import extra_cost, scheduled
from functrace.api.residuals.schedules import Items, Kept, Recomputed, Schedules
from functrace.api.residuals.segments import Chain, Workload, live_bytes
from functrace.api.residuals.selections import MOST, has_solver, selections
from functrace.control.call import call_p, plain_call
from functrace.control.policies import RECOMPUTE
from functrace.ir.parts import Assembly, Rewrite, inline
from functrace.ir.program import Program
from functrace.ir.structures import Loop
from functrace.locks import cached_property
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
"""Candidates of each source that are planned for the whole curve, if the program is small."""

SMALL = 300
"""Operations of a small program: up to 40 derivatives are planned for its curve, which takes 3 s."""

PLANNED = 12_000
"""Operations of derivatives that are planned for the curve of a larger program. A plan takes 150 to
400 us per operation."""

ESTIMATED = 400_000
"""Operations in estimates of all candidates; an estimate takes 5 to 10 us per operation."""

MARGINS = 0.005, 0.1
"""Excess of an estimate over a budget, as a fraction, up to which a candidate is planned: of the
largest programs, and of small ones."""

RATIOS = 0.8, 1.1
"""Ratios of plan and estimate without recomputation with which estimates are corrected."""

TRIES = 4
"""Candidates that do not fit before candidates are skipped; more of programs with fewer than 750
operations."""

REFINED = 6
"""Skipped candidates that are tried before one that fits."""


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
        self._bounds: dict[int, int] = {}
        self._estimates: dict[int, float] = {}
        self._estimators: dict[int, tuple[Estimator, float]] = {}
        plain = self._plan(-1, Candidate(0.0, "plain", self.work, ()), program)
        assert plain is not None, "without a limit, every candidate has a plan"
        self.plain = plain
        self._candidates: list[Candidate] | None = None
        self.seconds = time.perf_counter() - begin
        """Time spent, in seconds."""

    def _plan(
        self,
        place: int,
        candidate: Candidate,
        program: Program | None = None,
        limit: float = math.inf,
    ) -> Choice | None:
        """Return the choice of a candidate, planned at most once; perhaps ``None`` if it exceeds the
        limit.
        """
        found = self._planned.get(place)
        if found is None and self._bounds.get(place, 0) <= limit:
            begin = time.perf_counter()
            made = (
                scheduled(candidate.work.program, candidate.items) if program is None else program
            )
            made = made.interned()
            nbytes = self._programs.get(made)
            if nbytes is None:
                nbytes, is_exact = peak_within(made, limit, self.batches, self.active)
                self.evaluations += 1
                if is_exact:
                    self._programs[made] = nbytes
                else:
                    self._bounds[place] = nbytes
            if made in self._programs:
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

    @property
    def _operations(self) -> int:
        return max(1, len(self.work.steps))

    @cached_property
    def _places(self) -> list[int]:
        """Places of the candidates that are estimated: all; of the largest programs, every n-th."""
        count = len(self.candidates)
        return [*range(0, count, max(1, count * self._operations // ESTIMATED))]

    def _estimate(self, place: int) -> float:
        """Return the estimated peak of a candidate."""
        found = self._estimates.get(place)
        if found is None:
            begin = time.perf_counter()
            candidate = self.candidates[place]
            estimator, factor = self._estimator(candidate.work)
            found = self._estimates[place] = factor * estimator.peak(candidate.items)
            self.seconds += time.perf_counter() - begin
        return found

    def _estimator(self, work: Workload) -> tuple[Estimator, float]:
        """Return what estimates the schedules of a program, and the factor of its estimates: the peak
        without recomputation by plan, divided by its estimate.
        """
        found = self._estimators.get(id(work))
        if found is None:
            estimator = Estimator(work)
            ratio = self.plain.peak_bytes / max(1.0, estimator.peak(()))
            # Bodies of loops need bytes that estimates lack: plans reject what does not fit.
            factor = ratio if work is self.work and RATIOS[0] <= ratio <= RATIOS[1] else 1.0
            found = self._estimators[id(work)] = estimator, factor
        return found

    @cached_property
    def _unsure(self) -> set[int]:
        """Places of candidates that are planned although their estimates are too large: of all costs,
        if the plan recomputes much of the program by itself, which estimates do not know.
        """
        ratio = self.plain.peak_bytes / max(1.0, self._estimator(self.work)[0].peak(()))
        most = max(3, min(LEVELS, PLANNED // (4 * self._operations)))
        return set() if ratio >= RATIOS[0] else set(_spread(self._places, most))

    def best(self, nbytes: int) -> Choice | None:
        """Return the cheapest candidate for a budget; ``None`` if nothing fits."""
        most = filled(nbytes)
        if self.plain.peak_bytes <= most:
            return self.plain
        limit = (1.0 + max(MARGINS[0], MARGINS[1] * min(1.0, SMALL / self._operations))) * most
        tries = max(TRIES, PLANNED // (4 * self._operations))
        anyway = self._unsure
        failed, rejected = 0, -1
        skipped: list[int] = []
        for place in self._places:
            # Where estimates are too small, the distance between plans grows with their number.
            is_likely = self._estimate(place) <= limit
            if not is_likely and place not in anyway:
                rejected = place
                continue
            if is_likely and len(skipped) < failed - tries:
                skipped.append(place)
                continue
            found = self._plan(place, self.candidates[place], limit=most)
            if found is None or found.peak_bytes > most:
                failed += is_likely
                rejected = place
                skipped.clear()
                continue
            for n in skipped[:: max(1, math.ceil(len(skipped) / REFINED))]:
                other = self._plan(n, self.candidates[n], limit=most)
                if other is not None and other.peak_bytes <= most:
                    found = other
                    break
                rejected = n
            cheaper = self.candidates[rejected].extra if rejected >= 0 else 0.0
            return found._replace(cheaper=cheaper)
        least = self.least
        return least if least.peak_bytes <= nbytes else None

    @cached_property
    def least(self) -> Choice:
        """The choice with the least peak of all that are planned for any budget; of several, the
        cheapest.
        """
        found = self.points() if self._operations <= SMALL else self._choices(self._smallest)
        return min(found, key=lambda c: (c.peak_bytes, c.candidate.extra))

    @cached_property
    def _smallest(self) -> set[int]:
        """Places of the candidates with the least estimates: two of each program, or one of
        the largest programs.
        """
        count = 2 if self._operations <= 10 * SMALL else 1
        groups: dict[int, list[int]] = {}
        for place in self._places:
            groups.setdefault(id(self.candidates[place].work), []).append(place)
        return {n for group in groups.values() for n in sorted(group, key=self._estimate)[:count]}

    @cached_property
    def _front(self) -> list[int]:
        """Places of the candidates of which no other one is both smaller, as estimated, and cheaper;
        the cheapest first.
        """
        least, front = float(self.plain.peak_bytes), list[int]()
        for place in self._places:
            if self._estimate(place) < least:
                least = self._estimate(place)
                front.append(place)
        return front

    @cached_property
    def _knee(self) -> set[int]:
        """Place of the candidate at the knee of the estimates; empty without one."""
        rows = [(self._estimate(n), self.candidates[n].extra) for n in self._front]
        place = _knee([(float(self.plain.peak_bytes), 0.0), *rows])
        return {self._front[place - 1]} if place else set()

    def _levels(self) -> list[int]:
        """Return places of candidates of all costs; sorted."""
        if self._operations > SMALL:
            most = max(3, min(2 * LEVELS, PLANNED // self._operations))
            return sorted({*_spread(self._front, most), *self._smallest, *self._knee})
        groups: dict[str, list[int]] = {}
        for place, candidate in enumerate(self.candidates):
            groups.setdefault(candidate.source, []).append(place)
        found: set[int] = set()
        for source, places in groups.items():
            found.update(places if source == "parts" else _spread(places, LEVELS))
        return sorted(found)

    def _choices(self, places: Iterable[int]) -> list[Choice]:
        """Return the plain choice and those of some candidates."""
        found = [self._plan(place, self.candidates[place]) for place in sorted(places)]
        return [self.plain, *[choice for choice in found if choice is not None]]

    def points(self) -> list[Choice]:
        """Return the choices of which no other one is both smaller and cheaper; the cheapest
        first.
        """
        found = self._choices(self._levels())
        front: list[Choice] = []
        for choice in sorted(found, key=lambda c: (c.candidate.extra, c.peak_bytes)):
            if not front or choice.peak_bytes < front[-1].peak_bytes:
                front.append(choice)
        return front

    def knee(self) -> Choice:
        """Return the choice at the knee of the frontier: the one farthest below the line between its
        ends; of large programs, by estimates.
        """
        if self._operations > SMALL:
            return self._choices(self._knee)[-1]
        front = self.points()
        return front[_knee([(c.peak_bytes, c.candidate.extra) for c in front])]


def _spread(places: Sequence[int], most: int) -> list[int]:
    """Return so many of some places, from the first to the last."""
    count = min(most, len(places))
    return [places[n * (len(places) - 1) // max(1, count - 1)] for n in range(count)]


def _knee(front: Sequence[tuple[float, float]]) -> int:
    """Return the number of the point farthest below the line between the ends of a front.

    Args:
        front: bytes and cost of each point, the cheapest first.
    """
    (most, cheapest), (least, highest) = front[0], front[-1]
    width, height = max(1.0, most - least), max(highest - cheapest, 1e-300)

    def below(n: int) -> float:
        return (most - front[n][0]) / width - (front[n][1] - cheapest) / height

    return max(range(len(front)), key=lambda n: (below(n), -n))


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
