"""Measurements of a work, and their formatting."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.work import (
    BEST,
    CALLS,
    NATIVE,
    OWN_FIRST,
    PEERS,
    SYSTEMS,
    XLA,
    Samples,
    Target,
    Work,
)


@dataclass
class Outcome:
    """Measurements of one work.

    Args:
        work: the work.
        seconds: per run, by system and call.
        skipped: systems left out, and why.
        peaks: bytes that a process grows by while a system runs.
    """

    work: Work
    seconds: Samples
    skipped: dict[str, str] = field(default_factory=dict)
    peaks: dict[str, int] = field(default_factory=dict)

    def median(self, system: str | None, call: str = "later") -> float | None:
        """Return the median seconds of a call of a system, if it ran."""
        samples = self.seconds.get(system or "", {}).get(call)
        return statistics.median(samples) if samples else None

    def best_peer(self, call: str = "later") -> str | None:
        """Return the fastest system that differentiates by itself, other than functrace."""
        found = {
            name: seconds for name in PEERS if (seconds := self.median(name, call)) is not None
        }
        return min(found, key=found.__getitem__, default=None)

    def ratio(
        self,
        against: str | None,
        call: str = "later",
        plus: float = 0.0,
        system: str = "functrace",
    ) -> float | None:
        """Return the median of a form of functrace less ``plus`` over that of ``against``; ``None``
        if one of them did not run.
        """
        own = self.median(system, call)
        if own is not None:
            own -= plus
        if against is None:
            return own
        if against == OWN_FIRST:
            other = self.median(system, "first")
        else:
            other = self.median(self.best_peer(call) if against == BEST else against, call)
        return None if own is None or other is None else own / other

    @property
    def main_call(self) -> str:
        """The call to compare: the later ones, unless there is only a first."""
        return "first" if self.work.cold else "later"

    def verdicts(self) -> Iterator[tuple[Target, float | None, bool | None]]:
        """Yield each target, its ratio, and whether it is reached (``None`` without the peer)."""
        for target in self.work.targets:
            reached = self.ratio(target.against, target.call, target.plus, target.system)
            yield target, reached, None if reached is None else reached <= target.ratio

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "id": self.work.id,
            "about": self.work.about,
            "seconds": self.seconds,
            "medians": {
                name: {call: self.median(name, call) for call in CALLS} for name in self.seconds
            },
            "peak_bytes": self.peaks,
            "skipped": self.skipped,
            "best_peer": self.best_peer(self.main_call),
            "ratio_to_best_peer": self.ratio(BEST, self.main_call),
            "targets": [
                {
                    "against": target.against,
                    "call": target.call,
                    "system": target.system,
                    "most": target.ratio,
                    "reached": reached,
                    "met": met,
                }
                for target, reached, met in self.verdicts()
            ],
        }


def show_seconds(seconds: float | None) -> str:
    """Format a time with three digits: ``15.2 µs``."""
    if seconds is None:
        return "–"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return (
                f"{seconds / size:.3g} {unit}"
                if seconds / size < 1000
                else f"{seconds / size:.0f} {unit}"
            )
    return f"{seconds * 1e9:.0f} ns"


def show_bytes(count: float | None) -> str:
    """Format a memory: ``15.2 MiB``."""
    if count is None:
        return "–"
    return f"{count / 2**20:.3g} MiB" if abs(count) < 1000 * 2**20 else f"{count / 2**20:.0f} MiB"


def show_verdict(outcome: Outcome, target: Target, reached: float | None, met: bool | None) -> str:
    """Format one target: ``later: 0.22 x torch <= 0.4: met``."""
    verdict = {True: "met", False: "NOT MET", None: "not measured"}[met]
    if target.against is None:
        return f"{show_seconds(reached)} <= {show_seconds(target.ratio)}: {verdict}"
    against = (
        f"{BEST} ({outcome.best_peer(target.call)})" if target.against == BEST else target.against
    )
    reached_text = "" if reached is None else f"{reached:.2f} x {against} "
    less = f" less {show_seconds(target.plus)}" if target.plus else ""
    who = f"{target.system.removeprefix('functrace').strip()} {target.call}".lstrip()
    return f"{who}{less}: {reached_text}<= {target.ratio:g}{'' if reached_text else f' x {against}'}: {verdict}"


def lay_out(rows: Sequence[Sequence[str]]) -> str:
    """Align columns, the first and the last to the left, below a head."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]

    def line(row: Sequence[str]) -> str:
        cells = [
            row[0].ljust(widths[0]),
            *(cell.rjust(w) for cell, w in zip(row[1:-1], widths[1:-1], strict=True)),
            row[-1],
        ]
        return "  ".join(cells).rstrip()

    return "\n".join([line(rows[0]), "-" * len(line(rows[0])), *map(line, rows[1:])])


def systems_of(outcomes: Sequence[Outcome]) -> list[str]:
    """The systems of which anything was measured, in the order of columns."""
    return [name for name in SYSTEMS if any(name in outcome.seconds for outcome in outcomes)]


def table(outcomes: Sequence[Outcome]) -> str:
    """Format the outcomes as a table: a line per work and call, and one with the peak memory."""
    systems = systems_of(outcomes)
    rows = [["work", "call", *systems, "/ best peer", "target"]]
    for outcome in outcomes:
        lines: list[list[str]] = []
        for call in CALLS:
            times = [outcome.median(system, call) for system in systems]
            ratio = outcome.ratio(BEST, call)
            best = "–" if ratio is None else f"{ratio:.2f} ({outcome.best_peer(call)})"
            if any(seconds is not None for seconds in times):
                lines.append([call, *map(show_seconds, times), best])
        if outcome.peaks:
            lines.append(
                ["memory", *(show_bytes(outcome.peaks.get(system)) for system in systems), ""]
            )
        verdicts = [show_verdict(outcome, *verdict) for verdict in outcome.verdicts()]
        for k in range(max(len(lines), len(verdicts))):
            cells = lines[k] if k < len(lines) else [""] * (len(systems) + 2)
            rows.append(
                [outcome.work.id if not k else "", *cells, verdicts[k] if k < len(verdicts) else ""]
            )
    return lay_out(rows)


def geometric_means(outcomes: Sequence[Outcome]) -> dict[str, dict[str, tuple[float, int]]]:
    """Return by group of works (with machine code and XLA by themselves), and peer or `BEST`, the
    geometric mean of functrace's ratio, and over how many works.
    """
    found: dict[str, dict[str, tuple[float, int]]] = {}
    groups = dict.fromkeys(outcome.work.group for outcome in outcomes)
    for group, system in itertools.product(groups, ("functrace", NATIVE, XLA)):
        members = [
            outcome
            for outcome in outcomes
            if outcome.work.group == group and outcome.work.id != "import-time"
        ]
        for against in (*PEERS, BEST):
            ratios = [
                ratio
                for outcome in members
                if (ratio := outcome.ratio(against, outcome.main_call, system=system)) is not None
            ]
            if ratios:
                mean = math.exp(statistics.fmean(map(math.log, ratios)))
                name = group if system == "functrace" else f"{group}, {system.split()[-1]}"
                found.setdefault(name, {})[against] = mean, len(ratios)
    return found


def means_table(outcomes: Sequence[Outcome]) -> str:
    """Lay out the geometric means: of later calls, where there are any."""
    found = geometric_means(outcomes)
    peers = [peer for peer in (*PEERS, BEST) if any(peer in row for row in found.values())]
    rows = [["functrace /", *peers, ""]]
    for group, row in found.items():
        rows.append(
            [
                group,
                *(
                    f"{row[peer][0]:.2f} of {row[peer][1]}" if peer in row else "–"
                    for peer in peers
                ),
                "",
            ]
        )
    return lay_out(rows)
