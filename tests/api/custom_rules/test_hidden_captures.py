"""Values captured by functions and rules: differentiated or refused, never silently zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ArgumentError, LeakedTracerError, NotDifferentiableError

A = 1.3


def in_checkpoint(a: Any) -> Any:
    return ft.checkpoint(lambda y: np.sin(y * a) * a)(2.0)


def in_scan(a: Any) -> Any:
    return ft.scan(lambda c, _: (np.sin(c * a), None), 1.0, None, 3)[0]


def in_while(a: Any) -> Any:
    return ft.while_loop(lambda c: c < 20.0, lambda c: c * a + 1.0, 1.0)


def in_cond(a: Any) -> Any:
    return ft.cond(np.array(True), lambda y: y * a**2, lambda y: y, 2.0)


def in_root(a: Any) -> Any:
    def newton(f: Any, x: Any) -> Any:
        for _ in range(30):
            x = x - f(x) / ft.grad(f)(x)
        return x

    return ft.custom_root(lambda x: x**3 - a, 1.0, newton, lambda g, y: y / g(1.0))


def in_linear_solve(a: Any) -> Any:
    matrix = np.array([[4.0, 1.0], [1.0, 3.0]])
    way = lambda _, b: np.linalg.solve(matrix * a, b)
    return np.sum(
        ft.custom_linear_solve(lambda x: a * (matrix @ x), np.ones(2), way, symmetric=True)
    )


def in_custom_vmap(a: Any) -> Any:
    f = ft.custom_vmap(lambda y: np.sin(y * a))
    f.def_vmap(lambda size, batched, y: (np.sin(y), True))
    return f(2.0)


def in_jit(a: Any) -> Any:
    return ft.jit(lambda y: np.sin(y * a))(2.0)


def in_vmap(a: Any) -> Any:
    return np.sum(ft.vmap(lambda y: np.sin(y * a))(np.arange(3.0)))


def in_closure_convert(a: Any) -> Any:
    converted, captured = ft.closure_convert(lambda y: np.sin(y * a), 2.0)
    return converted(2.0, *captured)


def in_custom_vjp(a: Any) -> Any:
    f = ft.custom_vjp(lambda y: y * a)
    f.defvjp(lambda y: (y * a, None), lambda _, ct: (ct * a,))
    return f(2.0)


def in_backward_alone(a: Any) -> Any:
    f = ft.custom_vjp(lambda y: y * 2.0)
    f.defvjp(lambda y: (y * 2.0, None), lambda _, ct: (ct * a,))
    return f(a * 1.0)


def in_custom_jvp(a: Any) -> Any:
    f = ft.custom_jvp(lambda y: y * a)
    f.defjvp(lambda p, t: (p[0] * a, t[0] * a))
    return f(2.0)


def in_jvp_rule_alone(a: Any) -> Any:
    f = ft.custom_jvp(lambda y: y * 2.0)
    f.defjvp(lambda p, t: (p[0] * 2.0, t[0] * a))
    return f(a * 1.0)


def in_an_argument_that_is_a_function(a: Any) -> Any:
    f = ft.custom_vjp(lambda way, y: way(y), nondiff_argnums=(0,))
    f.defvjp(lambda way, y: (way(y), None), lambda way, _, ct: (ct * a,))
    return f(lambda y: y * a, 2.0)


def in_symbolic_rule(a: Any) -> Any:
    f = ft.custom_jvp(lambda y: y * 2.0)
    f.defjvp(lambda p, t: (p[0] * 2.0, t[0] * a), symbolic_zeros=True)
    return f(a * 1.0)


def in_vmap_rule(a: Any) -> Any:
    f = ft.custom_vmap(lambda y: y * 2.0)
    f.def_vmap(lambda size, batched, y: (y * a, True))
    return np.sum(ft.vmap(f)(np.arange(3.0)))


FOUND = [
    in_checkpoint, in_scan, in_while, in_cond, in_root, in_linear_solve, in_custom_vmap, in_jit,
    in_vmap, in_closure_convert,
]  # fmt: skip
REFUSED = [
    in_custom_vjp, in_backward_alone, in_custom_jvp, in_jvp_rule_alone,
    in_an_argument_that_is_a_function, in_symbolic_rule,
    in_vmap_rule,
]  # fmt: skip
DERIVATIVES: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: ft.grad(f)(A),
    "jvp": lambda f: ft.jvp(f, (A,), (1.0,))[1],
    "jit of grad": lambda f: ft.jit(ft.grad(f))(A),
    "grad of jit": lambda f: ft.grad(ft.jit(f))(A),
    "vmap of grad": lambda f: ft.vmap(ft.grad(f))(np.array([A]))[0],
    "grad of checkpoint": lambda f: ft.grad(ft.checkpoint(f))(A),
}


@pytest.mark.parametrize("name", DERIVATIVES)
@pytest.mark.parametrize("f", FOUND, ids=lambda f: f.__name__)
def test_captured_values_are_differentiated(f: Any, name: str) -> None:
    h = 1e-6
    expected = (f(A + h) - f(A - h)) / (2 * h)
    np.testing.assert_allclose(DERIVATIVES[name](f), expected, rtol=1e-7)


@pytest.mark.parametrize("name", DERIVATIVES)
@pytest.mark.parametrize("f", REFUSED, ids=lambda f: f.__name__)
def test_captures_that_a_rule_cannot_differentiate_raise(f: Any, name: str) -> None:
    refused = (NotDifferentiableError, ArgumentError, LeakedTracerError)
    with pytest.raises(refused, match=r"close[sd]? over|argument|used after"):
        DERIVATIVES[name](f)
