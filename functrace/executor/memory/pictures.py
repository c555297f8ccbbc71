"""Pictures of memory plans: an SVG for notebooks, and figures by matplotlib.

The height of a bar is the live bytes at an operation; its colour says whether that belongs to the
forward or to the reverse pass. The darker part is residuals. All text is escaped.

Layer: 7.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from functrace.errors import UnsupportedFunctionError
from functrace.ir.cost import shown
from functrace.source import printable

if TYPE_CHECKING:
    from functrace.executor.memory.timeline import MemoryPlan, MemoryPoint

WIDTH, HEIGHT, LEFT, TOP = 720, 180, 70, 30
COLOURS = {"forward": "#4477aa", "backward": "#ee6677"}
RESIDUALS = "#1f3b57"
MOST_BARS = 600
"""Number of bars; in a longer program one for several operations, that of the largest."""


def _bars(plan: MemoryPlan) -> list[tuple[float, float, MemoryPoint]]:
    """Return position and width of each bar, from 0 to 1, and its operation."""
    points, count = plan.points, max(1, len(plan.points))
    each = -(-count // MOST_BARS)
    return [
        (start / count, min(each, count - start) / count,
         max(points[start : start + each], key=lambda point: point.nbytes))
        for start in range(0, len(points), each)
    ]  # fmt: skip


def residual_bytes(plan: MemoryPlan) -> list[int]:
    """Return the bytes of residuals that are alive at each point."""
    changes = [0] * (len(plan.points) + 1)
    for value in plan.values:
        if value.kind == "residual":
            changes[value.birth] += value.nbytes
            changes[value.death + 1] -= value.nbytes
    found: list[int] = []
    for change in changes[:-1]:
        found.append(change + (found[-1] if found else 0))
    return found


def timeline_svg(plan: MemoryPlan) -> str:
    """Return the timeline as the text of an SVG."""
    most, residuals = max(plan.peak_bytes, 1), residual_bytes(plan)
    wide, high = WIDTH - LEFT - 10, HEIGHT - TOP - 20
    texts = [
        _text(LEFT, 18, f"{plan.name} ({plan.runs}): at most {shown(plan.peak_bytes)}B", "start"),
        _text(LEFT - 6, TOP + 10, f"{shown(plan.peak_bytes)}B", "end"),
        _text(LEFT - 6, TOP + high, "0 B", "end"),
        _text(LEFT, HEIGHT - 4, "operations, in the order in which they run", "start"),
    ]
    for k, (name, colour) in enumerate([*COLOURS.items(), ("residuals", RESIDUALS)]):
        x = WIDTH - 260 + 88 * k
        texts.append(f'<rect x="{x}" y="{HEIGHT - 14}" width="10" height="10" fill="{colour}"/>')
        texts.append(_text(x + 14, HEIGHT - 4, name, "start"))
    for x, width, point in _bars(plan):
        left, size = LEFT + x * wide, max(width * wide, 0.5)
        source = (
            "" if point.source is None else f"\n{point.source.short}  {point.source.expression}"
        )
        title = html.escape(
            printable(f"{point.index}: {point.text}") + f"\n{point.nbytes:,} bytes, {point.phase}"
        ) + html.escape("\n".join(map(printable, source.split("\n"))))
        for nbytes, colour in (
            (point.nbytes, COLOURS[point.phase]),
            (residuals[point.index], RESIDUALS),
        ):
            tall = high * nbytes / most
            texts.append(
                f'<rect x="{left:.2f}" y="{TOP + high - tall:.2f}" width="{size:.2f}" '
                f'height="{tall:.2f}" fill="{colour}"><title>{title}</title></rect>'
            )
    body = "\n".join(texts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" style="font-family:sans-serif;font-size:11px">\n{body}\n</svg>'
    )


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{html.escape(printable(text))}</text>'


def draw_timeline(plan: MemoryPlan, axes: Any) -> None:
    """Draw a timeline into axes of matplotlib."""
    residuals = residual_bytes(plan)
    bars = _bars(plan)
    count = len(plan.points)
    for phase, colour in COLOURS.items():
        chosen = [bar for bar in bars if bar[2].phase == phase]
        axes.bar(
            [x * count for x, _, _ in chosen],
            [point.nbytes / 1e6 for _, _, point in chosen],
            [width * count for _, width, _ in chosen],
            align="edge", color=colour, label=phase,
        )  # fmt: skip
    axes.bar(
        [x * count for x, _, _ in bars],
        [residuals[point.index] / 1e6 for _, _, point in bars],
        [width * count for _, width, _ in bars],
        align="edge", color=RESIDUALS, label="residuals",
    )  # fmt: skip
    axes.set_xlabel("operation")
    axes.set_ylabel("live MB")
    axes.set_title(f"{plan.name} ({plan.runs}): at most {shown(plan.peak_bytes)}B", fontsize=9)
    axes.legend(loc="upper left", fontsize=8)


def draw(plan: MemoryPlan, path: str) -> None:
    """Draw a timeline into a file.

    Raises:
        UnsupportedFunctionError: if matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UnsupportedFunctionError(
            "plot draws with matplotlib, which is not installed",
            fix="pip install 'functrace-numpy[plot]', or print the plan",
        ) from None
    figure: Any = Figure(figsize=(8.0, 3.2), layout="constrained")
    draw_timeline(plan, figure.add_subplot())
    figure.savefig(path, dpi=120)
