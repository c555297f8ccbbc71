"""jit-compile: the first call of every jitted work, compile included, under functrace (machine
code, and XLA) and JAX.

Every work runs in a process of its own, in which all systems have run it once, so imports and the
start of LLVM are not counted. Then all make it anew in alternating order, with caches of compiled
code empty: functrace's on disk is a new directory each time. functrace's phases are those of
`functrace.phases`, JAX's are what ``jax.monitoring`` reports. The total is the first call, its run
included.

``python -m benchmarks.jit_compile WORK ROUNDS`` prints JSON.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.child import ask
from benchmarks.outcome import lay_out, show_seconds
from benchmarks.work import NATIVE, XLA, Work, check_equal, clear_caches, turns

ABOUT = "first calls of every jitted work, compile included"
MOST = 0.5
"""Target: the geometric mean of functrace's first call, as machine code, over JAX's."""
MOST_TRACE = 0.6
"""Target: the geometric mean, over JAX's trace, of what precedes XLA's compiler: the recording, and
the rows that JAX traces.
"""
ROUNDS = 5
JAX_PHASES = {
    "/jax/core/compile/jaxpr_trace_duration": "trace",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "trace",
    "/jax/core/compile/backend_compile_duration": "compile",
}
"""By JAX's name of an event, the column that counts it."""
COLUMNS = {
    NATIVE: (("record",), ("passes", "plan"), ("code",), ("llvm",), ("total",)),
    XLA: (("record",), ("passes",), ("trace",), ("compile",), ("total",)),
    "jax": (("trace",), ("compile",), ("total",)),
}
"""By system, the phases of each column of the table."""

Seconds = dict[str, float]
"""Seconds by phase, and ``"total"``."""
Found = dict[str, list[Seconds]]
"""By system, the first calls of a work."""


def of_functrace(prepare: Callable[[], Callable[[], Any]]) -> Seconds:
    """Return the seconds of a first call, with an empty cache on disk."""
    from functrace.native.object_cache import VARIABLE
    from functrace.phases import PhaseClock

    before = os.environ.get(VARIABLE)
    with tempfile.TemporaryDirectory() as directory:
        os.environ[VARIABLE] = directory
        try:
            clear_caches(NATIVE)
            run = prepare()
            gc.collect()
            with PhaseClock() as clock:
                total = timed(run)
        finally:
            if before is None:
                del os.environ[VARIABLE]
            else:
                os.environ[VARIABLE] = before
    return {**clock.seconds, "total": total}


def of_jax(prepare: Callable[[], Callable[[], Any]], events: list[tuple[str, float]]) -> Seconds:
    """Return the seconds of a first call of JAX, or of functrace through JAX.

    Args:
        prepare: makes the run.
        events: gets the events of JAX, while it runs.
    """
    from functrace.phases import PhaseClock

    clear_caches("jax")
    clear_caches(XLA)
    run = prepare()
    gc.collect()
    events.clear()
    with PhaseClock() as clock:
        total = timed(run)
    found = {**clock.seconds, "trace": 0.0, "compile": 0.0, "total": total}
    for event, seconds in events:
        if event in JAX_PHASES:
            found[JAX_PHASES[event]] += seconds
    return found


def timed(run: Callable[[], Any]) -> float:
    """Return the seconds of one call."""
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def first_calls(work: Work, rounds: int) -> Found | str:
    """Return the first calls of a work, or why there are none.

    Raises:
        AssertionError: if the systems compute different numbers.
    """
    for package in ("llvmlite", "jax"):
        if importlib.util.find_spec(package) is None:
            return f"{package} is not installed"
    import jax

    events: list[tuple[str, float]] = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: events.append((event, seconds))
    )
    systems = {name: work.systems[name] for name in (NATIVE, XLA, "jax")}
    check_equal(work, {name: prepare()() for name, prepare in systems.items()})
    found: Found = {name: [] for name in systems}
    for _, name in turns(list(systems), rounds):
        prepare = systems[name]
        found[name].append(of_functrace(prepare) if name == NATIVE else of_jax(prepare, events))
    return found


def works() -> dict[str, Work]:
    """Return the works that functrace and JAX jit, by id."""
    from benchmarks.works import WORKS

    return {
        name: work
        for name, work in WORKS.items()
        if NATIVE in work.systems and "jax" in work.systems
    }


def measured(*, thorough: bool, ids: Sequence[str] = ()) -> dict[str, Found | str]:
    """Measure works, by default all, each in a fresh process."""
    rounds = ROUNDS if thorough else 3
    return {name: ask("jit_compile", [name, str(rounds)]) for name in ids or works()}


def median(found: Found, system: str, phases: tuple[str, ...]) -> float:
    """Return the median seconds of phases, over first calls."""
    return statistics.median(sum(call[name] for name in phases) for call in found[system])


def ratio(found: Found) -> float:
    """Return functrace's first call over JAX's."""
    return median(found, NATIVE, ("total",)) / median(found, "jax", ("total",))


def trace_ratio(found: Found) -> float:
    """Return functrace's recording and rows over JAX's trace."""
    return median(found, XLA, ("record", "trace")) / median(found, "jax", ("trace",))


def mean(
    result: Mapping[str, Found | str], ratio: Callable[[Found], float] = ratio
) -> float | None:
    """Return the geometric mean of the ratios, if a work was measured."""
    ratios = [ratio(found) for found in result.values() if not isinstance(found, str)]
    return math.exp(statistics.fmean(map(math.log, ratios))) if ratios else None


def show(result: Mapping[str, Found | str]) -> str:
    """Lay out medians by work, and the geometric mean of the ratios."""
    rows = [["jit-compile", "record", "passes, plan", "code", "LLVM", "first call",
             "/ JAX", "XLA: record", "passes", "rows, lower", "compile", "first call",
             "JAX: trace, lower", "compile", "first call", "record, rows / trace"]]  # fmt: skip
    for name, found in result.items():
        if isinstance(found, str):
            continue
        cells = {
            system: [show_seconds(median(found, system, phases)) for phases in columns]
            for system, columns in COLUMNS.items()
        }
        rows.append(
            [name, *cells[NATIVE], f"{ratio(found):.2f}", *cells[XLA], *cells["jax"],
             f"{trace_ratio(found):.2f}"]
        )  # fmt: skip
    lines = [f"skipped: {why}" for why in {x for x in result.values() if isinstance(x, str)}]
    total = mean(result)
    if total is not None:
        verdict = "met" if total <= MOST else "NOT MET"
        lines.append(f"geometric mean: {total:.2f} x jax <= {MOST:g}: {verdict}")
    total = mean(result, trace_ratio)
    if total is not None:
        verdict = "met" if total <= MOST_TRACE else "NOT MET"
        lines.append(f"record and rows: {total:.2f} x jax's trace <= {MOST_TRACE:g}: {verdict}")
    return "\n".join([*([lay_out(rows)] if len(rows) > 1 else []), *lines])


if __name__ == "__main__":
    print(json.dumps(first_calls(works()[sys.argv[1]], int(sys.argv[2]))))
