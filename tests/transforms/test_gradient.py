"""`gradient` on both of its sinks, a tape (`grad_program`) and an instruction list;
`pullback_programs`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.executor.runner import Runner
from functrace.transforms import (
    grad_program,
    linearize_program,
    pullback_programs,
    transpose_program,
)
from tests.oracles import assert_same, inner
from tests.transforms.programs import Example, X, assert_close, every, rules_and_templates, scalar


def by_transposing(example: Example, bars: list[Any]) -> list[Any]:
    """The same cotangents by another walk: those of the linear half, transposed."""
    forward, linear = linearize_program(example.program, example.active)
    results = ft.tree.leaves(ft.evaluate(forward, *example.args))
    residuals = results[len(example.program.output_ids) :]
    flags = [False] * len(residuals) + [True] * sum(example.active)
    return ft.tree.leaves(ft.evaluate(transpose_program(linear, flags), *residuals, *bars))


@every
@rules_and_templates
def test_gradients_are_those_of_the_transpose(example: Example, by_rules: bool) -> None:
    loss = scalar(example)
    made = grad_program(loss.program, loss.active, by_rules=by_rules).check()
    found = ft.evaluate(made, *loss.args)
    count = len(loss.program.output_ids)
    assert_close(found[:count], loss.of_primals(*loss.primals))
    assert_close(found[count:], by_transposing(example, example.weights()))


@every
def test_both_sinks_produce_the_same_gradient(example: Example) -> None:
    loss = scalar(example)
    for with_value in (True, False):
        expected = ft.evaluate(grad_program(loss.program, loss.active, with_value), *loss.args)
        listed = Runner.of_gradient(loss.program, loss.active, with_value)
        for _ in range(2):
            for y, z in zip(listed(list(loss.args)), ft.tree.leaves(expected), strict=True):
                assert_same(y, z)


@every
def test_templates_generate_the_programs_of_rules(example: Example) -> None:
    loss = scalar(example)
    assert grad_program(loss.program, loss.active) == grad_program(
        loss.program, loss.active, by_rules=True
    )


def test_work_of_the_value_alone_is_left_out() -> None:
    program = ft.trace(lambda x: np.sum(x * x) + 1.0)(X)
    with_value, without = (grad_program(program, [True], flag) for flag in (True, False))
    assert len(without.schedule) < len(with_value.schedule)
    assert_close(ft.evaluate(without, X), 2.0 * X)


def test_an_input_that_is_not_read_has_a_gradient_of_zeros() -> None:
    made = grad_program(ft.trace(lambda x, y: np.sum(x))(X, X), [True, True])
    assert_close(ft.evaluate(made, X, X)[1:], [np.ones(3), np.zeros(3)])


@every
@rules_and_templates
def test_pullbacks_pass_the_dot_test(example: Example, by_rules: bool) -> None:
    forward, backward = pullback_programs(example.program, example.active, by_rules=by_rules)
    forward.check()
    backward.check()
    results = ft.tree.leaves(ft.evaluate(forward, *example.args))
    count = len(example.program.output_ids)
    bars = example.weights()
    found = ft.tree.leaves(ft.evaluate(backward, *results[count:], *bars))
    assert_close(found, by_transposing(example, bars))
    directions = example.directions()
    pushed = ft.jvp(example.of_primals, tuple(example.primals), tuple(directions))[1]
    np.testing.assert_allclose(
        inner(bars, pushed), inner(found, directions), rtol=1e-10, atol=1e-12
    )


@pytest.mark.parametrize("count", [0, 1])
def test_pullbacks_of_the_first_outputs(count: int) -> None:
    forward, backward = pullback_programs(
        ft.trace(lambda x: (np.sum(x * x), np.sin(x)))(X), [True], count
    )
    residuals = ft.tree.leaves(ft.evaluate(forward, X))[2:]
    assert_close(ft.evaluate(backward, *residuals, *[1.0] * count), 2.0 * X * count)
