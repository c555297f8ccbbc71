"""Differential tests against JAX in double precision: values, derivatives, conventions of complex
ones, mapping.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import functrace as ft
from tests.peers.functions import (
    COMPLEX_OF_REAL,
    HOLOMORPHIC,
    REAL_OF_COMPLEX,
    SCALAR,
    A,
    X,
    Z,
    vector,
)

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")

TOL = {"rtol": 1e-9, "atol": 1e-10}
scalar = pytest.mark.parametrize("f", SCALAR.values(), ids=SCALAR)
V = np.array([0.2, -0.5, 0.9])
BATCH = np.stack([X, X + 0.15, X[::-1] + 0.05])


@pytest.fixture(autouse=True, scope="module")
def double_precision() -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@scalar
def test_value_and_grad(f: Any) -> None:
    value, gradient = ft.value_and_grad(partial(f, np))(X)
    expected_value, expected = jax.jit(jax.value_and_grad(partial(f, jnp)))(X)
    np.testing.assert_allclose(value, expected_value, **TOL)
    np.testing.assert_allclose(gradient, expected, **TOL)


@scalar
def test_jvp(f: Any) -> None:
    found = ft.jvp(partial(f, np), (X,), (V,))
    expected = jax.jit(lambda x, v: jax.jvp(partial(f, jnp), (x,), (v,)))(X, V)
    np.testing.assert_allclose(found[0], expected[0], **TOL)
    np.testing.assert_allclose(found[1], expected[1], **TOL)


@scalar
def test_hessian(f: Any) -> None:
    np.testing.assert_allclose(
        ft.hessian(partial(f, np))(X),
        jax.jit(jax.hessian(partial(f, jnp)))(X),
        rtol=1e-8,
        atol=1e-8,
    )


@scalar
def test_vmap_of_grad(f: Any) -> None:
    found = ft.vmap(ft.grad(partial(f, np)))(BATCH)
    np.testing.assert_allclose(found, jax.jit(jax.vmap(jax.grad(partial(f, jnp))))(BATCH), **TOL)


@scalar
def test_grad_of_vmap(f: Any) -> None:
    found = ft.grad(lambda b: np.sum(np.sin(ft.vmap(partial(f, np))(b))))(BATCH)
    expected = jax.jit(jax.grad(lambda b: jnp.sum(jnp.sin(jax.vmap(partial(f, jnp))(b)))))(BATCH)
    np.testing.assert_allclose(found, expected, **TOL)


@scalar
def test_jvp_of_grad_and_grad_of_grad(f: Any) -> None:
    expected = jax.jit(lambda x, v: jax.jvp(jax.grad(partial(f, jnp)), (x,), (v,))[1])(X, V)
    np.testing.assert_allclose(
        ft.jvp(ft.grad(partial(f, np)), (X,), (V,))[1], expected, rtol=1e-8, atol=1e-8
    )
    found = ft.grad(lambda x: np.sum(ft.grad(partial(f, np))(x) * V))(X)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


def test_jacobians_and_pullback() -> None:
    np.testing.assert_allclose(
        ft.jacfwd(partial(vector, np))(X), jax.jacfwd(partial(vector, jnp))(X), **TOL
    )
    np.testing.assert_allclose(
        ft.jacrev(partial(vector, np))(X), jax.jacrev(partial(vector, jnp))(X), **TOL
    )
    _, pullback = ft.vjp(partial(vector, np), X)
    _, expected = jax.vjp(partial(vector, jnp), X)
    np.testing.assert_allclose(pullback(V)[0], expected(V)[0], **TOL)


@pytest.mark.parametrize(
    "in_axes, out_axes", [((0, None), 0), ((None, 0), 1), ((1, 0), 0), ((-1, 1), -1)]
)
def test_vmap_axes(in_axes: Any, out_axes: int) -> None:
    def f(xp: Any, w: Any, x: Any) -> Any:
        return xp.tanh(xp.sum(w * 2.0, axis=0) + xp.cos(x))

    w = (
        np.arange(9.0).reshape(3, 3)
        if in_axes[0] is None
        else np.arange(27.0).reshape(3, 3, 3) / 10
    )
    x = X if in_axes[1] is None else np.stack([X, V, X - V])
    found = ft.vmap(partial(f, np), in_axes=in_axes, out_axes=out_axes)(w, x)
    np.testing.assert_allclose(
        found, jax.vmap(partial(f, jnp), in_axes=in_axes, out_axes=out_axes)(w, x), **TOL
    )


def test_argnums_has_aux_and_pytrees() -> None:
    def f(xp: Any, p: Any, x: Any) -> Any:
        hidden = xp.tanh(p["w"] @ x + p["b"])
        return xp.sum(hidden**2), {"hidden": hidden}

    p = {"w": A, "b": V}
    (found_p, found_x), aux = ft.grad(partial(f, np), argnums=(0, 1), has_aux=True)(p, X)
    (expected_p, expected_x), expected_aux = jax.grad(
        partial(f, jnp), argnums=(0, 1), has_aux=True
    )(p, X)
    np.testing.assert_allclose(found_p["w"], expected_p["w"], **TOL)
    np.testing.assert_allclose(found_p["b"], expected_p["b"], **TOL)
    np.testing.assert_allclose(found_x, expected_x, **TOL)
    np.testing.assert_allclose(aux["hidden"], expected_aux["hidden"], **TOL)


# -- conventions of complex derivatives ------------------------------------------------------------


@pytest.mark.parametrize("f", HOLOMORPHIC.values(), ids=HOLOMORPHIC)
def test_holomorphic_grad(f: Any) -> None:
    found = ft.grad(partial(f, np), holomorphic=True)(Z)
    np.testing.assert_allclose(found, jax.grad(partial(f, jnp), holomorphic=True)(Z), **TOL)
    direction = Z[::-1] * 1j
    found = ft.jvp(partial(f, np), (Z,), (direction,))[1]
    np.testing.assert_allclose(found, jax.jvp(partial(f, jnp), (Z,), (direction,))[1], **TOL)


@pytest.mark.parametrize("f", HOLOMORPHIC.values(), ids=HOLOMORPHIC)
def test_holomorphic_jacobians(f: Any) -> None:
    for ours, theirs in ((ft.jacfwd, jax.jacfwd), (ft.jacrev, jax.jacrev)):
        found = ours(ft.grad(partial(f, np), holomorphic=True), holomorphic=True)(Z)
        expected = theirs(jax.grad(partial(f, jnp), holomorphic=True), holomorphic=True)(Z)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("f", REAL_OF_COMPLEX.values(), ids=REAL_OF_COMPLEX)
def test_gradient_of_real_function_of_complex_arguments(f: Any) -> None:
    np.testing.assert_allclose(ft.grad(partial(f, np))(Z), jax.grad(partial(f, jnp))(Z), **TOL)
    direction = Z[::-1] * 1j
    found = ft.jvp(partial(f, np), (Z,), (direction,))[1]
    np.testing.assert_allclose(found, jax.jvp(partial(f, jnp), (Z,), (direction,))[1], **TOL)


@pytest.mark.parametrize("f", COMPLEX_OF_REAL.values(), ids=COMPLEX_OF_REAL)
def test_real_function_through_complex_values(f: Any) -> None:
    np.testing.assert_allclose(ft.grad(partial(f, np))(X), jax.grad(partial(f, jnp))(X), **TOL)
    np.testing.assert_allclose(
        ft.hessian(partial(f, np))(X),
        jax.jit(jax.hessian(partial(f, jnp)))(X),
        rtol=1e-8,
        atol=1e-9,
    )


# -- choices at kinks and ties (abs'(0) is not among them: 1 in JAX, 0 in PyTorch and here) --------


@pytest.mark.parametrize(
    "name, x",
    [("max", [1.0, 1.0, 0.0]), ("min", [2.0, 0.0, 0.0]), ("sort", [3.0, 1.0, 2.0])],
)
def test_kinks_and_ties(name: str, x: list[float]) -> None:
    found = ft.grad(lambda x: np.sum(getattr(np, name)(x)))(np.array(x))
    np.testing.assert_allclose(
        found, jax.grad(lambda x: jnp.sum(getattr(jnp, name)(x)))(np.array(x)), **TOL
    )


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_binary_ties(name: str) -> None:
    x, y = np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])
    found = ft.grad(lambda x, y: np.sum(getattr(np, name)(x, y)), argnums=(0, 1))(x, y)
    expected = jax.grad(lambda x, y: jnp.sum(getattr(jnp, name)(x, y)), argnums=(0, 1))(x, y)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, **TOL)
