"""Memory plans as text and as HTML: a bar chart of live bytes, and the arrays alive at the peak.

Layer: 7.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from functrace.ir.cost import shown
from functrace.ir.pictures import table
from functrace.source import Source, printable

if TYPE_CHECKING:
    from functrace.executor.memory.timeline import MemoryPlan, MemoryPoint

BARS = 24
"""Number of lines of the chart, at most."""
WIDTH = 40
"""Characters of the longest bar."""
MOST_ROWS = 20
"""Number of rows of the table of values, at most; the smaller ones are one row."""
LONGEST = 46
"""Characters of an operation in the chart."""

Row = tuple[str, str, str, str, str]
TITLES: Row = ("bytes", "value", "made by", "why it is alive", "line")


def as_text(plan: MemoryPlan) -> str:
    """Return a memory plan as text."""
    return "\n".join([*summary(plan), "", *_chart(plan), "", *_table(plan)])


def as_html(plan: MemoryPlan) -> str:
    """Return a memory plan as HTML: the summary, the timeline, and the table of the peak."""
    from functrace.executor.memory.pictures import timeline_svg

    lines = table([], [(line,) for line in summary(plan)])
    rows = table(list(TITLES), [*alive_rows(plan)], right=(0,))
    return f"<div>{lines}{timeline_svg(plan)}{rows}</div>"


def summary(plan: MemoryPlan) -> list[str]:
    """Return the figures of a plan, one line each."""
    lines = [f"{printable(plan.name)} ({plan.runs}): at most {plan.peak_bytes:,} bytes"]
    if plan.peak is not None:
        lines[0] += f", at {_place(plan.peak)}"
    lines.append(f"besides {plan.given_bytes:,} bytes of arguments and captured arrays")
    if plan.nbytes_each:
        lines.append(
            f"and {plan.nbytes_each:,} bytes for each step of loops of unknown length, which are "
            "not counted"
        )
    return lines


def alive_rows(plan: MemoryPlan) -> Iterator[Row]:
    """Yield the rows of the table of what is alive at the peak: largest first, equal ones as one."""
    if plan.peak is None:
        return
    index = plan.peak.index
    counts: Counter[tuple[int, str, str, str, str]] = Counter()
    names: dict[tuple[int, str, str, str, str], list[str]] = {}
    for value in plan.at_peak:
        key = value.nbytes, str(value.aval), value.made, plan.why(value, index), _line(value.source)
        counts[key] += 1
        names.setdefault(key, []).append(value.name)
    rows = sorted(counts.items(), key=lambda item: -item[0][0] * item[1])
    for (nbytes, aval, made, why, line), count in rows[:MOST_ROWS]:
        named = names[nbytes, aval, made, why, line]
        value = f"{count} x {aval}" if count > 1 else f"{named[0]}: {aval}" if named[0] else aval
        yield f"{count * nbytes:,}", printable(value), made, why, line
    rest = rows[MOST_ROWS:]
    if rest:
        number = sum([count for _, count in rest])
        size = sum([key[0] * count for key, count in rest])
        yield f"{size:,}", f"{number} smaller ones", "", "", ""


def _line(source: Source | None) -> str:
    return "" if source is None else printable(f"{source.short}  {source.expression}").rstrip()


def _place(point: MemoryPoint) -> str:
    where = "" if point.source is None else f" of {point.source.short}"
    return f"{point.operation}{where} ({point.phase})"


def _chart(plan: MemoryPlan) -> Iterator[str]:
    """Yield a bar per operation; in a long program per several ones, of the largest of them."""
    points = plan.points
    each = -(-len(points) // BARS) if points else 1
    most = max(plan.peak_bytes, 1)
    width = len(f"{most:,}")
    if each > 1:
        yield f"the largest of each {each} operations:"
    for start in range(0, len(points), each):
        point = max(points[start : start + each], key=lambda p: p.nbytes)
        bar = "█" * max(1 if point.nbytes else 0, round(WIDTH * point.nbytes / most))
        peak = " ← peak" if plan.peak is not None and point.index == plan.peak.index else ""
        text = "  " * point.depth + printable(point.text)
        text = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
        yield (
            f"  {point.nbytes:>{width},}  {point.phase[0]}  {bar:<{WIDTH}}  {text}{peak}".rstrip()
        )


def _table(plan: MemoryPlan) -> Iterator[str]:
    rows = [TITLES, *alive_rows(plan)]
    if len(rows) == 1:
        yield "nothing is allocated"
        return
    yield f"alive at the peak, {shown(plan.peak_bytes)}B:"
    widths = [max([len(row[k]) for row in rows]) for k in range(4)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[1:4], widths[1:], strict=True)]
        yield "  ".join(["", row[0].rjust(widths[0]), *cells, row[4]]).rstrip()
