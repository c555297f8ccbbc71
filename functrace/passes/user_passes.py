"""User passes, with checks: functions from a program to an equal one, or rows of the pipeline
(`Pass`).

Layer: 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from functrace.errors import ArgumentError, ProgramError
from functrace.ir.parts import output_avals
from functrace.ir.program import Program
from functrace.passes.pipeline import Pass

UserPass: TypeAlias = Pass | Callable[[Program], Program]
"""A pass, as users write it."""


def as_passes(passes: Sequence[UserPass], owner: str) -> tuple[Pass, ...]:
    """Convert a user's passes to rows that check their results.

    Args:
        passes: functions from a program to an equal one, or rows.
        owner: name of the caller, for messages.

    Returns:
        the rows.

    Raises:
        ArgumentError: if one is not a pass.
        ProgramError: when a row runs, if it does not return a well-formed program with the same
            inputs and outputs.

    Example:
        >>> import functrace as ft
        >>> def mine(program):
        ...     return program
        >>> [row.name for row in ft.passes.as_passes([mine], "jit")]
        ['mine']
    """
    given: Any = passes
    if not isinstance(given, Iterable) or not all(
        isinstance(p, Pass) or callable(p) for p in passes
    ):
        raise ArgumentError(
            f"{owner}: passes={passes!r} is not a sequence of passes",
            fix="pass functions: passes=[mine]",
        )
    return tuple([_checked(own if isinstance(own, Pass) else _row_of(own)) for own in passes])


def _row_of(own: Callable[[Program], Program]) -> Pass:
    return Pass(getattr(own, "__name__", type(own).__name__), own, "last", "", "")


def _checked(row: Pass) -> Pass:
    """Return the row with a check of its result."""
    if row.stage == "off":
        return row
    own, name = row.run, row.name

    def checked(program: Program) -> Program:
        made = own(program)
        if not isinstance(made, Program):  # pyright: ignore[reportUnnecessaryIsInstance]  # users' code
            raise ProgramError(
                f"the pass {name} returned a {type(made).__name__}, not a program",
                fix="return the program that it was given",
            )
        inputs = [[p.avals[i] for i in p.input_ids] for p in (program, made)]
        if inputs[0] != inputs[1] or output_avals(program) != output_avals(made):
            raise ProgramError(
                f"the pass {name} changed the inputs or outputs of {program!r}: {made!r}",
                fix="keep the number, shapes and dtypes of both, including dead inputs",
            )
        return made.check()

    return replace(row, run=checked)
