"""Predicted peaks of random programs, on many examples at once and under transforms, are those that
``tracemalloc`` measures, loops and branches included. (Compiled loops and branches are predicted more
roughly: a step may free its carry early, a branch that no example takes does not run, and a fusion
group in a loop whose operands are slices of another array may run whole.)
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functrace as ft
from tests.laws.programs import Recipe, programs, seeds

EXAMPLES = 40_000
"""Arrays have 0.3 MB per number of an example."""
SLACK = 400_000
"""Bytes: what Python needs, and buffers of NumPy."""


def total(f: Recipe) -> Callable[..., Any]:
    return lambda *xs: sum([np.sum(np.sin(y)) for y in f(*xs)])


def gradient(f: Callable[..., Any], count: int) -> Callable[..., Any]:
    return ft.grad(lambda *xs: np.sum(ft.vmap(f)(*xs)), argnums=tuple(range(count)))


TRANSFORMS: dict[str, Callable[[Recipe], Callable[..., Any]]] = {
    "jit of vmap": lambda f: ft.jit(ft.vmap(f)),
    "grad of vmap": lambda f: gradient(total(f), len(f.inputs)),
    "jit of grad of vmap": lambda f: ft.jit(gradient(total(f), len(f.inputs))),
    "grad of checkpoint": lambda f: gradient(ft.checkpoint(total(f)), len(f.inputs)),
    "vmap": ft.vmap,
    "vmap of grad": lambda f: ft.vmap(ft.grad(total(f), argnums=tuple(range(len(f.inputs))))),
    "jit of vmap of grad": lambda f: ft.jit(TRANSFORMS["vmap of grad"](f)),
    "jit of jvp": lambda f: ft.jit(lambda *xs: ft.jvp(ft.vmap(f), xs, xs)),
}


def measured(run: Callable[[], Any]) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        run()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@pytest.mark.numpy_source
@pytest.mark.draws
@given(programs(most_steps=6), seeds(), st.sampled_from(sorted(TRANSFORMS)))
def test_peaks_of_random_programs_are_as_predicted(f: Recipe, seed: int, name: str) -> None:
    run = TRANSFORMS[name](f)
    rng = np.random.default_rng(seed)  # (different examples, which take all branches)
    xs = [rng.normal(size=(EXAMPLES, *np.shape(x))) for x in f.arguments(seed)]
    for _ in range(2):
        run(*xs)
    made = ft.memory_plan(run)(*xs)
    found = measured(lambda: run(*xs))
    is_rough = "ft." in repr(f) and "instruction list" not in made.runs
    least, most = (0.6, 2.2) if is_rough else (0.9, 1.1)
    assert made.peak_bytes >= least * found - SLACK, (made.peak_bytes, found, str(made))
    assert made.peak_bytes <= most * found + SLACK, (made.peak_bytes, found, str(made))


def test_branches_of_a_batch_and_un_jitted_maps() -> None:
    x = np.random.default_rng(0).normal(size=(EXAMPLES, 3))

    def one(v: Any) -> Any:
        longer = lambda h: np.log(h + np.sqrt(h * h + 1.0)) * np.cos(h)
        return np.sum(ft.cond(np.sum(v) > 0.0, longer, np.tanh, v))

    def steps(v: Any) -> Any:
        return np.sum(ft.scan(lambda h, t: (np.sin(h) * t, np.cos(h) + t), v, v)[0])

    for f in (one, steps, lambda v: one(v) + steps(v), lambda v: np.sin(v[0])):
        whole = lambda xs, f=f: np.sum(ft.vmap(f)(xs))
        for run in (ft.vmap(f), ft.vmap(ft.grad(f)), ft.grad(whole), ft.vmap(ft.checkpoint(f))):
            for _ in range(2):
                run(x)
            made = ft.memory_plan(run)(x)
            found = measured(lambda run=run: run(x))
            assert abs(found - made.peak_bytes) <= 0.1 * found + 0.2e6, str(made)
