"""roofline: attainable and measured speed of the works' operations on this machine, for the report.

The roofline is measured: the bandwidth of memory and of a core's cache (a copy), and the speed of
NumPy's matrix product. Jitted functions of a work are passed with their arguments to
`functrace.debug.profile`, which counts flops and bytes. Bytes are those of operands and results of
all operations, as if nothing stayed in a cache (except inside a fusion group): if small arrays do
stay there, a work can be above the memory bound. Times of operations in fusion groups are
estimates.

``python -m benchmarks.roofline WORK`` and ``… roof`` print JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.child import ask
from benchmarks.outcome import lay_out, show_seconds

LARGE, SMALL = 1 << 26, 1 << 17
"""Bytes of arrays that are in memory, and in a core's cache."""
SECONDS = 0.5


def best(run: Callable[[], Any]) -> float:
    """Return the least seconds of a run."""
    found: list[float] = []
    begin = time.perf_counter()
    while len(found) < 3 or (time.perf_counter() - begin < SECONDS and len(found) < 10_000):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return min(found)


def roof() -> dict[str, float]:
    """Return bytes per second of copies, flops per second of products."""
    found = {}
    for name, size in (("memory", LARGE), ("cache", SMALL)):
        source, target = np.ones(size // 8), np.empty(size // 8)
        found[f"{name}_bytes_per_second"] = (
            2 * size / best(lambda s=source, t=target: np.copyto(t, s))
        )
    for dtype in (np.float32, np.float64):
        a, out = np.ones((1024, 1024), dtype), np.empty((1024, 1024), dtype)
        seconds = best(lambda a=a, out=out: np.matmul(a, a, out=out))
        found[f"{np.dtype(dtype).name}_flops_per_second"] = 2 * 1024**3 / seconds
    return found


def caught(
    system: Callable[[], Callable[[], Any]],
) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
    """Return the function that functrace's run jits, if any, and its arguments."""
    import functrace as ft

    calls: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
    jit = ft.jit

    def catching(f: Callable[..., Any]) -> Callable[..., Any]:
        run = jit(f)

        def call(*arguments: Any) -> Any:
            calls.append((f, arguments))
            return run(*arguments)

        return call

    ft.jit = catching  # type: ignore[assignment]
    try:
        system()()
    finally:
        ft.jit = jit
    return calls[-1] if calls else None


def profile_of(work: str) -> dict[str, Any] | None:
    """Return cost and time of a work's program, and its most expensive operations."""
    import functrace as ft
    from benchmarks.works import WORKS

    found = caught(WORKS[work].systems["functrace"])
    if found is None:
        return None
    f, arguments = found
    profile = ft.debug.profile(f, seconds=SECONDS)(*arguments)
    kinds: dict[str, float] = {}
    for row, following in zip(profile.rows, [*profile.rows[1:], None], strict=True):
        if (
            following is None or following.depth <= row.depth
        ):  # what holds others is counted by these
            kind = row.text.partition(" = ")[2].partition(" ")[0]
            kinds[kind] = kinds.get(kind, 0.0) + row.seconds
    longest = sorted(kinds.items(), key=lambda item: -item[1])[:4]
    itemsize = min(
        [np.asarray(leaf).dtype.itemsize for leaf in ft.tree.flatten(arguments)[0]], default=8
    )
    return {
        "seconds": profile.seconds,
        "watched": profile.watched,
        "flops": profile.flops,
        "bytes": profile.bytes,
        "peak_bytes": profile.peak_bytes,
        "operations": sum(row.runs for row in profile.rows),
        "dtype": "float32" if itemsize == 4 else "float64",
        "longest": [[kind, seconds / max(profile.watched, 1e-12)] for kind, seconds in longest],
    }


def least_seconds(point: dict[str, Any], roof: dict[str, float]) -> float:
    """Return a lower bound of a work's seconds, by its flops and by its bytes from memory."""
    return max(
        point["flops"] / roof[f"{point['dtype']}_flops_per_second"],
        point["bytes"] / roof["memory_bytes_per_second"],
    )


def measured(ids: list[str]) -> dict[str, Any]:
    """Measure the roofline, and the works that jit, each in a separate process."""
    works = {}
    for work in ids:
        found = ask("roofline", [work])
        if found is not None:
            works[work] = found
    return {"roof": ask("roofline", ["roof"]), "works": works}


def show(result: dict[str, Any]) -> str:
    """Format the outcome."""
    roof = result["roof"]
    text = (
        f"memory {roof['memory_bytes_per_second'] / 1e9:.1f} GB/s, cache "
        f"{roof['cache_bytes_per_second'] / 1e9:.1f} GB/s, "
        f"matmul {roof['float32_flops_per_second'] / 1e9:.0f} Gflop/s (f32), "
        f"{roof['float64_flops_per_second'] / 1e9:.0f} (f64)"
    )
    rows = [
        [
            "work",
            "time",
            "by the roof",
            "of it",
            "flop/byte",
            "Gflop/s",
            "GB/s",
            "operations",
            "µs each",
            "longest",
        ]
    ]
    for work, point in result["works"].items():
        least, seconds = least_seconds(point, roof), point["seconds"]
        longest = ", ".join(f"{kind} {share:.0%}" for kind, share in point["longest"])
        rows.append(
            [
                work, show_seconds(seconds), show_seconds(least), f"{least / seconds:.0%}",
                f"{point['flops'] / max(point['bytes'], 1):.2f}",
                f"{point['flops'] / seconds / 1e9:.3g}",
                f"{point['bytes'] / seconds / 1e9:.3g}", f"{point['operations']:,}",
                f"{seconds / max(point['operations'], 1) * 1e6:.3g}", longest,
            ]
        )  # fmt: skip
    return f"{text}\n\n{lay_out(rows)}"


if __name__ == "__main__":
    print(json.dumps(roof() if sys.argv[1] == "roof" else profile_of(sys.argv[1])))
