"""Arguments that are not differentiated: what a function writes into them stays inside, or raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import CapturedArrayError
from functrace.tracing.binding import OPENED


def loss(x: Any, y: Any) -> Any:
    y *= 2.0
    return np.sum(x * x * y)


def by_keyword(x: Any, *, y: Any) -> Any:
    return loss(x, y)


TRANSFORMED: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda x, y: ft.grad(loss)(x, y),
    "value_and_grad": lambda x, y: ft.value_and_grad(loss)(x, y),
    "keyword": lambda x, y: ft.grad(by_keyword)(x, y=y),
    "second": lambda x, y: ft.grad(lambda y, x: loss(x, y), argnums=1)(y, x),
    "jacfwd": lambda x, y: ft.jacfwd(loss)(x, y),
    "jacrev": lambda x, y: ft.jacrev(loss)(x, y),
    "hessian": lambda x, y: ft.hessian(loss)(x, y),
    "elementwise_grad": lambda x, y: ft.elementwise_grad(
        lambda x, y: x * np.multiply(y, 2.0, out=y)
    )(x, y),
    "vjp": lambda x, y: ft.vjp(by_keyword, x, y=y)[1](1.0),
    "jvp": lambda x, y: ft.jvp(by_keyword, (x,), (x,), y=y),
    "vmap": lambda x, y: ft.vmap(loss, in_axes=(0, None))(x[None], y),
    "jit": lambda x, y: ft.jit(loss)(x, y),
    "jit of grad": lambda x, y: ft.jit(ft.grad(loss))(x, y),
    "checkpoint in grad": lambda x, y: ft.grad(
        lambda x, y: ft.checkpoint(lambda x: loss(x, y.copy()))(x)
    )(x, y),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_the_callers_arrays_are_as_they_were(name: str) -> None:
    x, y = np.array([1.0, 2.0]), np.array([3.0, 0.5])
    first = ft.tree.leaves(TRANSFORMED[name](x, y))
    for _ in range(3):
        for a, b in zip(first, ft.tree.leaves(TRANSFORMED[name](x, y)), strict=True):
            np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(y, [3.0, 0.5])
    np.testing.assert_array_equal(x, [1.0, 2.0])


def test_large_arrays_are_shared_and_a_write_raises() -> None:
    y = np.ones(100_000)
    with pytest.raises(CapturedArrayError, match=r"in place.*\n.*at test_arguments|x.copy\(\)"):
        ft.grad(lambda x, y: loss(x, y))(np.ones(100_000), y)
    assert y[0] == 1.0 and y.flags.writeable
    np.testing.assert_array_equal(ft.grad(lambda x, y: loss(x, y.copy()))(np.ones(100_000), y), 4.0)


def test_handles_that_a_write_unsettles_are_not_recordings_that_stay_open() -> None:
    before = len(OPENED)

    def f(x: Any) -> Any:
        a = np.concatenate([x.T, x.T])
        b = a.reshape(-1)
        a[0] = 1.0
        del b
        return np.sum(a)

    for _ in range(5):
        ft.vjp(f, np.asfortranarray(np.ones((2, 3))))
    assert len(OPENED) == before


@pytest.mark.parametrize("size", [3, 10_000])
@pytest.mark.parametrize("by_keyword", [False, True])
def test_other_arguments_may_be_any_arrays(size: int, by_keyword: bool) -> None:
    x = np.ones(2)
    others = {
        "objects": np.array([None, "a", 1] * size, dtype=object),
        "strings": np.array(["ab", "c", "d"] * size),
        "masked": np.ma.masked_array(np.ones(size), np.zeros(size)),
        "structured": np.zeros(size, [("a", "f8"), ("b", "i2")]),
        "big-endian": np.ones(size, ">f8"),
    }
    for name, other in others.items():
        seen = []

        def f(x: Any, other: Any, seen: list[Any] = seen) -> Any:
            seen.append(other)
            return np.sum(x * len(other))

        found = ft.grad(f)(x, other=other) if by_keyword else ft.grad(f)(x, other)
        np.testing.assert_array_equal(found, len(other) * x)
        assert type(seen[0]) is type(other) and seen[0].dtype.kind == other.dtype.kind, name
        assert (seen[0] == other).all(), name


@pytest.mark.parametrize(
    "f",
    [lambda x: np.ravel(x)[0] * 1.0, lambda x: np.reshape(x, (1,))[0] ** 2],
    ids=["ravel", "reshape"],
)
def test_the_gradient_by_a_number_is_a_number_in_every_call(f: Any) -> None:
    calls = {
        "grad": lambda: ft.grad(f)(np.float64(2.0)),
        "value_and_grad": lambda: ft.value_and_grad(f)(2.0)[1],
        "vjp": lambda: ft.vjp(f, np.float64(2.0))[1](1.0)[0],
        "of a nest": lambda: ft.grad(lambda nest: f(nest["x"]))({"x": 2.0})["x"],
    }
    for name, call in calls.items():
        assert {type(call()) for _ in range(40)} == {np.float64}, name
