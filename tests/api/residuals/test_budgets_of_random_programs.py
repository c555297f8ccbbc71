"""Budgets of random programs: what is measured is within the budget, the derivative is the same, and
the smallest possible budget, which the error names, is possible. (Loops without a largest number of
steps are refused.)
"""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import functrace as ft
from functrace.errors import ArgumentError
from tests.laws.programs import Recipe, programs, seeds
from tests.sampling import MOST_EXAMPLES, scaled

EXAMPLES = 20_000
"""Arrays have 160 kB per number of an example."""
SLACK = 300_000
"""Bytes: what Python needs, and buffers of NumPy."""


def total(f: Recipe) -> Callable[..., Any]:
    one = lambda *xs: sum([np.sum(np.sin(y)) for y in f(*xs)])
    return lambda *xs: np.sum(ft.vmap(one)(*xs))


def measured(run: Callable[[], Any]) -> int:
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.full
@pytest.mark.numpy_source
@pytest.mark.draws
@settings(max_examples=max(3, scaled(MOST_EXAMPLES // 2)))
@given(programs(most_steps=6), seeds(), st.sampled_from([0.05, 0.3, 0.5, 0.7, 0.9, 1.0]))
def test_random_programs_need_at_most_their_budget(f: Recipe, seed: int, share: float) -> None:
    xs = [np.broadcast_to(x, (EXAMPLES, *np.shape(x))).copy() for x in f.arguments(seed)]
    loss, places = total(f), tuple(range(len(xs)))
    try:
        plain = ft.plan(loss, budget="1 TB")(*xs).plain_bytes
    except ArgumentError as error:
        assert "of each step of an unbounded loop" in str(error), error
        return
    nbytes = max(1, int(share * plain))

    def within(limit: int) -> Callable[..., Any]:
        return ft.grad(ft.checkpoint(loss, policy=ft.policies.budget(limit)), argnums=places)

    try:
        within(nbytes)(*xs)
    except ArgumentError as error:
        named = re.search(r"needs ([0-9,]+) bytes", str(error))
        assert named is not None, error
        least = int(named[1].replace(",", ""))
        assert nbytes < least <= plain
        nbytes = least
    gradient = within(nbytes)
    for found, expected in zip(gradient(*xs), ft.grad(loss, argnums=places)(*xs), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    peak = measured(lambda: gradient(*xs))
    assert peak <= nbytes + SLACK, (share, plain, nbytes, peak)
