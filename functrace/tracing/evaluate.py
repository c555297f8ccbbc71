"""The reference evaluator: the meaning of a program.

It binds equation by equation. On arrays every equation is evaluated by its primitive's ``eval`` rule; if any
argument is traced, the program's equations are recorded where they belong. Executors must equal it.

Floor: 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrace.ir.program import Program
from functrace.tracing.recording import Tracer, bind


def evaluate_program(program: Program, arguments: Sequence[Any]) -> list[Any]:
    """Evaluate a program on flat arguments; returns the flat list of its outputs.

    Values are let go at their last use. Equations that no output depends on are not evaluated.

    Args:
        program: what to evaluate.
        arguments: one array or traced value per input.

    Cost:
        about 0.3 us per equation beside the array work.
    """
    ops, literals = program.ops, program.literals
    env: list[Any] = [None] * len(ops) + list(reversed(literals))
    for variable, value in zip(program.input_ids, arguments, strict=True):
        env[variable] = value
    for variable, value in program.constant_values.items():
        env[variable] = value
    traced = any(isinstance(v, Tracer) for v in (*arguments, *program.constant_values.values()))
    running = Running(program)
    for k, dying in program.schedule:
        primitive, operands, params = ops[k]
        running.variable = k
        values = [env[i] for i in operands]
        try:
            result = bind(primitive, tuple(values), params) if traced else primitive.eval(*values, *params)
        except Exception as error:
            running.explain(error)
            raise
        if primitive.many:
            env[k : k + len(result)] = result
        else:
            env[k] = result
        for i in dying:
            env[i] = None
    return [env[i] for i in program.output_ids]


class Running:
    """Which equation runs now: names the user's line when NumPy raises or warns."""

    __slots__ = ("program", "variable")

    def __init__(self, program: Program) -> None:
        self.program = program
        self.variable = -1

    def explain(self, error: BaseException) -> None:
        """Add to an exception the equation and the user's line that it belongs to."""
        source = self.program.source(self.variable)
        if source is not None:
            error.add_note(f"  recorded at {source}")

