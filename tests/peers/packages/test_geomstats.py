"""geomstats' backend named autograd on `functrace.compat.autograd`, against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.peers.packages.rows import Row, failures, imported, needs

needs("geomstats")
pytestmark = pytest.mark.filterwarnings("ignore")

NORTH = np.array([0.0, 0.0, 1.0])
V = np.array([0.3, -0.2, 0.5])


def _sphere(geometry: Any, method: str) -> Any:
    sphere = geometry.hypersphere.Hypersphere(2)
    weights = np.array([1.0, 2.0, -0.5])
    if method == "exp":
        return lambda v: np.sum(sphere.metric.exp(sphere.to_tangent(v, NORTH), NORTH) * weights)
    if method == "log":
        return lambda x: np.sum(sphere.metric.log(x / np.linalg.norm(x), NORTH) * weights)
    return lambda x: sphere.metric.dist(x / np.linalg.norm(x), NORTH)


def _spd(geometry: Any) -> Any:
    metric = geometry.spd_matrices.SPDMatrices(2).metric
    return lambda x: metric.squared_dist(x @ x.T + np.eye(2), 2.0 * np.eye(2))


def _rotation(geometry: Any) -> Any:
    group = geometry.special_orthogonal.SpecialOrthogonal(3, point_type="vector")
    return lambda x: np.sum(group.matrix_from_rotation_vector(x) ** 3)


def test_geometry_is_differentiated() -> None:
    parts = [f"geomstats.geometry.{name}" for name in ("hypersphere", "spd_matrices", "special_orthogonal")]
    geometry = imported("geomstats", *parts, GEOMSTATS_BACKEND="autograd").geometry
    rows = [
        Row("geomstats", "Hypersphere.metric.dist", "autograd", _sphere(geometry, "dist"), V),
        Row("geomstats", "Hypersphere.metric.exp", "autograd", _sphere(geometry, "exp"), V),
        Row("geomstats", "Hypersphere.metric.log", "autograd", _sphere(geometry, "log"), V),
        Row("geomstats", "SPDMatrices.metric.squared_dist", "autograd", _spd(geometry), [[0.4, -0.3], [0.2, 1.1]]),
        Row("geomstats", "SpecialOrthogonal.matrix_from_rotation_vector", "autograd", _rotation(geometry), V),
    ]
    assert not failures(rows)
