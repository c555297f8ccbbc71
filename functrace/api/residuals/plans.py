"""``plan``: what a memory budget keeps, recomputes, needs and costs.

Layer: 8.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from functrace.api.capture.arguments import function_name
from functrace.api.capture.programs import input_names
from functrace.api.capture.record import Operands, stage
from functrace.api.capture.transformed import transformed
from functrace.api.residuals.batches import traced
from functrace.api.residuals.budget import Budget, choice, frontier_of, parsed_budget
from functrace.api.residuals.frontier import Choice, Frontier
from functrace.api.residuals.listing import Residuals, residuals_of
from functrace.api.residuals.rewriting import second_runs
from functrace.errors import ArgumentError, UnsupportedFunctionError, entry
from functrace.ir.cost import shown
from functrace.source import Source
from functrace.tracing.binding import OPEN
from functrace.transforms import linearize_program
from functrace.tree import map_leaves
from functrace.typing import P

if TYPE_CHECKING:
    from functrace.api.residuals.budget import Cost


class ParetoPoint(NamedTuple):
    """A point of the time-memory curve.

    Args:
        peak_bytes: peak of the derivative, by plan.
        extra: cost of what runs again: flops, or seconds if ``cost="time"``.
        slowdown: the same, as a fraction of one forward run.

    Example:
        >>> import functrace as ft
        >>> ft.stages.ParetoPoint(1000, 0.0, 0.0).peak_bytes
        1000
    """

    peak_bytes: int
    extra: float
    slowdown: float


class RecomputedOperation(NamedTuple):
    """An operation that runs again in the reverse pass.

    Args:
        operation: its name.
        times: number of additional runs.
        cost: of all additional runs: flops, or seconds.
        source: the user's line, if known.

    Example:
        >>> import functrace as ft
        >>> ft.stages.RecomputedOperation("sin", 1, 1000.0, None).operation
        'sin'
    """

    operation: str
    times: int
    cost: float
    source: Source | None


@final
@dataclass(frozen=True, repr=False)
class BudgetPlan:
    """Report on what a budget chooses for a function; prints as text. Made by `functrace.plan`.

    Args:
        of: name of the function.
        budget: the limit in bytes; ``None`` for ``"auto"``.
        cost: ``"flops"`` or ``"time"``.
        peak_bytes: peak of the derivative, as planned: arguments, results, and all arrays between.
        plain_bytes: peak without a budget.
        least_bytes: the smallest possible budget.
        extra: cost of what runs again: flops, or seconds.
        forward: cost of one forward run.
        gap: how much could be saved at most, as a fraction of one forward run: the distance to the
            next cheaper candidate, which does not fit (by plan or estimate), plus the relative gap that the integer
            program reports; 0 if nothing runs again.
        method: how candidates were found.
        plans: number of derivatives that were planned for it.
        seconds: time that it took.
        kept: the residuals.
        recomputed: what runs again, one row per operation and line.

    Example:
        >>> import numpy as np, functrace as ft
        >>> plan = ft.plan(lambda x: np.sum(np.sin(np.cumsum(x))), budget="1 MB")(np.ones(1000))
        >>> plan.peak_bytes <= 10**6, plan.extra
        (True, 0.0)
    """

    of: str
    budget: int | None
    cost: str
    peak_bytes: int
    plain_bytes: int
    least_bytes: int
    extra: float
    forward: float
    gap: float
    method: str
    plans: int
    seconds: float
    kept: Residuals
    recomputed: tuple[RecomputedOperation, ...]
    _frontier: Frontier

    @property
    def slowdown(self) -> float:
        """Cost of what runs again, as a fraction of one forward run."""
        return self.extra / self.forward if self.forward else 0.0

    def _points(self) -> tuple[ParetoPoint, ...]:
        forward = self.forward or 1.0
        return tuple(
            [
                ParetoPoint(c.peak_bytes, c.candidate.extra, c.candidate.extra / forward)
                for c in self._frontier.points()
            ]
        )

    def pareto(self, path: str | os.PathLike[str] | None = None) -> tuple[ParetoPoint, ...]:
        """Return the time-memory curve: the candidates of which none is both smaller and cheaper.

        Args:
            path: a file to draw it to (PNG, SVG, PDF, by its ending). Needs matplotlib.

        Returns:
            the points, from the fastest to the smallest.

        Raises:
            UnsupportedFunctionError: if there is a path, but no matplotlib.

        Cost:
            plans up to 40 derivatives, once per function and shapes; of more than 300 operations,
            fewer.
        """
        points = self._points()
        if path is not None:
            _draw(self, points, path)
        return points

    def _unit(self, cost: float) -> str:
        return f"{shown(cost)}flop" if self.cost == "flops" else f"{shown(cost)}s"

    def _lines(self) -> Iterator[str]:
        limit = "the knee of the curve" if self.budget is None else f"{self.budget:,} bytes"
        yield f"{self.of} under a budget of {limit}"
        yield f"  peak        {self.peak_bytes:,} bytes by plan, {self.plain_bytes:,} without a budget"
        yield f"  smallest    {self.least_bytes:,} bytes"
        yield (
            f"  recomputed  {self._unit(self.extra)}, {100 * self.slowdown:.3g} % of a forward run; "
            f"at most {100 * self.gap:.3g} % more than needed"
        )
        yield f"  method      {self.method}"
        yield f"  planning    {self.plans} derivatives planned, {self.seconds:.2g} s"
        if self.recomputed:
            yield "runs again"
        rows = [
            (
                self._unit(r.cost),
                f"{r.times} x {r.operation}",
                "" if r.source is None else f"{r.source.short}  {r.source.expression}",
            )
            for r in self.recomputed
        ]
        widths = [max([len(row[k]) for row in rows], default=0) for k in (0, 1)]
        for cost, what, line in rows:
            yield f"  {cost:>{widths[0]}}  {what:<{widths[1]}}  {line}".rstrip()
        yield "keeps"
        yield from [f"  {line}" for line in str(self.kept).splitlines()]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def __repr__(self) -> str:
        return (
            f"<BudgetPlan of {self.of}: {self.peak_bytes:,} bytes, "
            f"{100 * self.slowdown:.3g} % of a forward run recomputed>"
        )


@entry
def plan(
    f: Callable[P, Any], *, budget: int | str | Budget = "auto", cost: Cost = "flops"
) -> Callable[P, BudgetPlan]:
    """Make a function that reports what a memory budget keeps and recomputes in the derivative of
    ``f``.

    Nothing is computed, except measurements of single operations with ``cost="time"``.

    Args:
        f: a function of arrays (pytrees of them).
        budget: a number of bytes, a string such as ``"300 MB"``, or ``"auto"`` for the knee of the
            time-memory curve; or a policy made by `functrace.policies.budget`.
        cost: what recomputation costs: ``"flops"`` by count, or ``"time"`` in measured seconds.

    Returns:
        a function of ``f``'s arguments that returns a `functrace.stages.BudgetPlan`. Its
        ``pareto(path)`` draws the time-memory curve.

    Raises:
        ArgumentError: if ``budget`` or ``cost`` is none; from the function, if the budget is
            impossible (the message has the smallest possible one).

    Example:
        >>> import numpy as np, functrace as ft
        >>> def f(x):
        ...     for _ in range(20):
        ...         x = np.sin(np.cumsum(x))
        ...     return np.sum(x)
        >>> plan = ft.plan(f, budget="150 KB")(np.ones(1000))
        >>> plan.peak_bytes <= 150_000 < plan.plain_bytes, 0 < plan.slowdown < 1
        (True, True)

    Cost:
        once per function and shapes, 1 to 5 s for up to 1,000 operations: derivatives of candidates
        are planned, chosen by estimates of their peaks (about 2 ms per operation of ``f``).
        `functrace.checkpoint` with the same budget uses the same plan.
    """
    policy = budget if isinstance(budget, Budget) else parsed_budget(budget, cost)
    name = function_name(f)

    @transformed("plan", f)
    def planned(*args: object, **kwargs: object) -> BudgetPlan:
        args, kwargs = map_leaves(
            lambda leaf: np.float64(leaf) if type(leaf) is float else leaf, (args, kwargs)
        )
        operands = Operands(args, kwargs)
        names = input_names(f, args, kwargs)
        staged = stage(
            f,
            operands,
            f"plan of {name}",
            name,
            scope=OPEN,
            computed_only=True,
            input_names=[names[k] for k in operands.places],
        )
        program = staged.program.interned()
        if not program.output_ids:
            raise ArgumentError(
                f"plan of {name}: no result depends on its arguments",
                fix="return a value that is computed from the arguments",
            )
        active = [True] * len(operands.values) + traced(staged.captured)
        frontier = frontier_of(program, policy.cost, active=active)
        return _report(name, policy, frontier, choice(frontier, policy))

    return planned


def _report(name: str, policy: Budget, frontier: Frontier, chosen: Choice) -> BudgetPlan:
    candidate, total = chosen.candidate, frontier.total
    least = frontier.least.peak_bytes
    program = chosen.program
    forward, linear = linearize_program(program, frontier.active)
    distance = 0.0 if chosen.cheaper is None else candidate.extra - chosen.cheaper
    return BudgetPlan(
        of=name,
        budget=policy.nbytes,
        cost=policy.cost,
        peak_bytes=chosen.peak_bytes,
        plain_bytes=frontier.plain.peak_bytes,
        least_bytes=least,
        extra=candidate.extra,
        forward=total,
        gap=(distance + candidate.gap * candidate.extra) / total if total else 0.0,
        method=frontier.method,
        plans=frontier.evaluations,
        seconds=frontier.seconds,
        kept=residuals_of(program, forward, linear, name),
        recomputed=_recomputed(chosen),
        _frontier=frontier,
    )


def _recomputed(chosen: Choice) -> tuple[RecomputedOperation, ...]:
    """Return what runs again, the most expensive first."""
    work, program = chosen.candidate.work, chosen.candidate.work.program
    times: Counter[tuple[str, Source | None]] = Counter()
    costs: dict[tuple[str, Source | None], float] = {}
    for k, count in second_runs(work, chosen.candidate.items).items():
        key = program.ops[k][0].name, program.source(k)
        times[key] += count
        costs[key] = costs.get(key, 0.0) + count * work.costs[k]
    rows = [RecomputedOperation(key[0], times[key], costs[key], key[1]) for key in times]
    return tuple(sorted(rows, key=lambda row: -row.cost))


def _draw(plan: BudgetPlan, points: tuple[ParetoPoint, ...], path: str | os.PathLike[str]) -> None:
    """Draw the curve to a file.

    Raises:
        UnsupportedFunctionError: without matplotlib.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UnsupportedFunctionError(
            "pareto draws with matplotlib, which is not installed",
            fix="pip install matplotlib, or use the points that pareto() returns",
        ) from error
    figure: Any = Figure(figsize=(6.4, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.add_subplot()
    sizes = [point.peak_bytes / 2**20 for point in points]
    costs = [100.0 * point.slowdown for point in points]
    axes.step(sizes, costs, where="post", marker="o", markersize=3)
    axes.plot(
        [plan.peak_bytes / 2**20], [100.0 * plan.slowdown], "o", label="chosen", color="tab:red"
    )
    if plan.budget is not None:
        axes.axvline(plan.budget / 2**20, linestyle=":", color="gray", label="budget")
    axes.set(
        xlabel="peak of the derivative (MiB)",
        ylabel="recomputed, % of a forward run",
        title=plan.of,
    )
    axes.legend()
    figure.savefig(path)
