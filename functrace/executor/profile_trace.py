"""Profiles as trace events, for ui.perfetto.dev and Chrome's tracing page.

A profile has one time per operation, the median of its runs. The trace lays these out as one run of
the program: operations after each other, those of a sub-program below their operation.

Layer: 7.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from functrace.source import printable

if TYPE_CHECKING:
    from functrace.executor.profile import OperationTime, Profile

RUN, LINES, COMPILATION = 1, 2, 3
"""Threads of the trace: a run of the program, its source lines, and what is done before."""


def trace_events(profile: Profile) -> dict[str, Any]:
    """Return a profile in the JSON object form of the trace event format.

    Times are in microseconds. Every event is a complete event (``"X"``), or names a process or a
    thread (``"M"``).

    Source:
        "Trace Event Format", Google, 2016.
    """
    name = printable(profile.name)
    events: list[dict[str, Any]] = [
        _name("process_name", 0, f"functrace: {name}"),
        _name("thread_name", RUN, "one run, operation by operation"),
        _name("thread_name", LINES, "by source line"),
        _name("thread_name", COMPILATION, "compilation, before"),
    ]
    total = sum([row.seconds for row in profile.rows if not row.depth])
    run = {"seconds without clocks": profile.seconds, "peak bytes": profile.peak_bytes}
    events.append(_event(name, "program", RUN, 0.0, total, run))
    events += _operations(profile.rows, 0, len(profile.rows), 0, 0.0, total)
    start = 0.0
    for line in profile.lines:
        title = f"{line.place}  {printable(line.text)}".rstrip()
        events.append(_event(title, "line", LINES, start, line.seconds, {}))
        start += line.seconds
    start = 0.0
    for phase, seconds in profile.compiling.items():
        events.append(_event(phase, "compilation", COMPILATION, start, seconds, {}))
        start += seconds
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def trace_json(profile: Profile) -> str:
    """Return `trace_events` as text."""
    return json.dumps(trace_events(profile), allow_nan=False)


def _operations(
    rows: tuple[OperationTime, ...], first: int, end: int, depth: int, start: float, most: float
) -> Iterator[dict[str, Any]]:
    """Yield the operations of one sub-program, within ``most`` seconds from ``start`` on.

    An event must lie within the one around it. The medians of operations may add up to more than
    the median of the operation that runs them; then they are shown shorter, and their arguments have
    the measured seconds.
    """
    own = [k for k in range(first, end) if rows[k].depth == depth]
    total = sum([rows[k].seconds for k in own])
    scale = most / total if total > most else 1.0
    for k, after in zip(own, [*own[1:], end], strict=False):
        row = rows[k]
        seconds = row.seconds * scale
        details = {
            "seconds": row.seconds,
            "runs": row.runs,
            "bytes": row.bytes,
            "flops": row.flops,
            "line": "" if row.source is None else str(row.source),
            "estimated": row.estimated,
        }
        yield _event(printable(row.text), "operation", RUN, start, seconds, details)
        yield from _operations(rows, k + 1, after, depth + 1, start, seconds)
        start += seconds


def _event(
    name: str, category: str, thread: int, start: float, seconds: float, details: dict[str, Any]
) -> dict[str, Any]:
    return {
        "name": name,
        "cat": category,
        "ph": "X",
        "ts": start * 1e6,
        "dur": seconds * 1e6,
        "pid": 1,
        "tid": thread,
        "args": details,
    }


def _name(kind: str, thread: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "ts": 0, "pid": 1, "tid": thread, "args": {"name": name}}
