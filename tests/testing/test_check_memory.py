"""`check_memory` measures, and its message has what is alive and what to do."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ArgumentError

X = np.linspace(0.1, 1.0, 1 << 16)


def chain(x: Any) -> Any:
    for _ in range(8):
        x = np.cumsum(np.tanh(x)) * 1e-3
    return np.sum(x)


def test_a_call_under_its_limit_passes() -> None:
    found = ft.testing.check_memory(ft.grad(chain), [X], most="100 MB")
    assert 0.9 * found.predicted - 1e5 <= found.measured <= 1.1 * found.predicted + 1e5
    assert not tracemalloc.is_tracing()


def test_a_call_over_its_limit_fails_with_what_is_alive() -> None:
    with pytest.raises(AssertionError) as failed:
        ft.testing.check_memory(ft.grad(chain), (X,), most=1_000_000)
    text = str(failed.value)
    assert "not 1,000,000" in text and "residual" in text and "ft.checkpoint" in text
    assert "test_check_memory.py" in text
    assert not tracemalloc.is_tracing()


def test_checkpoints_make_it_pass() -> None:
    plain = ft.testing.check_memory(ft.grad(chain), [X], most="1 GB")
    less = ft.grad(ft.checkpoint(chain, policy=ft.policies.budget("3600 KB")))
    found = ft.testing.check_memory(less, [X], most=int(0.75 * plain.measured))
    assert found.measured < plain.measured


def test_an_error_of_the_call_leaves_no_tracing() -> None:
    def fails(x: Any) -> Any:
        if tracemalloc.is_tracing():
            raise ZeroDivisionError
        return x

    with pytest.raises(ZeroDivisionError):
        ft.testing.check_memory(fails, [X], most="1 GB")
    assert not tracemalloc.is_tracing()


def test_bad_arguments_raise() -> None:
    with pytest.raises(ArgumentError, match=r"\[x\]"):
        ft.testing.check_memory(np.sin, X, most="1 MB")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError):
        ft.testing.check_memory(np.sin, [X], most="1 parsec")
