"""A backend of a few lines: a plan becomes a list of closures over an array of registers, run one after the other.

It is here to show that a plan says all that a backend has to know. (docs/architecture.md shows it as the example.)
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from functrace.executor.backend import joined
from functrace.executor.plan import Plan, Step
from functrace.ir.parts import Compiled

Registers = dict[int, Any]


class Closures:
    """The backend."""

    def compiling(self, plan: Plan) -> Generator[None, None, Compiled]:
        program = plan.program
        actions = []
        for step in plan.steps:
            run = program.ops[step.first][0].eval if step.join is None else (yield from joined(step, self))
            actions.append(_action(plan, step, run))
            yield

        def compiled(*arguments: Any) -> tuple[Any, ...]:
            registers: Registers = {**program.constant_values, **dict(zip(program.input_ids, arguments, strict=True))}
            for action in actions:
                action(registers)
            outputs = [registers[i] for i in program.output_ids]
            return tuple([x.copy("K") if copied else x for x, copied in zip(outputs, plan.copied, strict=True)])

        return compiled


def _action(plan: Plan, step: Step, run: Callable[..., Any]) -> Callable[[Registers], None]:
    primitive, operands, params = plan.program.ops[step.first]
    literals, results = plan.program.literals, plan.results(step)
    static = () if step.join is not None else params

    def action(registers: Registers) -> None:
        values = [registers[i] if i >= 0 else literals[~i] for i in operands]
        target = {} if step.into is None else {"out": registers[step.into]}
        made = run(*values, *static, **target)
        for i in step.dies:
            del registers[i]
        registers.update(zip(results, made if primitive.many else (made,), strict=True))

    return action
