"""Derivative of gamma samples with respect to the shape parameter: against SciPy's quantiles,
differences, and asymptotic series.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.ops.gamma_slope import log_gamma_slope, polygamma
from tests.oracles import assert_same

special = pytest.importorskip("scipy.special")
SHAPES = np.array([0.02, 0.1, 0.5, 0.99, 1.0, 1.01, 2.5, 8.0, 30.0, 400.0])
LEVELS = np.array([1e-4, 0.01, 0.3, 0.5, 0.7, 0.99, 1 - 1e-4])
A, LEVEL = (x.ravel() for x in np.meshgrid(SHAPES, LEVELS))


def log_quantile(a: Any, level: Any) -> Any:
    return np.log(special.gammaincinv(a, level))


def far(function: Any, x: Any, step: float) -> Any:
    """A difference of fourth order."""
    near, further = (
        (function(x + s * step) - function(x - s * step)) / (2 * s * step) for s in (1, 2)
    )
    return (4 * near - further) / 3


IN_RANGE = log_quantile(A, LEVEL) > -600


def test_is_the_derivative_of_a_quantile() -> None:
    a, level = A[IN_RANGE], LEVEL[IN_RANGE]
    expected = far(lambda x: log_quantile(x, level), a, 1e-3 * a)
    found = log_gamma_slope(a, log_quantile(a, level))
    np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_in_both_tails() -> None:
    # P(a, x) is x**a / Gamma(a + 1) for small x: log x moves as (psi(a + 1) - log x) / a
    for a in (1e-3, 0.2, 3.0, 50.0):
        log_x = np.array([-1e5, -1e3, -60.0])
        expected = (special.psi(a + 1) - log_x) / a
        np.testing.assert_allclose(log_gamma_slope(np.full(3, a), log_x), expected, rtol=1e-11)
    # Far up, Q(a, x) is x**(a - 1) exp(-x) / Gamma(a) (1 + (a - 1) / x + …)
    x = 1e8
    expected = (np.log(x) - special.psi(3.0)) / x
    np.testing.assert_allclose(log_gamma_slope(np.array([3.0]), np.log([x])), expected, rtol=1e-6)
    # With large shapes the distribution is normal, but for terms of 1 / sqrt(a): x is a + z sqrt(a)
    for z in (-3.0, 0.0, 3.0):
        a = 1e10
        found = log_gamma_slope(np.array([a]), np.log([a + z * np.sqrt(a)]))
        np.testing.assert_allclose(
            found, (1 + z / (2 * np.sqrt(a))) / (a + z * np.sqrt(a)), rtol=3e-5
        )


def test_every_order() -> None:
    a, log_x = A[IN_RANGE], log_quantile(A, LEVEL)[IN_RANGE]
    kept = log_x > -40
    a, log_x = a[kept], log_x[kept]
    ones = np.ones_like(a)

    def by_shape(a: Any) -> Any:
        return ft.jvp(lambda a: log_gamma_slope(a, log_x), (a,), (ones,))[1]

    def by_log(log_x: Any) -> Any:
        return ft.jvp(lambda log_x: log_gamma_slope(a, log_x), (log_x,), (ones,))[1]

    np.testing.assert_allclose(
        by_shape(a), far(lambda a: log_gamma_slope(a, log_x), a, 1e-3 * a), rtol=1e-6, atol=1e-12
    )
    np.testing.assert_allclose(
        by_log(log_x), far(lambda y: log_gamma_slope(a, y), log_x, 1e-3), rtol=2e-5, atol=1e-9
    )
    third = ft.jvp(by_shape, (a,), (ones,))[1]
    np.testing.assert_allclose(third, far(by_shape, a, 1e-3 * a), rtol=1e-5, atol=1e-10)
    third = ft.jvp(by_log, (log_x,), (ones,))[1]
    np.testing.assert_allclose(third, far(by_log, log_x, 1e-3), rtol=1e-4, atol=1e-7)


def test_dtypes_and_invalid_shape_parameters() -> None:
    found = log_gamma_slope(np.array([0.5, 2.0], np.float32), np.array([0.1, 0.3], np.float32))
    assert found.dtype == np.float32
    assert_same(
        found,
        log_gamma_slope(np.array([0.5, 2.0]), np.array([0.1, 0.3])).astype(np.float32),
        rtol=1e-5,
        atol=0,
    )
    assert np.isnan(log_gamma_slope(np.array([np.nan, 1.0]), np.array([1.0, np.nan]))).all()
    assert log_gamma_slope(np.zeros((0, 3)), np.zeros((0, 3))).shape == (0, 3)
    large = log_gamma_slope(np.full((3, 5000), 1.5), np.zeros(5000))  # more than a block
    np.testing.assert_array_equal(
        large, np.full((3, 5000), log_gamma_slope(np.array(1.5), np.array(0.0)))
    )


@pytest.mark.parametrize("order", range(6))
def test_polygamma(order: int) -> None:
    x = np.array([1e-3, 0.1, 0.5, 1.0, 1.4616321449683622, 3.0, 9.9, 40.0, 1e4, 1e8])
    np.testing.assert_allclose(
        polygamma(x, order), special.polygamma(order, x), rtol=1e-13, atol=1e-15
    )
    assert np.isnan(polygamma(np.array([-1.5, np.nan]), order)).all()
    slope = ft.jvp(lambda x: polygamma(x, order), (x,), (np.ones_like(x),))[1]
    np.testing.assert_allclose(slope, special.polygamma(order + 1, x), rtol=1e-13)
    assert polygamma(np.float32(2.0), order).dtype == np.float32
