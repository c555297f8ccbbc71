"""`debug.cache`: how what is kept between un-jitted calls runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.executor import Runner
from tests.executor.test_tiers import _ADVANCED, X, chain


def test_tiers_follow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Runner, "_advanced", _ADVANCED)
    ft.clear_caches()
    assert ft.debug.cache() == []
    f = chain(60)
    expected = ft.grad(f)(X)
    first = ft.debug.cache()[-1]
    assert (first.name, first.operations, first.compiling) == ("first sight", 299, 0.0)
    names = [first.name]  # (a second call may advance it already: that depends on the time that the first one took)
    for _ in range(1000):
        np.testing.assert_array_equal(ft.grad(f)(X), expected)
        names.append(ft.debug.cache()[-1].name)
        if names[-1] == "source":
            break
    assert list(dict.fromkeys(names)) == ["first sight", "instructions, being compiled", "source"]
    last = ft.debug.cache()[-1]
    assert last.interpreting > 20e-6 * first.operations
    assert last.compiling > 0.0
    assert len(ft.debug.cache()) == 1


def test_both_parts_of_a_pullback_are_listed() -> None:
    ft.clear_caches()
    _, pullback = ft.vjp(np.sin, X)
    pullback(X)
    assert [tier.name for tier in ft.debug.cache()] == ["first sight", "first sight"]


def test_one_that_has_never_run(monkeypatch: pytest.MonkeyPatch) -> None:
    ft.clear_caches()

    def traced(x: Any) -> Any:
        return ft.grad(chain(3))(x)

    ft.trace(traced)(X)
    assert [tier.interpreting for tier in ft.debug.cache()] == [0.0]
