"""`passes.stable`: each row is more accurate than its formula, against mpmath."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functrace as ft
from functrace.passes import STABLE_FORMS, StableForm, stable

mpmath: Any = pytest.importorskip("mpmath")
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


class Exact:
    """The NumPy functions of the formulas, on lists of mpmath's numbers."""

    @staticmethod
    def _each(function: Any) -> Any:
        return np.vectorize(function, otypes=[object])

    def __getattr__(self, name: str) -> Any:
        if name in ("mean", "sum"):
            return getattr(np, name)
        known = {"log1p": lambda x: mpmath.log(1 + x)}
        return self._each(known.get(name) or getattr(mpmath, name))


def exact(formula: str, x: Any) -> Any:
    """Evaluate a formula with 60 digits; return it rounded to float64."""
    with mpmath.workdps(800 if "sum" in formula or "exp" in formula else 60):
        values = np.array([mpmath.mpf(float(v)) for v in x], object)
        found = eval(formula, {"np": Exact(), "x": values})
        return np.array(found, float) if np.ndim(found) else float(found)


def jitted(f: Any) -> Any:
    return ft.jit(f, passes=[stable])


def errors(found: Any, expected: Any) -> Any:
    error = np.abs(np.asarray(found) - expected) / np.abs(expected)
    return np.where(np.isfinite(error), error, np.inf)


@pytest.mark.parametrize("row", STABLE_FORMS, ids=lambda row: row.formula)
def test_a_row_is_accurate_where_its_formula_is_not(row: StableForm) -> None:
    x = np.array(row.at)
    formula = eval(f"lambda x: {row.formula}", {"np": np})
    expected = exact(row.formula, x)
    plain, found = formula(x), jitted(formula)(x)
    assert np.max(errors(plain, expected)) > 1e-12
    assert np.max(errors(found, expected)) < 4e-15


@pytest.mark.parametrize("row", STABLE_FORMS, ids=lambda row: row.formula)
def test_a_row_is_its_formula_elsewhere(row: StableForm) -> None:
    x = np.array([0.7, 1.3, 2.9])
    formula = eval(f"lambda x: {row.formula}", {"np": np})
    np.testing.assert_allclose(jitted(formula)(x), formula(x), rtol=1e-13)


def test_bodies_of_loops_and_other_programs() -> None:
    def f(x: Any) -> Any:
        return ft.scan(lambda c, t: (c + (1.0 - np.cos(x * t)), None), 0.0 * x, np.ones(2))[0]

    np.testing.assert_allclose(jitted(f)(1e-9), 1e-18, rtol=1e-14)
    program = ft.trace(lambda x: np.sin(x) * 2.0)(1.0)
    assert stable(program) is program


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.log(2 + np.exp(x)),
        lambda x: 2 - np.cos(x),
        lambda x: np.exp(x) / np.sum(np.exp(x + 1)),
        lambda x: np.mean(x**2) - np.mean(x + 1) ** 2,
        lambda x: np.sqrt(x**2 + x),
        lambda x: np.exp(x) / np.sum(np.exp(x), axis=0),
    ],
)
def test_other_formulas_stay(f: Any) -> None:
    x = np.array([[0.5, 1.0], [2.0, 0.25]])
    np.testing.assert_allclose(jitted(f)(x), f(x), rtol=1e-14)


def test_gradients_run_through_the_pass() -> None:
    f: Any = ft.jit(ft.grad(lambda x: np.sum(np.log(1 + np.exp(x)))), passes=[stable])
    np.testing.assert_allclose(f(np.array([0.5, -3.0])), 1 / (1 + np.exp([-0.5, 3.0])), rtol=1e-14)


# -- dtypes, shapes and special values ---------------------------------------------------------------

ONES = (1, True, np.float32(1.0), np.ones(()), np.ones(1), np.ones((1, 1)))
FORMS: dict[str, Any] = {
    "log1p": lambda x, one: np.log(one + x),
    "expm1": lambda x, one: np.exp(x) - one,
    "versine": lambda x, one: one - np.cos(x),
    "softplus": lambda x, one: np.log(one + np.exp(x)),
    "hypot": lambda x, one: np.sqrt(x * x + (one * np.sum(x)) ** 2),
    "squares": lambda x, one: x**2 - (one * np.sum(x)) ** 2,
    "quadratic": lambda x, one: np.sqrt(x * x + one) - x,
    "quadratic of a negative": lambda x, one: -x - np.sqrt((-x) ** 2 + np.sum(x * x) * one),
    "logsumexp": lambda x, one: np.log(np.sum(np.exp(x * one), axis=-1, keepdims=True)),
    "softmax": lambda x, one: np.exp(x) / np.sum(np.exp(x), axis=0) * one,
    "variance": lambda x, one: np.mean(x**2, axis=-1) - np.mean(x, axis=-1) ** 2,
    "variance of all": lambda x, one: np.mean(x**2, axis=-1) - np.mean(x) ** 2 * one,
}
DTYPES = ("f8", "f4", "f2", "g", "c16", "c8", "i8", "i1", "?", "u1")


@pytest.mark.parametrize("shape", [(), (3,), (1,), (2, 3), (3, 3), (1, 3), (0, 3), (2, 1, 3)])
@pytest.mark.parametrize("name", FORMS)
def test_shapes_and_dtypes_are_those_of_the_formula(name: str, shape: tuple[int, ...]) -> None:
    """A one may be an array with more axes than x, and x of any dtype."""
    rng, f = np.random.default_rng(3), FORMS[name]
    for dtype in DTYPES:
        values = np.abs(rng.normal(size=shape)) + 0.25
        x: Any = (values + 1j * values if dtype.startswith("c") else values).astype(dtype)
        if not shape and dtype == "?":
            continue  # powers of a bool depend on whether it is a scalar
        for one in ONES:
            try:
                expected = f(x, one)
            except (TypeError, ValueError, IndexError):  # NumPy has no such operation
                continue
            found = jitted(lambda x, one=one: f(x, one))(x)
            assert np.shape(found) == np.shape(expected)
            assert np.asarray(found).dtype == np.asarray(expected).dtype
            size = min(x.real.dtype.itemsize, np.real(expected).dtype.itemsize)
            tolerance = {1: 0.05, 2: 0.05, 4: 1e-3}.get(size, 1e-6)
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


SPECIAL = (np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, -1.0, 1e200, -1e200, 1e-200)


@pytest.mark.parametrize("row", STABLE_FORMS, ids=lambda row: row.formula)
def test_special_values_are_those_of_the_formula(row: StableForm) -> None:
    """The stable form is finite where the formula is, and defined where the formula is."""
    formula = eval(f"lambda x: {row.formula}", {"np": np})
    for value in SPECIAL:
        if "sum" in row.formula and value == np.inf:
            continue  # a softmax of inf is undefined
        x = np.array([value, 2.0, 1.0]) if "sum" in row.formula or "mean" in row.formula else value
        expected, found = formula(np.asarray(x)[()]), jitted(formula)(x)
        is_known = np.isfinite(expected)
        np.testing.assert_array_equal(np.isfinite(found)[is_known], True)
        assert not np.any(np.isnan(found) & ~np.isnan(expected))


@pytest.mark.parametrize("backend", ["numpy", "native", "xla"])
@pytest.mark.parametrize("row", STABLE_FORMS, ids=lambda row: row.formula)
def test_derivatives_are_those_of_the_formula(row: StableForm, backend: Any) -> None:
    pytest.importorskip({"native": "llvmlite", "xla": "jax"}.get(backend, "numpy"))
    formula = eval(f"lambda x: {row.formula}", {"np": np})
    weights, x = np.array([1.0, 2.0, -1.0]), np.array([1.3, 2.9, 0.7])

    def loss(x: Any) -> Any:
        return np.sum(formula(x) * weights)

    for order in (ft.grad, ft.hessian):
        expected = order(loss)(x)
        compiled: Any = lambda f: ft.jit(f, passes=[stable], backend=backend)
        for found in (order(compiled(loss))(x), compiled(order(loss))(x)):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)


# -- the quadratic formula ---------------------------------------------------------------------------

ROOTS: dict[str, Any] = {
    "plus": lambda a, b, c: (-b + np.sqrt(b**2 - 4 * a * c)) / (2 * a),
    "minus": lambda a, b, c: (-b - np.sqrt(b * b - 4 * a * c)) / (2 * a),
    "turned": lambda a, b, c: (np.sqrt(b**2 - 4 * a * c) - b) / (2 * a),
    "negated": lambda a, b, c: -(b + np.sqrt(-4 * a * c + b**2)) / (2 * a),
}


@pytest.mark.draws
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ROOTS)
@given(st.floats(0.5, 2.0), st.floats(1e2, 1e6), st.floats(0.5, 2.0), st.booleans(), st.booleans())
def test_roots_of_quadratics_have_all_digits(
    name: str, dtype: Any, a: float, b: float, c: float, is_negative: bool, is_below: bool
) -> None:
    """``b**2`` is much greater than ``4 a c``, so that only the sum cancels."""
    b, c = -b if is_negative else b, -c if is_below else c
    a, b, c = (dtype(x) for x in (a, b, c))
    with mpmath.workdps(60):
        numbers = [mpmath.mpf(float(x)) for x in (a, b, c)]
        disc = mpmath.sqrt(numbers[1] ** 2 - 4 * numbers[0] * numbers[2])
        sign = 1 if name in ("plus", "turned") else -1
        expected = float((-numbers[1] + sign * disc) / (2 * numbers[0]))
    found = jitted(ROOTS[name])(a, b, c)
    assert found.dtype == dtype
    assert abs(found - expected) <= 8 * np.finfo(dtype).eps * abs(expected)


def test_the_formula_of_quadratics_loses_digits_without_the_pass() -> None:
    plain = ROOTS["plus"](1.0, 1e6, 1.0)
    assert abs(plain + 1.000000000001e-6) > 1e-12
    assert abs(jitted(ROOTS["plus"])(1.0, 1e6, 1.0) + 1.000000000001e-6) < 1e-20


def test_powers_of_python_numbers_are_squares() -> None:
    assert jitted(lambda x, y: np.sqrt(x**2 + y**2))(1e-200, 1e-200) > 0.0
    assert jitted(lambda x, y: np.sqrt(x**2 + y**2))(1e200, 1e200) < np.inf


def test_roots_of_quadratics_broadcast_and_may_be_double() -> None:
    a, b, c = np.array([1.0, 2.0]), np.array([[2.0], [-2.0], [0.0]]), 1.0
    for f in ROOTS.values():
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(jitted(f)(a, b, c), f(a, b, c), rtol=1e-14)
    np.testing.assert_array_equal(jitted(ROOTS["plus"])(1.0, 0.0, 0.0), 0.0)
