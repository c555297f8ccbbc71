"""Loops that overwrite a carry in the loop nest that also sums it: no element is computed twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft

pytest.importorskip("llvmlite", reason="llvmlite is not installed")


def by_scan(step: Callable[[Any], tuple[Any, Any]], x: Any) -> Any:
    return ft.scan(lambda c, _: step(c), x, None, length=3)


def by_while(step: Callable[[Any], tuple[Any, Any]], x: Any) -> Any:
    def body(state: Any) -> Any:
        c, k, _ = state
        c, total = step(c)
        return c, k + 1, total

    start = x, 0, step(x)[1]
    return ft.while_loop(lambda s: s[1] < 3, body, start)


def by_fori(step: Callable[[Any], tuple[Any, Any]], x: Any) -> Any:
    start = x, step(x)[1]
    return ft.fori_loop(0, 3, lambda _, s: step(s[0]), start)


def over_norm(c: Any) -> Any:
    new = c * 0.75
    return new, np.sum(new * new)


def two_sums(c: Any) -> Any:
    new = c * 0.5 + 0.25
    return new, np.sum(new) * np.sum(c)


STEPS: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "sum": lambda c: (c * 0.5, np.sum(c * 0.5)),
    "mean": lambda c: (c * 0.5, np.mean(c * 0.5)),
    "squares": over_norm,
    "two sums": two_sums,
    "variance": lambda c: (c * 0.5 - 1.0, np.var(c * 0.5 - 1.0) + np.mean(c * 0.5 - 1.0)),
    "rows": lambda c: (c * 0.5, np.sum(c * 0.5, axis=-1)),
}
SHAPES = [(n,) for n in (*range(257, 300, 7), 300, 513, 600, 777, 1000, 1025, 1100, 9000)]
SHAPES += [(300, 4), (4, 300), (3, 1000), (37, 41)]


@pytest.mark.sampled(7)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("loop", [by_scan, by_while, by_fori])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_carries_that_are_summed(loop: Any, name: str, shape: tuple[int, ...], dtype: str) -> None:
    x = np.random.default_rng(len(shape)).normal(size=shape).astype(dtype)
    f = lambda x: loop(STEPS[name], x)
    found, expected = ft.jit(f, backend="native")(x), ft.jit(f, backend="numpy")(x)
    rtol = 1e-13 if dtype == "f8" else 1e-5
    for a, b in zip(ft.tree.leaves(found), ft.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * np.abs(b).max())
