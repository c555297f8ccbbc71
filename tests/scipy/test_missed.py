"""``solve_bvp``, ``leastsq``, ``multivariate_t`` and ``gaussian_kde`` against SciPy and
differences.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.stats

import functrace as ft
from functrace.errors import (
    ConcretizationError,
    NotDifferentiableError,
    ShapeError,
    UnsupportedFunctionError,
)
from functrace.scipy import integrate, optimize, stats
from tests.oracles import differences
from tests.sampling import on_release

# -- boundary values -------------------------------------------------------------------------------


def bratu(module: Any, z: Any) -> Any:
    """A nonlinear problem: y'' + z0 exp(y) = 0, y(0) = z1, y(1) = 0."""
    fun = lambda x, y: np.stack([y[1], -z[0] * np.exp(y[0])])
    bc = lambda a, b: np.stack([a[0] - z[1], b[0]])
    return module.solve_bvp(fun, bc, np.linspace(0, 1, 6), np.zeros((2, 6)), tol=1e-8)


def vibrating(module: Any, z: Any) -> Any:
    """An eigenvalue problem: y'' + k**2 y = 0 with k unknown."""
    fun = lambda x, y, p: np.stack([y[1], -(p[0] ** 2) * z[0] * y[0]])
    bc = lambda a, b, p: np.stack([a[0], b[0], a[1] - z[1] * p[0]])
    x = np.linspace(0, 1, 5)
    return module.solve_bvp(fun, bc, x, np.array([[0, 1, 0, -1, 0], [0.0] * 5]), p=[6.0], tol=1e-8)


def spherical(module: Any, z: Any) -> Any:
    """Emden's equation: y'' + 2 y' / x + z0 y**5 = 0 with a singular term."""
    fun = lambda x, y: np.stack([y[1], -z[0] * y[0] ** 5])
    bc = lambda a, b: np.stack([a[1], b[0] - z[1] * (3 / 4) ** 0.5])
    x = np.linspace(0, 1, 5)
    return module.solve_bvp(
        fun, bc, x, np.vstack([np.ones(5), np.zeros(5)]), S=[[0, 0], [0, -2]], tol=1e-8
    )


def by_result(solve: Any, module: Any) -> Any:
    def loss(z: Any) -> Any:
        found = solve(module, z)
        at = np.array([0.1, 0.35, 0.8])
        total = np.sum(found.sol(at)[0] ** 2) + np.sum(found.sol(at)[1])
        return total if found.p is None else total + np.sum(found.p**2)

    return loss


PROBLEMS = {
    "bratu": (bratu, [1.2, 0.3]),
    "vibrating": (vibrating, [1.1, 0.9]),
    "spherical": (spherical, [1.0, 1.0]),
}


@pytest.mark.full
@pytest.mark.parametrize("name", ["bratu", *on_release("vibrating", "spherical")])
def test_boundary_values_are_scipys_and_derivatives_differences(name: str) -> None:
    solve, at = PROBLEMS[name]
    z = np.array(at)
    loss, plain = by_result(solve, integrate), by_result(solve, scipy.integrate)
    value, gradient = ft.value_and_grad(loss)(z)
    np.testing.assert_allclose(value, plain(z), rtol=1e-10)
    for direction in np.eye(2):
        np.testing.assert_allclose(
            gradient @ direction, differences(plain, (z,), (direction,))[0], rtol=1e-5
        )
        np.testing.assert_allclose(
            ft.jvp(loss, (z,), (direction,))[1], gradient @ direction, rtol=1e-9
        )
        slope = lambda z, d=direction: ft.grad(loss)(z) @ d
        np.testing.assert_allclose(
            ft.grad(slope)(z), differences(ft.grad(loss), (z,), (direction,))[0], rtol=1e-4
        )


def test_solve_bvp_raises_without_a_derivative() -> None:
    z = np.array([1.2, 0.3])
    with pytest.raises(ConcretizationError, match="chooses its mesh by values"):
        ft.jit(by_result(bratu, integrate))(z)
    with pytest.raises(NotDifferentiableError, match="rms_residuals"):
        ft.grad(lambda z: np.sum(bratu(integrate, z).rms_residuals))(z)
    with pytest.raises(UnsupportedFunctionError, match="the mesh x"):
        ft.grad(
            lambda b: integrate.solve_bvp(
                lambda x, y: y, lambda a, b: a, np.linspace(0, 1, 5) * b, np.zeros((1, 5))
            ).y[0, 0]
        )(1.0)
    failed = lambda z: np.sum(integrate.solve_bvp(
        lambda x, y: np.stack([y[1], -z[0] * 40 * np.exp(y[0])]), lambda a, b: np.stack([a[0],
        b[0]]),
        np.linspace(0, 1, 6), np.zeros((2, 6)), max_nodes=8,
    ).y)  # fmt: skip
    with np.errstate(all="ignore"), pytest.raises((NotDifferentiableError, ConcretizationError)):
        ft.grad(failed)(z)


# -- least squares ---------------------------------------------------------------------------------

XS, YS = (
    np.linspace(0, 2, 12),
    np.exp(-0.7 * np.linspace(0, 2, 12)) * 1.5 + 0.02 * np.cos(7 * np.arange(12)),
)


def fitted(module: Any, y: Any, **options: Any) -> Any:
    return module.leastsq(
        lambda p, y: p[0] * np.exp(-p[1] * XS) - y,
        [1.0, 1.0],
        args=(y,),
        ftol=1e-15,
        xtol=1e-15,
        **options,
    )


def slopes(p: Any, y: Any) -> Any:
    return np.stack([np.exp(-p[1] * XS), -p[0] * XS * np.exp(-p[1] * XS)])


@pytest.mark.parametrize(
    "options", [{}, {"Dfun": slopes, "col_deriv": True}], ids=["own slopes", "given slopes"]
)
def test_leastsq_is_differentiated_by_the_data(options: Any) -> None:
    found, status = ft.jit(lambda y: fitted(optimize, y, **options))(YS)
    np.testing.assert_allclose(found, fitted(scipy.optimize, YS)[0], rtol=1e-7)
    assert status in (1, 2, 3, 4)
    for k in range(2):
        expected = np.array(
            [
                differences(lambda y: fitted(scipy.optimize, y)[0][k], (YS,), (d,))[0]
                for d in np.eye(12)
            ]
        )
        for transform in (lambda f: f, ft.jit):
            gradient = transform(ft.grad(lambda y, k=k: fitted(optimize, y, **options)[0][k]))(YS)
            np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-6)


def test_all_of_leastsqs_results() -> None:
    def spread(y: Any) -> Any:
        _found, covariance, info, _message, _status = fitted(optimize, y, full_output=True)
        return np.sum(covariance) + np.sum(info["fvec"] ** 2)

    def plain(y: Any) -> Any:
        _, covariance, info, _, _ = fitted(scipy.optimize, y, full_output=True)
        return np.sum(covariance) + np.sum(info["fvec"] ** 2)

    direction = np.cos(np.arange(12.0))
    value, gradient = ft.value_and_grad(spread)(YS)
    np.testing.assert_allclose(value, plain(YS), rtol=1e-6)
    np.testing.assert_allclose(
        gradient @ direction, differences(plain, (YS,), (direction,))[0], rtol=1e-3
    )
    with pytest.raises(NotDifferentiableError, match="fjac"):
        ft.grad(lambda y: np.sum(fitted(optimize, y, full_output=True)[2]["fjac"]))(YS)
    with pytest.raises(UnsupportedFunctionError, match="full_output"):
        ft.jit(spread)(YS)


# -- densities -------------------------------------------------------------------------------------

POINTS = np.random.default_rng(0).normal(size=(4, 3))
MATRIX = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 0.5]])


@pytest.mark.parametrize("name", ["logpdf", "pdf", "entropy"])
@pytest.mark.parametrize("df", [0.7, 5.0, 300.0])
def test_the_multivariate_t_is_scipys(name: str, df: float) -> None:
    given = () if name == "entropy" else (POINTS,)
    args = (*given, np.array([0.1, -0.2, 0.3]), MATRIX, np.float64(df))
    ours, theirs = getattr(stats.multivariate_t, name), getattr(scipy.stats.multivariate_t, name)
    np.testing.assert_allclose(ft.jit(ours)(*args), theirs(*args), rtol=1e-9)
    rng = np.random.default_rng(1)
    along = [rng.normal(size=np.shape(x)) for x in args]
    along[-2] = along[-2] + along[-2].T  # the matrix stays symmetric
    expected = differences(lambda *args: np.sum(theirs(*args)), args, along)[0]
    np.testing.assert_allclose(
        ft.jvp(lambda *args: np.sum(ours(*args)), args, tuple(along))[1],
        expected,
        rtol=1e-6,
        atol=1e-7,
    )
    frozen = (
        ft.jit(lambda *rest: getattr(stats.multivariate_t(*rest), name)(*given))(
            *args[len(given) :]
        )
        if given
        else None
    )
    if frozen is not None:
        np.testing.assert_allclose(frozen, theirs(*args), rtol=1e-9)


def test_the_multivariate_t_at_its_edges() -> None:
    plain = scipy.stats.multivariate_t
    for args in (
        (POINTS, None, MATRIX, np.inf),
        (0.5, 0.1, 2.0, 3.0),
        (POINTS[0], np.zeros(3), [1.0, 2.0, 3.0], 4.0),
    ):
        traced = ft.jit(lambda x, args=args: stats.multivariate_t.logpdf(x, *args[1:]))(args[0])
        np.testing.assert_allclose(traced, plain.logpdf(*args), rtol=1e-12)
    slope = ft.grad(lambda df: np.sum(stats.multivariate_t.logpdf(POINTS, None, MATRIX, df)))(
        np.inf
    )
    assert slope == 0
    with pytest.raises(ShapeError, match="of 3 dimensions"):
        ft.jit(lambda x: stats.multivariate_t.logpdf(x, None, MATRIX, 2.0))(POINTS[:, :2])


SAMPLES = np.random.default_rng(3).normal(size=(2, 9))
WEIGHTS = np.arange(1.0, 10.0)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "method",
    [None, "scott", "silverman", 0.4, lambda k: k.neff**-0.2],
    ids=["default", "scott", "silverman", "number", "function"],
)
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_kernel_density_estimates_are_scipys(method: Any, d: int, weighted: bool) -> None:
    data, weights = (SAMPLES if d == 2 else SAMPLES[0]), WEIGHTS if weighted else None
    at = np.array([[0.1, 0.5, -1.0], [0.2, -0.3, 0.4]])[:d]

    def value(module: Any, data: Any, at: Any, weights: Any = None) -> Any:
        kde = module.gaussian_kde(data, method, weights)
        total = (
            np.sum(kde(at) * np.array([1.0, 2.0, 3.0]))
            + np.sum(kde.logpdf(at))
            + np.sum(kde.covariance)
            + kde.factor
        )
        return total + kde.integrate_box_1d(-0.5, 1.0) if d == 1 else total

    args = (data, at, weights) if weighted else (data, at)
    np.testing.assert_allclose(
        ft.jit(lambda *args: value(stats, *args))(*args), value(scipy.stats, *args), rtol=1e-11
    )
    rng = np.random.default_rng(5)
    along = [rng.normal(size=np.shape(x)) for x in args]
    expected = differences(lambda *args: value(scipy.stats, *args), args, along)[0]
    np.testing.assert_allclose(
        ft.jvp(lambda *args: value(stats, *args), args, tuple(along))[1], expected, rtol=1e-7
    )
    gradient = ft.grad(lambda *args: value(stats, *args), argnums=tuple(range(len(args))))(*args)
    np.testing.assert_allclose(
        sum(np.sum(g * t) for g, t in zip(gradient, along, strict=True)), expected, rtol=1e-7
    )


def test_kernel_density_estimates_of_plain_samples_take_traced_points() -> None:
    ours, theirs = stats.gaussian_kde(SAMPLES), scipy.stats.gaussian_kde(SAMPLES)
    np.testing.assert_array_equal(ours(SAMPLES), theirs(SAMPLES))
    np.testing.assert_array_equal(ours.resample(4, seed=1), theirs.resample(4, seed=1))
    point = np.array([0.1, 0.2])
    expected = [differences(lambda x: theirs(x)[0], (point,), (d,))[0] for d in np.eye(2)]
    np.testing.assert_allclose(ft.grad(lambda x: ours(x)[0])(point), expected, rtol=1e-8)
    with pytest.raises(UnsupportedFunctionError, match="has no resample"):
        ft.jit(lambda data: stats.gaussian_kde(data).resample(3))(SAMPLES)
    with pytest.raises(ShapeError, match="dimension 3"):
        ft.jit(ours.pdf)(np.zeros((3, 4)))
