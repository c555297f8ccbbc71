"""`jvp_program`: outputs and tangents, as differences have them."""

from __future__ import annotations

import numpy as np
import pytest

import functrace as ft
from functrace.errors import NotDifferentiableError
from functrace.transforms import jvp_program
from tests.oracles import differences
from tests.transforms.programs import EXAMPLES, Example, X, assert_close, every, rules_and_templates


@every
@rules_and_templates
def test_tangents_are_differences(example: Example, by_rules: bool) -> None:
    made = jvp_program(example.program, example.active, by_rules=by_rules).check()
    directions = example.directions()
    values = example.of_primals(*example.primals)
    found = ft.evaluate(made, *example.args, *directions)
    assert_close(found[: len(values)], values)
    expected = differences(example.of_primals, example.primals, directions)
    assert_close(found[len(values) :], [np.asarray(t)[()] for t in expected], 1e-7)


@every
def test_templates_generate_the_programs_of_rules(example: Example) -> None:
    by_templates, by_rules = (
        jvp_program(example.program, example.active, by_rules=flag) for flag in (False, True)
    )
    assert by_templates == by_rules


def test_inputs_and_outputs_are_the_programs_then_tangents() -> None:
    made = jvp_program(ft.trace(lambda a, k, x: (a * x, k))(2.0, 3, X))
    assert [str(made.avals[i]) for i in made.input_ids] == [
        "f64[]",
        "i64[]",
        "f64[3]",
        "f64[]",
        "f64[3]",
    ]
    assert [str(made.avals[i]) for i in made.output_ids][:2] == ["f64[3]", "i64[]"]


def test_auxiliary_outputs_have_no_tangents() -> None:
    made = jvp_program(ft.trace(lambda x: (x * x, np.floor(x), x))(2.0), count=1)
    assert_close(ft.evaluate(made, 3.0, 1.0), [9.0, 3.0, 3.0, 6.0])


def test_inactive_results_have_a_zero_tangent() -> None:
    made = jvp_program(ft.trace(lambda a, x: (np.sin(a), x))(2.0, X), [False, True])
    assert_close(ft.evaluate(made, 2.0, X, X)[2:], [np.float64(0.0), X])


def test_twice_is_the_second_derivative() -> None:
    made = jvp_program(jvp_program(ft.trace(lambda x: np.sin(x) * x)(0.5)), [True, False])
    found = ft.evaluate(made, 0.5, 1.0, 1.0)
    np.testing.assert_allclose(found[3], 2.0 * np.cos(0.5) - 0.5 * np.sin(0.5), rtol=1e-14)


def test_the_same_program_is_made_once() -> None:
    program = EXAMPLES[0].program
    assert jvp_program(program, [True]) is jvp_program(program, [True])


def test_operations_without_a_derivative_raise() -> None:
    made = ft.trace(lambda x: ft.pure_callback(np.sin, x, x))(1.0)
    with pytest.raises(NotDifferentiableError):
        jvp_program(made)
