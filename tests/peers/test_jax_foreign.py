"""Differential tests of ``pure_callback`` against JAX in double precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrace as ft

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")

METHODS = ["sequential", "expand_dims", "broadcast_all"]
X = np.array([0.3, -0.7, 1.1])
BATCH = np.stack([X, X + 0.15, X[::-1] + 0.05, -X])


@pytest.fixture(autouse=True, scope="module")
def double_precision() -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def callback(lib: Any, method: str, f: Callable[..., Any], shapes: Any, *args: Any) -> Any:
    if lib is ft:
        return ft.pure_callback(f, shapes, *args, vmap=method)
    return jax.pure_callback(f, shapes, *args, vmap_method=method)


def like(lib: Any, x: Any) -> Any:
    return x if lib is ft else jax.ShapeDtypeStruct(x.shape, x.dtype)


def outer(lib: Any, xp: Any, method: str, seen: list[Any]) -> Any:
    """Two arguments of different shapes, and a pytree of results."""

    def f(s: Any, x: Any) -> Any:
        s, x = np.asarray(s), np.asarray(x)
        seen.append((s.shape, x.shape))
        return {"scaled": s[..., None] * x, "sum": np.sum(x, -1) + s}

    def g(s: Any, x: Any) -> Any:
        out = callback(lib, method, f, {"scaled": like(lib, x), "sum": like(lib, s)}, s, x)
        return xp.sum(xp.sin(out["scaled"])) * out["sum"]

    return g


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("axes", [(0, 0), (None, 0), (0, None)])
@pytest.mark.parametrize("jitted", [False, True])
def test_mapped(method: str, axes: tuple[Any, Any], jitted: bool) -> None:
    arguments = (BATCH[:, 0] if axes[0] == 0 else np.float64(0.4), BATCH if axes[1] == 0 else X)
    found, calls = [], []
    for lib, xp in ((ft, np), (jax, jnp)):
        seen: list[Any] = []
        mapped = lib.vmap(outer(lib, xp, method, seen), axes)
        found.append((lib.jit(mapped) if jitted else mapped)(*arguments))
        calls.append(seen)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)
    assert calls[0] == calls[1]


@pytest.mark.parametrize("method", METHODS)
def test_mapped_twice(method: str) -> None:
    found, calls = [], []
    for lib, xp in ((ft, np), (jax, jnp)):
        seen: list[Any] = []
        inner = lib.vmap(outer(lib, xp, method, seen), (None, 0))
        found.append(lib.jit(lib.vmap(inner, (0, None)))(BATCH[:, 0], BATCH))
        calls.append(seen)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)
    assert sorted(calls[0]) == sorted(calls[1])


@pytest.mark.parametrize("transform", ["grad", "jit grad", "vmap grad", "grad of grad"])
def test_custom_rules_around(transform: str) -> None:
    found = []
    for lib, xp in ((ft, np), (jax, jnp)):

        def sine(f: Callable[[Any], Any], lib: Any = lib) -> Callable[[Any], Any]:
            return lambda x: callback(
                lib, "expand_dims", lambda x: f(np.asarray(x)), like(lib, x), x
            )

        sin, cos = lib.custom_vjp(sine(np.sin)), lib.custom_vjp(sine(np.cos))
        sin.defvjp(lambda x, sin=sin: (sin(x), x), lambda x, ct, cos=cos: (ct * cos(x),))
        cos.defvjp(lambda x, cos=cos: (cos(x), x), lambda x, ct, sin=sin: (-ct * sin(x),))
        g = lambda x, sin=sin, xp=xp: xp.sum(sin(x) * x)
        if transform == "grad of grad":
            h = lib.grad(lambda x, g=g, lib=lib, xp=xp: xp.sum(lib.grad(g)(x) ** 2))
        else:
            h = lib.grad(g)
        h = lib.jit(h) if "jit" in transform else lib.vmap(h) if "vmap" in transform else h
        found.append(h(BATCH if "vmap" in transform else X))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)


def test_no_derivative() -> None:
    for lib in (ft, jax):
        f = lambda x, lib=lib: callback(lib, "sequential", np.sin, like(lib, x), x)[0]
        with pytest.raises((NotImplementedError, ValueError)):
            lib.grad(f)(X)
