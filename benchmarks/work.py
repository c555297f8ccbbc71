"""Definition and measurement of a benchmark."""

from __future__ import annotations

import functools
import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

System = Callable[[], Callable[[], Any]]

REFERENCE = "numpy"
"""Hand-written gradients: shown as a reference, but not a peer."""

UN_JITTED = "functrace un-jitted"
"""The same function without ``jit``, for jitted works."""

INSIDE = "functrace jit inside"
"""The same transforms around a jitted function, for un-jitted works."""

NATIVE = "functrace native"
"""The same function jitted to machine code, for jitted works."""

NUMPY = "functrace numpy"
"""The same function jitted to NumPy code, for jitted works."""

AUTO = "functrace auto"
"""The same function jitted with ``backend="auto"``, for jitted works."""

XLA = "functrace xla"
"""The same function jitted through JAX, for jitted works; arguments and results are on JAX's device,
as they are for ``"jax"``.
"""

SYSTEMS = (
    "functrace",
    NATIVE,
    NUMPY,
    AUTO,
    XLA,
    UN_JITTED,
    INSIDE,
    REFERENCE,
    "jax",
    "torch",
    "torch.compile",
    "autograd",
    "casadi",
)
PEERS = ("jax", "torch", "torch.compile", "autograd", "casadi")

BEST = "best peer"
OWN_FIRST = "own first call"
CALLS = ("first", "second", "tenth", "later")


def jitted(prepare: System, backend: str) -> System:
    """Return a system whose jitted functions have another backend."""

    def prepared() -> Callable[[], Any]:
        import functrace as ft

        jit = ft.jit
        ft.jit = functools.partial(jit, backend=backend)  # type: ignore[assignment]
        try:
            return prepare()
        finally:
            ft.jit = jit

    return prepared


def xla(prepare: System) -> System:
    """Return a system whose jitted functions are compiled by XLA."""

    def prepared() -> Callable[[], Any]:
        import jax

        import functrace as ft

        jit = ft.jit

        def jit_on_device(f: Callable[..., Any], **options: Any) -> Callable[..., Any]:
            compiled = jit(f, backend="xla", keep_on_device=True, **options)
            placed: dict[tuple[int, ...], Any] = {}

            def run(*args: Any) -> Any:
                # a work calls with the same arguments every time
                key = tuple(map(id, args))
                if key not in placed:
                    with jax.enable_x64(True):
                        placed[key] = args, jax.device_put(args)
                return jax.block_until_ready(compiled(*placed[key][1]))

            return run

        ft.jit = jit_on_device  # type: ignore[assignment]
        try:
            return prepare()
        finally:
            ft.jit = jit

    return prepared


FIRST_CALLS = 3
"""Repetitions of first calls."""
PATIENCE = 8.0
"""Seconds after which a system is not called again where three calls do, up to its tenth call, nor
made anew.
"""


@dataclass(frozen=True)
class Target:
    """functrace takes at most ``ratio`` times what ``against`` takes; without ``against``,
    ``ratio`` seconds.

    Args:
        ratio: the most.
        against: a system, `BEST`, or `OWN_FIRST`: functrace's own first call.
        call: which call is meant, of `CALLS`.
        plus: seconds that it may take besides.
        system: which form of functrace is meant.
    """

    ratio: float
    against: str | None = BEST
    call: str = "later"
    plus: float = 0.0
    system: str = "functrace"


@dataclass(frozen=True)
class Work:
    """One work of the table.

    Args:
        id: what the command line calls it; up to the first dash stands its group.
        about: one line for readers of the table.
        systems: by name (of `SYSTEMS`), functions that prepare a run and return it.
        targets: what functrace has to reach.
        cold: every run is a first one, prepared anew with caches of compiled code cleared; there
            are no later calls.
        measures: whether a run returns its own seconds instead of a result.
        rounds: how often every system is timed.
        rtol: how far the numbers of two systems may differ.
    """

    id: str
    about: str
    systems: dict[str, System]
    targets: tuple[Target, ...] = ()
    cold: bool = False
    measures: bool = False
    rounds: int = 15
    rtol: float = 1e-9

    @property
    def group(self) -> str:
        """Group whose geometric mean includes it."""
        return self.id.partition("-")[0]


Samples = dict[str, dict[str, list[float]]]
"""Seconds, by system and call."""


def clear_caches(system: str) -> None:
    """Make a system forget what it compiled, so that the next call is a first call."""
    if system.startswith("functrace"):
        import functrace as ft

        ft.clear_caches()
    elif system == "jax":
        import jax

        jax.clear_caches()
    elif system == "torch.compile":
        import torch

        torch._dynamo.reset()


def measure(work: Work) -> tuple[Samples, dict[str, str]]:
    """Check that all systems compute the same numbers, then time them in alternating order.

    Returns:
        The samples, and why systems were left out.
    """
    ready: dict[str, Callable[[], Any]] = {}
    skipped: dict[str, str] = {}
    for name, prepare in work.systems.items():
        try:
            ready[name] = prepare()
        except ImportError as error:
            skipped[name] = f"{error.name or error} is not installed"
    samples: Samples = {name: {call: [] for call in CALLS} for name in ready}
    if work.measures:
        for _, name in turns(list(ready), work.rounds):
            samples[name]["later"].append(ready[name]())
        return samples, skipped
    check_equal(work, {name: run() for name, run in ready.items()})
    if work.cold:
        for _, name in turns(list(ready), work.rounds):
            samples[name]["first"].append(first_calls(work, name, 1)[0])
        return samples, skipped
    spent = dict.fromkeys(ready, 0.0)
    for k, name in turns(list(ready), FIRST_CALLS):
        if not k or spent[name] < PATIENCE:
            seconds = first_calls(work, name, 10)
            spent[name] += sum(seconds)
            for call, number in (("first", 1), ("second", 2), ("tenth", 10)):
                if len(seconds) >= number:
                    samples[name][call].append(seconds[number - 1])
    repeats = {name: calibrate(run) for name, run in ready.items()}
    if AUTO in ready:
        run_until_compiled(ready[AUTO])
    for k, name in turns(list(ready), work.rounds):
        if k < 3 or sum(samples[name]["later"]) * repeats[name] < PATIENCE:
            samples[name]["later"].append(timed(ready[name], repeats[name]))
    return samples, skipped


def run_until_compiled(run: Callable[[], object]) -> None:
    """Call a function with ``backend="auto"`` until its final form runs."""
    from functrace.api.staging.background import COMPILER, TIMED_CALLS
    from functrace.executor.runner import OFTEN

    for calls in (OFTEN, 2 * TIMED_CALLS):
        for _ in range(calls):
            run()
        COMPILER.wait()


def turns(names: list[str], rounds: int) -> Iterator[tuple[int, str]]:
    """Yield all systems in every round, each time beginning with another one."""
    for k in range(rounds):
        turn = k % len(names)
        for name in names[turn:] + names[:turn]:
            yield k, name


def first_calls(work: Work, name: str, count: int) -> list[float]:
    """Prepare a system anew, with nothing compiled, and return the seconds of its first calls."""
    clear_caches(name)
    run = work.systems[name]()
    seconds: list[float] = []
    while len(seconds) < count and sum(seconds) < PATIENCE:
        seconds.append(timed(run, 1))
    return seconds


def timed(run: Callable[[], Any], count: int) -> float:
    """Return the seconds of one run, of ``count`` in a row."""
    gc.collect()
    begin = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - begin) / count


def calibrate(run: Callable[[], Any], wanted: float = 0.03) -> int:
    """Return how many warm runs take about ``wanted`` seconds."""
    begin = time.perf_counter()
    for _ in range(200):
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
    """Yield the arrays in nested tuples and lists, in order."""
    if isinstance(result, tuple | list):
        for part in result:
            yield from arrays_of(part)
    else:
        yield np.asarray(result, np.float64)
