"""A pass of one's own over a Program, and what a program can do."""

import numpy as np

import functrace as ft
from functrace.ir import Equation, Program, Var


def without_names(program: Program) -> Program:
    kept: list[Equation] = [
        equation for equation in program.equations if equation.primitive.name != "name"
    ]
    return Program.build(program.inputs, kept, program.outputs, name=program.name)


def largest(program: Program) -> Var:
    return max(
        (var for equation in program.equations for var in equation.outputs),
        key=lambda var: var.aval.nbytes,
    )


program: ft.Program = ft.trace(lambda x: np.sum(np.outer(x, x)))(ft.ShapeDtype((3,)))
assert without_names(program) == program
assert largest(program).aval.shape == (3, 3)
assert ft.Program.parse(str(program)) == program
assert ft.Program.from_json(program.to_json()) == program
assert "np." in program.as_python()
lines: list[str] = [
    equation.source.short for equation in program.equations if equation.source is not None
]
assert all(line.startswith("own_pass.py:") for line in lines)
assert ft.evaluate(program, np.ones(3)) == 9.0
