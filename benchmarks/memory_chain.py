"""memory-chain: 100 layers of ``tanh(sin(h @ w) * exp(-h**2))``, 1,024 x 512, float32: the gradient
of all weights.

Measured are the peak of the resident memory above the baseline of the process, and the time. Every
system runs in a separate process: ``python -m benchmarks.memory_chain SYSTEM`` prints JSON. The
weights alone are 100 MiB, and so is the gradient. JAX compiles for 20 seconds, so it runs only when
this work is selected by its id.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.child import ask
from benchmarks.machine import forget_peak, peak, resident

ABOUT = "one process per system"
LAYERS, ROWS, WIDTH = 100, 1024, 512
SEGMENT = 10
"""Layers between checkpoints."""
BUDGET = 300 * 10**6
"""Bytes that functrace must hold with `functrace.policies.budget`, and at most how many times as
slow it may be.
"""
MOST_SLOWDOWN = 1.4
MOST_OF_TORCH = 0.45
"""The target: functrace's peak without a policy, over PyTorch's."""


def weights() -> list[np.ndarray]:
    """Return the weights of all layers."""
    rng = np.random.default_rng(0)
    return [
        (rng.standard_normal((WIDTH, WIDTH), np.float32) / np.float32(np.sqrt(WIDTH)))
        for _ in range(LAYERS)
    ]


def rows() -> np.ndarray:
    """Return the input of the first layer."""
    return 0.1 * np.random.default_rng(1).standard_normal((ROWS, WIDTH), np.float32)


def functrace(checkpointed: bool = False, budget: str | None = None):
    import functrace as ft

    def layers(h, ws):
        for w in ws:
            h = np.tanh(np.sin(h @ w) * np.exp(-(h**2)))
        return h

    segment = ft.checkpoint(layers) if checkpointed else layers

    def loss(ws, h):
        for k in range(0, LAYERS, SEGMENT):
            h = segment(h, ws[k : k + SEGMENT])
        return np.sum(h * h)

    ws, h = weights(), rows()
    gradient = ft.grad(
        loss if budget is None else ft.checkpoint(loss, policy=ft.policies.budget(budget))
    )
    return lambda: gradient(ws, h)


def torch(checkpointed: bool = False):
    import torch
    from torch.utils.checkpoint import checkpoint

    def layers(h, *ws):
        for w in ws:
            h = torch.tanh(torch.sin(h @ w) * torch.exp(-(h**2)))
        return h

    ws, start = [torch.from_numpy(w).requires_grad_() for w in weights()], torch.from_numpy(rows())

    def run():
        h = start
        for k in range(0, LAYERS, SEGMENT):
            part = ws[k : k + SEGMENT]
            h = (
                checkpoint(layers, h, *part, use_reentrant=False)
                if checkpointed
                else layers(h, *part)
            )
        return torch.autograd.grad((h * h).sum(), ws)

    return run


def jax():
    import jax
    import jax.numpy as jnp

    def loss(ws, h):
        for w in ws:
            h = jnp.tanh(jnp.sin(h @ w) * jnp.exp(-(h**2)))
        return jnp.sum(h * h)

    ws, h = [jnp.asarray(w) for w in weights()], jnp.asarray(rows())
    gradient = jax.jit(jax.grad(loss)).lower(ws, h).compile()
    return lambda: jax.block_until_ready(gradient(ws, h))


SYSTEMS: dict[str, Callable[[], Callable[[], Any]]] = {
    "functrace": functrace,
    "functrace checkpoint": lambda: functrace(checkpointed=True),
    "functrace budget": lambda: functrace(budget=f"{BUDGET // 10**6} MB"),
    "torch": torch,
    "torch checkpoint": lambda: torch(checkpointed=True),
    "jax": jax,
}
SLOW = ("jax",)


def run(system: str) -> dict[str, Any]:
    """Return peak bytes above the baseline, the least seconds of two runs, and some results."""
    ready = SYSTEMS[system]()
    np.ones((256, 256), np.float32) @ np.ones((256, 256), np.float32)  # BLAS takes its buffers
    baseline = resident()
    forget_peak()
    seconds = []
    for _ in range(2):
        begin = time.perf_counter()
        found = ready()
        seconds.append(time.perf_counter() - begin)
        sums = [
            float(np.abs(np.asarray(found[k])).sum(dtype=np.float64))
            for k in (0, LAYERS // 2, LAYERS - 1)
        ]
        del found
    return {
        "system": system,
        "peak_bytes": peak() - baseline,
        "seconds": min(seconds),
        "sums": sums,
    }


def measured(*, thorough: bool) -> dict[str, Any]:
    """Measure every system in a process of its own, and check that all compute the same numbers."""
    found: dict[str, dict[str, Any]] = {}
    skipped: dict[str, str] = {}
    for system in SYSTEMS:
        if system in SLOW and not thorough:
            skipped[system] = "takes 20 s to compile: ask for memory-chain by its id"
            continue
        package = system.partition(" ")[0]
        if importlib.util.find_spec(package) is None:
            skipped[system] = f"{package} is not installed"
            continue
        found[system] = ask("memory_chain", [system])
    for system, result in found.items():
        np.testing.assert_allclose(
            result["sums"], found["functrace"]["sums"], rtol=1e-3, err_msg=f"memory-chain: {system}"
        )
    ratio = (
        found["functrace"]["peak_bytes"] / found["torch"]["peak_bytes"]
        if "torch" in found
        else None
    )
    held = found["functrace budget"]["peak_bytes"] <= BUDGET
    slowdown = found["functrace budget"]["seconds"] / found["functrace"]["seconds"]
    met = held and slowdown <= MOST_SLOWDOWN and (ratio is None or ratio <= MOST_OF_TORCH)
    return {
        "systems": found,
        "skipped": skipped,
        "ratio": ratio,
        "slowdown": slowdown,
        "held": held,
        "met": met,
    }


def show(result: dict[str, Any]) -> str:
    """Format the outcome."""
    lines = ["memory-chain: peak RSS above the baseline, seconds"]
    for system, found in result["systems"].items():
        lines.append(
            f"  {system:22}{found['peak_bytes'] / 2**20:8.0f} MiB  {found['seconds']:6.2f} s"
        )
    lines += [f"  {system:22}skipped: {why}" for system, why in result["skipped"].items()]
    if result["ratio"] is not None:
        verdict = "met" if result["ratio"] <= MOST_OF_TORCH else "NOT MET"
        lines.append(f"  {result['ratio']:.2f} x torch <= {MOST_OF_TORCH:g}: {verdict}")
    verdict = "met" if result["held"] and result["slowdown"] <= MOST_SLOWDOWN else "NOT MET"
    lines.append(
        f"  a budget of {BUDGET / 1e6:g} MB at {result['slowdown']:.2f} x own time <= "
        f"{MOST_SLOWDOWN:g}: {verdict}"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1])))
