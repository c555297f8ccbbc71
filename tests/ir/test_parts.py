"""Rewrites that keep operations: the tape of the copy, and programs that need none."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings

import functrace as ft
from functrace.ir.parts import Rewrite, compact, is_compact
from functrace.ir.primitive import CONSTANT, INPUT, RESULT
from functrace.ir.program import Program
from functrace.ir.tape import infer
from functrace.ops.elementwise import add, mul, sin
from tests.laws.programs import Recipe, programs


def tape(program: Program) -> tuple[Any, ...]:
    """Return the whole tape, with its numbering."""
    return (
        program.ops,
        program.avals,
        [(type(x), repr(x)) for x in program.literals],
        program.input_ids,
        [(i, id(value)) for i, value in program.constant_values.items()],
        program.output_ids,
        dict(program.names),
        program.input_names,
    )


def copied(program: Program) -> Program:
    write = Rewrite(program)
    return write.finish(write.keep_all())


def derivatives(recipe: Recipe) -> list[Program]:
    """Trace a random function, its gradient, and a batch of these."""
    inputs = recipe.arguments(0)

    def total(*xs: Any) -> Any:
        return sum(np.sum(y * y) for y in recipe(*xs))

    batch = [np.stack([x, x]) for x in inputs]
    return [
        ft.trace(recipe)(*inputs),
        ft.trace(ft.grad(total))(*inputs),
        ft.trace(ft.vmap(ft.value_and_grad(total)))(*batch),
    ]


@settings(max_examples=60)
@given(programs(most_steps=10))
def test_a_copy_is_compact_and_its_avals_are_those_of_the_rules(recipe: Recipe) -> None:
    for program in derivatives(recipe):
        made = copied(program)
        made.check()
        assert made == compact(program)
        assert tape(made) == tape(compact(program))
        assert is_compact(made)
        assert compact(made) is made
        for k, (primitive, operands, params) in enumerate(made.ops):
            if primitive not in (INPUT, CONSTANT, RESULT):
                specs = tuple(map(made.spec, operands))
                assert made.avals[k] is infer(primitive, specs, params)[0]


X = ft.ShapeDtype((3,))


def made_of(*ops: Any, outputs: tuple[int, ...], **details: Any) -> Program:
    """Return a program on one input; every result has its shape."""
    entries = [(INPUT, (), (X,)), *ops]
    return Program(
        entries,
        [X] * len(entries),
        details.pop("literals", ()),
        details.pop("inputs", (0,)),
        details.pop("constants", {}),
        outputs,
        **details,
    )


def test_a_program_that_a_copy_would_change_is_not_compact() -> None:
    constant, value = (CONSTANT, (), (X,)), np.ones(3)
    assert is_compact(made_of((sin, (0,), ()), outputs=(1,)))
    for program in (
        made_of((sin, (0,), ()), (sin, (0,), ()), outputs=(2,)),  # a dead operation
        made_of((sin, (0,), ()), constant, outputs=(1,), constants={2: value}),  # a dead constant
        made_of((mul, (0, -1), ()), outputs=(1,), literals=(2.0, 3.0)),  # a dead number
        made_of((mul, (0, -1), ()), (mul, (1, -1), ()), outputs=(2,), literals=(2.0,)),  # one twice
        made_of(
            constant, (sin, (0,), ()), (add, (1, 2), ()), outputs=(3,), constants={1: value}
        ),  # a constant before its first use
        made_of(constant, (add, (0, 1), ()), outputs=(2,), inputs=(0, 1)),  # a residual as input
        made_of((INPUT, (), (X,)), (add, (0, 1), ()), outputs=(2,), inputs=(1, 0)),  # other order
        made_of((sin, (0,), ()), outputs=(1,), lines=[None]),  # lines of one call
    ):
        made = compact(program)
        assert not is_compact(program)
        assert made is not program
        assert is_compact(made)
        assert tape(made) == tape(copied(program))
        given_arrays = [np.full(3, 0.3)] * len(program.input_ids)
        np.testing.assert_array_equal(
            ft.evaluate(made, *given_arrays), ft.evaluate(program, *given_arrays)
        )


def test_an_operand_of_another_aval_is_inferred_anew() -> None:
    program = ft.trace(lambda x: np.sin(x) * 2.0)(np.ones(3))
    write = Rewrite(program, [ft.ShapeDtype((5,))])
    write.moved[program.input_ids[0]] = 0
    made = write.finish(write.keep_all()).check()
    assert [made.avals[i].shape for i in made.output_ids] == [(5,)]
