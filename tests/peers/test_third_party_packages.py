"""Packages of plain NumPy from the package index, unmodified, differentiated under `lift`: beside differences."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ConcretizationError, LostGradientError
from tests.oracles import differences

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::SyntaxWarning")
SEEN = np.sin(np.arange(6.0) * 0.7)
NOISE = np.array([0.3, 0.2, 0.9, 1.5, 0.7, 0.1])


def _filtered(x: Any, filter: Any) -> Any:
    """A filter of a moving point, whose start, step and noise are the parameters."""
    common = importlib.import_module("filterpy.common")
    filter.x, filter.F = np.array([x[0], x[1]]), np.array([[1.0, x[2]], [0.0, 1.0]])
    filter.H = np.array([[1.0, 0.0]])
    filter.P, filter.R = filter.P * x[3], filter.R * x[4]
    filter.Q = common.Q_discrete_white_noise(2, x[2], x[5])
    total = 0.0
    for z in SEEN:
        filter.predict()
        filter.update(z)
        total = total + np.sum(filter.x**2) + np.trace(filter.P)
    return total


def _two_sided(gh: Any, x: Any) -> Any:
    filter = gh.GHFilter(x[0], x[1], 0.5, x[2], x[3])
    return sum(filter.update(z)[0] for z in SEEN)


def _least_squares(leastsq: Any, x: Any) -> Any:
    filter = leastsq.LeastSquaresFilter(x[0], 1)
    return sum(np.sum(filter.update(z * x[1])) for z in SEEN)


ROWS: dict[str, tuple[str, Callable[[Any, Any], Any], Any]] = {
    "future value": ("numpy_financial", lambda m, x: m.fv(x[0], x[1], x[2], x[3]), [0.05, 10.0, -100.0, -1000.0]),
    "payment": ("numpy_financial", lambda m, x: m.pmt(x[0], x[1], x[2]), [0.05, 10.0, 1000.0]),
    "present value": ("numpy_financial", lambda m, x: m.pv(x[0], x[1], x[2], x[3]), [0.05, 10.0, -100.0, 100.0]),
    "periods": ("numpy_financial", lambda m, x: m.nper(x[0], x[1], x[2]), [0.005, -150.0, 8000.0]),
    "interest": ("numpy_financial", lambda m, x: np.sum(m.ipmt(x[0], np.arange(1, 4), x[1], x[2])), [0.05, 10.0, 1000.0]),
    "principal": ("numpy_financial", lambda m, x: np.sum(m.ppmt(x[0], np.arange(1, 4), x[1], x[2])), [0.05, 10.0, 1000.0]),
    "net present value": ("numpy_financial", lambda m, x: m.npv(x[0], x[1:]), [0.05, -100.0, 30.0, 40.0, 60.0]),
    "modified return": ("numpy_financial", lambda m, x: m.mirr(x[2:], x[0], x[1]), [0.05, 0.07, -100.0, 30.0, 40.0, 60.0]),
    "rate": ("numpy_financial", lambda m, x: m.rate(10, x[0], x[1], x[2]), [-150.0, 1000.0, 100.0]),
    "Kalman filter": ("filterpy.kalman", lambda m, x: _filtered(x, m.KalmanFilter(2, 1)), NOISE),
    "white noise": (
        "filterpy.common",
        lambda m, x: np.sum(m.Q_discrete_white_noise(3, x[0], x[1], block_size=2) ** 2),
        [0.4, 2.0],
    ),
    "continuous white noise": (
        "filterpy.common",
        lambda m, x: np.sum(m.Q_continuous_white_noise(3, x[0], x[1]) ** 2),
        [0.4, 2.0],
    ),
    "product of densities": ("filterpy.stats", lambda m, x: sum(m.mul(x[0], x[1], x[2], x[3])), [0.4, 1.1, 2.0, 0.3]),
    "g-h filter": ("filterpy.gh", _two_sided, [0.1, 0.2, 0.8, 0.3]),
    "least squares filter": ("filterpy.leastsq", _least_squares, [0.5, 1.2]),
}
ASK_FOR_VALUES = {"modified return", "rate"}
"""What goes on until something has converged, or looks at signs."""


@pytest.mark.parametrize("name", ROWS)
def test_a_package_is_differentiated_as_it_is(name: str) -> None:
    place, f, at = ROWS[name]
    pytest.importorskip(place.partition(".")[0])
    module, x = importlib.import_module(place), np.array(at)
    plain = lambda x: f(module, x)  # noqa: E731
    lifted = ft.numpy.lift(plain)
    direction = np.cos(np.arange(x.size)) * np.abs(x)
    (expected,) = differences(plain, [x], [direction])
    np.testing.assert_allclose(ft.grad(lifted)(x) @ direction, expected, rtol=1e-6)
    np.testing.assert_allclose(ft.jvp(lifted, (x,), (direction,))[1], expected, rtol=1e-6)
    (second,) = differences(ft.grad(lifted), [x], [direction])
    np.testing.assert_allclose(ft.hessian(lifted)(x) @ direction, second, rtol=1e-5, atol=1e-6 * np.max(np.abs(second)))
    if name in ASK_FOR_VALUES:
        with pytest.raises(ConcretizationError):
            ft.jit(ft.grad(lifted))(x)
    else:
        np.testing.assert_allclose(ft.jit(ft.vmap(ft.grad(lifted)))(np.stack([x, x]))[1] @ direction, expected, rtol=1e-6)
    assert type(plain(x)) is type(lifted(x))


def test_what_a_package_has_bound_before_raises_and_can_be_named() -> None:
    kalman = pytest.importorskip("filterpy.kalman")
    module = importlib.import_module("filterpy.kalman.kalman_filter")

    def f(x: Any) -> Any:
        filter = kalman.KalmanFilter(2, 1)
        filter.F, filter.H = np.array([[1.0, x[0]], [0.0, 1.0]]), np.array([[1.0, 0.0]])
        means, covariances, _, _ = filter.batch_filter(list(SEEN * x[1]))
        return np.sum(means**2) + np.sum(covariances)

    x, direction = np.array([0.8, 1.3]), np.array([0.4, -0.7])
    (expected,) = differences(f, [x], [direction])
    with pytest.raises(LostGradientError, match=r"kalman_filter\.py"):  # from numpy import zeros
        ft.grad(ft.numpy.lift(f))(x)
    before = {name: vars(module)[name] for name in ("zeros", "eye")}
    try:
        for name in before:
            setattr(module, name, getattr(ft.numpy, name))
        np.testing.assert_allclose(ft.grad(ft.numpy.lift(f))(x) @ direction, expected, rtol=1e-6)
    finally:
        for name, own in before.items():
            setattr(module, name, own)
