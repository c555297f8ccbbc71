"""Integrals by ``functrace.scipy.integrate``: SciPy's values, derivatives against differences, and
every transform.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.integrate

import functrace as ft
from functrace.errors import (
    ArgumentError,
    NotDifferentiableError,
    ShapeError,
    UnsupportedFunctionError,
)
from functrace.scipy import integrate
from tests.compositions.functions import jacobian_by_differences

Z = np.array([0.3, 1.4, 0.8])


def one(x: Any) -> Any:
    """A number as a vector."""
    return np.reshape(x, (1,))


INTEGRALS: dict[str, Callable[[Any], Any]] = {
    "quad": lambda z: one(
        integrate.quad(lambda x, c: np.exp(-c * x) * np.sin(x * z[0]), z[0], z[1], (z[2],))[0]
    ),
    "quad, to infinity": lambda z: one(
        integrate.quad(lambda x: np.exp(-z[2] * x**2), -np.inf, np.inf)[0]
    ),
    "quad, from a limit": lambda z: one(
        integrate.quad(lambda x: np.exp(-z[2] * x), z[0], np.inf)[0]
    ),
    "quad, points": lambda z: one(
        integrate.quad(lambda x: np.abs(x - 0.5) * z[2], z[0], z[1], points=[0.5])[0]
    ),
    "quad, weight": lambda z: one(
        integrate.quad(lambda x: np.exp(z[2] * x), z[0], z[1], weight="cos", wvar=3.0)[0]
    ),
    "quad_vec": lambda z: integrate.quad_vec(lambda x: np.sin(z * x) * x, z[0], z[1])[0],
    "quad_vec, args": lambda z: integrate.quad_vec(
        lambda x, c: np.cos(c) * x, 0.0, z[1], args=(z,)
    )[0],
    "fixed_quad": lambda z: one(
        integrate.fixed_quad(lambda x, c: np.exp(-c * x), z[0], z[1], (z[2],), n=4)[0]
    ),
}
SAMPLES = np.random.default_rng(5).normal(size=(3, 9))
PLACES = np.sort(np.random.default_rng(6).uniform(0.0, 3.0, 9))


def _sampled(name: str, y: Any, x: Any = None, **how: Any) -> Any:
    given = {} if x is None else {"x": x}
    return getattr(integrate, name)(y, **given, **how)


SAMPLED: dict[str, Callable[[Any], Any]] = {
    f"{name}, {size} {word}": lambda z, name=name, size=size, x=x: np.reshape(
        _sampled(name, SAMPLES[:, :size] * z[:, None] ** 2, None if x is None else x[:size] * z[1]),
        (-1,),
    )
    for name in ("trapezoid", "cumulative_trapezoid", "simpson", "cumulative_simpson")
    for size in (2, 3, 4, 8, 9)
    for word, x in (("even", None), ("uneven", PLACES))
} | {
    "romb": lambda z: integrate.romb(SAMPLES * z[:, None] ** 2, dx=z[0]),
    "trapezoid, dx": lambda z: integrate.trapezoid(SAMPLES * z[:, None], dx=z[1]),
    "simpson, another axis": lambda z: integrate.simpson(
        (SAMPLES * z[:, None] ** 2).T, x=PLACES, axis=0
    ),
    "cumulative, start": lambda z: np.reshape(
        integrate.cumulative_simpson(SAMPLES * z[:, None], initial=z[0]), (-1,)
    ),
    "cumulative, from 0": lambda z: np.reshape(
        integrate.cumulative_trapezoid(SAMPLES.T * z**2, axis=0, initial=0, dx=z[1]), (-1,)
    ),
}
ALL = INTEGRALS | SAMPLED


@pytest.mark.sampled(6)
@pytest.mark.parametrize("f", ALL.values(), ids=ALL)
def test_values_and_derivatives(f: Any) -> None:
    found = ft.jacrev(f)(Z)
    np.testing.assert_allclose(ft.vjp(f, Z)[0], f(Z), rtol=1e-9)
    np.testing.assert_allclose(found, jacobian_by_differences(f, Z), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(ft.jacfwd(f)(Z), found, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(ft.jit(ft.jacrev(f))(Z), found, rtol=1e-12, atol=1e-14)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("f", INTEGRALS.values(), ids=INTEGRALS)
def test_second_derivatives_and_vmap(f: Any) -> None:
    loss = lambda z: np.sum(f(z) ** 2)
    found = ft.hessian(loss)(Z)
    np.testing.assert_allclose(
        found, jacobian_by_differences(ft.grad(loss), Z), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(ft.jit(ft.hessian(loss))(Z), found, rtol=1e-9, atol=1e-10)
    batch = np.stack([Z, 1.1 * Z])
    np.testing.assert_allclose(
        ft.vmap(ft.grad(loss))(batch), np.stack([ft.grad(loss)(z) for z in batch]), rtol=1e-9
    )


def test_plain_calls_are_scipys_own() -> None:
    found = []
    ft.grad(lambda a: (found.append(integrate.quad(np.sin, 0.0, 1.0)), a)[1])(1.0)
    assert found[0] == integrate.quad(np.sin, 0.0, 1.0) == scipy.integrate.quad(np.sin, 0.0, 1.0)


def test_refusals() -> None:
    with pytest.raises(
        NotDifferentiableError, match=r"the estimated error of scipy\.integrate\.quad"
    ):
        ft.grad(lambda b: integrate.quad(np.sin, 0.0, b)[1])(1.0)
    with pytest.raises(UnsupportedFunctionError, match="weight='cauchy'"):
        ft.grad(lambda b: integrate.quad(np.sin, 0.0, b, weight="cauchy", wvar=0.5)[0])(1.0)
    with pytest.raises(ArgumentError, match="no full_output"):
        ft.grad(lambda b: integrate.quad(np.sin, 0.0, b, full_output=1)[0])(1.0)
    with pytest.raises(ShapeError, match="power of 2"):
        ft.grad(lambda z: np.sum(integrate.romb(z * np.ones(4))))(1.0)


@pytest.mark.parametrize(
    "name", ["trapezoid", "cumulative_trapezoid", "simpson", "cumulative_simpson", "romb"]
)
def test_integrals_of_float32_have_the_dtype_of_scipy(name: str) -> None:
    for size in (5,) if name == "romb" else (2, 4, 5):
        y = SAMPLES[:, :size].astype(
            np.float32
        )  # of a vector, SciPy's simpson makes a double, of a matrix not
        for how in ({}, {"dx": 0.3}) if name == "romb" else ({}, {"dx": 0.3}, {"x": PLACES[:size]}):
            wanted = getattr(scipy.integrate, name)(y, **how)
            found = ft.jit(lambda y, how=how: getattr(integrate, name)(y, **how))(y)
            assert found.dtype == wanted.dtype
            np.testing.assert_allclose(found, wanted, rtol=1e-5)
