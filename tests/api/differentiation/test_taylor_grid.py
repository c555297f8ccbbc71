"""Taylor coefficients of orders 0 to 6 of smooth functions equal mpmath's, at regular points, at
zeros of denominators that cancel, and at branch points, under every transform and backend.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import UnsupportedFunctionError

special = pytest.importorskip("scipy.special")
mpmath = pytest.importorskip("mpmath")

ORDER = 6
REAL, POSITIVE, UNIT, ABOVE = (
    (0.0, 0.6, -1.0, 2.0), (0.3, 1.0, 2.0), (0.0, 0.3, -0.6), (1.2, 3.0)
)  # fmt: skip
mp: Any = mpmath

UNARY: dict[str, tuple[Any, Any, tuple[float, ...]]] = {
    "sin": (np.sin, mp.sin, REAL),
    "cos": (np.cos, mp.cos, REAL),
    "tan": (np.tan, mp.tan, REAL),
    "exp": (np.exp, mp.exp, REAL),
    "exp2": (np.exp2, lambda x: mp.power(2, x), REAL),
    "expm1": (np.expm1, mp.expm1, REAL),
    "log": (np.log, mp.log, POSITIVE),
    "log1p": (np.log1p, lambda x: mp.log(1 + x), (0.0, 0.6, -0.4)),
    "log2": (np.log2, lambda x: mp.log(x, 2), POSITIVE),
    "log10": (np.log10, mp.log10, POSITIVE),
    "sqrt": (np.sqrt, mp.sqrt, POSITIVE),
    "cbrt": (np.cbrt, mp.cbrt, POSITIVE),
    "square": (np.square, lambda x: x * x, REAL),
    "reciprocal": (np.reciprocal, lambda x: 1 / x, (0.6, -1.0)),
    "sinh": (np.sinh, mp.sinh, REAL),
    "cosh": (np.cosh, mp.cosh, REAL),
    "tanh": (np.tanh, mp.tanh, REAL),
    "arcsin": (np.arcsin, mp.asin, UNIT),
    "arccos": (np.arccos, mp.acos, UNIT),
    "arctan": (np.arctan, mp.atan, REAL),
    "arcsinh": (np.arcsinh, mp.asinh, REAL),
    "arccosh": (np.arccosh, mp.acosh, ABOVE),
    "arctanh": (np.arctanh, mp.atanh, UNIT),
    "sinc": (np.sinc, mp.sincpi, REAL),
    "cube": (lambda x: x**3, lambda x: x**3, REAL),
    "power 2.5": (lambda x: x**2.5, lambda x: x ** mp.mpf(2.5), POSITIVE),
    "power of itself": (lambda x: x**x, lambda x: x**x, (0.5, 1.0, 2.0, 3.0)),
    "power of a power": (lambda x: np.power(x, x - 2), lambda x: x ** (x - 2), (2.0, 3.0, 4.0)),
    "float_power": (lambda x: np.float_power(x, x - 1), lambda x: x ** (x - 1), (1.0, 2.0, 3.0)),
    "exponent": (lambda x: 2.0**x, lambda x: mp.power(2, x), REAL),
    "quotient": (lambda x: np.sin(x) / (1 + x**2), lambda x: mp.sin(x) / (1 + x**2), REAL),
    "arctan2": (lambda x: np.arctan2(x, 1 + x**2), lambda x: mp.atan(x / (1 + x**2)), REAL),
    "hypot": (lambda x: np.hypot(x, 1.0), lambda x: mp.sqrt(x**2 + 1), REAL),
    "logaddexp": (
        lambda x: np.logaddexp(x, 2 * x), lambda x: mp.log(mp.exp(x) + mp.exp(2 * x)), REAL
    ),
    "logaddexp2": (
        lambda x: np.logaddexp2(x, 0.0), lambda x: mp.log(1 + mp.power(2, x), 2), REAL
    ),
    "erf": (special.erf, mp.erf, REAL),
    "erfc": (special.erfc, mp.erfc, REAL),
    "erfcx": (special.erfcx, lambda x: mp.exp(x * x) * mp.erfc(x), REAL),
    "erfi": (special.erfi, mp.erfi, REAL),
    "erfinv": (special.erfinv, mp.erfinv, UNIT),
    "ndtr": (special.ndtr, mp.ncdf, REAL),
    "log_ndtr": (special.log_ndtr, lambda x: mp.log(mp.ncdf(x)), REAL),
    "gamma": (special.gamma, mp.gamma, (0.6, 2.0, -0.4)),
    "gammaln": (special.gammaln, mp.loggamma, POSITIVE),
    "rgamma": (special.rgamma, mp.rgamma, (0.6, 2.0)),
    "digamma": (special.digamma, mp.digamma, POSITIVE),
    "beta": (lambda x: special.beta(x, 2.0), lambda x: mp.beta(x, 2), POSITIVE),
    "expit": (special.expit, lambda x: 1 / (1 + mp.exp(-x)), REAL),
    "log_expit": (special.log_expit, lambda x: -mp.log(1 + mp.exp(-x)), REAL),
    "logit": (special.logit, lambda x: mp.log(x / (1 - x)), (0.3, 0.6)),
    "j0": (special.j0, lambda x: mp.besselj(0, x), REAL),
    "jv": (lambda x: special.jv(2, x), lambda x: mp.besselj(2, x), REAL),
    "i0": (special.i0, lambda x: mp.besseli(0, x), REAL),
    "k0": (special.k0, lambda x: mp.besselk(0, x), POSITIVE),
    "y0": (special.y0, lambda x: mp.bessely(0, x), POSITIVE),
    "entr": (special.entr, lambda x: -x * mp.log(x), POSITIVE),
    "xlogy": (lambda x: special.xlogy(x, x), lambda x: x * mp.log(x), POSITIVE),
    "xlog1py": (lambda x: special.xlog1py(x, x), lambda x: x * mp.log(1 + x), (0.0, 0.6, 2.0)),
    "exp1": (special.exp1, mp.e1, POSITIVE),
    "expi": (special.expi, mp.ei, POSITIVE),
    "spence": (special.spence, lambda x: mp.polylog(2, 1 - x), (0.6, 1.7)),
    "exprel": (special.exprel, lambda x: mp.expm1(x) / x if x else mp.mpf(1), REAL),
    "dawsn": (special.dawsn, lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x), REAL),
    "zeta": (lambda x: special.zeta(2.0, x), lambda x: mp.zeta(2, x), POSITIVE),
    "ellipk": (special.ellipk, mp.ellipk, UNIT),
    "gammainc": (
        lambda x: special.gammainc(2.0, x),
        lambda x: mp.gammainc(2, 0, x, regularized=True),
        POSITIVE,
    ),
}  # fmt: skip


def exact(g: Any, points: Sequence[float]) -> Any:
    """Coefficients by mpmath with 50 digits; shape (orders, points)."""
    with mp.workdps(50):
        columns = [[float(mp.re(c)) for c in mp.taylor(g, mp.mpf(x), ORDER)] for x in points]
    return np.array(columns).T


def assert_close(found: Any, expected: Any, rtol: float = 1e-9) -> None:
    scale = np.minimum(np.max(np.abs(expected), axis=0), 1e3)
    assert np.shape(found) == np.shape(expected)
    assert np.all(np.abs(found - expected) <= rtol * (np.abs(expected) + 1e-3 * scale)), (
        found,
        expected,
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", UNARY)
def test_coefficients_are_those_of_mpmath(name: str) -> None:
    f, g, points = UNARY[name]
    x, expected = np.array(points), exact(g, points)
    expanded = ft.taylor(f, ORDER)
    assert_close(expanded(x), expected)
    for order in range(ORDER):  # lower orders alone
        np.testing.assert_allclose(ft.taylor(f, order)(x), expanded(x)[: order + 1], rtol=1e-12)
    assert_close(ft.vmap(expanded, out_axes=1)(x), expected)
    slopes = ft.grad(lambda x: np.sum(expanded(x)[ORDER - 1]))(x)
    np.testing.assert_allclose(slopes, ORDER * expected[ORDER], rtol=1e-8, atol=1e-8)
    factorials = [math.factorial(k) for k in range(1, ORDER + 1)]
    _, terms = ft.jet(f, (x,), ([np.ones_like(x), *[None] * (ORDER - 1)],))
    assert_close(np.stack(terms), expected[1:] * np.array(factorials)[:, None])
    second = ft.laplacian(f)(x)  # elementwise
    np.testing.assert_allclose(second, 2 * expected[2], rtol=1e-9, atol=1e-10)


@pytest.mark.sampled(16)
@pytest.mark.filterwarnings("ignore:XLA compiles the:RuntimeWarning")
@pytest.mark.parametrize("backend", ["numpy", "native", "xla"])
@pytest.mark.parametrize("name", UNARY)
def test_coefficients_under_jit(name: str, backend: Any) -> None:
    pytest.importorskip({"native": "llvmlite", "xla": "jax"}.get(backend, "numpy"))
    f, _, points = UNARY[name]
    x = np.array(points)
    expanded = ft.taylor(f, ORDER)
    expected = expanded(x)
    try:
        found = ft.jit(expanded, backend=backend)(x)
    except UnsupportedFunctionError as error:  # of a special function that XLA does not have
        assert backend == "xla" and "host_callbacks=" in str(error)
        return
    assert_close(found, expected, rtol=1e-11)
    found = ft.jit(ft.vmap(expanded, out_axes=1), backend=backend)(x)
    assert_close(found, expected, rtol=1e-11)


BRANCH_POINTS: dict[str, tuple[Any, float, int]] = {
    "sqrt": (np.sqrt, 0.0, 1),
    "cbrt": (np.cbrt, 0.0, 1),
    "log": (np.log, 0.0, 0),
    "log1p": (np.log1p, -1.0, 0),
    "reciprocal": (np.reciprocal, 0.0, 0),
    "arcsin": (np.arcsin, 1.0, 1),
    "arccos": (np.arccos, -1.0, 1),
    "arccosh": (np.arccosh, 1.0, 1),
    "arctanh": (np.arctanh, 1.0, 0),
    "power 0.5": (lambda x: x**0.5, 0.0, 1),
    "power 1.5": (lambda x: x**1.5, 0.0, 2),
    "power 2.5": (lambda x: x**2.5, 0.0, 3),
    "power of an array": (lambda x: np.power(x, 2.5 + 0 * x), 0.0, 3),
    "xlogy": (lambda x: special.xlogy(x, x), 0.0, 1),
    "gamma": (special.gamma, 0.0, 0),
    "k0": (special.k0, 0.0, 0),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", BRANCH_POINTS)
def test_derivatives_that_do_not_exist_are_not_finite(name: str) -> None:
    f, x, first = BRANCH_POINTS[name]
    with np.errstate(all="ignore"):
        found = ft.taylor(f, ORDER)(x)
    assert np.all(np.isfinite(found[:first]))
    assert not np.any(np.isfinite(found[first:])), found


@pytest.mark.parametrize("power", [np.power, np.float_power])
def test_mixed_derivatives_of_powers_at_exponent_0(power: Any) -> None:
    """The derivative of x**n by x is 0 at n = 0; its derivative by n is 1 / x."""
    x = np.array([0.5, 2.0, 3.0])
    mixed = ft.vmap(ft.grad(ft.grad(power, 0), 1), (0, None))
    np.testing.assert_allclose(mixed(x, 0.0), 1 / x, rtol=1e-14)
    other = ft.vmap(ft.grad(ft.grad(power, 1), 0), (0, None))
    np.testing.assert_allclose(other(x, 0.0), 1 / x, rtol=1e-14)
    third = ft.grad(ft.grad(ft.grad(power, 0), 0), 1)(2.0, 1.0)
    np.testing.assert_allclose(third, 1 / 2.0, rtol=1e-14)
    with np.errstate(all="raise"):
        slopes = ft.vmap(ft.grad(power), (0, None))(np.array([0.0, -0.0, 1e-310, 3.0]), 0.0)
    np.testing.assert_array_equal(slopes, 0.0)


def product_of_lines(starts: Any, slopes: Any) -> Any:
    found = np.ones(1)
    for pair in zip(starts, slopes, strict=True):
        found = np.convolve(found, pair)
    return np.pad(found, (0, ORDER + 1))[: ORDER + 1]


@pytest.mark.parametrize("zeros", [(), (0,), (0, 2), (1, 2, 3)])
def test_products_with_zeros_are_polynomials(zeros: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x, v = rng.uniform(1.0, 2.0, 5), rng.standard_normal(5)
    x[list(zeros)] = 0.0
    for f in (np.prod, np.multiply.reduce, lambda x: np.cumprod(x)[-1]):
        found = ft.taylor(f, ORDER, direction=v)(x)
        np.testing.assert_allclose(found, product_of_lines(x, v), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n", [2, 3])
def test_determinants_of_singular_matrices_are_polynomials(n: int) -> None:
    rng = np.random.default_rng(n)
    a, v = rng.standard_normal((2, n, n))
    a[0] = a[1]
    times = np.arange(n + 1.0)
    values = [np.linalg.det(a + t * v) for t in times]
    expected = np.linalg.solve(np.vander(times, increasing=True), values)
    found = ft.taylor(np.linalg.det, n, direction=v)(a)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
