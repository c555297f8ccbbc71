"""Derivatives of a function with custom rules do not depend on surrounding transforms or on
concretization.

The custom rules differ from the function's true derivative, so the second order reveals which
definition the first order used: a differentiated function returns the results of its forward rule,
and their derivatives are those of the rule.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft

X = np.array([0.3, -0.6, 0.9])


def by_vjp(x: Any) -> Any:
    g = ft.custom_vjp(np.sin)
    g.defvjp(
        lambda x: (np.sin(x) * 1.0, np.cos(x)), lambda kept, y_bar: (3.0 * y_bar * kept * kept,)
    )
    return g(x)


def by_jvp(x: Any) -> Any:
    g = ft.custom_jvp(np.sin)
    g.defjvp(
        lambda primals, tangents: (
            np.sin(primals[0]) * 1.0,
            3.0 * np.cos(primals[0]) ** 2 * tangents[0],
        )
    )
    return g(x)


FUNCTIONS = {"custom_vjp": by_vjp, "custom_jvp": by_jvp}


def asked(f: Any) -> Any:
    def g(x: Any) -> Any:
        y = f(x)
        return y if np.all(y < 9.0) else x

    return g


def asked_later(f: Any) -> Any:
    def g(x: Any) -> Any:
        y = f(x)
        z = np.tanh(y) * 2.0
        return y if np.all(z < 9.0) else x

    return g


AROUND: dict[str, Any] = {
    "checkpoint": ft.checkpoint,
    "jit": ft.jit,
    "checkpoint of jit": lambda f: ft.checkpoint(ft.jit(f)),
    "checkpoint of checkpoint": lambda f: ft.checkpoint(ft.checkpoint(f)),
    "names": lambda f: ft.checkpoint(lambda x: ft.checkpoint_name(f(x), "y"),
    policy=ft.policies.save_names("y")),
    "all saved": lambda f: ft.checkpoint(f, policy=ft.policies.save),
    "packed": lambda f: ft.checkpoint(f, policy=ft.policies.pack(lambda x: x, lambda x: x)),
    "budget": lambda f: ft.checkpoint(f, policy=ft.policies.budget("1 MiB")),
    "custom_vmap": ft.custom_vmap,
    "cond": lambda f: lambda x: ft.cond(x[0] < 9.0, f, lambda x: x, x),
    "scan": lambda f: lambda x: ft.scan(lambda c, x: (None, f(x)), None, x)[1],
    "scan of carries": lambda f: lambda x: ft.scan(lambda c, _: (f(c), None), x, None, 1)[0],
    "scan of checkpoint": lambda f: lambda x: ft.scan(lambda c, _: (ft.checkpoint(f)(c), None), x,
    None, 1)[0],
    "while_loop": lambda f: lambda x: ft.while_loop(lambda s: s[0] < 1, lambda s: (s[0] + 1,
    f(s[1])), (0, x))[1],
    "while_loop of checkpoint": lambda f: ft.checkpoint(
        lambda x: ft.while_loop(lambda s: s[0] < 1, lambda s: (s[0] + 1, f(s[1])), (0, x))[1]
    ),
    "vmap": ft.vmap,
    "map": lambda f: lambda x: ft.map(f, x),
    "question": asked,
    "question of what is made of it": asked_later,
    "question of checkpoint": lambda f: asked(ft.checkpoint(f)),
    "question of cond": lambda f: asked(lambda x: ft.cond(x[0] < 9.0, f, lambda x: x, x)),
}  # fmt: skip

ORDERS: dict[str, Any] = {
    "jacrev of grad": lambda f: ft.jacrev(ft.grad(f))(X),
    "grad of jvp": lambda f: ft.grad(lambda x: ft.jvp(f, (x,), (X,))[1])(X),
    "grad of linearize": lambda f: ft.grad(lambda x: ft.linearize(f, x)[1](X))(X),
    "vmap of hessian": lambda f: ft.vmap(ft.hessian(f))(np.stack([X, 2.0 * X])),
}


def total(g: Any) -> Any:
    return lambda x: np.sum(np.exp(g(x)) * x)


EXPECTED = {
    (kind, order): run(total(f)) for kind, f in FUNCTIONS.items() for order, run in ORDERS.items()
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("kind", FUNCTIONS)
def test_derivatives_are_those_of_the_function_alone(kind: str, around: str) -> None:
    f = FUNCTIONS[kind]
    wrong = []
    for order, run in ORDERS.items():
        expected = EXPECTED[kind, order]
        found = [run(total(AROUND[around](f)))]
        if order == "jacrev of grad" and "question" not in around:
            found.append(ft.jit(lambda run=run: run(total(AROUND[around](f))))())
        if not all(np.allclose(x, expected, rtol=1e-12, atol=1e-12) for x in found):
            wrong.append(order)
    assert not wrong
