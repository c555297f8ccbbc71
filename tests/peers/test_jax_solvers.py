"""Differential tests against JAX in double precision: a neural ODE by both gradients, and solutions
against unrolling.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.scipy import integrate, optimize

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
ode = pytest.importorskip("jax.experimental.ode")

TIMES = np.linspace(0.0, 1.5, 7)
START = np.array([1.0, -0.5])
RNG = np.random.default_rng(3)
WEIGHTS: dict[str, Any] = {
    "a": RNG.normal(size=(8, 2)) / 2,
    "b": RNG.normal(size=8) / 3,
    "c": RNG.normal(size=(2, 8)) / 3,
}
TARGET = RNG.normal(size=(7, 2))
TIGHT: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-10}


@pytest.fixture(autouse=True, scope="module")
def double_precision() -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def network(xp: Any, w: Any, y: Any) -> Any:
    """The right-hand side."""
    return w["c"] @ xp.tanh(w["a"] @ y + w["b"])


def loss_of_jax(w: Any, y0: Any) -> Any:
    """The loss by JAX's solver and its adjoint."""
    path = ode.odeint(
        lambda y, t: network(jnp, w, y), y0, jnp.asarray(TIMES), rtol=1e-10, atol=1e-10
    )
    return jnp.mean((path - TARGET) ** 2)


def loss(w: Any, y0: Any, how: Any) -> Any:
    """The same by SciPy's solvers."""
    if how == "odeint":
        path = integrate.odeint(lambda y, t: network(np, w, y), y0, TIMES, rtol=1e-10, atol=1e-10)
    else:
        gradient, method = how
        rate = lambda t, y: network(np, w, y)
        span = (TIMES[0], TIMES[-1])
        path = integrate.solve_ivp(rate, span, y0, method, TIMES, gradient=gradient, **TIGHT).y.T
    return np.mean((path - TARGET) ** 2)


HOW = [
    ("adjoint", "RK45"),
    ("direct", "RK45"),
    ("direct", "DOP853"),
    ("adjoint", "LSODA"),
    "odeint",
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("wrap", [lambda f: f, ft.jit], ids=["eager", "jit"])
@pytest.mark.parametrize(
    "how",
    [("adjoint", "RK45"), ("direct", "RK45"), ("direct", "DOP853"), ("adjoint", "LSODA"), "odeint"],
)
def test_a_neural_ode(how: Any, wrap: Any) -> None:
    expected = jax.grad(loss_of_jax, (0, 1))(WEIGHTS, START)
    found = wrap(ft.grad(lambda w, y: loss(w, y, how), (0, 1)))(WEIGHTS, START)
    for a, b in zip(ft.tree.tree_leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("how", [("adjoint", "DOP853"), ("direct", "RK45")])
def test_a_batch_of_neural_odes(how: Any) -> None:
    starts = np.stack([START, -START, 2.0 * START])
    expected = jax.vmap(jax.grad(lambda y: loss_of_jax(WEIGHTS, y)))(starts)
    found = ft.vmap(ft.grad(lambda y: loss(WEIGHTS, y, how)))(starts)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("gradient", ["adjoint", "direct"])
def test_second_derivatives_of_a_neural_ode(gradient: str) -> None:
    """JAX's loop, unrolled by many small steps of a classical method, has no adjoint to agree with."""

    def unrolled(y0: Any) -> Any:
        def step(y: Any, h: Any) -> Any:
            f = lambda y: network(jnp, WEIGHTS, y)
            k1 = f(y)
            k2 = f(y + h / 2 * k1)
            k3 = f(y + h / 2 * k2)
            return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + f(y + h * k3)), y

        _, path = jax.lax.scan(step, y0, jnp.full(601, 1.5 / 600))
        return jnp.mean((path[::100] - TARGET) ** 2)

    found = ft.hessian(lambda y: loss(WEIGHTS, y, (gradient, "DOP853")))(START)
    np.testing.assert_allclose(found, jax.hessian(unrolled)(START), rtol=1e-6, atol=1e-8)


A = np.array([0.4, 0.9, 0.6])


def test_solutions_against_unrolling_in_jax() -> None:
    def objective(xp: Any, x: Any, a: Any) -> Any:
        return xp.sum((x - xp.sin(a)) ** 4 + (x - a) ** 2) + x[0] * x[1] * a[2]

    def descended(a: Any) -> Any:
        slope = jax.grad(lambda x: objective(jnp, x, a))
        return jax.lax.fori_loop(0, 600, lambda _, x: x - 0.1 * slope(x), jnp.zeros(3))

    minimum = lambda a: optimize.minimize(lambda x: objective(np, x, a), np.zeros(3), tol=1e-10).x
    np.testing.assert_allclose(
        ft.jacrev(minimum)(A), jax.jacfwd(descended)(A), rtol=1e-6, atol=1e-7
    )

    def iterated(a: Any) -> Any:
        return jax.lax.fori_loop(0, 200, lambda _, x: jnp.cos(x * a) / 2, jnp.ones(3))

    fixed = lambda a: optimize.fixed_point(lambda x: np.cos(x * a) / 2, np.ones(3), xtol=1e-13)
    np.testing.assert_allclose(ft.jacrev(fixed)(A), jax.jacfwd(iterated)(A), rtol=1e-8, atol=1e-10)
