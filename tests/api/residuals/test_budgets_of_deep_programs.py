"""Budgets of programs of many operations: few derivatives are planned, since candidates are
estimated first, and what is measured is within the budget."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.api.residuals.budget import frontier_of
from functrace.api.residuals.derivative_costs import peak
from functrace.api.residuals.estimates import Estimator
from functrace.api.residuals.rewriting import scheduled
from functrace.errors import ArgumentError

Work = tuple[Callable[..., Any], tuple[Any, ...]]
RNG = np.random.default_rng(8)

AROUND = 400_000
"""Bytes: what Python needs for a thousand operations."""


def chain() -> Work:
    def f(x: Any) -> Any:
        for _ in range(600):
            x = np.sin(x)
        return np.sum(x)

    return f, (RNG.standard_normal(20_000),)


def recurrent() -> Work:
    w = RNG.standard_normal((48, 128)) / 12.0
    xs = RNG.standard_normal((20, 256, 16))

    def f(w: Any, xs: Any) -> Any:
        h = c = np.zeros((256, 32))
        for t in range(20):
            z = np.concatenate([xs[t], h], 1) @ w
            i, forget, o = [1.0 / (1.0 + np.exp(-z[:, k * 32 : k * 32 + 32])) for k in range(3)]
            c = forget * c + i * np.tanh(z[:, 96:])
            h = o * np.tanh(c)
        return np.sum(h * h)

    return f, (w, xs)


def graph() -> Work:
    rng = np.random.default_rng(4)
    places = [(rng.integers(0, 12), rng.integers(0, 30)) for _ in range(300)]

    def f(x: Any) -> Any:
        values = [x]
        for near, far in places:
            a, b = values[-1 - min(near, len(values) - 1)], values[-1 - min(far, len(values) - 1)]
            values.append(np.tanh(a * b) if near % 2 else np.sin(a) + 0.3 * b)
        return np.sum(values[-1] + values[-2])

    return f, (RNG.standard_normal(10_000),)


every_work = pytest.mark.parametrize("work", [chain, recurrent, graph])


@pytest.mark.full
@every_work
def test_budgets_of_deep_programs_are_kept_and_few_derivatives_are_planned(
    work: Callable[[], Work],
) -> None:
    f, args = work()
    plain = ft.plan(f, budget=10**12)(*args)
    expected = ft.grad(f)(*args)
    costs: list[float] = []
    before = plain.plans
    for share in (0.5, 0.75):
        nbytes = int(share * plain.plain_bytes)
        made = ft.plan(f, budget=nbytes)(*args)
        assert made.peak_bytes <= nbytes
        assert made.plans - before <= 8
        before = made.plans
        costs.append(made.extra)
        bounded = ft.grad(ft.checkpoint(f, policy=ft.policies.budget(nbytes)))
        np.testing.assert_array_equal(bounded(*args), expected)
        tracemalloc.start()
        bounded(*args)
        measured = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert measured <= nbytes + AROUND
    assert plain.forward > costs[0] > costs[1] > 0.0
    with pytest.raises(ArgumentError, match=r"needs [0-9,]+ bytes"):
        ft.plan(f, budget=plain.least_bytes - 1)(*args)
    least = ft.plan(f, budget=plain.least_bytes)(*args)
    assert least.peak_bytes == plain.least_bytes


@pytest.mark.full
@every_work
def test_the_knee_and_the_curve_of_a_deep_program(work: Callable[[], Work]) -> None:
    f, args = work()
    knee = ft.plan(f)(*args)
    points = knee.pareto()
    assert knee.plans <= 26
    assert points[0] == (knee.plain_bytes, 0.0, 0.0)
    assert len(points) >= 5
    for a, b in itertools.pairwise(points):
        assert a.peak_bytes > b.peak_bytes and a.extra < b.extra
    first, last = points[0], points[-1]
    saved = (first.peak_bytes - knee.peak_bytes) / (first.peak_bytes - last.peak_bytes)
    assert saved >= knee.extra / last.extra


@every_work
def test_estimates_are_close_to_plans(work: Callable[[], Work]) -> None:
    f, args = work()
    frontier = frontier_of(ft.trace(f)(*args).interned(), "flops")
    table = Estimator(frontier.work)
    # Plans recompute cheap values by themselves, where much is kept.
    most = 1.001 if work is chain else 2.0
    assert 0.9 < table.peak(()) / frontier.plain.peak_bytes < most
    for candidate in frontier.candidates[:: len(frontier.candidates) // 4]:
        made = peak(scheduled(candidate.work.program, candidate.items))
        assert 0.9 < table.peak(candidate.items) / made < most
