"""Backends: compile plans to functions. A backend only spells operations; the plan decides order
and memory.

The reference evaluator (tracing/evaluate.py) defines the meaning of a program; every backend must
equal it. To add one, write a class with a `Policy` and the method `Backend.compile` in its own
file; ``docs/architecture.md`` has one of a few lines.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from functrace.control.joining import join_bodies
from functrace.executor.plan.planner import Plan, Step
from functrace.executor.policy import Policy
from functrace.ir.parts import Compiled, output_avals


class Backend(Protocol):
    """Compiler from plans to functions."""

    policy: Policy
    """Choice of passes and fusion groups for its plans."""

    def compile(self, plan: Plan) -> Compiled:
        """Compile a plan.

        Returns:
            a function with one argument per input, which returns a tuple of outputs. It overwrites
            no argument, copies the outputs that ``plan.copied`` marks, and keeps no freed variable
            (`Plan.freed`).
        """
        ...


def function_of(plan: Plan, step: Step, backend: Backend) -> Callable[..., tuple[Any, ...]]:
    """Return the function from an operation's operands to its results, with the bodies compiled by
    a backend.

    If the step overwrites an operand (`into`), the function takes that array as ``out``.
    """
    if step.structure is not None:
        avals = output_avals(step.bodies[0].program)
        return join_bodies(step.structure, avals, [backend.compile(body) for body in step.bodies])
    primitive, _, params = plan.program.ops[step.first]
    if primitive.many:
        return lambda *operands, **target: primitive.eval(*operands, *params, **target)
    return lambda *operands, **target: (primitive.eval(*operands, *params, **target),)
