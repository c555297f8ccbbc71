"""Whole programs against JAX: a regression of counts, a Gaussian process, a spectral solver of a
differential equation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.special

import functrace as ft
from functrace.scipy import linalg, stats

jax = pytest.importorskip("jax")
peer = pytest.importorskip("jax.scipy")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(autouse=True, scope="module")
def double_precision() -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def test_negative_binomial_regression() -> None:
    rng = np.random.default_rng(0)
    features = np.stack([np.ones(40), rng.normal(size=40)], 1)
    counts = rng.negative_binomial(3.0, 0.4, size=40).astype(float)

    def loss(xp: Any, special: Any, w: Any) -> Any:
        mean, size = xp.exp(features @ w[:2]), xp.exp(w[2])
        log = special.gammaln
        terms = log(counts + size) - log(size) - log(counts + 1.0)
        return -xp.mean(
            terms + size * xp.log(size / (size + mean)) + counts * xp.log(mean / (size + mean))
        )

    w = np.array([0.3, -0.2, 0.5])
    ours = lambda w: loss(np, scipy.special, w)
    theirs = lambda w: loss(jax.numpy, peer.special, w)
    np.testing.assert_allclose(ft.jit(ft.grad(ours))(w), jax.grad(theirs)(w), rtol=1e-10)
    np.testing.assert_allclose(ft.hessian(ours)(w), jax.hessian(theirs)(w), rtol=1e-9)


def test_gaussian_process_by_hyperparameters() -> None:
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(-3.0, 3.0, 25))
    y = np.sin(x) + 0.1 * rng.normal(size=25)

    def loss(xp: Any, linalg: Any, h: Any) -> Any:
        length, size, noise = xp.exp(h[0]), xp.exp(h[1]), xp.exp(h[2])
        kernel = size**2 * xp.exp(
            -0.5 * ((x[:, None] - x[None, :]) / length) ** 2
        ) + noise**2 * xp.eye(25)
        factor = linalg.cholesky(kernel, lower=True)
        scaled = linalg.solve_triangular(factor, y, lower=True)
        return 0.5 * xp.sum(scaled**2) + xp.sum(xp.log(xp.diagonal(factor)))

    h = np.array([0.1, -0.2, -1.5])
    ours = lambda h: loss(np, linalg, h)
    theirs = lambda h: loss(jax.numpy, peer.linalg, h)
    np.testing.assert_allclose(ours(h), theirs(h), rtol=1e-11)
    np.testing.assert_allclose(ft.grad(ours)(h), jax.grad(theirs)(h), rtol=1e-9)
    np.testing.assert_allclose(
        ft.jit(ft.hessian(ours))(h), jax.hessian(theirs)(h), rtol=1e-8, atol=1e-8
    )
    assert "inv" not in [
        equation.primitive.name for equation in ft.trace(ft.grad(ours))(h).equations
    ]


def test_kuramoto_sivashinsky_through_fifty_steps() -> None:
    n, length, dt = 64, 22.0, 0.05
    k = 2 * np.pi * np.fft.rfftfreq(n, length / n)
    linear = np.exp(dt * (k**2 - k**4))
    kept = k < 2 / 3 * np.max(k)
    start = np.cos(2 * np.pi * np.arange(n) / n) + 0.3 * np.sin(6 * np.pi * np.arange(n) / n)

    def loss(xp: Any, u: Any) -> Any:
        spectrum = xp.fft.rfft(u)
        for _ in range(50):
            squared = xp.fft.rfft(xp.fft.irfft(spectrum, n=n) ** 2)
            spectrum = linear * (spectrum - 0.5j * dt * k * kept * squared)
        return xp.mean(xp.fft.irfft(spectrum, n=n) ** 2)

    found, expected = (
        ft.jit(ft.grad(lambda u: loss(np, u)))(start),
        jax.grad(lambda u: loss(jax.numpy, u))(start),
    )
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


DENSITIES = {
    "chi2": (3.3,), "logistic": (), "gennorm": (1.6,), "pareto": (0.7,), "truncnorm": (-0.5, 2.0),
    "vonmises": (2.3,),
    "wrapcauchy": (0.4,), "expon": (), "uniform": (), "beta": (1.5, 2.3),
}  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", DENSITIES)
def test_log_densities_by_everything(name: str) -> None:
    x = np.array([1.3, 1.7, 2.2]) if name == "pareto" else np.array([0.2, 0.5, 0.9])
    x = x * 0.3 if name in ("uniform", "beta") else x
    args = np.array(
        [*DENSITIES[name], *(() if name in ("gennorm", "vonmises", "wrapcauchy") else (0.03, 1.2))]
    )
    ours = lambda a, f=getattr(stats, name): np.sum(f.logpdf(x, *a))
    theirs = lambda a, f=getattr(peer.stats, name): jax.numpy.sum(f.logpdf(x, *a))
    np.testing.assert_allclose(ours(args), theirs(args), rtol=1e-10)
    np.testing.assert_allclose(ft.grad(ours)(args), jax.grad(theirs)(args), rtol=1e-8, atol=1e-10)
