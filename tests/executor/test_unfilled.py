"""Instructions of programs that hold unknown numbers: filled, they compute what the program for given numbers does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from functrace.executor import instructions
from functrace.ir.aval import ShapeDtype
from functrace.ir.filling import Template
from functrace.ir.program import Program
from functrace.ir.unknown import Questions
from functrace.ops.elementwise import maximum, mul
from functrace.ops.elementwise import power as power_of
from functrace.ops.shaping import broadcast_to, reshape
from functrace.tracing import Recording
from functrace.tracing.evaluate import evaluate_program


def recorded(rows: Any, columns: Any, exponent: Any, bound: Any) -> Program:
    with Recording("example", keeps_source=False) as recording:
        x = recording.new_input(ShapeDtype((rows, columns), np.float64))
        y = maximum(mul(power_of(x, exponent), exponent), bound)
        z = broadcast_to(reshape(y, (columns, rows)), (2, columns, rows))
        return recording.program((y._id, z._id), name="example")


def test_they_compute_what_the_program_of_given_numbers_does() -> None:
    questions = Questions()
    open_program = recorded(questions.size(0, 4), questions.size(1, 6), questions.number(2, 2.5), questions.number(3, 0.25))
    unfilled = instructions.Unfilled(Template(open_program))
    generator = np.random.default_rng(0)
    cases = [(4, 6, 2.5, 0.25), (3, 5, -0.5, 1.5), (7, 2, 4.25, 0.0), (4, 6, 2.5, 0.25)]
    made = [unfilled.fill(case) for case in cases]  # all of them stand side by side
    for case, filled in zip(cases, made, strict=True):
        program = recorded(*case)
        x = generator.uniform(0.5, 2.0, case[:2])
        for _ in range(2):
            for found, expected in zip(instructions.run(filled, [x], ()), evaluate_program(program, [x]), strict=True):
                np.testing.assert_array_equal(found, expected, strict=True)


def test_what_they_raise_names_the_operation() -> None:
    questions = Questions()
    open_program = recorded(questions.size(0, 4), questions.size(1, 6), questions.number(2, 2.5), 0.25)
    filled = instructions.Unfilled(Template(open_program)).fill((4, 6, 2.5))
    with pytest.warns(RuntimeWarning, match="power"):
        instructions.run(filled, [np.full((4, 6), -1.0)], ())
