"""``accuracy="numpy"``: machine code whose results equal those of NumPy's form to the bit."""

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
from functrace.transforms import jvp_program
from tests.laws.programs import Recipe, programs, seeds
from tests.test_cases import CASES

pytest.importorskip("llvmlite", reason="llvmlite is not installed")

from functrace.native.backend import EXACT


def _assert_same_bits(found: Any, expected: Any) -> None:
    """Assert equal dtypes, shapes and bits; every nan is the same."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if found.dtype.kind == "c":
        real = found.real.dtype
        found, expected = (np.ascontiguousarray(x).view(real) for x in (found, expected))
    if found.dtype.kind == "f":
        found, expected = (np.where(np.isnan(x), np.nan, x) for x in (found, expected))
    assert found.tobytes() == expected.tobytes(), (found, expected)


def check(program: Program, arguments: Any) -> None:
    """Compare a program with NumPy's form of it."""
    given_values = [
        x if isinstance(x, np.ndarray) and x.ndim else np.asarray(x)[()] for x in arguments
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = NUMPY.compile(planned(Runner(program, NUMPY).flat))(*given_values)
        run = EXACT.compile(plan(Runner(program, EXACT).flat, EXACT.policy))
        for _ in range(2):
            found = run(*given_values)
            for one, other in zip(found, expected, strict=True):
                _assert_same_bits(one, other)


@given(programs(), seeds())
def test_random_programs_equal_numpys_form(recipe: Recipe, seed: int) -> None:
    arguments = recipe.arguments(seed)
    check(ft.trace(recipe)(*arguments), arguments)


@given(programs(), seeds())
def test_derivatives_of_random_programs_equal_numpys_form(recipe: Recipe, seed: int) -> None:
    arguments = recipe.arguments(seed)
    rng = np.random.default_rng(seed)

    def pulled(*values: Any) -> Any:
        results, pullback = ft.vjp(recipe, *values)
        return results, pullback(tuple(np.cos(y) for y in results))

    check(ft.trace(pulled)(*arguments), arguments)
    program = jvp_program(ft.trace(recipe)(*arguments), [True] * len(arguments))
    tangents = [
        np.asarray(rng.normal(size=np.shape(x))).astype(np.asarray(x).dtype) for x in arguments
    ]
    check(program, [*arguments, *[t if t.ndim else t[()] for t in tangents]])


@pytest.mark.sampled(64)
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_cases_equal_numpys_form(case: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            program = ft.trace(case.call)(*case.args)
        except ft.errors.FunctraceError:
            pytest.skip("the case needs concrete values")
    arguments, _ = ft.tree.flatten(case.args)
    check(program, arguments)
