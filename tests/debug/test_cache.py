"""`debug.cache`: how what is kept between un-jitted calls runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft

X = np.array([0.3, 0.5, 0.7])


def chain(turns: int) -> Any:
    def f(x: Any) -> Any:
        for _ in range(turns):
            x = np.sin(x) * 1.01
        return np.sum(x)

    return f


@pytest.mark.numpy_source
@pytest.mark.parametrize(
    "transform", [ft.grad, ft.hessian, ft.vmap, lambda f: lambda x: ft.vjp(f, x)[0]]
)
def test_small_arrays_run_as_instruction_lists_however_often_they_are_called(
    transform: Any,
) -> None:
    ft.clear_caches()
    assert ft.debug.cache() == []
    f = chain(60)
    for _ in range(40):
        transform(f)(np.ones((2, 2)) if transform is ft.vmap else X)
        made = ft.debug.cache()
        assert {tier.name for tier in made} == {"instructions"}
    assert all(tier.operations for tier in made)


def test_large_arrays_are_compiled_at_the_first_call() -> None:
    ft.clear_caches()
    ft.grad(chain(3))(np.ones(1 << 18))
    assert [tier.name for tier in ft.debug.cache()] == ["source"]


@pytest.mark.numpy_source
def test_both_parts_of_a_pullback_are_listed() -> None:
    ft.clear_caches()
    _, pullback = ft.vjp(np.sin, X)
    pullback(X)
    assert [tier.name for tier in ft.debug.cache()] == ["instructions", "instructions"]


def test_one_that_has_never_run() -> None:
    ft.clear_caches()

    def traced(x: Any) -> Any:
        return ft.grad(chain(3))(x)

    ft.trace(traced)(X)
    assert len(ft.debug.cache()) == 1
