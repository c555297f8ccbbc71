"""Predicted peaks of random programs, on many examples at once and under transforms, are those that
``tracemalloc`` measures. (Programs of loops of a few steps and of branches are left out: there a
prediction may be further away.)
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
@given(programs(most_steps=6, held=False), seeds(), st.sampled_from(sorted(TRANSFORMS)))
def test_peaks_of_random_programs_are_as_predicted(f: Recipe, seed: int, name: str) -> None:
    run = TRANSFORMS[name](f)
    small = f.arguments(seed)
    xs = [np.broadcast_to(x, (EXAMPLES, *np.shape(x))).copy() for x in small]
    for _ in range(2):
        run(*xs)
    made = ft.memory_plan(run)(*xs)
    found = measured(lambda: run(*xs))
    assert abs(found - made.peak_bytes) <= 0.1 * found + SLACK, (made.peak_bytes, found, str(made))
