"""Distributions on traced values against SciPy's: everywhere, and where parameters are not allowed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats

import functrace as ft
from functrace.errors import ArgumentError, UnsupportedFunctionError
from functrace.scipy import stats
from tests.cases.distributions import COUNTS, SHAPES, has

GRID = np.array([-np.inf, -3.0, -0.2, 0.0, 0.3, 1.0, 1.5, 2.0, 5.0, 6.0, 7.0, 40.0, np.inf, np.nan])
PROBABILITIES = np.array([-0.1, 0.0, 1e-9, 0.3, 0.5, 0.9, 1.0, 1.1, np.nan])


def traced(name: str, method: str, x: Any, *parameters: Any) -> Any:
    """The value on traced operands."""
    with np.errstate(all="ignore"):
        return ft.vjp(lambda x: getattr(getattr(stats, name), method)(x, *parameters), x)[0]


@pytest.mark.sampled(5)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("method", ["logpdf", "pdf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf"])
@pytest.mark.parametrize("name", SHAPES)
def test_continuous_distributions_equal_scipy(name: str, method: str) -> None:
    if not has(name, method):
        with pytest.raises(UnsupportedFunctionError, match=f"{name}.{method} has no formula"):
            traced(name, method, GRID, *SHAPES[name])
        return
    x = PROBABILITIES if method in ("ppf", "isf") else GRID
    for loc, scale in ((0.0, 1.0), (-0.2, 1.7), (0.5, 0.0), (0.5, -1.0)):
        parameters = (*SHAPES[name], loc, scale)
        expected = getattr(getattr(scipy.stats, name), method)(x, *parameters)
        found = traced(name, method, x, *parameters)
        if method in (
            "logcdf",
            "logsf",
        ):  # SciPy's logarithm of a probability that is no number: `test_tails.py`
            expected = np.where(
                np.isneginf(expected) & np.isfinite(found) & (found < -700.0), found, expected
            )
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-13)
    if SHAPES[name]:
        bad = (-1.0, *SHAPES[name][1:]) if name != "truncnorm" else (2.0, 1.0)
        assert np.all(np.isnan(traced(name, method, x, *bad)))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("method", ["logpmf", "pmf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf"])
@pytest.mark.parametrize("name", COUNTS)
def test_discrete_distributions_equal_scipy(name: str, method: str) -> None:
    x = PROBABILITIES if method in ("ppf", "isf") else GRID
    if not has(name, method):
        with pytest.raises(UnsupportedFunctionError, match=f"{name}.{method} has no formula"):
            traced(name, method, x, *COUNTS[name])
        return
    for loc in (0.0, -1.0):
        expected = getattr(getattr(scipy.stats, name), method)(x, *COUNTS[name], loc)
        np.testing.assert_allclose(
            traced(name, method, x, *COUNTS[name], loc), expected, rtol=1e-11, atol=1e-14
        )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("method", ["mean", "var", "std", "entropy", "median", "support"])
@pytest.mark.parametrize("name", SHAPES | COUNTS)
def test_moments_equal_scipy(name: str, method: str) -> None:
    if not has(name, {"std": "var", "median": "ppf"}.get(method, method)):
        return
    shapes, scale, loc = (
        (SHAPES | COUNTS)[name],
        {"scale": 2.0} if name in SHAPES else {},
        np.array([0.3, -1.0]),
    )
    expected = getattr(getattr(scipy.stats, name), method)(*shapes, loc, **scale)
    found = ft.vjp(lambda loc: getattr(getattr(stats, name), method)(*shapes, loc, **scale), loc)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


FAR = [(-np.inf, 1.0), (0.5, np.inf), (-np.inf, np.inf), (6.0, 9.0), (-30.0, -20.0), (-1e-3, 1e-3)]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("bounds", FAR)
@pytest.mark.parametrize("method", ["logpdf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf"])
def test_truncated_normal_far_out(method: str, bounds: tuple[float, float]) -> None:
    span = np.linspace(max(bounds[0], -40.0), min(bounds[1], 40.0), 7)
    x = np.array([0.1, 0.5, 0.9]) if method in ("ppf", "isf") else span
    expected = getattr(scipy.stats.truncnorm, method)(x, *bounds)
    np.testing.assert_allclose(
        traced("truncnorm", method, x, *bounds), expected, rtol=1e-9, atol=1e-12
    )
    inner = x if method in ("ppf", "isf") else x[1:-1]
    gradient = ft.grad(
        lambda x, a, b: np.sum(getattr(stats.truncnorm, method)(x, a, b)), argnums=(0, 1, 2)
    )(inner, *bounds)
    assert all(np.all(np.isfinite(g)) for g in gradient)


def test_moments_that_do_not_exist() -> None:
    for name, shapes in (("t", (np.array([0.5, 1.5, 3.0]),)), ("pareto", (np.array([0.5, 1.5,
    3.0]),)),
                         ("invgamma", (np.array([0.5, 1.5, 3.0]),)), ("f", (2.0, np.array([1.0,
                         3.0, 5.0])))):  # fmt: skip
        for method in ("mean", "var", "entropy"):
            ours = ft.vjp(lambda *s: getattr(getattr(stats, name), method)(*s), *shapes)[0]
            np.testing.assert_allclose(
                ours, getattr(getattr(scipy.stats, name), method)(*shapes), rtol=1e-11
            )
            gradient = ft.grad(
                lambda s: np.sum(getattr(getattr(stats, name), method)(*shapes[:-1], s))
            )(shapes[-1])
            assert np.all(np.isfinite(gradient))


def test_frozen_distributions() -> None:
    given = stats.gamma(2.0, scale=1.5)
    plain = scipy.stats.gamma(2.0, scale=1.5)
    for method in ("logpdf", "cdf", "isf"):
        assert getattr(given, method)(0.4) == getattr(plain, method)(0.4)
        np.testing.assert_allclose(
            ft.jit(getattr(given, method))(0.4), getattr(plain, method)(0.4), rtol=1e-13
        )
    assert (
        given.mean() == plain.mean()
        and given.interval(0.9) == plain.interval(0.9)
        and given.median() == plain.median()
    )
    assert given.stats("mvsk") == plain.stats("mvsk")
    assert given.moment(3) == plain.moment(3)
    np.testing.assert_array_equal(given.rvs(3, random_state=1), plain.rvs(3, random_state=1))
    slope = ft.grad(lambda scale: np.sum(stats.norm(1.0, scale).rvs(3, random_state=1)))(2.0)
    np.testing.assert_allclose(slope, np.sum(scipy.stats.norm.rvs(size=3, random_state=1)))
    assert "stats.gamma(2.0, scale=1.5)" in repr(given)
    with pytest.raises(ArgumentError, match="gamma needs a"):
        stats.gamma()


def test_intervals_and_moments_of_traced_parameters() -> None:
    def three(s: Any, a: Any) -> Any:
        return s.gamma.interval(0.9, a), s.gamma.stats(a, scale=2.0), s.gamma.stats(a, moments="v")

    found, expected = ft.jit(lambda a: three(stats, a))(1.7), three(scipy.stats, 1.7)
    np.testing.assert_allclose(
        np.hstack(ft.tree.leaves(found)), np.hstack(ft.tree.leaves(expected)), rtol=1e-12
    )
    with pytest.raises(UnsupportedFunctionError, match="has the moments 'm' and 'v'"):
        ft.grad(lambda a: stats.gamma.stats(a, moments="s"))(1.7)


def test_edges_of_supports_leave_gradients_finite() -> None:
    x = np.array([-1.0, 0.5, 2.0])
    gradient = ft.grad(lambda a: np.sum(np.where(x < 0, 0.0, stats.gamma.logpdf(x, a))))(1.5)
    assert np.isfinite(gradient)


def test_parameters_are_named_as_in_scipy() -> None:
    assert ft.grad(lambda s: stats.lognorm.logpdf(1.5, s=s, scale=2.0))(0.7) != 0
    with pytest.raises(ArgumentError, match="gamma needs a"):
        ft.grad(lambda x: stats.gamma.logpdf(x))(0.5)
    with pytest.raises(ArgumentError, match="norm takes loc, scale"):
        ft.grad(lambda x: stats.norm.logpdf(x, df=2.0))(0.5)


def test_distribution_functions_differentiate_by_shapes() -> None:
    slope = (scipy.stats.gamma.cdf(0.5, 1.5 + 1e-5) - scipy.stats.gamma.cdf(0.5, 1.5 - 1e-5)) / 2e-5
    np.testing.assert_allclose(ft.grad(lambda a: stats.gamma.cdf(0.5, a))(1.5), slope, rtol=1e-9)


@pytest.mark.parametrize("beta", [0.7, 1.3, 2.0, 4.0])
def test_gennorm_quantile_has_derivatives_at_its_median(beta: float) -> None:
    for name, sign in (("ppf", 1.0), ("isf", -1.0)):
        quantile = getattr(stats.gennorm, name)
        by_q, by_beta, by_loc, by_scale = ft.grad(quantile, argnums=(0, 1, 2, 3))(
            0.5, beta, 2.0, 3.0
        )
        np.testing.assert_allclose(
            by_q, sign / scipy.stats.gennorm.pdf(2.0, beta, 2.0, 3.0), rtol=1e-12
        )
        np.testing.assert_allclose([by_beta, by_loc, by_scale], [0.0, 1.0, 0.0], atol=1e-14)
