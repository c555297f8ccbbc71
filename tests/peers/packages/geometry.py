"""Rotations, poses and manifolds: AHRS, geomstats, pymanopt, spatialmath."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.peers.packages.rows import Package, Row, imported

NORTH = np.array([0.0, 0.0, 1.0])
V = np.array([0.3, -0.2, 0.5])
ANGLES = np.array([0.3, 1.0, -0.2])
QUATERNION = np.array([0.9, 0.2, 0.3, 0.1])

RNG = np.random.default_rng(0)
S = RNG.normal(size=(4, 4))
S = S + S.T
H = RNG.normal(size=(3, 3)) + 1j * RNG.normal(size=(3, 3))
H = H + H.conj().T


def _geomstats() -> Sequence[Row]:
    parts = [
        f"geomstats.geometry.{name}"
        for name in ("hypersphere", "spd_matrices", "special_orthogonal")
    ]
    geometry = imported("geomstats", *parts, GEOMSTATS_BACKEND="autograd").geometry
    sphere = geometry.hypersphere.Hypersphere(2)
    metric = geometry.spd_matrices.SPDMatrices(2).metric
    group = geometry.special_orthogonal.SpecialOrthogonal(3, point_type="vector")
    weights = np.array([1.0, 2.0, -0.5])
    return [
        Row("Hypersphere.metric.dist", lambda x: sphere.metric.dist(x / np.linalg.norm(x), NORTH),
        V),
        Row(
            "Hypersphere.metric.exp",
            lambda v: np.sum(sphere.metric.exp(sphere.to_tangent(v, NORTH), NORTH) * weights), V,
        ),
        Row("Hypersphere.metric.log", lambda x: np.sum(sphere.metric.log(x / np.linalg.norm(x),
        NORTH) * weights), V),
        Row(
            "SPDMatrices.metric.squared_dist", lambda x: metric.squared_dist(x @ x.T + np.eye(2),
            2.0 * np.eye(2)),
            [[0.4, -0.3], [0.2, 1.1]],
        ),
        Row(
            "SpecialOrthogonal.matrix_from_rotation_vector",
            lambda x: np.sum(group.matrix_from_rotation_vector(x) ** 3), V,
        ),
    ]  # fmt: skip


def _spatialmath() -> Sequence[Row]:
    from spatialmath import SE3, UnitQuaternion, base

    def pose(x: Any) -> Any:
        return SE3.Rx(x[0]) * SE3.Tx(x[1]) * SE3.Rz(x[2])

    def twist(x: Any) -> Any:
        return base.trexp(np.array([x[0], x[1], x[2], 0.1 * x[0], 0.2, 0.3]))

    return [
        Row("SE3.Rx, Tx, Rz, their product", lambda x: np.sum(pose(x).A ** 3), ANGLES),
        Row("SE3 of a point", lambda x: np.sum((pose(x) * np.array([1.0, 2.0, 3.0])) ** 2), ANGLES),
        Row(
            "SE3.RPY, inv, t",
            lambda x: np.sum((pose(x) * SE3.RPY(x[0], x[1], x[2])).inv().t ** 2),
            ANGLES,
        ),
        Row("SE3.log", lambda x: np.sum(SE3.RPY(x[0], x[1], x[2]).log(twist=True) ** 3), ANGLES),
        Row(
            "UnitQuaternion",
            lambda x: np.sum((UnitQuaternion.Rx(x[0]) * UnitQuaternion.Ry(x[1])).R ** 3),
            ANGLES,
        ),
        Row("base.trexp", lambda x: np.sum(twist(x) ** 3), ANGLES),
        Row("base.rpy2r", lambda x: np.sum(base.rpy2r(x[0], x[1], x[2]) ** 3), ANGLES),
    ]


def _ahrs() -> Sequence[Row]:
    import ahrs

    def filtered(x: Any) -> Any:
        made, q = ahrs.filters.Madgwick(), np.array([1.0, 0.0, 0.0, 0.0])
        for _ in range(2):
            q = made.updateIMU(q, gyr=0.1 * x, acc=x)
        return np.sum(q**3)

    orientation = ahrs.common.orientation
    return [
        Row(
            "common.orientation.q2R",
            lambda q: np.sum(orientation.q2R(q / np.linalg.norm(q)) ** 3),
            QUATERNION,
        ),
        Row(
            "common.orientation.acc2q", lambda a: np.sum(orientation.acc2q(a) ** 3), [0.1, 0.2, 9.7]
        ),
        Row(
            "utils.WGS.normal_gravity",
            lambda x: ahrs.utils.WGS().normal_gravity(90.0 * x[0]),
            [0.5],
        ),
        Row("Quaternion.to_DCM", lambda q: np.sum(ahrs.Quaternion(q).to_DCM() ** 3), QUATERNION),
        Row("filters.Madgwick.updateIMU", filtered, [0.1, 0.2, 9.7]),
    ]


COSTS: dict[str, tuple[tuple[Any, ...], Any]] = {
    "Sphere": ((4,), lambda np, x: -x @ S @ x),
    "Stiefel": ((4, 2), lambda np, x: np.trace(x.T @ S @ x @ np.diag(np.array([1.0, 2.0])))),
    "Grassmann": ((4, 2), lambda np, x: -np.trace(x.T @ S @ x)),
    "SymmetricPositiveDefinite": ((3,), lambda np, x: np.log(np.linalg.det(x)) + np.trace(x @ x)),
    "SpecialOrthogonalGroup": (
        (3,),
        lambda np, x: -np.tensordot(S[:3, :3], np.sin(x), axes=x.ndim),
    ),
    "ComplexCircle": ((3,), lambda np, x: np.real(np.conj(x) @ H @ x)),
    "Elliptope": ((4, 2), lambda np, x: np.sum((x @ x.T - S) ** 2)),
}


def _derivatives(pymanopt: Any, numpy: Any, name: str) -> Any:
    """The gradient, and the Hessian along it, at a point that is the same each time."""
    arguments, cost = COSTS[name]
    manifold = getattr(pymanopt.manifolds, name)(*arguments)
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002  # pymanopt draws points from the global generator
    point = manifold.random_point()
    np.random.set_state(state)  # noqa: NPY002
    problem = pymanopt.Problem(
        manifold, pymanopt.function.autograd(manifold)(lambda x: cost(numpy, x))
    )
    gradient = problem.riemannian_gradient(point)
    return np.stack([gradient, problem.riemannian_hessian(point, gradient)])


def _smallest(pymanopt: Any) -> Any:
    manifold = pymanopt.manifolds.Sphere(4)
    problem = pymanopt.Problem(manifold, pymanopt.function.autograd(manifold)(lambda x: x @ S @ x))
    return (
        pymanopt.optimizers.TrustRegions(verbosity=0)
        .run(problem, initial_point=np.ones(4) / 2.0)
        .cost
    )


def _pymanopt() -> Sequence[Row]:
    import autograd.numpy as hips

    import functrace.compat.autograd.numpy as anp

    ours, theirs = [imported("pymanopt", on=on) for on in ("functrace", "autograd")]
    rows = [
        Row(
            f"gradient and Hessian on {name}", lambda name=name: _derivatives(ours, anp, name),
            expected=lambda name=name: _derivatives(theirs, hips, name), rtol=1e-12,
        )
        for name in COSTS
    ]  # fmt: skip
    return [
        *rows,
        Row("TrustRegions", lambda: _smallest(ours), expected=lambda: np.linalg.eigvalsh(S)[0]),
    ]


AHRS = Package("AHRS", "ahrs", _ahrs)
GEOMSTATS = Package("geomstats", "geomstats", _geomstats, on="autograd's names")
PYMANOPT = Package("pymanopt", "pymanopt", _pymanopt, on="autograd's names")
SPATIALMATH = Package("spatialmath-python", "spatialmath", _spatialmath)
