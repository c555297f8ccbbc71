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
