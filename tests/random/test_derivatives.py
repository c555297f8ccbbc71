"""Samples as functions of parameters: differences where the draw does not jump, and expectations in
closed form.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from tests.random.families import FAMILIES, Family

special = pytest.importorskip("scipy.special")
stats = pytest.importorskip("scipy.stats")
rnd = ft.random
SMOOTH = [f for f in FAMILIES if f.at and f.smooth]
with_parameters = pytest.mark.parametrize("family", SMOOTH, ids=lambda family: family.name)
KEY = rnd.key(21)


def directional(family: Family) -> tuple[Callable[[Any], Any], Any]:
    """A scalar function of all parameters of a draw, and these."""
    weights = np.random.default_rng(1).normal(size=np.shape(family(KEY)))
    return lambda p: np.sum(np.sin(family(KEY, *p)) * weights), np.array(family.at)


@pytest.mark.sampled(5)
@with_parameters
def test_derivatives_are_those_of_differences(family: Family) -> None:
    loss, at = directional(family)
    gradient = ft.grad(loss)(at)
    hessian = ft.hessian(loss)(at)
    for k, step in enumerate(1e-6 * np.eye(len(at)) if family.exact else ()):
        np.testing.assert_allclose(
            gradient[k], (loss(at + step) - loss(at - step)) / 2e-6, rtol=1e-6, atol=1e-7
        )
        rows = (ft.grad(loss)(at + step) - ft.grad(loss)(at - step)) / 2e-6
        np.testing.assert_allclose(hessian[k], rows, rtol=1e-5, atol=1e-6)
    for e in np.eye(len(at)):
        np.testing.assert_allclose(
            ft.jvp(loss, (at,), (e,))[1], gradient @ e, rtol=1e-10, atol=1e-13
        )
        np.testing.assert_allclose(
            ft.jvp(ft.grad(loss), (at,), (e,))[1], hessian @ e, rtol=1e-9, atol=1e-12
        )
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(ft.jit(ft.grad(loss))(at), gradient, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(ft.jit(ft.hessian(loss))(at), hessian, rtol=1e-10, atol=1e-12)
    stacked = np.stack([at, at * 0.99])
    np.testing.assert_allclose(
        ft.vmap(ft.grad(loss))(stacked), [ft.grad(loss)(p) for p in stacked], rtol=1e-11, atol=1e-13
    )


QUANTILES: dict[str, tuple[Callable[[Any, float], Any], Callable[[Any, float], Any], float]] = {
    "gamma": (
        lambda key, a: rnd.gamma(key, a, (40,)),
        lambda level, a: special.gammaincinv(a, level),
        2.3,
    ),
    "gamma/small": (
        lambda key, a: rnd.gamma(key, a, (40,)),
        lambda level, a: special.gammaincinv(a, level),
        0.3,
    ),
    "chisquare": (
        lambda key, a: rnd.chisquare(key, a, (40,)),
        lambda level, a: special.chdtri(a, 1 - level),
        5.0,
    ),
    "wald": (
        lambda key, a: rnd.wald(key, a, (40,)),
        lambda level, a: stats.invgauss(a).ppf(level),
        1.3,
    ),
    "wald/large": (
        lambda key, a: rnd.wald(key, a, (40,)),
        lambda level, a: stats.invgauss(a).ppf(level),
        6.0,
    ),
}
LEVELS = {
    "gamma": lambda x, a: special.gammainc(a, x), "gamma/small": lambda x, a: special.gammainc(a,
    x),
    "chisquare": lambda x, a: special.chdtr(a, x), "wald": lambda x, a: stats.invgauss(a).cdf(x),
    "wald/large": lambda x, a: stats.invgauss(a).cdf(x),
}  # fmt: skip


@pytest.mark.parametrize("name", QUANTILES)
def test_rejection_samples_have_derivatives_of_quantiles(name: str) -> None:
    draw, quantile, a = QUANTILES[name]
    x, slope = ft.jvp(lambda a: draw(KEY, a), (a,), (1.0,))
    level = LEVELS[name](x, a)
    kept = (level > 1e-3) & (level < 1 - 1e-3)
    assert kept.sum() > 30
    step = 1e-4 * a
    expected = (quantile(level, a + step) - quantile(level, a - step)) / (2 * step)
    np.testing.assert_allclose(slope[kept], expected[kept], rtol=1e-5)
    curved = ft.jvp(lambda a: ft.jvp(lambda a: draw(KEY, a), (a,), (1.0,))[1], (a,), (1.0,))[1]
    step = 1e-2 * a
    expected = (
        quantile(level, a + step) - 2 * quantile(level, a) + quantile(level, a - step)
    ) / step**2
    np.testing.assert_allclose(
        curved[kept], expected[kept], rtol=5e-3, atol=5e-3 * np.abs(expected[kept]).max()
    )


EXPECTATIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[float, ...]]] = {
    "uniform": (
        lambda key, n, a, b: rnd.uniform(key, (n,), None, a, b) ** 2,
        lambda a, b: (a * a + a * b + b * b) / 3,
        (0.5, 2.0),
    ),
    "gamma": (lambda key, n, a: rnd.gamma(key, a, (n,)) ** 2, lambda a: a * (a + 1), (1.7,)),
    "loggamma": (lambda key, n, a: rnd.loggamma(key, a, (n,)), lambda a: special.psi(a), (0.6,)),
    "beta": (lambda key, n, a, b: rnd.beta(key, a, b, (n,)), lambda a, b: a / (a + b), (0.7, 1.9)),
    "beta/square": (
        lambda key, n, a, b: rnd.beta(key, a, b, (n,)) ** 2,
        lambda a, b: a * (a + 1) / ((a + b) * (a + b + 1)),
        (0.7, 1.9),
    ),
    "t": (
        lambda key, n, v: np.abs(rnd.t(key, v, (n,))),
        lambda v: (
            2
            * np.sqrt(v)
            / (np.sqrt(np.pi) * (v - 1))
            * special.gamma((v + 1) / 2)
            / special.gamma(v / 2)
        ),
        (6.0,),
    ),
    "chisquare": (
        lambda key, n, v: np.sqrt(rnd.chisquare(key, v, (n,))),
        lambda v: np.sqrt(2) * special.gamma((v + 1) / 2) / special.gamma(v / 2),
        (3.0,),
    ),
    "f": (
        lambda key, n, a, b: rnd.f(key, a, b, (n,)) ** 0.5,
        lambda a, b: (
            np.sqrt(b / a) * special.beta((a + 1) / 2, (b - 1) / 2) / special.beta(a / 2, b / 2)
        ),
        (4.0, 9.0),
    ),
    "wald": (lambda key, n, m: rnd.wald(key, m, (n,)) ** 2, lambda m: m**3 + m**2, (0.8,)),
    "weibull_min": (
        lambda key, n, s, c: rnd.weibull_min(key, s, c, (n,)),
        lambda s, c: s * special.gamma(1 + 1 / c),
        (1.5, 1.8),
    ),
    "pareto": (lambda key, n, b: np.log(rnd.pareto(key, b, (n,))), lambda b: 1 / b, (2.5,)),
    "lognormal": (
        lambda key, n, s: rnd.lognormal(key, s, (n,)),
        lambda s: np.exp(s * s / 2),
        (0.4,),
    ),
    "generalized_normal": (
        lambda key, n, p: np.abs(rnd.generalized_normal(key, p, (n,))),
        lambda p: special.gamma(2 / p) / special.gamma(1 / p),
        (1.4,),
    ),
    "triangular": (
        lambda key, n, a, b, c: rnd.triangular(key, a, b, c, (n,)) ** 2,
        lambda a, b, c: (a * a + b * b + c * c + a * b + a * c + b * c) / 6,
        (-1.0, 0.5, 2.0),
    ),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", EXPECTATIONS)
def test_gradients_of_expectations(name: str) -> None:
    """Gradients of sample means agree with the closed form within statistical error."""
    draw, exact, at = EXPECTATIONS[name]
    count = 30_000
    for k, x in enumerate(at):

        def one(x: Any, k: int = k) -> Any:
            return draw(KEY, count, *at[:k], x, *at[k + 1 :])

        def exactly(x: float, k: int = k) -> Any:
            return exact(*at[:k], x, *at[k + 1 :])

        slopes = ft.jvp(one, (x,), (1.0,))[1]
        expected = (exactly(x + 1e-5) - exactly(x - 1e-5)) / 2e-5
        assert abs(slopes.mean() - expected) < 4 * slopes.std() / math.sqrt(count), (
            k,
            slopes.mean(),
            expected,
        )
        assert slopes.std() / math.sqrt(count) < 0.1 * abs(expected) + 0.02
        curved = ft.jvp(lambda x: ft.jvp(one, (x,), (1.0,))[1], (x,), (1.0,))[1]
        expected = (exactly(x + 1e-3) - 2 * exactly(x) + exactly(x - 1e-3)) / 1e-6
        assert abs(curved.mean() - expected) < 4 * curved.std() / math.sqrt(count) + 1e-4, (
            k,
            curved.mean(),
            expected,
        )


def test_small_shapes_have_derivatives() -> None:
    for a in (1e-4, 1e-2):
        slope = ft.grad(lambda a: np.mean(a * rnd.loggamma(KEY, a, (1000,))))(a)
        # a log x is log u + O(a): what a moves is nearly nothing of it
        assert abs(slope) < 5.0
        assert np.isfinite(ft.grad(lambda a: np.sum(rnd.gamma(KEY, a, (100,))))(a))
        corner = ft.grad(lambda a: rnd.dirichlet(KEY, np.stack([a, 2 * a, a]))[0])(a)
        assert np.isfinite(corner)


def test_discrete_samples_are_piecewise_constant() -> None:
    assert ft.grad(lambda p: np.sum(rnd.bernoulli(KEY, p, (9,)) * 1.0))(0.3) == 0.0
    assert ft.grad(lambda m: np.sum(rnd.poisson(KEY, m, (9,)) * m))(3.0) == np.sum(
        rnd.poisson(KEY, 3.0, (9,))
    )
    weights = np.arange(4.0)
    by_logits = ft.grad(lambda w: np.sum(w[rnd.categorical(KEY, w, shape=(9,))]))(weights)
    np.testing.assert_array_equal(
        by_logits, np.bincount(rnd.categorical(KEY, weights, shape=(9,)), minlength=4)
    )


def test_float32_parameters() -> None:
    gradient = ft.grad(lambda a: np.sum(rnd.gamma(KEY, a, (5,), np.float32)))(np.float32(1.5))
    assert gradient.dtype == np.float32
    np.testing.assert_allclose(
        gradient, ft.grad(lambda a: np.sum(rnd.gamma(KEY, a, (5,))))(1.5), rtol=1e-5
    )
    assert rnd.gamma(KEY, np.float32(1.5)).dtype == np.float64
