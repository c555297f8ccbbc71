"""memory-steady: 100,000 un-jitted gradients with changing Python numbers and two alternating branches.

The caches of transformed programs must not grow with the numbers, so the resident memory stays flat and the last calls take
as long as the first. Runs in a process of its own: ``python -m benchmarks.memory_steady [CALLS]`` prints JSON.
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
"""Bytes that the resident memory may grow by: fragmentation, not a leak (one byte per call would be 0.1 MB)."""
MOST_SLOWDOWN = 1.15


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
    return {
        "calls": calls,
        "bytes_before": before,
        "bytes_after": resident(),
        "seconds_first_tenth": tenths[0],
        "seconds_last_tenth": tenths[-1],
        "cached_programs": len(CACHE),
        "cached_bytes": CACHE.nbytes,
    }


def measured(*, thorough: bool) -> dict[str, float]:
    """Do the work in a fresh process; ``met`` in the result says whether memory and time were steady."""
    result = ask("memory_steady", [str(CALLS)])
    grown = result["bytes_after"] - result["bytes_before"]
    slowdown = result["seconds_last_tenth"] / result["seconds_first_tenth"]
    return {**result, "grown": grown, "slowdown": slowdown, "met": grown <= MOST_GROWTH and slowdown <= MOST_SLOWDOWN}


def show(result: dict[str, float]) -> str:
    """Format the outcome."""
    return (
        f"memory-steady: {result['calls']:,} calls; RSS {result['bytes_before'] / 2**20:.1f} -> "
        f"{result['bytes_after'] / 2**20:.1f} MB (grown by {result['grown'] / 2**20:.2f}); "
        f"{show_seconds(result['seconds_first_tenth'])} -> {show_seconds(result['seconds_last_tenth'])} per call; "
        f"{result['cached_programs']} cached programs: {'met' if result['met'] else 'NOT MET'}"
    )


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]) if len(sys.argv) > 1 else CALLS)))
