"""jit-compile: the first call of every jitted work, compile included, under functrace (machine
code) and JAX.

Every work runs in a process of its own, in which both systems have run it once, so imports and the
start of LLVM are not counted. Then both make it anew in alternating order, with caches of compiled
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
from benchmarks.work import NATIVE, Work, check_equal, clear_caches, turns

ABOUT = "first calls of every jitted work, compile included"
MOST = 0.5
"""Target: the geometric mean of functrace's first call over JAX's."""
ROUNDS = 5
JAX_PHASES = {
    "/jax/core/compile/jaxpr_trace_duration": "trace",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "trace",
    "/jax/core/compile/backend_compile_duration": "compile",
}
"""By JAX's name of an event, the column that counts it."""
COLUMNS = {
    NATIVE: (("record",), ("passes", "plan"), ("code",), ("llvm",), ("total",)),
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
    """Return the seconds of a first call.

    Args:
        prepare: makes the run.
        events: gets the events of JAX, while it runs.
    """
    clear_caches("jax")
    run = prepare()
    gc.collect()
    events.clear()
    total = timed(run)
    found = {"trace": 0.0, "compile": 0.0, "total": total}
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
    systems = {name: work.systems[name] for name in (NATIVE, "jax")}
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


def mean(result: Mapping[str, Found | str]) -> float | None:
    """Return the geometric mean of the ratios, if a work was measured."""
    ratios = [ratio(found) for found in result.values() if not isinstance(found, str)]
    return math.exp(statistics.fmean(map(math.log, ratios))) if ratios else None


def show(result: Mapping[str, Found | str]) -> str:
    """Lay out medians by work, and the geometric mean of the ratios."""
    rows = [["jit-compile", "record", "passes, plan", "code", "LLVM", "first call",
             "JAX: trace, lower", "compile", "first call", "/ JAX"]]  # fmt: skip
    for name, found in result.items():
        if isinstance(found, str):
            continue
        cells = [
            show_seconds(median(found, system, phases))
            for system, columns in COLUMNS.items()
            for phases in columns
        ]
        rows.append([name, *cells, f"{ratio(found):.2f}"])
    lines = [f"skipped: {why}" for why in {x for x in result.values() if isinstance(x, str)}]
    total = mean(result)
    if total is not None:
        verdict = "met" if total <= MOST else "NOT MET"
        lines.append(f"geometric mean: {total:.2f} x jax <= {MOST:g}: {verdict}")
    return "\n".join([*([lay_out(rows)] if len(rows) > 1 else []), *lines])


if __name__ == "__main__":
    print(json.dumps(first_calls(works()[sys.argv[1]], int(sys.argv[2]))))
