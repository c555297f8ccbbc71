"""Programs for the laws of machine code: random ones, their derivatives, and all cases."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import FunctraceError
from functrace.ir.program import Program
from functrace.transforms import jvp_program
from tests.laws.programs import Recipe


def with_derivatives(recipe: Recipe, seed: int) -> Iterator[tuple[Program, list[Any]]]:
    """Yield programs of a random function's reverse and forward mode, with arguments."""
    arguments = recipe.arguments(seed)
    rng = np.random.default_rng(seed)

    def pulled(*values: Any) -> Any:
        results, pullback = ft.vjp(recipe, *values)
        return results, pullback(tuple(np.cos(y) for y in results))

    yield ft.trace(pulled)(*arguments), list(arguments)
    program = jvp_program(ft.trace(recipe)(*arguments), [True] * len(arguments))
    tangents = [
        np.asarray(rng.normal(size=np.shape(x))).astype(np.asarray(x).dtype) for x in arguments
    ]
    yield program, [*arguments, *[t if t.ndim else t[()] for t in tangents]]


def of_case(case: Any) -> tuple[Program, list[Any]]:
    """Return the program of a case, with arguments; skips a case that needs concrete values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            program = ft.trace(case.call)(*case.args)
        except FunctraceError:
            pytest.skip("the case needs concrete values")
    return program, ft.tree.flatten(case.args)[0]


def given_values(arguments: Any) -> list[Any]:
    """Return arguments as compiled programs take them: arrays, and scalars of NumPy."""
    return [x if isinstance(x, np.ndarray) and x.ndim else np.asarray(x)[()] for x in arguments]
