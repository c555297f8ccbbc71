"""``Profile.perfetto``: the file is in the JSON object form of the trace event format.

Source: "Trace Event Format", Google, 2016: an object with a list ``traceEvents``; complete events
("X") have name, category, timestamp and duration in microseconds, process and thread; metadata events
("M") name these. Events of one thread must lie within each other, or apart.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.executor.profile import OperationTime, Profile

X = np.linspace(0.1, 1.0, 6).reshape(2, 3)


def loop(x: Any) -> Any:
    def turn(carry: Any, _: Any) -> Any:
        carry = np.sin(carry) * 1.5
        return carry, np.sum(carry)

    last, sums = ft.scan(turn, x, np.zeros(7))
    return np.sum(last) + np.sum(sums)


def events_of(profile: Profile, folder: Path) -> list[dict[str, Any]]:
    path = folder / "trace.json"
    profile.perfetto(path)
    assert os.listdir(folder) == ["trace.json"]
    trace = json.loads(path.read_text(encoding="utf-8"))
    assert set(trace) == {"traceEvents", "displayTimeUnit"}
    assert trace["displayTimeUnit"] in {"ms", "ns"}
    check(trace["traceEvents"])
    return trace["traceEvents"]


def check(events: list[dict[str, Any]]) -> None:
    threads: dict[int, list[tuple[float, float]]] = {}
    for event in events:
        assert type(event["name"]) is str and type(event["args"]) is dict
        assert type(event["pid"]) is int and type(event["tid"]) is int
        if event["ph"] == "M":
            assert event["name"] in {"process_name", "thread_name"}
            assert type(event["args"]["name"]) is str
            continue
        assert event["ph"] == "X" and type(event["cat"]) is str
        assert event["ts"] >= 0.0 and event["dur"] >= 0.0
        threads.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"]))
    for spans in threads.values():
        rounding = 1e-9 * max(end for _, end in spans)
        open_: list[float] = []
        for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while open_ and open_[-1] <= start + rounding:
                open_.pop()
            assert not open_ or end <= open_[-1] + rounding
            open_.append(end)


def test_a_profile_of_a_loop(tmp_path: Path) -> None:
    profile = ft.debug.profile(ft.grad(loop), seconds=0.0)(X)
    events = events_of(profile, tmp_path)
    found = [event for event in events if event.get("cat") == "operation"]
    assert [event["name"] for event in found] == [row.text for row in profile.rows]
    assert [event["args"]["seconds"] for event in found] == [row.seconds for row in profile.rows]
    assert {event["name"] for event in events if event.get("cat") == "compilation"} == set(
        profile.compiling
    )
    lines = [event for event in events if event.get("cat") == "line"]
    assert len(lines) == len(profile.lines)
    by_time = [line.seconds * 1e6 for line in profile.lines]
    assert [event["dur"] for event in lines] == pytest.approx(by_time)


def operation(text: str, seconds: float, depth: int) -> OperationTime:
    return OperationTime(text, seconds, 1, 8, 1, None, depth)


def test_bodies_with_more_time_than_their_loop_are_shown_shorter(tmp_path: Path) -> None:
    rows = (
        operation("scan", 1e-3, 0),
        operation("sin", 2e-3, 1),
        operation("call", 2e-3, 1),
        operation("mul", 5e-3, 2),
        operation("sum </script>\u2028", 1e-3, 0),
    )
    events = events_of(Profile("f", 1.0, 2.0, 3, 8, rows), tmp_path)
    spans = {event["name"]: (event["ts"], event["dur"]) for event in events if event["ph"] == "X"}
    assert spans["scan"] == pytest.approx((0.0, 1000.0))
    assert spans["sin"] == pytest.approx((0.0, 500.0))
    assert spans["call"] == spans["mul"] == pytest.approx((500.0, 500.0))
    assert spans["sum </script>\\u2028"] == pytest.approx((1000.0, 1000.0))


def test_an_empty_profile(tmp_path: Path) -> None:
    events_of(Profile("f", 0.0, 0.0, 3, 0, ()), tmp_path)
    with pytest.raises(OSError, match="No such file"):
        Profile("f", 0.0, 0.0, 3, 0, ()).perfetto(tmp_path / "none" / "trace.json")
