"""Transforms leave no cycles: what a call has recorded is gone when it returns, without the cycle
collector.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

import numpy as np
import pytest

import functrace as ft

X = np.array([0.3, -0.7, 1.1])
MANY = np.stack([X, 2 * X])


def f(x: np.ndarray) -> np.ndarray:
    return np.sin(x) * x


def number(x: np.ndarray) -> np.ndarray:
    return f(x).sum()


def nested(tree: dict[str, np.ndarray]) -> np.ndarray:
    return tree["a"] * tree["b"].sum()


jitted, checkpointed = (
    ft.jit(f),
    ft.checkpoint(f),
)  # what is made of a function refers to itself; calls of it do not


CALLS: dict[str, Callable[[], object]] = {
    "grad": lambda: ft.grad(number)(X),
    "value_and_grad": lambda: ft.value_and_grad(number)(X),
    "vjp": lambda: ft.vjp(f, X)[1](X),
    "jvp": lambda: ft.jvp(f, (X,), (X,)),
    "linearize": lambda: ft.linearize(f, X)[1](X),
    "vmap": lambda: ft.vmap(f)(MANY),
    "vmap of a nest": lambda: ft.vmap(nested, in_axes=({"a": 0, "b": None},))({"a": MANY, "b": X}),
    "jacrev": lambda: ft.jacrev(f)(X),
    "jacfwd": lambda: ft.jacfwd(f)(X),
    "hessian": lambda: ft.hessian(number)(X),
    "grad of grad": lambda: ft.grad(lambda x: ft.grad(number)(x).sum())(X),
    "vmap of grad": lambda: ft.vmap(ft.grad(number))(MANY),
    "jit": lambda: jitted(X),
    "checkpoint": lambda: ft.grad(lambda x: checkpointed(x).sum())(X),
    "trace": lambda: ft.trace(f)(X),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_calls_leave_nothing_to_collect(call: Callable[[], object]) -> None:
    for _ in range(3):
        call()
    gc.collect()
    gc.disable()
    try:
        for _ in range(5):
            call()
        found = gc.collect()
    finally:
        gc.enable()
    assert not found, f"{found} objects in cycles after 5 calls"
