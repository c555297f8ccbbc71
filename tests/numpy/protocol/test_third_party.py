"""Other libraries' plain NumPy code, unmodified, differentiated under `lift`: beside differences."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import LostGradientError
from tests.oracles import differences

X = np.array([1.2, 0.7, 2.1, 0.4])
WEIGHTS = np.arange(1.0, 17.0).reshape(4, 4)


def _split(m: Any, x: Any) -> Any:
    left, right = m.split_de_casteljau(x.reshape(2, 2), 0.3)
    return np.sum(np.asarray(left) ** 2) + np.sum(np.asarray(right)[0])


ROWS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "matplotlib: points of a Bezier curve": (
        "matplotlib.bezier",
        lambda m, x: np.sum(m.BezierSegment(x.reshape(2, 2))(np.array([0.1, 0.6])) ** 2),
    ),
    "matplotlib: coefficients, which are memoised": (
        "matplotlib.bezier",
        lambda m, x: np.sum(m.BezierSegment(x.reshape(2, 2)).polynomial_coefficients ** 2),
    ),
    "matplotlib: a curve split": ("matplotlib.bezier", _split),
    "opt_einsum": (
        "opt_einsum",
        lambda m, x: m.contract("ij,jk,ki->", x.reshape(2, 2), x.reshape(2, 2), np.ones((2, 2))),
    ),
    "scipy: rosen_hess": ("scipy.optimize", lambda m, x: np.sum(m.rosen_hess(x) * WEIGHTS)),
    "scipy: rosen_hess_prod": (
        "scipy.optimize",
        lambda m, x: np.sum(m.rosen_hess_prod(x, np.ones(4)) ** 2),
    ),
    "scipy: block_diag": (
        "scipy.linalg",
        lambda m, x: np.sum(m.block_diag(x.reshape(2, 2), x) ** 2),
    ),
    "scipy: companion": ("scipy.linalg", lambda m, x: np.sum(m.companion(x) ** 2)),
    "scipy: gausspulse": ("scipy.signal", lambda m, x: np.sum(m.gausspulse(x, fc=0.5))),
    "scipy: gaussian window": ("scipy.signal.windows", lambda m, x: np.sum(m.gaussian(7, x[0]))),
    "scipy: general cosine window": (
        "scipy.signal.windows",
        lambda m, x: np.sum(m.general_cosine(7, x)),
    ),
    "scipy: simpson": ("scipy.integrate", lambda m, x: m.simpson(x**2)),
    "scipy: cumulative_trapezoid": (
        "scipy.integrate",
        lambda m, x: np.sum(m.cumulative_trapezoid(x**2) ** 2),
    ),
    "scipy: kurtosis": ("scipy.stats", lambda m, x: m.kurtosis(x)),
    "scipy: zscore": ("scipy.stats", lambda m, x: m.zscore(x)[1]),
    "scipy: gmean": ("scipy.stats", lambda m, x: m.gmean(x)),
    "scipy: logsumexp": ("scipy.special", lambda m, x: m.logsumexp(x)),
    "scipy: softmax": ("scipy.special", lambda m, x: m.softmax(x) @ WEIGHTS[0]),
    "scipy: barycentric interpolation": (
        "scipy.interpolate",
        lambda m, x: m.BarycentricInterpolator([0.0, 1.0, 2.0, 3.0], x)(1.5),
    ),
    "sklearn: RBF kernel by pairs": (
        "sklearn.metrics.pairwise",
        lambda m, x: np.sum(m.rbf_kernel(x.reshape(2, 2)) * WEIGHTS[:2, :2]),
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ROWS)
def test_gradient_and_hessian(name: str) -> None:
    place, f = ROWS[name]
    pytest.importorskip(place.partition(".")[0])
    module = importlib.import_module(place)
    plain = lambda x: f(module, x)
    lifted = ft.numpy.lift(plain)
    direction = np.array([0.3, -0.8, 0.5, 0.2])
    (expected,) = differences(plain, [X], [direction])
    for _ in range(2):  # what is memoised in the first call serves in the second
        np.testing.assert_allclose(ft.grad(lifted)(X) @ direction, expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(
        ft.jvp(lifted, (X,), (direction,))[1], expected, rtol=1e-7, atol=1e-9
    )
    (second,) = differences(ft.grad(lifted), [X], [direction])
    np.testing.assert_allclose(ft.hessian(lifted)(X) @ direction, second, rtol=1e-6, atol=1e-7)
    assert type(plain(X)) is type(lifted(X))


def test_a_library_that_converts_to_python_numbers_needs_modules() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    f = lambda x: metrics.mean_squared_error(np.ones(4), x)
    with pytest.raises(LostGradientError, match="modules="):
        ft.grad(ft.numpy.lift(f))(X)
    np.testing.assert_allclose(
        ft.grad(ft.numpy.lift(f, modules=["sklearn"]))(X), (X - 1.0) / 2, rtol=1e-12
    )


def test_names_that_a_library_bound_earlier_raise_or_are_passed() -> None:
    sympy = pytest.importorskip("sympy")
    a, b = sympy.symbols("a b")
    matrix = sympy.Matrix([[sympy.sin(a) * b, 1], [a**2, sympy.cos(b)]])
    f = lambda g: lambda x: np.sum(g(x[0], x[1]) ** 2)
    bound = sympy.lambdify((a, b), matrix, "numpy")
    with pytest.raises(LostGradientError, match="lambdifygenerated"):
        ft.grad(ft.numpy.lift(f(bound)))(X)
    named = sympy.lambdify((a, b), matrix, [{"array": ft.numpy.array}, "numpy"])
    direction = np.array([0.3, -0.8, 0.5, 0.2])
    (expected,) = differences(f(bound), [X], [direction])
    np.testing.assert_allclose(ft.grad(f(named))(X) @ direction, expected, rtol=1e-7)
