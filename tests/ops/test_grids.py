"""Convolutions of grids: transposes for every pair of stacks that broadcast."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.ops.grids import convolve_grids

STACKS: list[Any] = [
    (a, b)
    for a, b in itertools.product([(), (1,), (3,), (1, 1), (2, 1), (1, 3), (2, 3)], repeat=2)
    if len(a) == len(b) and all(n == m or 1 in (n, m) for n, m in zip(a, b, strict=True))
]


@pytest.mark.parametrize("part", ["full", "valid"])
@pytest.mark.parametrize("stacks", STACKS, ids=str)
def test_transposes_pass_the_dot_test(stacks: Any, part: Any) -> None:
    left, right = stacks
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(*left, 5, 4)), rng.normal(size=(*right, 2, 3))
    call = lambda x, y: convolve_grids(x, y, len(left), part)
    value, pull = ft.vjp(call, x, y)
    ct = rng.normal(size=value.shape)
    x_bar, y_bar = pull(ct)
    x_dot, y_dot = rng.normal(size=x.shape), rng.normal(size=y.shape)
    np.testing.assert_allclose(np.sum(x_bar * x_dot), np.sum(ct * call(x_dot, y)))
    np.testing.assert_allclose(np.sum(y_bar * y_dot), np.sum(ct * call(x, y_dot)))


def test_gradient_of_a_batch_of_filters_on_one_image() -> None:
    pytest.importorskip("scipy", reason="SciPy is not installed")
    from functrace.scipy import signal

    rng = np.random.default_rng(0)
    x, filters = rng.normal(size=(6, 5)), rng.normal(size=(3, 2, 2))

    def loss(x: Any, filters: Any) -> Any:
        return np.sum(ft.vmap(lambda w: signal.convolve(x, w, "valid"))(filters) ** 2)

    def looped(x: Any, filters: Any) -> Any:
        return sum(np.sum(signal.convolve(x, w, "valid") ** 2) for w in filters)

    for k in (0, 1):
        found, expected = [ft.grad(f, argnums=k)(x, filters) for f in (loss, looped)]
        np.testing.assert_allclose(found, expected)
