"""Sparse derivatives have the values and patterns of asdex (JAX) and CasADi, by no more sweeps."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import functrace as ft

X = np.random.default_rng(2).uniform(0.4, 1.6, 36)
RESULTS = np.arange(36.0) / 7.0


def grid(np: Any, x: Any) -> Any:
    """A reaction and diffusion on a 6 x 6 grid."""
    u = np.reshape(x, (6, 6))
    v = np.pad(u, 1)
    diffusion = v[2:, 1:-1] + v[:-2, 1:-1] + v[1:-1, 2:] + v[1:-1, :-2] - 4.0 * u
    return np.reshape(diffusion + u * (1.0 - u), (36,))


def brusselator(np: Any, x: Any) -> Any:
    u, v = np.reshape(x, (2, 18))
    drift = 1.0 + u**2 * v - 4.0 * u
    left, right = np.roll(u, 1), np.roll(u, -1)
    return np.concatenate([drift + left - 2.0 * u + right, 3.0 * u - u**2 * v])


def tridiagonal_energy(np: Any, x: Any) -> Any:
    return np.sum((x[1:] - x[:-1] ** 2) ** 2) + np.sum(np.cos(x))


JACOBIANS: dict[str, Any] = {
    "grid": grid,
    "brusselator": brusselator,
    "bands": lambda np, x: x[2:] * np.exp(x[1:-1]) + np.sin(x[:-2]),
    "elementwise": lambda np, x: np.tanh(x) * x,
    "one dense row": lambda np, x: np.concatenate([x * 2.0, np.sum(x**2)[None]]),
    "least squares": lambda np, x: np.concatenate([x[1:] - x[:-1] ** 2, x - RESULTS]),
    "blocks": lambda np, x: np.reshape(np.sin(np.reshape(x, (12, 3)) @ np.ones((3, 2))), (24,)),
    "gathered": lambda np, x: x[np.array([3, 7, 7, 30])] * x[np.array([0, 1, 2, 3])],
    "of everything": lambda np, x: x / np.sum(x**2),
}
HESSIANS: dict[str, Any] = {
    "tridiagonal": tridiagonal_energy,
    "rosenbrock": lambda np, x: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2),
    "arrow": lambda np, x: x[0] * np.sum(x[1:] ** 3) + np.sum(np.exp(x)),
    "separable": lambda np, x: np.sum(np.sin(x) * x),
    "grid": lambda np, x: np.sum(np.diff(np.reshape(x, (6, 6)), axis=0) ** 4) + np.sum(
        np.diff(np.reshape(x, (6, 6)), axis=1) ** 4
    ),
    "pairs": lambda np, x: np.sum(np.exp(x[::2] * x[1::2])),
}  # fmt: skip


def positions(rows: Any, columns: Any) -> set[tuple[int, int]]:
    return set(zip(np.asarray(rows).tolist(), np.asarray(columns).tolist(), strict=True))


def compare_with_asdex(f: Any, of: str) -> None:
    """Compare values, patterns and numbers of sweeps."""
    jax = pytest.importorskip("jax")
    asdex = pytest.importorskip("asdex")
    ours = getattr(ft, f"sparse_{of}")(lambda x: f(np, x))
    with jax.enable_x64(True):
        theirs = lambda x: f(jax.numpy, x)
        x = jax.numpy.asarray(X)
        pattern = getattr(asdex, f"{of}_sparsity")(theirs, x)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", asdex.DenseColoringWarning)
            colours = getattr(asdex, f"{of}_coloring")(theirs, x).num_colors
            values = np.asarray(getattr(asdex, of)(theirs, x)(x).todense())
        dense = np.asarray(getattr(jax, "jacfwd" if of == "jacobian" else of)(theirs)(x))
    plan, found = ours.plan(X), ours(X)
    np.testing.assert_allclose(found.toarray(), dense, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(values, dense, rtol=1e-11, atol=1e-12)
    mine = positions(*plan.pattern.nonzero())
    assert mine >= positions(*np.nonzero(dense))
    assert mine == positions(pattern.rows, pattern.cols)
    assert plan.sweeps <= colours


@pytest.mark.parametrize("name", JACOBIANS)
def test_jacobians_against_asdex(name: str) -> None:
    compare_with_asdex(JACOBIANS[name], "jacobian")


@pytest.mark.parametrize("name", HESSIANS)
def test_hessians_against_asdex(name: str) -> None:
    compare_with_asdex(HESSIANS[name], "hessian")


def in_casadi(f: Any, of: str) -> tuple[Any, Any, int]:
    """Return CasADi's values and pattern of a derivative, and its number of colours."""
    casadi = pytest.importorskip("casadi")
    u = casadi.SX.sym("u", X.size)
    made = f(casadi, u)
    theirs = casadi.jacobian(made, u) if of == "jacobian" else casadi.hessian(made, u)[0]
    values = np.array(casadi.Function("d", [u], [theirs])(X))
    pattern = np.array(casadi.DM(theirs.sparsity(), 1)) != 0
    sparsity = theirs.sparsity()
    if of == "hessian":
        return values, pattern, sparsity.star_coloring().size2()
    turned = sparsity.T
    forward, reverse = turned.uni_coloring(sparsity).size2(), sparsity.uni_coloring(turned).size2()
    return values, pattern, min(forward, reverse)


def shifted(casadi: Any, v: Any) -> tuple[Any, Any]:
    n = v.shape[0]
    return casadi.vertcat(v[n - 1], v[: n - 1]), casadi.vertcat(v[1:], v[0])


def brusselator_in_casadi(casadi: Any, x: Any) -> Any:
    u, v = x[:18], x[18:]
    left, right = shifted(casadi, u)
    drift = 1.0 + u**2 * v - 4.0 * u
    return casadi.vertcat(drift + left - 2.0 * u + right, 3.0 * u - u**2 * v)


def grid_in_casadi(casadi: Any, x: Any) -> Any:
    u = casadi.reshape(x, 6, 6)
    zero = casadi.SX(1, 6)
    up, down = casadi.vertcat(u[1:, :], zero), casadi.vertcat(zero, u[:5, :])
    left, right = casadi.horzcat(u[:, 1:], zero.T), casadi.horzcat(zero.T, u[:, :5])
    return casadi.reshape(up + down + left + right - 4.0 * u + u * (1.0 - u), 36, 1)


IN_CASADI: dict[str, tuple[str, Any]] = {
    "grid": ("jacobian", grid_in_casadi),
    "brusselator": ("jacobian", brusselator_in_casadi),
    "bands": (
        "jacobian", lambda c, x: x[2:] * c.exp(x[1:-1]) + c.sin(x[:-2]),
    ),
    "elementwise": ("jacobian", lambda c, x: c.tanh(x) * x),
    "one dense row": ("jacobian", lambda c, x: c.vertcat(x * 2.0, c.sumsqr(x))),
    "least squares": ("jacobian", lambda c, x: c.vertcat(x[1:] - x[:-1] ** 2, x - RESULTS)),
    "tridiagonal": (
        "hessian", lambda c, x: c.sumsqr(x[1:] - x[:-1] ** 2) + c.sum1(c.cos(x)),
    ),
    "arrow": ("hessian", lambda c, x: x[0] * c.sum1(x[1:] ** 3) + c.sum1(c.exp(x))),
    "separable": ("hessian", lambda c, x: c.sum1(c.sin(x) * x)),
    "pairs": ("hessian", lambda c, x: c.sum1(c.exp(x[::2] * x[1::2]))),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_CASADI)
def test_derivatives_against_casadi(name: str) -> None:
    of, theirs = IN_CASADI[name]
    values, pattern, colours = in_casadi(theirs, of)
    f = {"jacobian": JACOBIANS, "hessian": HESSIANS}[of][name]
    ours = getattr(ft, f"sparse_{of}")(lambda x: f(np, x))
    plan = ours.plan(X)
    np.testing.assert_allclose(ours(X).toarray(), values, rtol=1e-11, atol=1e-12)
    np.testing.assert_array_equal(plan.pattern.toarray(), pattern)
    assert plan.sweeps <= colours
