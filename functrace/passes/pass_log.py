"""Log of passes: the changes that each pass made to a program, and its time.

Layer: 6.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, final

from functrace.ir.program import Equation, Literal, Program
from functrace.ir.text import equation_text
from functrace.keys import exact_key
from functrace.passes.pipeline import PIPELINE, Pass, applied
from functrace.passes.user_passes import UserPass, as_passes


@final
@dataclass(frozen=True, slots=True)
class PassResult:
    """Result of one pass.

    Args:
        name: of the pass.
        before, after: the program.
        seconds: time of the pass.
    """

    name: str
    before: Program
    after: Program
    seconds: float

    def __str__(self) -> str:
        """One line, followed by the removed (``-``) and the added (``+``) equations."""
        counts = f"{len(self.before.equations)} -> {len(self.after.equations)} equations"
        return "\n".join([f"{self.name}: {counts}, {self.seconds * 1e3:.2f} ms", *self.changes()])

    def changes(self) -> Iterator[str]:
        """Yield removed and added equations; a renamed operand is not a change."""
        before, after = self.before.equations, self.after.equations
        matcher = difflib.SequenceMatcher(
            None, list(map(_kind, before)), list(map(_kind, after)), autojunk=False
        )
        for tag, i, j, m, n in matcher.get_opcodes():
            if tag != "equal":
                yield from [f"  - {equation_text(equation)}" for equation in before[i:j]]
                yield from [f"  + {equation_text(equation)}" for equation in after[m:n]]


@final
@dataclass(frozen=True, slots=True)
class PassLog:
    """Changes of a program by passes, in order; prints as a listing.

    Args:
        steps: one entry per pass.

    Example:
        >>> import numpy as np, functrace as ft
        >>> found = ft.debug.passes(lambda x: np.sin(x) / 2)(1.0)
        >>> [line for step in found.steps for line in step.changes()]
        ['  - b: f64[] = div a 2', '  + b: f64[] = mul a 0.5']
    """

    steps: tuple[PassResult, ...]

    @property
    def program(self) -> Program:
        """The final program."""
        return self.steps[-1].after

    def __str__(self) -> str:
        """Changes and time of each pass."""
        return "\n".join(map(str, self.steps))


def trail(
    program: Program, passes: Sequence[UserPass] = (), pipeline: Sequence[Pass] = PIPELINE
) -> PassLog:
    """Apply passes as `functrace.jit` does: the user's and ``jit``'s own run after the early
    passes.

    Args:
        program: any program.
        passes: the user's.
        pipeline: the library's.
    """
    early = [row for row in pipeline if row.stage == "early"]
    others = [row for row in pipeline if row.stage != "early"]
    steps: list[PassResult] = []
    for row in (*early, *applied(as_passes(passes, "trail")), *others):
        begin = perf_counter()
        made = row.run(program)
        steps.append(PassResult(row.name, program, made, perf_counter() - begin))
        program = made
    return PassLog(tuple(steps))


def _kind(equation: Equation) -> tuple[Any, ...]:
    """Return the key of an equation without variable names."""
    numbers = tuple(
        [exact_key(x.value) if isinstance(x, Literal) else None for x in equation.inputs]
    )
    avals = tuple([out.aval for out in equation.outputs])
    return equation.primitive, avals, numbers, tuple(equation.params.values())
