"""Differential tests against JAX in double precision: custom_root, custom_linear_solve and
closure_convert.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import functrace as ft

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")

X = np.array([0.3, -0.7, 1.1])
W = np.array([[2.5, -1.0, 0.25], [0.5, 3.75, -0.5], [-0.25, 0.5, 2.0]])
BATCH = np.stack([X, X + 0.15, X[::-1] + 0.05, -X])


@pytest.fixture(autouse=True, scope="module")
def double_precision() -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


# Each takes the library (functrace or JAX) and its NumPy, and returns a function of a vector to a
# vector.


def _lax(lib: Any) -> Any:
    return ft if lib is ft else jax.lax


def _dense(lib: Any, xp: Any) -> Any:
    return lambda linear, right: xp.linalg.solve(lib.jacfwd(linear)(right), right)


def root(lib: Any, xp: Any) -> Any:
    def f(a: Any) -> Any:
        def zero(x: Any) -> Any:
            return W @ x + xp.sin(x * a) - a**2

        def solve(zero: Any, x: Any) -> Any:
            step = lambda x, _: (x - xp.linalg.solve(lib.jacfwd(zero)(x), zero(x)), None)
            return _lax(lib).scan(step, x, None, 10)[0]

        return _lax(lib).custom_root(zero, xp.zeros(3), solve, _dense(lib, xp))

    return f


def root_of_a_nest(lib: Any, xp: Any) -> Any:
    def f(a: Any) -> Any:
        def zero(p: Any) -> Any:
            return {"u": 2.0 * p["u"] - a, "v": p["v"] - xp.sum(p["u"] ** 2) * a[0]}

        def solve(zero: Any, p: Any) -> Any:
            u = a / 2.0
            return {"u": u, "v": xp.sum(u**2) * a[0]}, xp.max(u)

        def tangent(push: Any, y: Any) -> Any:
            u = y["u"] / 2.0
            v = y["v"] - push({"u": u, "v": xp.zeros(())})["v"]
            return {"u": u, "v": v}

        guess = {"u": xp.zeros(3), "v": xp.zeros(())}
        found, _ = _lax(lib).custom_root(zero, guess, solve, tangent, has_aux=True)
        return found["u"] * found["v"]

    return f


def linear_solve(lib: Any, xp: Any) -> Any:
    dense = _dense(lib, xp)

    def f(a: Any) -> Any:
        matrix = W + a[:, None] * xp.cos(a)
        return _lax(lib).custom_linear_solve(lambda x: matrix @ x, xp.exp(a), dense, dense)

    return f


def symmetric_linear_solve(lib: Any, xp: Any) -> Any:
    def f(a: Any) -> Any:
        matrix = W @ W.T + a[:, None] * a
        solve = _lax(lib).custom_linear_solve
        return solve(lambda x: matrix @ x, xp.exp(a), _dense(lib, xp), symmetric=True)

    return f


def converted_closure(lib: Any, xp: Any) -> Any:
    def f(a: Any) -> Any:
        b = xp.sin(a)
        converted, captured = lib.closure_convert(lambda x: x * b, a)
        return converted(a**2, *captured)

    return f


CASES = {
    f.__name__: f
    for f in (root, root_of_a_nest, linear_solve, symmetric_linear_solve, converted_closure)
}

TRANSFORMS = [
    "value",
    "jacrev",
    "jacfwd",
    "hessian",
    "jit",
    "vmap",
    "vmap of jacrev",
    "jit of hessian",
]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize(
    "transform",
    ["value", "jacrev", "jacfwd", "hessian", "jit", "vmap", "vmap of jacrev", "jit of hessian"],
)
def test_agrees_with_jax(case: Any, transform: str) -> None:
    def of(lib: Any, xp: Any) -> Any:
        f = case(lib, xp)
        scalar = lambda a: xp.sum(xp.tanh(f(a)))
        return {
            "value": lambda: f(X if lib is ft else jnp.asarray(X)),
            "jacrev": lambda: lib.jacrev(f)(X),
            "jacfwd": lambda: lib.jacfwd(f)(X),
            "hessian": lambda: lib.hessian(scalar)(X),
            "jit": lambda: lib.jit(f)(X),
            "vmap": lambda: lib.vmap(f)(BATCH),
            "vmap of jacrev": lambda: lib.vmap(lib.jacrev(f))(BATCH),
            "jit of hessian": lambda: lib.jit(lib.hessian(scalar))(X),
        }[transform]()

    np.testing.assert_allclose(of(ft, np), of(jax, jnp), rtol=1e-8, atol=1e-9)
