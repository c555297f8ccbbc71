"""First sight: what runs a gradient before there is a program of it.

A recording that is new is differentiated and run at once, as a list of instructions (executor/instructions.py). Most
recordings of un-jitted code are seen once, or a few times; a program is made of those that come back often enough to be
worth compiling.

Floor: 6.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from time import perf_counter
from typing import Any, final

from functrace.executor.instructions import WIDTH, Instructions, gradient, run
from functrace.ir.program import Position, Program
from functrace.transforms.gradient import splicing
from functrace.transforms.templates import Chosen, choose

LARGE = 1 << 17
"""Bytes per operation: to compute so many takes as long as it takes to derive the operation's derivative by the rules."""


@final
class FirstSight:
    """The gradient of a program by templates, as instructions; a program is made of it when it is wanted.

    Args:
        program: whose first output is differentiated.
        chosen: the templates of its operations.
        active: one flag per input.
        with_value: whether the first output is among the results.
    """

    __slots__ = ("_active", "_chosen", "_instructions", "_program", "_with_value", "seconds")

    def __init__(self, program: Program, chosen: Chosen, active: Sequence[bool], with_value: bool) -> None:
        self._program, self._chosen, self._active, self._with_value = program, chosen, active, with_value
        self._instructions: Instructions | None = None
        self.seconds = 0.0
        """What making it took: later calls may spend as much on compiling."""

    @property
    def size(self) -> int:
        """How many instructions there are; none before the first run."""
        return 0 if self._instructions is None else len(self._instructions.code) // WIDTH

    def run(self, arguments: Sequence[Any], lines: Sequence[Position]) -> list[Any]:
        """Run on plain arguments; see `functrace.executor.instructions.run`."""
        instructions = self._instructions
        if instructions is None:
            begin = perf_counter()
            instructions = gradient(self._program, self._chosen, self._active, self._with_value)
            self._instructions = instructions
            self.seconds += perf_counter() - begin
        return run(instructions, arguments, lines)

    def splicing(self, size: int) -> Generator[None, None, Program]:
        """Make the program of it, in steps of ``size`` operations."""
        return splicing(self._program, self._chosen, self._active, self._with_value, size)


def mean_bytes(program: Program) -> float:
    """Return how large what an operation computes is on average; 0 for a program without a large array."""
    avals = program.avals
    if max([aval.nbytes for aval in set(avals)], default=0) < LARGE:
        return 0.0
    schedule = program.schedule
    return sum([avals[k].nbytes for k, _ in schedule]) / max(1, len(schedule))


def first_sight(program: Program, active: Sequence[bool], with_value: bool) -> FirstSight | None:
    """Return what runs the gradient of a program at first sight.

    Returns:
        ``None`` where there are no templates of it; and for a program on large arrays, in which the order of operations,
        and what is computed again (`functrace.passes`), decide on how much memory it takes.
    """
    if mean_bytes(program) >= LARGE:
        return None
    begin = perf_counter()
    chosen = choose(program, active)
    if chosen is None:
        return None
    made = FirstSight(program, chosen, active, with_value)
    made.seconds += perf_counter() - begin
    return made
