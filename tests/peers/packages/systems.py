"""Control and filtering: control, filterpy, pykalman."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.peers.packages.rows import Package, Row

A, B, C = np.array([[0.0, 1.0], [-2.0, -0.5]]), np.array([[0.0], [1.0]]), np.array([[1.0, 0.0]])
TIMES = np.linspace(0.0, 2.0, 5)
WEIGHTS = np.array([2.0, 0.5])
"""Weights of the state and of the input; or stiffness and damping."""
SEEN = np.sin(np.arange(6.0) * 0.7)
NOISE = np.array([0.3, 0.2, 0.9, 1.5, 0.7, 0.1])


def _control() -> Sequence[Row]:
    import control

    def system(x: Any) -> Any:
        return control.ss(np.array([[0.0, 1.0], [-x[0], -x[1]]]), B, C, 0)

    def gain(x: Any) -> Any:
        K, S, _ = control.lqr(system(x), np.eye(2) * x[0], np.eye(1) * x[1])
        return np.sum(K) + np.sum(S**2)

    def discrete_gain(x: Any) -> Any:
        K, S, _ = control.dlqr(A, B, np.eye(2) * x[0], np.eye(1) * x[1])
        return np.sum(K) + np.sum(S**2)

    def poles(x: Any) -> Any:
        return np.sum(np.abs(system(x).poles() - 0.3) ** 2)

    return [
        Row("lqr", gain, WEIGHTS),
        Row("dlqr", discrete_gain, WEIGHTS),
        Row("care", lambda x: np.sum(control.care(A, B, np.eye(2) * x[0],
        np.eye(1) * x[1])[0] ** 2), WEIGHTS),
        Row("lyap", lambda x: np.sum(control.lyap(A, np.eye(2) * x[0] + x[1]) ** 2), WEIGHTS),
        Row("ss, step_response", lambda x: np.sum(control.step_response(system(x),
        TIMES).outputs ** 2), WEIGHTS),
        Row(
            "ss, forced_response",
            lambda x: np.sum(control.forced_response(system(x), TIMES,
            np.sin(TIMES)).outputs ** 2), WEIGHTS,
        ),
        Row("ss, values on the imaginary axis",
        lambda x: np.sum(np.abs(system(x)(1j * TIMES[1:]))), WEIGHTS),
        Row("ss, series, dcgain", lambda x: np.sum((system(x) * system(x)).dcgain()), WEIGHTS),
        Row("StateSpace.poles", poles, WEIGHTS),
        Row("place_acker", lambda x: np.sum(control.place_acker(system(x).A, B, [-1, -2])),
        WEIGHTS),
        Row("tf, values on the imaginary axis", lambda x: np.abs(control.tf([x[0]], [1.0, x[1],
        1.0])(0.7j)), WEIGHTS),
    ]  # fmt: skip


def _filterpy() -> Sequence[Row]:
    from filterpy import common, gh, kalman, leastsq, stats

    def filtered(x: Any) -> Any:
        """A filter of a moving point, whose start, step and noise are the parameters."""
        filter = kalman.KalmanFilter(2, 1)
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

    def batch(x: Any) -> Any:
        filter = kalman.KalmanFilter(2, 1)
        filter.F, filter.H = np.array([[1.0, x[0]], [0.0, 1.0]]), np.array([[1.0, 0.0]])
        means, covariances, _, _ = filter.batch_filter(list(SEEN * x[1]))
        return np.sum(means**2) + np.sum(covariances)

    def unscented(x: Any) -> Any:
        points = kalman.MerweScaledSigmaPoints(2, 0.1, 2.0, 1.0)
        move = lambda s, dt: np.array([s[0] + dt * s[1], s[1] * x[0]])
        filter = kalman.UnscentedKalmanFilter(
            2, 1, 1.0, hx=lambda s: np.array([s[0] ** 2]), fx=move, points=points
        )
        filter.x = np.array([1.0, 0.5])
        for z in (1.0, 2.0):
            filter.predict()
            filter.update(z * x[1])
        return np.sum(filter.x**2) + np.sum(filter.P)

    def two_sided(x: Any) -> Any:
        filter = gh.GHFilter(x[0], x[1], 0.5, x[2], x[3])
        return sum(filter.update(z)[0] for z in SEEN)

    def least_squares(x: Any) -> Any:
        filter = leastsq.LeastSquaresFilter(x[0], 1)
        return sum(np.sum(filter.update(z * x[1])) for z in SEEN)

    return [
        Row("KalmanFilter", filtered, NOISE),
        Row("KalmanFilter.batch_filter", batch, [0.8, 1.3]),
        Row("UnscentedKalmanFilter", unscented, [0.8, 1.3]),
        Row(
            "Q_discrete_white_noise",
            lambda x: np.sum(common.Q_discrete_white_noise(3, x[0], x[1], block_size=2) ** 2),
            [0.4, 2.0],
        ),
        Row("Q_continuous_white_noise", lambda x: np.sum(common.Q_continuous_white_noise(3, x[0],
        x[1]) ** 2), [0.4, 2.0]),
        Row("stats.mul", lambda x: sum(stats.mul(x[0], x[1], x[2], x[3])), [0.4, 1.1, 2.0, 0.3]),
        Row("GHFilter", two_sided, [0.1, 0.2, 0.8, 0.3]),
        Row("LeastSquaresFilter", least_squares, [0.5, 1.2]),
    ]  # fmt: skip


def _pykalman() -> Sequence[Row]:
    from pykalman import KalmanFilter

    def model(x: Any) -> Any:
        return KalmanFilter(
            np.array([[1.0, x[0]], [0.0, 1.0]]), np.array([[1.0, 0.0]]), np.eye(2) * x[1],
            np.eye(1) * x[2],
            initial_state_mean=np.zeros(2), initial_state_covariance=np.eye(2),
        )  # fmt: skip

    def smoothed(x: Any) -> Any:
        means, covariances = model(x).smooth(SEEN[:4, None])
        return np.sum(means**2) + np.sum(covariances)

    return [
        Row("KalmanFilter.smooth", smoothed, [0.9, 0.2, 0.5]),
        Row("KalmanFilter.smooth by observations",
        lambda z: np.sum(model(NOISE).smooth(z)[0] ** 2), SEEN[:4, None]),
        Row("KalmanFilter.loglikelihood", lambda x: model(x).loglikelihood(SEEN[:4, None]), [0.9,
        0.2, 0.5]),
        Row(
            "KalmanFilter.em", lambda x: np.sum(model(x).em(SEEN[:4, None],
            n_iter=1).transition_covariance),
            [0.9, 0.2, 0.5],
        ),
    ]  # fmt: skip


CONTROL = Package("control", "control", _control)
FILTERPY = Package("filterpy", "filterpy", _filterpy)
PYKALMAN = Package("pykalman", "pykalman", _pykalman)
