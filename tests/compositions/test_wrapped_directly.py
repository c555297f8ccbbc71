"""A wrapper wraps exactly its argument, even a wrapper or a function with attributes of the same
names.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft
from tests.oracles import assert_same

X = np.array([0.3, -0.6, 0.9])


def by_jvp(f: Any) -> Any:
    g = ft.custom_jvp(f)
    g.defjvp(lambda primals, tangents: (f(*primals), 3.0 * np.cos(primals[0]) * tangents[0]))
    return g


def by_vjp(f: Any) -> Any:
    g = ft.custom_vjp(f)
    g.defvjp(lambda x: (f(x), np.tanh(x)), lambda kept, y_bar: (5.0 * kept * y_bar,))
    return g


def by_vmap(f: Any) -> Any:
    g = ft.custom_vmap(f)
    g.def_vmap(lambda size, batched, x: (7.0 * f(x), True))
    return g


def by_hand(f: Any) -> Any:
    g = ft.primitive(f, results=lambda x: x)
    g.defvjp(lambda y_bar, y, x: (11.0 * np.sin(x) * y_bar,))
    return g


WRAPPERS = {
    "custom_jvp": by_jvp, "custom_vjp": by_vjp, "custom_vmap": by_vmap, "primitive": by_hand,
    "jit": ft.jit,
    "checkpoint": ft.checkpoint, "lift": ft.numpy.lift,
}  # fmt: skip

TRANSFORMS: dict[str, Any] = {
    "value": lambda f: f(X),
    "grad": lambda f: ft.grad(lambda x: np.sum(f(x) ** 2))(X),
    "vmap": lambda f: ft.vmap(f)(X),
    "jit": lambda f: ft.jit(f)(X),
    "hessian": lambda f: ft.jacrev(ft.grad(lambda x: np.sum(f(x) ** 2)))(X),
}


def same(wrapped: Any, named: Any) -> None:
    for transform, run in TRANSFORMS.items():
        assert_same(run(wrapped), run(named), what=transform)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("inner", WRAPPERS)
@pytest.mark.parametrize("outer", WRAPPERS)
def test_a_wrapper_of_a_wrapper_is_one_of_a_function_that_calls_it(outer: str, inner: str) -> None:
    within = WRAPPERS[inner](lambda x: np.sin(x) * x)
    same(WRAPPERS[outer](within), WRAPPERS[outer](lambda x: within(x)))


@pytest.mark.parametrize("outer", WRAPPERS)
def test_attributes_of_a_function_stay_its_own(outer: str) -> None:
    def f(x: Any) -> Any:
        return np.sin(x) * x

    named = WRAPPERS[outer](lambda x: f(x))
    for name in [
        *vars(named),
        "f",
        "rule",
        "rules",
        "vjp",
        "jvp",
        "method",
        "results",
        "transform",
    ]:
        if name.startswith("__"):
            continue
        setattr(f, name, 1)
    same(WRAPPERS[outer](f), named)
