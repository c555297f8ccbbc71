"""`functrace.jet` has the conventions of JAX's, and sparse derivatives the patterns of CasADi's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft

FUNCTIONS: dict[str, Any] = {
    "sin": lambda np, x: np.sin(x),
    "exp of a square": lambda np, x: np.exp(-(x**2)),
    "quotient": lambda np, x: np.tanh(x) / (1.0 + x**2),
    "product": lambda np, x: np.sum(x) * np.log(x),
    "matmul": lambda np, x: np.reshape(x, (2, 2)) @ np.reshape(np.cos(x), (2, 2)),
}


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_jet_equals_that_of_jax(name: str, scaled: bool) -> None:
    jax = pytest.importorskip("jax")
    from jax.experimental.jet import jet

    f, rng = FUNCTIONS[name], np.random.default_rng(1)
    x, series = rng.uniform(0.3, 1.0, 4), list(rng.standard_normal((4, 4)))
    value, terms = ft.jet(lambda x: f(np, x), (x,), (series,), factorial_scaled=scaled)
    with jax.enable_x64(True):
        given = [jax.numpy.asarray(s) for s in series]
        expected, wanted = jet(
            lambda x: f(jax.numpy, x),
            (jax.numpy.asarray(x),),
            (given,),
            factorial_scaled=scaled,
        )
        np.testing.assert_allclose(value, expected, rtol=1e-12)
        for found, other in zip(terms, wanted, strict=True):
            np.testing.assert_allclose(found, other, rtol=1e-9, atol=1e-11)


UNARY = (
    "sin", "cos", "tan", "exp", "exp2", "expm1", "log", "log1p", "sqrt", "square", "sinh", "cosh",
    "tanh", "arcsin", "arctan", "arcsinh", "arctanh", "negative", "reciprocal", "cbrt", "abs",
)  # fmt: skip
BINARY = ("add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "logaddexp")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_jets_of_every_order_equal_those_of_jax(name: str) -> None:
    jax = pytest.importorskip("jax")
    from jax.experimental.jet import jet

    rng = np.random.default_rng(7)
    count = 2 if name in BINARY else 1
    points = tuple(rng.uniform(0.2, 0.8, (count, 3)))
    ours, theirs = getattr(np, name), getattr(jax.numpy, name)
    for order in range(1, 7):  # (JAX's takes no empty series)
        series = tuple(tuple(rng.standard_normal((order, 3))) for _ in range(count))
        value, terms = ft.jet(ours, points, series)
        with jax.enable_x64(True):
            try:
                expected, wanted = jet(theirs, points, tuple(map(list, series)))
            except (NotImplementedError, TypeError, KeyError) as error:
                pytest.skip(f"JAX has no jet of {name}: {error}")
            np.testing.assert_allclose(value, expected, rtol=1e-12)
            for found, other in zip(terms, wanted, strict=True):
                np.testing.assert_allclose(found, other, rtol=1e-8, atol=1e-8)
    assert ft.jet(ours, points, ((),) * count)[1] == []


LAPLACIANS: dict[str, Any] = {
    "network": lambda np, x: np.sum(np.tanh(np.reshape(WEIGHTS, (24, 24)) @ np.sin(x)) ** 2),
    "separable": lambda np, x: np.sum(np.sin(x) * np.exp(x)),
    "neighbours": lambda np, x: np.sum(np.cos(x[1:] * x[:-1])),
    "determinant": lambda np, x: np.linalg.slogdet(
        np.reshape(np.concatenate([x, x[:1] ** 2]), (5, 5)) + 4.0 * np.eye(5)
    )[1],
    "quotient": lambda np, x: x[0] / (1.0 + np.sum(x**2)) + np.sqrt(np.sum(x**2)),
}
WEIGHTS = np.random.default_rng(0).standard_normal(576) / 5.0


@pytest.mark.parametrize("name", LAPLACIANS)
def test_laplacians_equal_those_of_jax_and_folx(name: str) -> None:
    jax = pytest.importorskip("jax")
    f, x = LAPLACIANS[name], np.random.default_rng(3).uniform(0.3, 1.0, 24)
    found, value = ft.laplacian(lambda x: f(np, x), has_value=True)(x)[::-1]
    with jax.enable_x64(True):
        there, theirs = jax.numpy.asarray(x), lambda x: f(jax.numpy, x)
        np.testing.assert_allclose(value, theirs(there), rtol=1e-12)
        expected = jax.numpy.trace(jax.hessian(theirs)(there))
        np.testing.assert_allclose(found, expected, rtol=1e-10)
        folx = pytest.importorskip("folx")
        np.testing.assert_allclose(
            found, folx.ForwardLaplacianOperator(0)(theirs)(there)[0], rtol=1e-10
        )


def test_sparse_derivatives_equal_those_of_casadi() -> None:
    casadi = pytest.importorskip("casadi")
    n = 12
    x = np.linspace(0.2, 1.3, n)

    def residual(x: Any) -> Any:
        return x[1:] * np.exp(x[:-1]) + x[0]

    def energy(x: Any) -> Any:
        return np.sum((x[1:] - x[:-1] ** 2) ** 2) + x[0] * np.sum(x**3)

    u = casadi.SX.sym("u", n)
    made = u[1:] * casadi.exp(u[:-1]) + u[0]
    total = casadi.sumsqr(u[1:] - u[:-1] ** 2) + u[0] * casadi.sum1(u**3)
    for f, theirs, of in (
        (residual, casadi.jacobian(made, u), ft.sparse_jacobian),
        (energy, casadi.hessian(total, u)[0], ft.sparse_hessian),
    ):
        expected = casadi.Function("d", [u], [theirs])(x)
        found = of(f)(x)
        np.testing.assert_allclose(found.toarray(), np.array(expected), rtol=1e-11, atol=1e-12)
        pattern = np.array(casadi.DM(theirs.sparsity(), 1)) != 0
        np.testing.assert_array_equal(of(f).plan(x).pattern.toarray(), pattern)
        coloured = (
            theirs.sparsity().star_coloring()
            if f is energy
            else (theirs.sparsity().T.uni_coloring(theirs.sparsity()))
        )
        assert of(f).plan(x).sweeps <= coloured.size2()
