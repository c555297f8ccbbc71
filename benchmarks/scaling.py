"""scaling: cost per operation (100 to 100,000), per leaf (10 to 10,000) and per order (1 to 6).

Runs in a process of its own: ``python -m benchmarks.scaling SYSTEM`` prints JSON. The operations
are those of ``x = sin(x) * 1.01`` on three numbers. JAX compiles for minutes at 10,000 operations,
so it runs these only when this work is selected by its id.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.child import ask
from benchmarks.outcome import lay_out, show_seconds

ABOUT = "cost per operation, leaf and order"
OPERATIONS = (100, 1_000, 10_000, 100_000)
LEAVES = (10, 100, 1_000, 10_000)
ORDERS = (1, 2, 3, 4, 5, 6)
MOST_GROWTH = 1.3
"""The target: the cost per operation at 100,000 operations over that at 1,000."""
POINT = np.array([0.3, 0.5, 0.7])
SYSTEMS = ("functrace", "jax", "torch")
PATIENCE = 0.5
"""Seconds spent on repetitions of one figure."""


def best(run: Callable[[], Any]) -> float:
    """Return the least seconds of up to seven runs."""
    found: list[float] = []
    while not found or (len(found) < 7 and sum(found) < PATIENCE):
        gc.collect()
        begin = time.perf_counter()
        run()
        found.append(time.perf_counter() - begin)
    return min(found)


def chain(xp: Any, turns: int) -> Callable[[Any], Any]:
    """A function of ``2 * turns`` operations."""

    def f(x: Any) -> Any:
        for _ in range(turns):
            x = xp.sin(x) * 1.01
        return xp.sum(x)

    return f


def functrace(thorough: bool) -> dict[str, Any]:
    import functrace as ft

    def stages(count: int) -> dict[str, float]:
        f = chain(np, count // 2)

        def first() -> None:
            ft.clear_caches()
            ft.grad(f)(POINT)

        def jit() -> None:
            ft.clear_caches()
            ft.jit(ft.grad(f))(POINT)

        found = {"record": best(lambda: ft.trace(f)(POINT)), "first gradient": best(first)}
        for _ in range(8 if count < 100_000 else 3):
            ft.grad(f)(POINT)
        found["later gradient"] = best(lambda: ft.grad(f)(POINT))
        return {**found, "jit": best(jit)}

    by_count = {count: stages(count) for count in OPERATIONS}
    found = {
        stage: {n: by_count[n][stage] / n for n in OPERATIONS} for stage in by_count[OPERATIONS[0]]
    }
    jitted = ft.jit(ft.grad(tree_loss(np)))

    def first_jitted(n: int) -> float:
        def run() -> None:
            ft.clear_caches()
            ft.jit(ft.grad(tree_loss(np)))(given)

        given = leaves(n)
        return best(run) / n

    return {
        "operations": found,
        "leaves": {
            "gradient": {n: later(ft.grad(tree_loss(np)), leaves(n)) / n for n in LEAVES},
            "jitted gradient": {n: later(jitted, leaves(n)) / n for n in LEAVES},
            "first jitted gradient": {n: first_jitted(n) for n in LEAVES},
        },
        "orders": {"gradient": {n: later(nested(ft.grad, scalar(np), n), 0.7) for n in ORDERS}},
    }


def jax(thorough: bool) -> dict[str, Any]:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    point = jnp.asarray(POINT)
    found: dict[int, float] = {}
    for count in OPERATIONS[: 3 if thorough else 2]:
        f = chain(jnp, count // 2)
        begin = time.perf_counter()
        jax.jit(jax.grad(f))(point).block_until_ready()
        found[count] = (time.perf_counter() - begin) / count
    jitted = jax.jit(jax.grad(tree_loss(jnp)))
    return {
        "operations": {"jit": found},
        "leaves": {
            "jitted gradient": {
                n: later(jitted, [jnp.asarray(x) for x in leaves(n)]) / n for n in LEAVES[:3]
            },
        },
        "orders": {"gradient": {n: later(nested(jax.grad, scalar(jnp), n), 0.7) for n in ORDERS}},
    }


def torch(thorough: bool) -> dict[str, Any]:
    import torch

    def gradient(count: int) -> None:
        leaf = torch.tensor(POINT, requires_grad=True)
        torch.autograd.grad(chain(torch, count // 2)(leaf), leaf)

    def tree_gradient(n: int) -> float:
        given = [torch.tensor(x, requires_grad=True) for x in leaves(n)]
        return best(lambda: torch.autograd.grad(tree_loss(torch)(given), given)) / n

    number = torch.tensor(0.7, dtype=torch.float64)
    return {
        "operations": {
            "later gradient": {n: best(lambda n=n: gradient(n)) / n for n in OPERATIONS}
        },
        "leaves": {"gradient": {n: tree_gradient(n) for n in LEAVES}},
        "orders": {
            "gradient": {
                n: later(nested(torch.func.grad, scalar(torch), n), number) for n in ORDERS
            }
        },
    }


def leaves(count: int) -> list[np.ndarray]:
    """Return a pytree of small arrays."""
    return [np.full(3, 0.1 + k / count) for k in range(count)]


def tree_loss(xp: Any) -> Callable[[Any], Any]:
    """A function with one operation per leaf, and a sum."""

    def f(nest: Any) -> Any:
        total = 0.0
        for leaf in nest:
            total = total + xp.sum(leaf * leaf)
        return total

    return f


def scalar(xp: Any) -> Callable[[Any], Any]:
    """A function of a number."""
    return lambda x: xp.sin(x) * xp.exp(x) + x * x


def nested(grad: Callable[..., Any], f: Callable[..., Any], order: int) -> Callable[..., Any]:
    """Return the gradient of the gradient of …."""
    for _ in range(order):
        f = grad(f)
    return f


def later(f: Callable[..., Any], argument: Any) -> float:
    """Return the seconds of a call that is not one of the first."""
    begin = time.perf_counter()
    for _ in range(12):
        f(argument)
        if time.perf_counter() - begin > 2 * PATIENCE:
            break
    return best(lambda: f(argument))


def measured(*, thorough: bool) -> dict[str, Any]:
    """Measure every system in a process of its own."""
    found: dict[str, Any] = {}
    for system in SYSTEMS:
        if importlib.util.find_spec(system) is not None:
            found[system] = ask("scaling", [system, *(["thorough"] if thorough else [])])
    growth = {
        stage: by_count[str(OPERATIONS[-1])] / by_count[str(OPERATIONS[1])]
        for stage, by_count in found["functrace"]["operations"].items()
    }
    return {
        "systems": found,
        "growth": growth,
        "met": {stage: ratio <= MOST_GROWTH for stage, ratio in growth.items()},
    }


def show(result: dict[str, Any]) -> str:
    """Format the outcome."""
    blocks = []
    for what, counts in (("operations", OPERATIONS), ("leaves", LEAVES), ("orders", ORDERS)):
        each = "" if what == "orders" else f" per {what[:-1].replace('leave', 'leaf')}"
        rows = [[f"scaling: seconds{each}", *(f"{n:,}" for n in counts), ""]]
        for system, found in result["systems"].items():
            for stage, by_count in found[what].items():
                note = ""
                if what == "operations" and system == "functrace":
                    verdict = "met" if result["met"][stage] else "NOT MET"
                    note = f"{result['growth'][stage]:.2f} from 1k to 100k <= {MOST_GROWTH:g}: {verdict}"
                rows.append(
                    [
                        f"{system}, {stage}",
                        *(show_seconds(by_count.get(str(n))) for n in counts),
                        note,
                    ]
                )
        blocks.append(lay_out(rows))
    return "\n\n".join(blocks)


if __name__ == "__main__":
    print(
        json.dumps(
            {name: f for name, f in globals().items() if name in SYSTEMS}[sys.argv[1]](
                "thorough" in sys.argv
            )
        )
    )
