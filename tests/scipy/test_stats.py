"""Distributions on traced values against SciPy's: everywhere, and where parameters are not allowed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats

import functrace as ft
from functrace.errors import ArgumentError
from functrace.scipy import stats
from tests.cases.scipy_functions import COUNTS, SHAPES

GRID = np.array([-np.inf, -3.0, -0.2, 0.0, 0.3, 1.0, 1.5, 2.0, 5.0, 6.0, 7.0, 40.0, np.inf, np.nan])
PROBABILITIES = np.array([-0.1, 0.0, 1e-9, 0.3, 0.5, 0.9, 1.0, 1.1, np.nan])


def traced(name: str, method: str, x: Any, *parameters: Any) -> Any:
    """The value on traced operands."""
    with np.errstate(all="ignore"):
        return ft.vjp(lambda x: getattr(getattr(stats, name), method)(x, *parameters), x)[0]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("method", ["logpdf", "pdf", "cdf", "sf", "logcdf", "logsf", "ppf"])
@pytest.mark.parametrize("name", SHAPES)
def test_continuous_distributions_equal_scipy(name: str, method: str) -> None:
    x = PROBABILITIES if method == "ppf" else GRID
    for loc, scale in ((0.0, 1.0), (-0.2, 1.7), (0.5, 0.0), (0.5, -1.0)):
        parameters = (*SHAPES[name], loc, scale)
        expected = getattr(getattr(scipy.stats, name), method)(x, *parameters)
        np.testing.assert_allclose(traced(name, method, x, *parameters), expected, rtol=1e-11, atol=1e-14)
    if SHAPES[name]:
        bad = (-1.0, *SHAPES[name][1:])
        assert np.all(np.isnan(traced(name, method, x, *bad)))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("method", ["logpmf", "pmf", "cdf", "sf", "logcdf", "logsf"])
@pytest.mark.parametrize("name", COUNTS)
def test_discrete_distributions_equal_scipy(name: str, method: str) -> None:
    for loc in (0.0, -1.0):
        expected = getattr(getattr(scipy.stats, name), method)(GRID, *COUNTS[name], loc)
        np.testing.assert_allclose(traced(name, method, GRID, *COUNTS[name], loc), expected, rtol=1e-11, atol=1e-14)


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
