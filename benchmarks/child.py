"""Work in a separate process: ``python -m benchmarks.child WORK [--memory SYSTEM]`` prints JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import environment, forget_peak, peak, resident
from benchmarks.outcome import Outcome
from benchmarks.work import Work, measure

RUNS = 3
"""Runs over which the peak memory is taken, once everything is compiled."""


def ask(module: str, arguments: Sequence[str], variables: dict[str, str] | None = None) -> Any:
    """Run a module of the benchmarks in a fresh process; return its last line, parsed.

    Raises:
        RuntimeError: if it fails, with what it wrote.
    """
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**environment(), **(variables or {})},
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[1:])} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def outcome_of(work: Work, *, memory: bool) -> Outcome:
    """Time a work in one process, and take the peak memory of every system in a process of
    its own.
    """
    samples, skipped = ask("child", [work.id])
    found = Outcome(work, samples, skipped)
    if memory and not work.measures and Path("/proc/self/clear_refs").exists():
        found.peaks = {system: ask("child", [work.id, "--memory", system]) for system in samples}
    return found


def peak_of(work: Work, system: str) -> int:
    """Return how many bytes this process grows by, at most, while a system runs.

    Compiling is not counted, but memory that it leaves allocated is.
    """
    run = work.systems[system]()
    before = resident()
    run()
    run()
    forget_peak()
    for _ in range(RUNS):
        run()
    return peak() - before


def main() -> None:
    """Run the work named on the command line."""
    from benchmarks.works import WORKS

    work, *rest = sys.argv[1:]
    print(json.dumps(peak_of(WORKS[work], rest[1]) if rest else measure(WORKS[work])))


if __name__ == "__main__":
    main()
