"""The native backend equals the evaluator: on random programs, on all cases, and on whole works.

Floats may differ by a few units in the last place of the largest element: small products add in
another order, and elementary functions are the tier's own.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import functrace as ft
from functrace.executor import Runner
from functrace.executor.codegen.numpy_source import NUMPY
from functrace.executor.plan.planner import plan, planned
from functrace.ir.program import Program
from tests.laws.programs import Recipe, programs, seeds
from tests.native.laws import given_values, of_case, with_derivatives
from tests.oracles import assert_same, outputs_of, scale
from tests.test_cases import CASES

pytest.importorskip("llvmlite", reason="llvmlite is not installed")

from functrace.native import backend
from functrace.native.backend import NATIVE
from functrace.native.engine import NativeFunction
from functrace.native.loop_ir import walk
from functrace.native.lowering import NoNativeForm, lower
from functrace.native.rows import ROWS, contraction

UNITS = 64
"""Units in the last place of the largest element by which results may differ."""


def native(program: Program) -> NativeFunction:
    """Return a whole program as machine code."""
    flat = Runner(program, NATIVE).flat
    made = lower(plan(flat, NATIVE.policy), ROWS, "test")
    return NativeFunction(made, lambda: NUMPY.compile(planned(flat)))


def assert_close(found: Any, expected: Any) -> None:
    """Assert equal shapes and dtypes, and equal values up to rounding."""
    dtype = np.asarray(expected).dtype
    bound = UNITS * float(np.finfo(dtype).eps) if dtype.kind in "fc" else 0.0
    assert_same(found, expected, rtol=bound, atol=bound * scale(expected))


def check(program: Program, arguments: Any) -> None:
    """Compare a program with the evaluator; segments of it, where it has no native form."""
    values = given_values(arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = outputs_of(ft.evaluate(program, *values))
        flat = Runner(program, NATIVE).flat
        run = NATIVE.compile(plan(flat, NATIVE.policy))
        for _ in range(2):
            found = run(*values)
            assert len(found) == len(expected)
            for one, other in zip(found, expected, strict=True):
                assert_close(one, other)


@given(programs(), seeds())
def test_random_programs_equal_the_evaluator(recipe: Recipe, seed: int) -> None:
    arguments = recipe.arguments(seed)
    check(ft.trace(recipe)(*arguments), arguments)


@given(programs(), seeds())
def test_derivatives_of_random_programs_equal_the_evaluator(recipe: Recipe, seed: int) -> None:
    for program, arguments in with_derivatives(recipe, seed):
        check(program, arguments)


@pytest.mark.sampled(64)
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_cases_equal_the_evaluator(case: Any) -> None:
    check(*of_case(case))


def test_most_elementwise_cases_are_whole() -> None:
    """Programs that have a native form are compiled as a whole, without NumPy."""
    x = np.linspace(-2.0, 2.0, 50)
    for f in (
        lambda x: np.where(x > 0, np.exp(-x) * np.sin(x), np.tanh(x)),
        lambda x: np.sum(np.square(x[1:] - x[:-1])),
        lambda x: np.cumsum(x),
        lambda x: x[None, :3] @ np.outer(x[:3], x[:4]),
        lambda x: ft.scan(lambda c, y: (c * 0.5 + y, c), 0.0, x)[1],
    ):
        program = ft.trace(ft.grad(lambda x, f=f: np.sum(f(x))))(x)
        made = native(program)
        (found,) = made.call(x)
        assert_close(found, ft.evaluate(program, x))
        assert made.fallbacks == 0


@given(programs(), seeds())
def test_no_flag_is_set_where_numpy_does_not_warn(recipe: Recipe, seed: int) -> None:
    arguments = recipe.arguments(seed)

    def pulled(*values: Any) -> Any:
        results, pullback = ft.vjp(recipe, *values)
        return results, pullback(tuple(np.cos(y) for y in results))

    program = ft.trace(pulled)(*arguments)
    values = given_values(arguments)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        ft.evaluate(program, *values)
    try:
        made = native(program)
    except NoNativeForm:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.call(*values)
    has_nan = any(np.isnan(x).any() for x in values)
    assert found or has_nan or made.fallbacks == 0


@pytest.mark.sampled(5)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 6, 7, 10, 17, 18, 34, 37, 41, 50, 1001])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_no_flag_is_set_for_any_size(size: int, dtype: str) -> None:
    x = np.linspace(0.5, 2.0, size).astype(dtype)
    y = np.linspace(1.5, 3.0, 3 * size).astype(dtype).reshape(size, 3)
    for f in (
        lambda x, y: x / (x + 1) + np.sqrt(x),
        lambda x, y: np.sum(y / x[:, None], axis=1),
        lambda x, y: np.sum(y / y.T.reshape(size, 3), axis=0),
        lambda x, y: np.log(y) / np.exp(y) + np.power(y, 1.7) + np.tanh(y) * np.sin(y),
        lambda x, y: np.max(np.sqrt(y) / y, axis=1) + np.arctan2(x, x),
    ):
        made = native(ft.trace(f)(x, y))
        for one, other in zip(made.call(x, y), outputs_of(f(x, y)), strict=True):
            assert_close(one, other)
        assert made.fallbacks == 0


def test_a_program_without_native_form_says_so() -> None:
    with pytest.raises(NoNativeForm):
        native(ft.trace(lambda x: np.linalg.svd(x)[1])(np.eye(9)))


def _statements(steps: int) -> int:
    def f(u: Any) -> Any:
        for _ in range(steps):
            u = u + 0.1 * (np.roll(u, 1, 0) - np.roll(u, -1, 0) + np.roll(u, 1, 1) - 4.0 * u)
        return np.sum(u * u)

    program = ft.trace(ft.grad(f))(np.ones((16, 16)))
    made = lower(plan(Runner(program, NATIVE).flat, NATIVE.policy), ROWS, "test")
    return sum(1 for _ in walk(made.body))


def test_the_length_of_the_code_is_linear_in_that_of_the_program() -> None:
    """Values that several loop nests read are stored, not recomputed in each."""
    few, many = _statements(5), _statements(40)
    assert many < 12 * few


def test_long_programs_stay_with_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "MOST_STATEMENTS", 20)
    x = np.linspace(0.0, 1.0, 50)
    f = lambda x: np.sum(np.sort(np.sin(x) * x + np.cos(x) * x))
    program = ft.trace(ft.grad(f))(x)
    check(program, [x])


def test_without_numpys_blas_products_are_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contraction, "routine_address", lambda name: None)
    x = np.random.default_rng(0).normal(size=(150, 150))
    check(ft.trace(lambda x: x @ x + 1.0)(x), [x])


def test_large_constants() -> None:
    """They are passed to the code: LLVM would read them as text, three million elements in 14
    seconds.
    """
    large = np.linspace(0.0, 1.0, 1_000_000)
    program = ft.trace(lambda x: np.cumsum(x * large))(large)
    check(program, [large])
