"""Backends: what makes a function of a plan. They are siblings, and only spell: what runs when, and where, the plan says.

The reference evaluator (tracing/evaluate.py) is the meaning of a program; every backend must equal it. To add one, write a
class with the method `Backend.compiling` in a file of its own; ``docs/architecture.md`` has one of a few lines.

Floor: 6.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Protocol

from functrace.executor.plan import Plan, Step
from functrace.ir.parts import Compiled
from functrace.steps import finished


class Backend(Protocol):
    """Makes functions of plans."""

    def compiling(self, plan: Plan) -> Generator[None, None, Compiled]:
        """Compile a plan in steps of a few microseconds per operation.

        Returns:
            a function with one argument per input, which returns a tuple of outputs. It writes into no argument, follows
            ``plan.copied``, and leaves nothing alive that the plan says is dead.
        """
        ...


def compiled(plan: Plan, backend: Backend) -> Compiled:
    """Compile a plan at once."""
    return finished(backend.compiling(plan))


def joined(step: Step, backend: Backend) -> Generator[None, None, Callable[..., Any]]:
    """Compile the programs that an operation holds; returns the function from its operands to its results."""
    runs: list[Compiled] = []
    for body in step.bodies:
        runs.append((yield from backend.compiling(body)))
    assert step.join is not None
    return step.join(runs)
