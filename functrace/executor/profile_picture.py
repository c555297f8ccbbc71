"""Profiles as SVG: a bar per operation, in the colour of its line, and a bar per line.

All text from the program or its files is escaped.

Layer: 7.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from functrace.ir.cost import shown
from functrace.source import printable

if TYPE_CHECKING:
    from functrace.executor.profile import OperationTime, Profile

WIDTH, ROW, BAR_LEFT, BAR_WIDTH = 960, 20, 150, 240
MOST_ROWS = 60
"""Maximum number of operations in the SVG; the slowest, in program order."""
LONGEST = 62
"""Maximum number of characters of an operation."""
COLOURS = (
    "#4477aa",
    "#ee6677",
    "#228833",
    "#ccbb44",
    "#66ccee",
    "#aa3377",
    "#997700",
    "#994455",
    "#004488",
    "#bb5566",
)


def profile_svg(profile: Profile) -> str:
    """Return a profile as the text of an SVG."""
    total = sum(row.seconds for row in profile.rows if not row.depth) or 1.0
    longest = max([row.seconds for row in profile.rows], default=1.0) or 1.0
    colours = {line.place: COLOURS[k % len(COLOURS)] for k, line in enumerate(profile.lines)}
    least = sorted([row.seconds for row in profile.rows], reverse=True)[:MOST_ROWS][-1:]
    rows = [row for row in profile.rows if least and row.seconds >= least[0]][:MOST_ROWS]
    texts: list[str] = []
    top = 56
    texts.append(
        _text(
            12,
            22,
            f"{profile.name}: {shown(profile.seconds)}s per run",
            "font-size:15px;font-weight:bold",
        )
    )
    note = (
        f"{shown(profile.watched)}s with a clock around every operation; medians of {profile.runs} "
        "runs; "
        f"at most {shown(profile.peak_bytes)}B; {shown(profile.flops)}flop"
    )
    texts.append(_text(12, 40, note, "fill:#555"))
    for k, row in enumerate(rows):
        y = top + ROW * k
        place = "?" if row.source is None else row.source.short
        texts.append(_text(78, y + 14, row.time, "text-anchor:end"))
        texts.append(_text(140, y + 14, f"{row.seconds / total:.1%}", "text-anchor:end;fill:#555"))
        width = max(1.0, BAR_WIDTH * row.seconds / longest)
        opacity = 1.0 if not row.depth else 0.55
        texts.append(
            f'<rect x="{BAR_LEFT}" y="{y + 3}" width="{width:.1f}" height="{ROW - 6}" fill="{colours[place]}" '
            f'fill-opacity="{opacity}"><title>{_escaped(_tooltip(row))}</title></rect>'
        )
        text = "  " * row.depth + row.text
        texts.append(
            _text(
                BAR_LEFT + BAR_WIDTH + 10,
                y + 14,
                text if len(text) < LONGEST else text[: LONGEST - 1] + "…",
            )
        )
        texts.append(_text(WIDTH - 12, y + 14, place, f"text-anchor:end;fill:{colours[place]}"))
    top += ROW * len(rows) + 30
    left_out = len(profile.rows) - len(rows)
    heading = "by line" + (
        f" ({left_out} shorter operations are not shown above)" if left_out else ""
    )
    texts.append(_text(12, top - 6, heading, "font-weight:bold"))
    lines = [line for line in profile.lines if line.seconds > 0.0005 * total][:20]
    for k, line in enumerate(lines):
        y = top + ROW * k
        texts.append(_text(78, y + 14, f"{shown(line.seconds)}s", "text-anchor:end"))
        texts.append(_text(140, y + 14, f"{line.seconds / total:.1%}", "text-anchor:end;fill:#555"))
        width = max(1.0, BAR_WIDTH * line.seconds / max(lines[0].seconds, 1e-12))
        texts.append(
            f'<rect x="{BAR_LEFT}" y="{y + 3}" width="{width:.1f}" height="{ROW - 6}" fill="{colours[line.place]}"/>'
        )
        whole = f"{line.place}  {line.text}"
        texts.append(
            _text(BAR_LEFT + BAR_WIDTH + 10, y + 14, whole if len(whole) < 84 else whole[:83] + "…")
        )
    height = top + ROW * len(lines) + 12
    body = "\n".join(texts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'style="font-family:monospace;font-size:11px">\n<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


def _tooltip(row: OperationTime) -> str:
    """Return the tooltip of a bar."""
    rates = f"{shown(row.bytes)}B, {shown(row.bandwidth)}B/s, {shown(row.flops)}flop, {shown(row.speed)}flop/s"
    return f"{row.text}: {row.time}, {row.runs} times; {rates}"


def _text(x: float, y: float, text: str, style: str = "") -> str:
    kept = f' style="{style}"' if style else ""
    return f'<text x="{x}" y="{y}"{kept} xml:space="preserve">{_escaped(text)}</text>'


def _escaped(text: str) -> str:
    return html.escape(printable(text))
