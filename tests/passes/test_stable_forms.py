"""`passes.stable`: each row is more accurate than its formula, against mpmath."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

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
