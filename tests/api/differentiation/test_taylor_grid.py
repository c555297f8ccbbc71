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


# -- functions that fall like 1 / x ----------------------------------------------------------------


def exact_slopes(name: str, x: float) -> list[Any]:
    """Derivatives of orders 0 to 6, by the recurrence in as many digits as it loses."""
    with mp.workdps(120):
        at = mp.mpf(x)
        if abs(x) > 12.0 and (x > 0 or name == "dawsn"):  # asymptotic series, DLMF 7.12
            sign, factor = (-1, 1 / mp.sqrt(mp.pi)) if name == "erfcx" else (1, mp.mpf(0.5))
            return [
                sum(
                    sign**m * factor * mp.fac2(2 * m - 1) / mp.mpf(2) ** m
                    * (-1) ** k * mp.rf(2 * m + 1, k) * at ** (-2 * m - 1 - k)
                    for m in range(40)
                )
                for k in range(ORDER + 1)
            ]  # fmt: skip
        if name == "erfcx":
            value = mp.exp(at * at) * mp.erfc(at)
            found, sign = [value, 2 * at * value - 2 / mp.sqrt(mp.pi)], 1
        else:
            value = mp.sqrt(mp.pi) / 2 * mp.exp(-at * at) * mp.erfi(at)
            found, sign = [value, 1 - 2 * at * value], -1
        for k in range(1, ORDER):
            found.append(sign * (2 * at * found[k] + 2 * k * found[k - 1]))
        return found


FALLING = [
    sign * x
    for x in (1e-3, 0.1, 0.7, 1.0, 1.4, 2.0, 3.0, 4.5, 6.0, 8.0, 12.0, 20.0, 100.0, 1e3, 1e4)
    for sign in (1.0, -1.0)
]


@pytest.mark.parametrize("name", ["erfcx", "dawsn"])
def test_functions_that_fall_keep_their_digits(name: str) -> None:
    f = getattr(ft.scipy.special, name)
    xs = np.array([x for x in FALLING if name == "dawsn" or x > -6.0])
    along = [np.ones_like(xs), *[np.zeros_like(xs)] * (ORDER - 1)]
    expected = np.array([[float(d) for d in exact_slopes(name, x)] for x in xs.tolist()]).T
    run = lambda x: ft.jet(f, (x,), (along,))
    for value, found in (run(xs), ft.jit(run)(xs)):
        np.testing.assert_allclose([value, *found], expected, rtol=1e-12)
    g: Any = f
    for k in (1, 2, 3):  # nested, too
        g = ft.elementwise_grad(g)
        np.testing.assert_allclose(g(xs), expected[k], rtol=3e-14)
    np.testing.assert_allclose(ft.vmap(ft.grad(f))(xs), expected[1], rtol=3e-14)
    single = ft.elementwise_grad(f)(xs.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected[1], rtol=1e-5)
    edges = ft.elementwise_grad(ft.elementwise_grad(f))(np.array([np.inf, np.nan]))
    np.testing.assert_array_equal(edges, [0.0, np.nan])


@pytest.mark.parametrize(
    ("a", "b"), [(1.0, 1.0), (2.0, 1.0), (1.0, 3.0), (2.0, 3.0), (3.0, 2.0), (4.0, 4.0)]
)
def test_incomplete_beta_at_both_ends(a: float, b: float) -> None:
    """The distribution function of integer shapes is a polynomial."""
    degree = int(a + b) - 1
    p = np.polynomial.Polynomial([0.0])
    for j in range(int(a), degree + 1):  # DLMF 8.17.5
        x = np.polynomial.Polynomial([0.0, 1.0])
        p = p + math.comb(degree, j) * x**j * (1.0 - x) ** (degree - j)
    for x0 in (0.0, 1.0):
        _, found = ft.jet(lambda x: ft.scipy.special.betainc(a, b, x), (x0,), ([1.0, *[0.0] * 4],))
        expected = [p.deriv(k)(x0) for k in range(1, 6)]
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-9)
        other = ft.jet(lambda x: ft.scipy.special.betaincc(a, b, x), (x0,), ([1.0, 0.0],))[1]
        np.testing.assert_allclose(other, [-d for d in expected[:2]], rtol=1e-12, atol=1e-12)


def test_incomplete_beta_with_infinite_derivatives_at_the_ends() -> None:
    """The signs of x^p's derivatives, as limits from the inside."""
    for a, b in [(0.5, 0.5), (2.5, 0.5), (1.5, 3.0), (0.5, 2.5), (2.0, 1.5)]:
        f = lambda x: ft.scipy.special.betainc(a, b, x)
        g, near = f, np.array([1e-12, 1.0 - 1e-12])
        found = ft.taylor(f, 4)
        series = [found(0.0), found(1.0)]
        for k in range(1, 5):
            g = ft.elementwise_grad(g)
            ends = g(np.array([0.0, 1.0]))
            np.testing.assert_allclose([s[k] for s in series], ends / math.factorial(k))
            is_infinite = np.isinf(ends)
            inside = g(near)[is_infinite]
            np.testing.assert_array_equal(np.sign(ends[is_infinite]), np.sign(inside))
            assert np.all(np.abs(inside) > 1e4)
            for place, (p, q) in enumerate([(a - 1, b - 1), (b - 1, a - 1)]):
                if not is_infinite[place]:  # t^p (1 - t)^q / B, t the distance from the end
                    other = mp.taylor(lambda t, q=q: (1 - t) ** q, 0, 4)
                    term = other[k - 1 - int(p)] if p == int(p) and k > p else 0
                    slope = mp.factorial(k - 1) * term / mp.beta(a, b)
                    sign = -1 if place and k % 2 == 0 else 1
                    assert ends[place] == pytest.approx(sign * float(slope), rel=1e-12)


def test_infinite_derivatives_in_jets() -> None:
    f = lambda x: ft.scipy.special.betainc(1.5, 3.0, x)
    _, found = ft.jet(f, (0.0,), ([1.0, None, None, None],))
    np.testing.assert_array_equal(found, [0.0, np.inf, -np.inf, np.inf])


def test_shapes_and_ends_of_the_incomplete_beta() -> None:
    density = ft.grad(ft.scipy.special.betainc, 2)
    for a, b, x in [(2.0, 3.0, 0.0), (2.0, 3.0, 1.0), (1.0, 2.5, 0.0), (2.5, 1.0, 1.0)]:
        for argument in (0, 1):
            slope = ft.grad(density, argument)(a, b, x)
            if (argument, x, (a, b)[argument]) in {(0, 0.0, 1.0), (1, 1.0, 1.0)}:
                assert slope == -np.inf
                continue
            e, g = (1e-6, 0.0) if argument == 0 else (0.0, 1e-6)
            expected = (density(a + e, b + g, x) - density(a - e, b - g, x)) / 2e-6
            np.testing.assert_allclose(slope, expected, rtol=1e-6, atol=1e-6)
