"""sizes: time and memory over four decades of size, on one core and on two; for the report.

Two works: elementwise operations with a sum on vectors of increasing length, and a network with
layers of increasing width. Every system runs in a separate process for each number of cores:
``python -m benchmarks.sizes WORK SYSTEM THREADS`` prints JSON. The process is bound to these cores,
and ``OMP_NUM_THREADS`` is set accordingly.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.child import ask
from benchmarks.machine import forget_peak, peak, resident
from benchmarks.outcome import lay_out, show_bytes, show_seconds

THREADS = (1, 2)
SYSTEMS = ("functrace", "numpy", "jax", "torch")
PATIENCE = 0.4
"""Seconds spent on one figure, if it takes no longer."""
BATCH = 128


def elementwise(xp: Any, x: Any) -> Any:
    """The function of the first work."""
    return xp.sum(xp.tanh(x) * xp.exp(-(x**2)) + xp.log1p(x**2))


def elementwise_by_hand(x: Any) -> Any:
    """Its value and gradient."""
    t, e, s = np.tanh(x), np.exp(-(x**2)), x**2
    return np.sum(t * e + np.log1p(s)), (1 - t * t) * e - 2 * x * t * e + 2 * x / (1 + s)


def network(xp: Any, ws: Any, x: Any) -> Any:
    """The function of the second work."""
    for w in ws:
        x = xp.tanh(x @ w)
    return xp.sum(x * x)


def network_by_hand(ws: Any, x: Any) -> Any:
    """Its value and gradient."""
    kept = [x]
    for w in ws:
        kept.append(np.tanh(kept[-1] @ w))
    value, bar, bars = np.sum(kept[-1] ** 2), 2 * kept[-1], []
    for w, x, y in zip(ws[::-1], kept[-2::-1], kept[:0:-1], strict=True):
        bar = bar * (1 - y * y)
        bars.append(x.T @ bar)
        bar = bar @ w.T
    return value, bars[::-1]


def arguments_of(work: str, size: int) -> tuple[Any, ...]:
    """Return the arguments of a work: the first one is differentiated by."""
    generator = np.random.default_rng(0)
    if work == "elementwise":
        return (generator.normal(size=size).astype(np.float32),)
    ws = [
        (generator.normal(size=(size, size)) / np.sqrt(size)).astype(np.float32) for _ in range(3)
    ]
    return ws, generator.normal(size=(BATCH, size)).astype(np.float32)


WORKS: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[int, ...]]] = {
    "elementwise": (
        elementwise,
        elementwise_by_hand,
        (1_000, 10_000, 100_000, 1_000_000, 10_000_000),
    ),
    "network": (network, network_by_hand, (16, 48, 160, 480, 1_600)),
}
"""By name: the function, its hand-written gradient, and sizes (of the network: widths)."""
ABOUT = {
    "elementwise": "value and gradient of sum(tanh(x) exp(-x²) + log1p(x²)), float32: elements",
    "network": f"value and gradient of three tanh layers, batch {BATCH}, float32: width",
}


def prepared(work: str, system: str, arguments: tuple[Any, ...]) -> Callable[[], Any]:
    """Return the run of a system."""
    f, by_hand, _ = WORKS[work]
    if system == "numpy":
        return lambda: by_hand(*arguments)
    if system == "functrace":
        import functrace as ft

        step = ft.jit(ft.value_and_grad(lambda *args: f(np, *args)))
        return lambda: step(*arguments)
    if system == "jax":
        import jax
        import jax.numpy as jnp

        run = jax.jit(jax.value_and_grad(lambda *args: f(jnp, *args)))
        given = jax.tree.map(jnp.asarray, arguments)
        return lambda: jax.block_until_ready(run(*given))
    import torch

    first, *rest = arguments
    leaves = [
        torch.tensor(x, requires_grad=True) for x in (first if isinstance(first, list) else [first])
    ]
    others = [torch.tensor(x) for x in rest]

    def with_torch() -> Any:
        value = f(torch, leaves if isinstance(first, list) else leaves[0], *others)
        return value.detach(), torch.autograd.grad(value, leaves)

    return with_torch


def run(work: str, system: str, threads: int) -> dict[int, dict[str, float]]:
    """Return by size the median seconds of a warm run, and the bytes that the process has grown by
    at its peak.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    prepared(work, system, arguments_of(work, 8))()  # imports, and what a library does once
    found: dict[int, dict[str, float]] = {}
    for size in WORKS[work][2]:
        gc.collect()
        before = resident()
        call = prepared(work, system, arguments_of(work, size))
        begin = time.perf_counter()
        for _ in range(40):
            call()
            if time.perf_counter() - begin > PATIENCE:
                break
        forget_peak()
        seconds: list[float] = []
        begin = time.perf_counter()
        while len(seconds) < 3 or (time.perf_counter() - begin < PATIENCE and len(seconds) < 2_000):
            start = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - start)
        found[size] = {"seconds": sorted(seconds)[len(seconds) // 2], "peak_bytes": peak() - before}
        del call
    return found


def measured() -> dict[str, Any]:
    """Measure every system, with each number of threads, in a separate process."""
    found: dict[str, Any] = {}
    for work in WORKS:
        for threads in THREADS:
            limits = {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
            for system in SYSTEMS:
                if importlib.util.find_spec(system) is not None:
                    done = ask("sizes", [work, system, str(threads)], limits)
                    found.setdefault(work, {}).setdefault(str(threads), {})[system] = done
    return found


def show(result: dict[str, Any]) -> str:
    """Format the outcome."""
    blocks = []
    for work, by_threads in result.items():
        sizes = WORKS[work][2]
        rows = [[ABOUT[work], "threads", *(f"{n:,}" for n in sizes), ""]]
        for threads, by_system in by_threads.items():
            for system, by_size in by_system.items():
                rows.append(
                    [
                        system,
                        threads,
                        *(show_seconds(by_size[str(n)]["seconds"]) for n in sizes),
                        "",
                    ]
                )
                rows.append(
                    ["", "", *(show_bytes(by_size[str(n)]["peak_bytes"]) for n in sizes), ""]
                )
        blocks.append(lay_out(rows))
    return "\n\n".join(blocks)


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
