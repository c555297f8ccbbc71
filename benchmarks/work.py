"""What a benchmark is, and how one is measured."""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

System = Callable[[], Callable[[], Any]]

REFERENCE = "numpy"
"""Gradients written by hand: shown for the size of things, but not a peer."""

BEST = "best peer"


@dataclass(frozen=True)
class Target:
    """functrace takes at most ``ratio`` times what ``against`` takes; without ``against``, ``ratio`` seconds."""

    ratio: float
    against: str | None = BEST


@dataclass(frozen=True)
class Work:
    """One line of the table.

    Args:
        id: what the command line calls it.
        about: one line for readers of the table.
        systems: by name, functions that prepare a run and return it.
        targets: what functrace has to reach.
        cold: every run is prepared anew, with all caches of compiled code cleared; preparing is not timed.
        call: which call is timed where ``cold``, counted from 1; those before it are not.
        measures: whether a run returns its own seconds instead of a result.
        rounds: how often every system is timed.
        rtol: how far the numbers of two systems may differ.
    """

    id: str
    about: str
    systems: dict[str, System]
    targets: tuple[Target, ...] = ()
    cold: bool = False
    call: int = 1
    measures: bool = False
    rounds: int = 15
    rtol: float = 1e-9


@dataclass
class Outcome:
    """What was measured of one work: seconds per run by system, systems left out and why, targets with their ratios."""

    work: Work
    seconds: dict[str, list[float]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def median(self, system: str) -> float | None:
        """Return the median seconds of a system, if it ran."""
        samples = self.seconds.get(system)
        return statistics.median(samples) if samples else None

    @property
    def best_peer(self) -> str | None:
        """The fastest system that differentiates by itself, other than functrace."""
        peers = [name for name in self.seconds if name not in ("functrace", REFERENCE)]
        return min(peers, key=lambda name: statistics.median(self.seconds[name]), default=None)

    def ratio(self, against: str | None) -> float | None:
        """Return functrace's median over that of ``against``; ``None`` if one of them did not run."""
        own = self.median("functrace")
        if against is None:
            return own
        peer = self.best_peer if against == BEST else against
        other = self.median(peer) if peer is not None else None
        return None if own is None or other is None else own / other

    def verdicts(self) -> Iterator[tuple[Target, float | None, bool | None]]:
        """Yield every target with the ratio reached and whether it is met (``None``: its peer did not run)."""
        for target in self.work.targets:
            reached = self.ratio(target.against)
            yield target, reached, None if reached is None else reached <= target.ratio


DISTURBING = ("OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES", "PYTHONDONTWRITEBYTECODE")
"""Environment variables that change what is measured: processes that a benchmark starts run without them."""


def environment() -> dict[str, str]:
    """Return the environment for processes that a benchmark starts."""
    return {name: value for name, value in os.environ.items() if name not in DISTURBING}


def clear_caches(system: str) -> None:
    """Make a system forget what it compiled, so that the next call is a first call."""
    if system == "functrace":
        from functrace.executor.cache import CACHE

        CACHE.clear()
    elif system == "jax":
        import jax

        jax.clear_caches()


def measure(work: Work) -> Outcome:
    """Check that all systems compute the same numbers, then time them in alternating order."""
    outcome = Outcome(work)
    ready: dict[str, Callable[[], Any]] = {}
    for name, prepare in work.systems.items():
        try:
            ready[name] = prepare()
        except ImportError as error:
            outcome.skipped[name] = f"{error.name or error} is not installed"
    if not work.measures:
        check_equal(work, {name: run() for name, run in ready.items()})
    outcome.seconds = {name: [] for name in ready}
    repeats = {name: 1 if work.cold or work.measures else calibrate(run) for name, run in ready.items()}
    names = list(ready)
    for k in range(work.rounds):
        turn = k % len(names)
        for name in names[turn:] + names[:turn]:
            run = ready[name]
            if work.cold:
                clear_caches(name)
                run = work.systems[name]()
                for _ in range(work.call - 1):
                    run()
            gc.collect()
            if work.measures:
                outcome.seconds[name].append(run())
                continue
            count = repeats[name]
            begin = time.perf_counter()
            for _ in range(count):
                run()
            outcome.seconds[name].append((time.perf_counter() - begin) / count)
    return outcome


def calibrate(run: Callable[[], Any], wanted: float = 0.03) -> int:
    """Return how many runs take about ``wanted`` seconds, after warming up: functrace compiles what has earned it."""
    begin = time.perf_counter()
    for _ in range(60):
        run()
        if time.perf_counter() - begin > 2.0:
            break
    count = 1
    while True:
        begin = time.perf_counter()
        for _ in range(count):
            run()
        seconds = time.perf_counter() - begin
        if seconds > wanted / 4:
            return max(1, round(count * wanted / seconds))
        count *= 4


def check_equal(work: Work, results: dict[str, Any]) -> None:
    """Raise AssertionError unless all systems return the same numbers."""
    first, *others = results
    expected = list(arrays_of(results[first]))
    for name in others:
        for found, wanted in zip(arrays_of(results[name]), expected, strict=True):
            np.testing.assert_allclose(
                found,
                wanted,
                rtol=work.rtol,
                atol=work.rtol,
                err_msg=f"{work.id}: {name} and {first} compute different numbers",
            )


def arrays_of(result: Any) -> Iterator[np.ndarray[Any, Any]]:
    """Yield the arrays of a nest of tuples and lists, in order."""
    if isinstance(result, tuple | list):
        for part in result:
            yield from arrays_of(part)
    else:
        yield np.asarray(result, np.float64)
