"""memory-steady: 100,000 un-jitted gradients with changing Python numbers and two alternating
branches, then of mixed sizes.

The caches of transformed programs must not grow with the numbers, so the resident memory stays
flat and the last calls take as long as the first. Then every 1,000th call is on a million numbers:
its freed memory is kept for the next one, flat, and returned when there is none. Runs in a separate
process: ``python -m benchmarks.memory_steady [CALLS]`` prints JSON.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np

from benchmarks.child import ask
from benchmarks.machine import resident
from benchmarks.outcome import show_seconds

ABOUT = "100,000 gradients in a loop"
CALLS = 100_000
WARM_UP = 2_000
MOST_GROWTH = 4 << 20
"""Bytes that the resident memory may grow by: fragmentation, not a leak (one byte per call would be
0.1 MB).
"""
MOST_SLOWDOWN = 1.15
LARGE_EVERY, LARGE, MEDIUM_EVERY, MEDIUM = 1_000, 1 << 20, 50, 1 << 14
"""Number of calls per large call, and its size; the same for calls of medium size."""
MOST_MIXED_GROWTH = 16 << 20
"""Bytes from the first tenth of the calls of mixed sizes to the last one."""
MOST_LEFT = 32 << 20
"""Bytes that stay when large calls have ended: copies of arguments are made in memory that is kept.
"""
WAIT = 3.0
"""Seconds until memory that was kept for the next call must have been returned."""


def run(calls: int) -> dict[str, float]:
    """Return bytes before and after, and seconds per call of the first and the last tenth."""
    import functrace as ft
    from functrace.executor.cache import CACHE

    x = np.linspace(0.1, 1.0, 8)

    def turn(k: int) -> None:
        rate = 0.5 + 1e-6 * k

        def loss(v):
            if k % 2:
                return np.sum(np.sin(v * rate) * (rate + 1.0))
            return np.sum(np.exp(-v * rate) + rate * v**2)

        ft.grad(loss)(x)

    for k in range(WARM_UP):
        turn(k)
    before, tenths = resident(), []
    for tenth in range(10):
        begin = time.perf_counter()
        for k in range(tenth * calls // 10, (tenth + 1) * calls // 10):
            turn(WARM_UP + k)
        tenths.append((time.perf_counter() - begin) / (calls // 10))
    after = resident()
    tracks = mixed(calls)
    time.sleep(WAIT)
    return {
        "bytes_mixed_first": max(tracks[0]),
        "bytes_mixed_last": max(tracks[-1]),
        "bytes_left": resident(),
        "calls": calls,
        "bytes_before": before,
        "bytes_after": after,
        "seconds_first_tenth": tenths[0],
        "seconds_last_tenth": tenths[-1],
        "cached_programs": len(CACHE),
        "cached_bytes": CACHE.nbytes,
    }


def mixed(calls: int) -> list[list[int]]:
    """Take gradients of small, medium and large arrays; returns the resident bytes after large
    calls, by tenth.
    """
    import functrace as ft

    def loss(v):
        for _ in range(8):
            v = np.cumsum(np.sin(v)) * 1e-3
        return np.sum(v)

    arrays = [np.linspace(0.1, 1.0, n) for n in (8, MEDIUM, LARGE)]
    gradient, jitted = ft.grad(loss), ft.jit(ft.grad(loss))
    tracks: list[list[int]] = [[] for _ in range(10)]
    for k in range(calls):
        size = 2 if k % LARGE_EVERY == 0 else 1 if k % MEDIUM_EVERY == 0 else 0
        (gradient if k % 3 else jitted)(arrays[size])
        if size == 2:
            tracks[10 * k // calls].append(resident())
    return tracks


def measured(*, thorough: bool) -> dict[str, float]:
    """Run the work in a fresh process; ``met`` is true if memory and time were steady."""
    result = ask("memory_steady", [str(CALLS)])
    grown = result["bytes_after"] - result["bytes_before"]
    slowdown = result["seconds_last_tenth"] / result["seconds_first_tenth"]
    mixed_growth = result["bytes_mixed_last"] - result["bytes_mixed_first"]
    left = result["bytes_left"] - result["bytes_after"]
    steady = grown <= MOST_GROWTH and slowdown <= MOST_SLOWDOWN
    met = steady and mixed_growth <= MOST_MIXED_GROWTH and left <= MOST_LEFT
    return {
        **result,
        "grown": grown,
        "slowdown": slowdown,
        "mixed_growth": mixed_growth,
        "left": left,
        "met": met,
    }


def show(result: dict[str, float]) -> str:
    """Format the outcome."""
    return (
        f"memory-steady: {result['calls']:,} calls; RSS {result['bytes_before'] / 2**20:.1f} -> "
        f"{result['bytes_after'] / 2**20:.1f} MB (grown by {result['grown'] / 2**20:.2f}); "
        f"{show_seconds(result['seconds_first_tenth'])} -> "
        f"{show_seconds(result['seconds_last_tenth'])} per call; "
        f"{result['cached_programs']} cached programs\n"
        f"  of mixed sizes: RSS {result['bytes_mixed_first'] / 2**20:.1f} -> "
        f"{result['bytes_mixed_last'] / 2**20:.1f} MB "
        f"after large calls, {result['bytes_left'] / 2**20:.1f} MB {WAIT:g} s after the last: "
        f"{'met' if result['met'] else 'NOT MET'}"
    )


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]) if len(sys.argv) > 1 else CALLS)))
