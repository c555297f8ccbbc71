"""pymanopt's backend named autograd on `functrace.compat.autograd`: gradients and Hessians beside those on HIPS autograd."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.peers.packages.rows import Row, failures, imported, needs

needs("pymanopt")
pytestmark = pytest.mark.filterwarnings("ignore")  # results that do not depend on their input, as HIPS autograd says

RNG = np.random.default_rng(0)
S = RNG.normal(size=(4, 4))
S = S + S.T
C = RNG.normal(size=(3, 3)) + 1j * RNG.normal(size=(3, 3))
C = C + C.conj().T
COSTS: dict[str, tuple[tuple[Any, ...], Any]] = {
    "Sphere": ((4,), lambda np, x: -x @ S @ x),
    "Stiefel": ((4, 2), lambda np, x: np.trace(x.T @ S @ x @ np.diag(np.array([1.0, 2.0])))),
    "Grassmann": ((4, 2), lambda np, x: -np.trace(x.T @ S @ x)),
    "SymmetricPositiveDefinite": ((3,), lambda np, x: np.log(np.linalg.det(x)) + np.trace(x @ x)),
    "SpecialOrthogonalGroup": ((3,), lambda np, x: -np.tensordot(S[:3, :3], np.sin(x), axes=x.ndim)),
    "ComplexCircle": ((3,), lambda np, x: np.real(np.conj(x) @ C @ x)),
    "Elliptope": ((4, 2), lambda np, x: np.sum((x @ x.T - S) ** 2)),
}


def _derivatives(pymanopt: Any, numpy: Any, name: str) -> Any:
    """The gradient, and the Hessian along it, at a point that is the same each time."""
    arguments, cost = COSTS[name]
    manifold = getattr(pymanopt.manifolds, name)(*arguments)
    np.random.seed(1)  # noqa: NPY002  # pymanopt draws points from the global generator
    point = manifold.random_point()
    problem = pymanopt.Problem(manifold, pymanopt.function.autograd(manifold)(lambda x: cost(numpy, x)))
    gradient = problem.riemannian_gradient(point)
    return np.stack([gradient, problem.riemannian_hessian(point, gradient)])


def _smallest(pymanopt: Any) -> Any:
    manifold = pymanopt.manifolds.Sphere(4)
    problem = pymanopt.Problem(manifold, pymanopt.function.autograd(manifold)(lambda x: x @ S @ x))
    return pymanopt.optimizers.TrustRegions(verbosity=0).run(problem, initial_point=np.ones(4) / 2.0).cost


def test_derivatives_are_those_on_hips_autograd() -> None:
    import autograd.numpy as hips

    import functrace.compat.autograd.numpy as anp

    state = np.random.get_state()  # noqa: NPY002
    ours, theirs = [imported("pymanopt", on=on) for on in ("functrace", "autograd")]
    rows = [
        Row(
            "pymanopt", f"Problem on {name}", "autograd", lambda name=name: _derivatives(ours, anp, name),
            expected=lambda name=name: _derivatives(theirs, hips, name), rtol=1e-12,
        )
        for name in COSTS
    ]  # fmt: skip
    rows.append(
        Row("pymanopt", "TrustRegions", "autograd", lambda: _smallest(ours), expected=lambda: np.linalg.eigvalsh(S)[0])
    )
    try:
        assert not failures(rows)
    finally:
        np.random.set_state(state)  # noqa: NPY002
