"""Programs: names, equality, building."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ProgramError
from functrace.ir.program import Equation, Literal, Program, Var
from functrace.ops.elementwise import add, modf, mul, sin
from tests.ir.programs import aval, parse, record


def double(x):
    """Two variables with the user's names."""
    total = add(x, 1.0)
    scaled = mul(total, np.array([1.0, 2.0, 3.0]))
    return scaled  # noqa: RET504 (the name is what is tested)


def test_names_are_the_users_and_constants_do_not_take_them():
    program = record(double, aval(3), names=("x",))
    assert [e.outputs[0].name for e in program.equations] == ["total", "scaled"]
    (constant,) = program.constants
    assert constant.name not in ("total", "scaled", "x")


def test_names_are_unique_and_never_reserved():
    program = record(lambda x, y: add(x, y), aval(3), aval(3), names=("inf", "inf"))
    names = [var.name for var in program.variables]
    assert len(set(names)) == 3 and "inf" not in names


def test_equality_ignores_names_and_sources():
    first, second = (
        record(double, aval(3), names=("x",)),
        record(lambda t: double(t), aval(3), name="g"),
    )
    assert first == second and hash(first) == hash(second)


@pytest.mark.parametrize("other", [1, 1.0, True, 1 + 0j, -1.0])
def test_equality_depends_on_types_of_literals(other):
    programs = {record(lambda x, v=v: mul(x, v), aval(3)) for v in (other, 2.0)}
    assert len(programs) == 2
    is_one = record(lambda x: mul(x, other), aval(3)) == record(lambda x: mul(x, 1.0), aval(3))
    assert is_one == (repr(other) == "1.0")


def test_equality_depends_on_constants_and_wiring():
    def with_constant(values):
        return record(lambda x: mul(x, np.array(values)), aval(2))

    assert with_constant([1.0, 2.0]) == with_constant([1.0, 2.0]) != with_constant([1.0, 3.0])
    assert with_constant([0.0, 1.0]) != with_constant([-0.0, 1.0])
    assert record(lambda x, y: mul(x, y), aval(), aval()) != record(
        lambda x, y: mul(y, x), aval(), aval()
    )


def test_build_from_equations_keeps_names_and_meaning():
    program = record(double, aval(3), names=("x",))
    built = Program.build(program.inputs, program.equations, program.outputs, program.constants)
    assert built == program and built.text().partition("(")[2] == program.text().partition("(")[2]


def test_build_refuses_unassigned_and_reassigned_variables():
    x, y = Var(aval(), "x"), Var(aval(), "y")
    with pytest.raises(ProgramError, match="before it is written"):
        Program.build([x], [Equation(sin, (y,), (Var(aval()),))], [x])
    with pytest.raises(ProgramError, match="written twice"):
        Program.build([x], [Equation(sin, (x,), (y,)), Equation(sin, (x,), (y,))], [y])


def test_build_takes_several_results_and_literal_outputs():
    x, a, b = Var(aval(2), "x"), Var(aval(2), "a"), Var(aval(2), "b")
    program = Program.build([x], [Equation(modf, (x,), (a, b))], [b, Literal(2.0)])
    assert [v.aval for v in program.outputs] == [aval(2), aval()]
    assert parse(program.text()) == program


def test_repr_is_one_short_line():
    assert repr(record(double, aval(3))) == "<Program f: (f64[3]) -> (f64[3]), 2 equations>"


def test_a_name_stays_with_the_first_run_of_its_line():
    def loop(x):
        for _ in range(2):
            y = mul(x, 2.0)
            x = sin(y)
        return x

    assert [e.outputs[0].name for e in record(loop, aval(3), names=("a",)).equations][:2] == [
        "y",
        "x",
    ]


def test_a_program_is_frozen():
    program = ft.trace(lambda x: np.sin(x) + np.arange(3.0))(np.ones(3))
    for name in ("name", "ops", "constant_values", "lines", "anything"):
        with pytest.raises(ProgramError, match="frozen"):
            setattr(program, name, ())
    with pytest.raises(ProgramError, match="frozen"):
        del program.ops
    (constant,) = program.constant_values
    with pytest.raises(TypeError):
        program.constant_values[constant] = np.zeros(3)  # type: ignore[index]
    with pytest.raises(ValueError, match="read-only"):
        program.constant_values[constant][0] = 1.0
    assert pickle.loads(pickle.dumps(program)) == program == copy.deepcopy(program)
