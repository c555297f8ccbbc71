"""`with_given`: values that are known are read, and differentiated as what made them."""

from __future__ import annotations

import numpy as np

import functrace as ft
from functrace.transforms import grad_program, jvp_program
from functrace.transforms.precomputed import with_given, without_given
from tests.transforms.programs import X, assert_close


def program() -> tuple[ft.Program, int]:
    """sum(exp(sin(x))), and the variable that holds exp(sin(x))."""
    made = ft.trace(lambda x: np.sum(np.exp(np.sin(x))))(X)
    (k,) = [k for k, _ in made.schedule if made.ops[k][0].name == "exp"]
    return made, k


def test_a_precomputed_value_is_read_and_not_computed() -> None:
    made, k = program()
    read = without_given(with_given(made, [k]))
    assert "exp" not in {read.ops[j][0].name for j, _ in read.schedule}
    assert_close(ft.evaluate(read, X, np.array([1.0, 2.0, 3.0])), 6.0)


def test_a_precomputed_value_has_the_derivative_of_its_operation() -> None:
    made, k = program()
    y = np.exp(np.sin(X))
    known = with_given(made, [k])
    pushed = without_given(jvp_program(known, [True, False]))
    assert_close(ft.evaluate(pushed, X, y, np.ones(3)), [np.sum(y), np.sum(y * np.cos(X))])
    pulled = without_given(grad_program(known, [True, False]))
    assert_close(ft.evaluate(pulled, X, y), [np.sum(y), y * np.cos(X)])
    assert "exp" not in {pulled.ops[j][0].name for j, _ in pulled.schedule}


def test_a_program_without_precomputed_values_is_unchanged() -> None:
    made, _ = program()
    assert without_given(made) is made
