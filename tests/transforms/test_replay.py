"""`tangent_program` and `backward_program`: derivatives that recompute what they may not save."""

from __future__ import annotations

from typing import Any

import numpy as np

import functrace as ft
from functrace.transforms import backward_program, jvp_program, tangent_program
from tests.oracles import inner
from tests.transforms.programs import Example, X, assert_close, every


def values_of(program: ft.Program, args: tuple[Any, ...], saved: tuple[int, ...]) -> list[Any]:
    """Evaluate variables of a program."""
    shown = ft.Program(
        program.ops,
        program.avals,
        program.literals,
        program.input_ids,
        program.constant_values,
        saved,
        name="saved",
    )
    return ft.tree.leaves(ft.evaluate(shown, *args))


@every
def test_tangents_from_inputs_alone(example: Example) -> None:
    program, directions = example.program, example.directions()
    made, saved = tangent_program(program, example.active)
    assert set(saved) <= set(program.input_ids)
    expected = ft.evaluate(jvp_program(program, example.active), *example.args, *directions)
    found = ft.evaluate(made.check(), *values_of(program, example.args, saved), *directions)
    assert_close(ft.tree.leaves(found), expected[len(program.output_ids) :])


@every
def test_cotangents_from_inputs_alone(example: Example) -> None:
    program, directions, bars = example.program, example.directions(), example.weights()
    made, saved = backward_program(program, example.active)
    found = ft.tree.leaves(
        ft.evaluate(made.check(), *values_of(program, example.args, saved), *bars)
    )
    pushed = ft.jvp(example.of_primals, tuple(example.primals), tuple(directions))[1]
    np.testing.assert_allclose(
        inner(bars, pushed), inner(found, directions), rtol=1e-10, atol=1e-12
    )


def test_saved_results_are_not_recomputed() -> None:
    program = ft.trace(lambda x: np.exp(np.sin(x)))(X)
    by_input, _ = backward_program(program)
    by_both, saved = backward_program(program, saved=[*program.input_ids, *program.output_ids])
    assert set(saved) == {*program.input_ids, *program.output_ids}
    assert len(by_both.schedule) < len(by_input.schedule)
    y = np.exp(np.sin(X))
    order = [X if i in program.input_ids else y for i in saved]
    assert_close(ft.evaluate(by_both, *order, np.ones(3)), y * np.cos(X))
