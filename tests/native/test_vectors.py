"""Loops that the printer of LLVM IR makes vectors of: short ones, and those of several kernels."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft

pytest.importorskip("llvmlite", reason="llvmlite is not installed")

from functrace.executor.plan.planner import plan
from functrace.executor.policy import Policy
from functrace.executor.runner import Runner
from functrace.native.backend import NATIVE
from functrace.native.llvm_text import Printer, function_text
from functrace.native.loop_ir import For, walk
from functrace.native.lowering import lower
from functrace.native.rows import ROWS
from tests.native.test_programs import native


def text_of(f: Callable[..., Any], *arguments: Any) -> str:
    program = ft.trace(f)(*arguments)
    function = lower(plan(Runner(program, NATIVE).flat, Policy()), ROWS, "f")
    assert any(type(s) is For and not s.lanes for s in walk(function.body))
    return function_text(Printer(keeps_flags=True), function, "f")


def arithmetic(x: Any, y: Any) -> Any:
    z = x * y - 0.5
    return (
        z / (1.0 + x * x), np.sqrt(x * x) + y[::-1], np.where(x > y, z, 2.0), x > y, np.minimum(x, y),
        (x > 0.0) & (y > 0.0), np.floor(x) + z.astype(np.float64), (4.0 * x).astype(np.int32),
    )  # fmt: skip


SIZES = (2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100, 1000)


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize("size", SIZES)
def test_arithmetic_of_short_rows(size: int, rows: int, dtype: str) -> None:
    rng = np.random.default_rng(size)
    x, y = (rng.normal(size=(rows, size)).astype(dtype) for _ in "xy")
    made = native(ft.trace(arithmetic)(x, y))
    for found, one in zip(made.call(x, y), arithmetic(x, y), strict=True):
        assert found.dtype == one.dtype
        np.testing.assert_array_equal(found, one)
    assert made.fallbacks == 0


def chained(x: Any) -> Any:
    y = np.tanh(np.sin(x) * 1.01 + 0.1)
    return np.exp(-y * y) + np.cos(x), np.log1p(y * y) * np.cos(y) + np.sin(y)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize("size", SIZES)
def test_results_do_not_depend_on_the_position(size: int, rows: int, dtype: str) -> None:
    """Elements at the ends of rows are those of a scalar program, to the bit; so is the gradient."""
    rng = np.random.default_rng(size)
    x = (3.0 * rng.normal(size=(rows, size))).astype(dtype)

    def gradient(x: Any) -> Any:
        return ft.grad(lambda x: np.sum(chained(x)[0] * chained(x)[1]))(x)

    for f in (lambda x: chained(x), lambda x: (gradient(x),)):
        many, one = native(ft.trace(f)(x)), native(ft.trace(f)(x[0, 0]))
        results = many.call(x)
        for index in [(0, 0), (0, size - 1), (rows - 1, size // 2), (rows - 1, size - 1)]:
            for found, wanted in zip(results, one.call(x[index]), strict=True):
                assert found[index].tobytes() == wanted.tobytes()
        assert many.fallbacks == 0


def test_kernels_of_one_operand_are_one_call() -> None:
    def pair(x: Any) -> Any:
        return np.sin(x) * np.exp(x), np.cos(x)

    x = np.linspace(-4.0, 4.0, 100)
    text = text_of(pair, x)
    assert "@functrace_cos_sin_f8_v32" in text
    assert not re.search(r"@functrace_(sin|cos)_f8", text)
    for found, f in zip(native(ft.trace(pair)(x)).call(x)[1:], [np.cos], strict=True):
        alone = native(ft.trace(lambda x: f(x))(x)).call(x)[0]
        assert found.tobytes() == alone.tobytes()


@pytest.mark.parametrize("size", [8, 45, 100])
def test_rows_that_are_overwritten_are_computed_once(size: int) -> None:
    def f(x: Any, y: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            return np.tanh(np.sin(carry) + np.exp(-row * row)), None

        return ft.scan(step, x, y)[0]

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(5, size)), rng.normal(size=(6, 5, size))
    found = ft.jit(f, backend="native")(x, y)
    np.testing.assert_allclose(found, ft.jit(f, backend="numpy")(x, y), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("size", [4, 8, 33, 45, 100])
@pytest.mark.parametrize("bad", [np.inf, np.nan, 1e300])
def test_flags_are_those_of_the_elements(size: int, bad: float) -> None:
    """NumPy warns of an element wherever it is; numbers that raise no flag do not either."""

    def f(x: Any) -> Any:
        y = np.exp(-x * x)
        return np.tanh(y) / (1.0 + y), 1.0 / (x + 0.5)

    run = ft.jit(f, backend="native")
    for row, place in [(0, 0), (10, size - 1), (39, size // 2)]:
        x = np.ones((40, size))
        x[row, place] = bad
        with warnings.catch_warnings(record=True) as expected:
            warnings.simplefilter("always")
            wanted = f(x)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            results = run(x)
        assert {str(w.message) for w in found} == {str(w.message) for w in expected}
        for one, other in zip(results, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-13)


def test_numbers_that_an_integer_cannot_hold() -> None:
    run = ft.jit(lambda x: (np.exp(x) + np.log1p(x * x)).astype(np.int32), backend="native")
    x = np.ones((40, 45))
    np.testing.assert_array_equal(run(x), np.full((40, 45), 3))
    x[17, 44] = 40.0
    with pytest.warns(RuntimeWarning, match="invalid value"):
        run(x)
