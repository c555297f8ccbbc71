"""Schedules: exact at both ends, for every type of the count; derivatives; mistakes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functrace as ft
from functrace.errors import ArgumentError

optim = ft.optim
VALUES = st.floats(-1e3, 1e3)
ENDS: dict[str, Callable[[Any, Any], Any]] = {
    "linear": lambda a, b: optim.linear_schedule(a, b, 7, 2),
    "polynomial": lambda a, b: optim.polynomial_schedule(a, b, 2.5, 7, 2),
    "root": lambda a, b: optim.polynomial_schedule(a, b, 0.5, 7, 2),
    "cosine": lambda a, b: optim.warmup_cosine_decay_schedule(0.0, a, 0, 9, b),
    "cosine power": lambda a, b: optim.warmup_cosine_decay_schedule(0.0, a, 0, 9, b, 0.5),
    "warmup": lambda a, b: optim.warmup_cosine_decay_schedule(a, 0.0, 3, 9, b),
    "joined": lambda a, b: optim.join_schedules(
        [optim.constant_schedule(a), optim.linear_schedule(a, b, 5)], [4]
    ),
}


@pytest.mark.parametrize("name", ENDS)
@given(first=VALUES, last=VALUES)
def test_both_ends_are_exact(name: str, first: float, last: float) -> None:
    schedule = ENDS[name](first, last)
    for count in (0, np.int32(0), 0.0):
        assert float(schedule(count)) == first
    for count in (9, np.int32(9), 9.0, 10, 10**6, np.int64(2**40)):
        assert float(schedule(count)) == last
    np.testing.assert_array_equal(schedule(np.array([0, 9, 50])), [first, last, last])


@pytest.mark.parametrize("dtype", ["i1", "u1", "u2", "i4", "u8", "f4", "f8"])
@pytest.mark.parametrize("name", [*ENDS, "exponential"])
def test_counts_of_every_dtype(name: str, dtype: str) -> None:
    """Unsigned differences do not wrap around."""
    schedule = (
        optim.exponential_decay(1.0, 5, 0.5, 3) if name == "exponential" else ENDS[name](0.7, 0.2)
    )
    counts = np.arange(14)
    wanted = [float(schedule(int(k))) for k in counts]
    for f in (schedule, ft.vmap(schedule), ft.jit(schedule)):
        np.testing.assert_allclose(f(counts.astype(dtype)), wanted, rtol=1e-6)
    np.testing.assert_allclose(
        [schedule(np.dtype(dtype).type(k)) for k in counts], wanted, rtol=1e-6
    )


@pytest.mark.parametrize("peak", [0.0, 0.5, -1.0, np.float64(0.0), np.float32(0.0), np.array(0.0)])
@pytest.mark.parametrize("exponent", [1.0, 2.0, 0.8])
def test_rise_and_fall_for_every_peak(peak: Any, exponent: float) -> None:
    schedule = optim.warmup_cosine_decay_schedule(0.2, peak, 4, 12, 0.3, exponent)
    peak = float(peak)
    for k in range(16):
        fraction = (0.5 * (1 + math.cos(math.pi * min(max(k - 4, 0), 8) / 8))) ** exponent
        wanted = 0.3 + (peak - 0.3) * fraction if k >= 4 else 0.2 + (peak - 0.2) * k / 4
        np.testing.assert_allclose(schedule(k), wanted, rtol=1e-12, atol=1e-15)

    def by_peak(peak: Any, k: int) -> Any:
        return optim.warmup_cosine_decay_schedule(0.2, peak, 4, 12, 0.3, exponent)(k)

    for k in (0, 3, 4, 7, 12, 20):
        wanted = (by_peak(peak + 1e-6, k) - by_peak(peak - 1e-6, k)) / 2e-6
        np.testing.assert_allclose(ft.grad(by_peak)(peak, k), wanted, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("count", [0, 3, 6, 7, 20])
@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_derivatives_by_all_parameters(power: float, count: int) -> None:
    """At the last step, the base of the power is 0."""

    def f(h: Any) -> Any:
        made = (
            optim.polynomial_schedule(h[0], h[1], h[2], 7),
            optim.cosine_decay_schedule(h[0], 7, h[1], h[2]),
            optim.exponential_decay(h[0], 3, h[1], end_value=h[2] - 1.5),
        )
        return np.stack([schedule(np.int32(count)) for schedule in made])

    h = np.array([1.3, 0.4, power])
    wanted = np.stack([(f(h + d) - f(h - d)) / 2e-6 for d in 1e-6 * np.eye(3)], 1)
    for jacobian in (ft.jacrev(f), ft.jacfwd(f), ft.jit(ft.jacrev(f))):
        np.testing.assert_allclose(jacobian(h), wanted, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("rate", [0.0, -0.5, np.nan, np.float32(-0.5), np.array(0.0)])
def test_rates_that_are_not_positive_are_refused(rate: Any) -> None:
    with pytest.raises(ArgumentError, match="rate"):
        optim.exponential_decay(1.0, 10, rate)
