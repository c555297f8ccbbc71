"""Samples: SciPy's numbers, moved with the parameters as quantiles are; never frozen in silence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats

import functrace as ft
from functrace.errors import ConcretizationError
from functrace.scipy import stats
from tests.cases.distributions import COUNTS, SHAPES

WITH_SHAPES = [name for name in SHAPES if SHAPES[name]]


def quantiles(name: str, z: Any, before: Any, after: Any) -> Any:
    """Where a sample goes when shapes change, by SciPy's quantile function, on the side that has
    digits.
    """
    d = getattr(scipy.stats, name)
    low = d.cdf(z, *before)
    return np.where(low < 0.5, d.ppf(low, *after), d.isf(d.sf(z, *before), *after))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", WITH_SHAPES)
def test_samples_move_as_quantiles_do(name: str) -> None:
    shapes = np.array(SHAPES[name])

    def sample(shapes: Any) -> Any:
        return getattr(stats, name).rvs(*shapes, size=8, random_state=3)

    z = sample(shapes)
    t = 0.3 + 0.4 * np.arange(len(shapes))
    h = 1e-4 if name == "vonmises" else 1e-5
    ends = [quantiles(name, z, shapes, shapes + step * h * t) for step in (-2, -1, 1, 2)]
    slope = (8 * (ends[2] - ends[1]) - (ends[3] - ends[0])) / (12 * h)
    value, found = ft.jvp(sample, (shapes,), (t,))
    np.testing.assert_array_equal(value, z)
    np.testing.assert_allclose(found, slope, rtol=1e-5, atol=1e-8)
    backward = ft.grad(lambda s: np.sum(np.cos(np.arange(8)) * sample(s)))(shapes) @ t
    np.testing.assert_allclose(backward, np.cos(np.arange(8)) @ found, rtol=1e-9)


@pytest.mark.parametrize("name", ["gamma", "beta", "t", "f", "invgauss"])
def test_second_derivatives_follow_the_moved_sample(name: str) -> None:
    shapes = np.array(SHAPES[name])
    t = np.ones(len(shapes))

    def sample(shapes: Any) -> Any:
        return getattr(stats, name).rvs(*shapes, size=5, random_state=3)

    z, h = sample(shapes), 1e-3
    ends = [
        z if step == 0 else quantiles(name, z, shapes, shapes + step * h * t)
        for step in (-2, -1, 0, 1, 2)
    ]
    bend = (16 * (ends[1] + ends[3]) - (ends[0] + ends[4]) - 30 * z) / (12 * h * h)
    found = ft.jvp(lambda s: ft.jvp(sample, (s,), (t,))[1], (shapes,), (t,))[1]
    np.testing.assert_allclose(found, bend, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", SHAPES | COUNTS)
def test_generators_and_global_state_give_scipys_numbers(name: str) -> None:
    shapes = list((SHAPES | COUNTS)[name])
    if "binom" in name and name != "nbinom":
        shapes[0] = 6
    for make in (np.random.default_rng, np.random.RandomState):
        expected = getattr(scipy.stats, name).rvs(*shapes, 0.5, size=(2, 3), random_state=make(4))
        loc, found = (
            ft.jvp(lambda loc: loc * 1.0, (0.5,), (1.0,)) if name in SHAPES else (0.5, None)
        )
        found = ft.vjp(
            lambda x: getattr(stats, name).rvs(*shapes, x, size=(2, 3), random_state=make(4)), loc
        )[0]
        np.testing.assert_array_equal(found, expected)


def test_integer_samples_are_constants() -> None:
    assert ft.grad(lambda mu: mu * np.sum(stats.poisson.rvs(mu, size=3, random_state=0)))(
        2.0
    ) == np.sum(scipy.stats.poisson.rvs(2.0, size=3, random_state=0))
    assert ft.jit(lambda p: stats.bernoulli.rvs(p, size=4, random_state=0))(0.5).dtype == np.int64


@pytest.mark.parametrize(
    "state",
    [None, np.random.default_rng(0), np.random.RandomState(0)],
    ids=["global", "new", "old"],
)
def test_draws_that_would_be_frozen_are_refused(state: Any) -> None:
    def f(x: Any) -> Any:
        return x + stats.norm.rvs(size=3, random_state=state)

    def g(x: Any) -> Any:
        return stats.gamma.rvs(x, size=3, random_state=state)

    for h in (f, g):
        total = lambda x, h=h: np.sum(h(x))
        for staged in (
            ft.jit(h),
            ft.vmap(h),
            ft.trace(h),
            ft.grad(ft.jit(total)),
            ft.jit(ft.grad(total)),
        ):
            with pytest.raises(
                ConcretizationError, match=r"draws from .*every run would have the same"
            ) as caught:
                staged(np.float64(1.5) if staged.__name__ != h.__name__ else np.ones(3))
            assert "test_samples.py" in str(caught.value)
        assert np.isfinite(ft.grad(total)(1.5))
    first, second = (
        ft.grad(lambda s: np.sum(s * f(0.0)))(1.0),
        ft.grad(lambda s: np.sum(s * f(0.0)))(1.0),
    )
    assert first != second  # every call draws anew


def test_seeds_may_be_traced() -> None:
    seeds = np.arange(3)
    found = ft.jit(ft.vmap(lambda seed: stats.gamma.rvs(2.0, size=2, random_state=seed)))(seeds)
    np.testing.assert_array_equal(
        found, [scipy.stats.gamma.rvs(2.0, size=2, random_state=int(seed)) for seed in seeds]
    )


def test_sizes_and_parameters_that_scipy_refuses() -> None:
    with pytest.raises(ValueError, match="size does not match the broadcast shape"):
        ft.jvp(lambda a: stats.gamma.rvs(a, size=2, random_state=0), (np.ones(3),), (np.ones(3),))
    with pytest.raises(ValueError, match="Domain error in arguments"):
        ft.grad(lambda scale: stats.norm.rvs(0.0, scale, random_state=0))(-1.0)
    with pytest.raises(ValueError, match="Domain error in arguments"):
        ft.grad(lambda a: stats.gamma.rvs(a, random_state=0))(-1.0)


@pytest.mark.full
def test_vectors_and_matrices_are_scipys_and_move() -> None:
    mean, alpha = np.array([0.3, -1.0, 0.5]), np.array([0.7, 1.5, 2.5])
    cov = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 0.7]])
    calls = {
        "multivariate_normal": (
            lambda s, m, c, **k: s.multivariate_normal.rvs(m, c, **k),
            (mean, cov),
        ),
        "dirichlet": (lambda s, a, **k: s.dirichlet.rvs(a, **k), (alpha,)),
        "wishart": (lambda s, df, c, **k: s.wishart.rvs(df, c, **k), (4.5, cov)),
    }
    for name, (call, args) in calls.items():
        for size in (1, 4, (2, 3)):
            expected = call(scipy.stats, *args, size=size, random_state=3)
            found = ft.jit(
                lambda *a, call=call, size=size: call(stats, *a, size=size, random_state=3)
            )(*args)
            np.testing.assert_allclose(found, expected, rtol=1e-9, err_msg=name)
    many = 40000
    # expectations, and their derivatives, are known
    second = lambda c: np.mean(
        stats.multivariate_normal.rvs(mean, c, size=many, random_state=0)[:, 0] ** 2
    )
    np.testing.assert_allclose(ft.grad(second)(cov)[0, 0], 1.0, atol=0.03)
    share = lambda a: np.mean(stats.dirichlet.rvs(a, size=many, random_state=0)[:, 1])
    total = np.sum(alpha)
    np.testing.assert_allclose(
        ft.grad(share)(alpha), (np.arange(3) == 1) / total - alpha[1] / total**2, atol=5e-3
    )
    trace = lambda df: np.mean(
        np.trace(stats.wishart.rvs(df, cov, size=4000, random_state=0), axis1=1, axis2=2)
    )
    np.testing.assert_allclose(ft.grad(trace)(4.5), np.trace(cov), rtol=0.03)
    with pytest.raises(ConcretizationError, match="every run would have the same"):
        ft.jit(lambda m: stats.multivariate_normal.rvs(m, cov))(mean)
