"""``policies.budget``: checkpoints chosen so that a derivative fits into a number of bytes.

The recorded program is rewritten: parts of it become calls that recompute
(`functrace.checkpoint`), some of which keep chosen values. Which, is chosen from the frontier of the
program (functrace/api/residuals/frontier.py); the `functrace.executor.Plan.peak_bytes` of the
derivative decides what fits.

Layer: 8.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast, final

from functrace.caches import MemoTable
from functrace.errors import ArgumentError
from functrace.executor.allocator import FREED
from functrace.ir.program import Program

if TYPE_CHECKING:
    from functrace.api.residuals.derivative_costs import Batch
    from functrace.api.residuals.frontier import Choice, Frontier

UNITS = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 1 << 10,
    "MIB": 1 << 20,
    "GIB": 1 << 30,
    "TIB": 1 << 40,
}

AUTO = "auto"
"""Instead of a size: the knee of the time-memory curve."""

COSTS = ("flops", "time")
"""Units of the cost of recomputation: flops by count, or seconds as measured."""

Cost = Literal["flops", "time"]


@final
@dataclass(frozen=True, slots=True)
class Budget:
    """Policy that limits the bytes of a derivative; see `functrace.policies.budget`.

    Args:
        nbytes: the limit; ``None`` for the knee of the time-memory curve.
        cost: what recomputation costs: ``"flops"`` or ``"time"``.
    """

    nbytes: int | None
    cost: str = "flops"


def parsed_budget(size: int | str, cost: str) -> Budget:
    """Return the policy of a size, or of ``"auto"``.

    Raises:
        ArgumentError: if the size is neither a number of bytes nor ``"auto"``, or the cost is
            unknown.
    """
    if cost not in COSTS:
        raise ArgumentError(
            f"policies.budget: cost is {cost!r}",
            fix="'flops' (counted) or 'time' (measured when the plan is made)",
        )
    return Budget(None if size == AUTO else parsed_bytes(size), cost)


def parsed_bytes(size: int | str) -> int:
    """Parse a number of bytes: an int, or a string like ``"300 MB"`` or ``"1.5 GiB"``.

    Raises:
        ArgumentError: if it is neither, or not positive.
    """
    fix = '"300 MB", "1.5 GiB", an int, or "auto"'
    found = (
        re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([KMGT]?i?B)\s*", size, re.IGNORECASE)
        if isinstance(size, str)
        else None
    )
    if found is not None:
        nbytes = int(float(found[1]) * UNITS[found[2].upper()])
    elif isinstance(size, int) and not isinstance(size, bool):
        nbytes = size
    else:
        raise ArgumentError(f"policies.budget takes a number of bytes, not {size!r}", fix=fix)
    if nbytes <= 0:
        raise ArgumentError(f"policies.budget: {size!r} is not positive", fix=fix)
    return nbytes


def within(
    program: Program,
    budget: Budget,
    batches: Sequence[Batch] = (),
    active: Sequence[bool] | None = None,
) -> Program:
    """Return an equal program whose reverse-mode derivative needs at most the budget, including the
    operands.

    Args:
        program: the program.
        budget: the policy.
        batches: mapped functions around it, the innermost first.
        active: a flag per input: True if the derivative may be by it; by default all that can.

    Raises:
        ArgumentError: if no candidate fits; the message has the smallest possible budget.

    Cost:
        up to 40 times the derivation and planning of the gradient, once per program; 3 to 10 times
        if it has thousands of operations.
    """
    FREED.has_budget = True
    flags = None if active is None else tuple(active)
    key = (program, budget, tuple(batches), flags)
    found = _chosen.get(key)
    if found is None:
        frontier = _frontiers.get((program, budget.cost, tuple(batches), flags))
        if frontier is None:  # not kept: candidates take tens of MB
            from functrace.api.residuals.frontier import Frontier

            frontier = Frontier(program, budget.cost, batches, active)
        made = choice(frontier, budget)
        found = _chosen.keep(key, program if made is frontier.plain else made.program)
    return cast("Program", found)


_chosen = MemoTable("functions under a budget", 64)
_frontiers = MemoTable("frontiers of functions under a budget", 8)


def frontier_of(
    program: Program,
    cost: str,
    batches: Sequence[Batch] = (),
    active: Sequence[bool] | None = None,
) -> Frontier:
    """Return the frontier of a program; recent ones are cached."""
    key = (program, cost, tuple(batches), None if active is None else tuple(active))
    found = _frontiers.get(key)
    if found is None:
        from functrace.api.residuals.frontier import Frontier

        found = _frontiers.keep(key, Frontier(program, cost, batches, active))
    return cast("Frontier", found)


def choice(frontier: Frontier, budget: Budget) -> Choice:
    """Choose the candidate for a budget.

    Raises:
        ArgumentError: if no candidate fits; the message has the smallest possible budget.
    """
    if budget.nbytes is None:
        return frontier.knee()
    found = frontier.best(budget.nbytes)
    if found is not None:
        return found
    given = frontier.given.name
    name = "the function" if given == "program" else given  # (of a lambda)
    raise ArgumentError(
        f"policies.budget: the derivative of {name} needs {frontier.least.peak_bytes:,} bytes, not "
        f"{budget.nbytes:,}",
        fix="raise the budget to that, or make the largest arrays smaller (smaller batches, a scan)",
    )
