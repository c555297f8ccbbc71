"""First sight: what runs a derivative before it is worth a thought.

A recording that is new is differentiated and run at once, as a list of instructions (executor/instructions.py): a gradient
before there is a program of it, other derivatives before any pass goes over theirs. Most recordings of un-jitted code are
seen once, or a few times; those that come back often enough are worth compiling.

Floor: 6.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from time import perf_counter
from typing import Any, final

from functrace.executor.instructions import WIDTH, Instructions, gradient, listed, run
from functrace.ir.program import Position, Program
from functrace.steps import no_steps
from functrace.transforms.given import without_given
from functrace.transforms.gradient import splicing
from functrace.transforms.templates import choose

LARGE = 1 << 17
"""Bytes per operation: to compute so many takes as long as it takes to derive the operation's derivative by the rules."""


@final
class FirstSight:
    """A derivative as instructions; a program that is worth compiling is made of it when it is wanted.

    Args:
        make: makes the instructions.
        splice: makes the program, in steps of so many operations.
        seconds: what has been spent so far.
    """

    __slots__ = ("_instructions", "_make", "_splice", "seconds")

    def __init__(
        self, make: Callable[[], Instructions], splice: Callable[[int], Generator[None, None, Program]], seconds: float
    ) -> None:
        self._make, self._splice = make, splice
        self._instructions: Instructions | None = None
        self.seconds = seconds
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
            instructions = self._instructions = self._make()
            self.seconds += perf_counter() - begin
        return run(instructions, arguments, lines)

    def splicing(self, size: int) -> Generator[None, None, Program]:
        """Make the program of it, in steps of ``size`` operations."""
        return self._splice(size)


def mean_bytes(program: Program) -> float:
    """Return how large what an operation computes is on average; 0 for a program without a large array."""
    avals = program.avals
    if max([aval.nbytes for aval in set(avals)], default=0) < LARGE:
        return 0.0
    schedule = program.schedule
    return sum([avals[k].nbytes for k, _ in schedule]) / max(1, len(schedule))


def first_sight(program: Program, active: Sequence[bool], with_value: bool) -> FirstSight | None:
    """Return what runs the gradient of a program at first sight: templates, no program made of them yet.

    Args:
        program: whose first output is differentiated.
        active: one flag per input.
        with_value: whether the first output is among the results.

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

    def make() -> Instructions:
        return gradient(program, chosen, active, with_value)

    def splice(size: int) -> Generator[None, None, Program]:
        return splicing(program, chosen, active, with_value, size)

    return FirstSight(make, splice, perf_counter() - begin)


def at_sight(program: Program, begin: float) -> FirstSight | Program:
    """Return what runs a program as it is, before any pass; the program itself where passes decide on memory, or on calls.

    Args:
        program: made by a transform.
        begin: when that began.
    """
    held = any(primitive.holds is not None or primitive.kept is not None for primitive in program.kinds)
    if held or mean_bytes(program) >= LARGE:
        return program
    program = without_given(program)
    return FirstSight(lambda: listed(program), lambda _: no_steps(program), perf_counter() - begin)
