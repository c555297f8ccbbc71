"""Predicted peaks of checkpointed loops count the residuals of the steps that are run again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.policies import binomial
from tests.api.residuals.test_memory_plan import measured

X = np.linspace(0.0, 1.0, 20_000)
SLACK = 100_000
"""Bytes that are no arrays."""


def step(_: Any, carry: Any) -> Any:
    for _ in range(3):
        carry = np.sin(np.cumsum(carry) * 1e-3)
    return carry


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("checkpoint", [1, 4, 16, "sqrt", binomial(4), binomial(12)], ids=str)
def test_the_predicted_peak_is_the_measured_one(checkpoint: Any, jitted: bool) -> None:
    f = lambda x: np.sum(ft.fori_loop(0, 64, step, x, checkpoint=checkpoint))
    run = ft.jit(ft.grad(f), backend="numpy") if jitted else ft.grad(f)
    for _ in range(2):
        run(X)
    predicted, found = ft.memory_plan(run)(X).peak_bytes, measured(lambda: run(X))
    assert abs(predicted - found) <= 0.1 * found + SLACK, (predicted, found)


@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_steps_with_temporary_arrays(backend: Any) -> None:
    """While a step runs, its temporary arrays are alive with the residuals of the others."""
    if backend == "native":
        pytest.importorskip("llvmlite")
    x = np.linspace(-1.0, 1.0, 90_000).reshape(300, 300)

    def padded(_: Any, c: Any) -> Any:
        c = np.sum(np.reshape(c, (300, 30, 10)).transpose(1, 0, 2).reshape(300, 300)[None], axis=0)
        return np.tanh(np.sort(np.pad(c, 1)[1:-1, 1:-1], axis=1))

    f = lambda x: np.sum(ft.fori_loop(0, 6, padded, x, checkpoint=2) * x)
    run = ft.jit(ft.grad(f), backend=backend)
    for _ in range(2):
        run(x)
    predicted, found = ft.memory_plan(run)(x).peak_bytes, measured(lambda: run(x))
    assert abs(predicted - found) <= 0.1 * found + SLACK, (predicted, found)
