"""A backend of a few lines: a plan becomes a list of closures over an array of registers, run one
after the other.

It is here to show that a plan says all that a backend has to know: loops and choices it runs from
their description.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.executor.backend import function_of
from functrace.executor.plan.planner import Plan, Step
from functrace.executor.policy import Policy
from functrace.ir.parts import Compiled
from functrace.ir.structures import Branch, FusionGroup, HostCall, Loop, Stack

Registers = dict[int, Any]


class Closures:
    """The backend; it takes programs as they are written, and fuses nothing."""

    policy = Policy()

    def compile(self, plan: Plan) -> Compiled:
        program = plan.program
        actions = [_action(plan, step, self.function(plan, step)) for step in plan.steps]

        def compiled(*arguments: Any) -> tuple[Any, ...]:
            registers: Registers = {
                **program.constant_values,
                **dict(zip(program.input_ids, arguments, strict=True)),
            }
            memory = self.memory(plan, arguments)
            for action in actions:
                action(registers, memory)
            outputs = [registers[i] for i in program.output_ids]
            return tuple(
                [
                    x.copy("K") if copied else x
                    for x, copied in zip(outputs, plan.copied, strict=True)
                ]
            )

        return compiled

    def memory(self, plan: Plan, arguments: Sequence[Any]) -> Registers:
        """The arrays that results are written into, by variable."""
        return {
            j: arguments[donation.place] for donation in plan.donations for j in donation.variables
        }

    def function(self, plan: Plan, step: Step) -> Callable[..., Any]:
        """The function from an operation's operands to its results."""
        runs = [self.compile(body) for body in step.bodies]
        match step.structure:
            case None:
                return function_of(plan, step, self)
            case Loop() as loop:
                return functools.partial(
                    run_loop, loop, loop.stacks([body.program for body in step.bodies]), runs
                )
            case Branch(by_example):
                return functools.partial(choose_by_example if by_example else choose, runs)
            case FusionGroup():
                return runs[0]
            case HostCall(join):
                return join(runs)


def _action(
    plan: Plan, step: Step, run: Callable[..., Any]
) -> Callable[[Registers, Registers], None]:
    operands, typed, results = (
        plan.program.ops[step.first][1],
        plan.typed[step.first],
        plan.results(step),
    )
    freed = plan.freed(step)

    def action(registers: Registers, memory: Registers) -> None:
        values = [
            registers[i] if x is None else x for i, x in zip(operands, typed.numbers, strict=True)
        ]
        values = [
            x if getattr(x, "dtype", d) == d else x.astype(d)
            for x, d in zip(values, typed.dtypes, strict=True)
        ]
        target = {} if step.into is None else {"out": registers[step.into]}
        made = run(*values, **target)
        for j, x in zip(results, made, strict=True):
            registers[j] = memory.get(j, x)
            if registers[j] is not x:
                registers[j][...] = x
        for i in freed:
            del registers[i]

    return action


def choose(runs: Sequence[Compiled], which: Any, *operands: Any) -> tuple[Any, ...]:
    return runs[min(max(int(which), 0), len(runs) - 1)](*operands)


def choose_by_example(runs: Sequence[Compiled], which: Any, *operands: Any) -> tuple[Any, ...]:
    which = np.clip(which, 0, len(runs) - 1)
    chosen = np.unique(which)
    with np.errstate(all="ignore" if len(chosen) > 1 else None):
        computed = {number: runs[number](*operands) for number in chosen}
    columns = zip(*computed.values(), strict=True)
    return tuple(
        [
            np.stack([dict(zip(computed, c, strict=True))[n][e] for e, n in enumerate(which)])
            for c in columns
        ]
    )


def run_loop(
    loop: Loop, stacks: Sequence[Stack], runs: Sequence[Compiled], *operands: Any
) -> tuple[Any, ...]:
    length: Any = loop.length
    given: Sequence[Any] = ()
    if loop.takes:
        (length, given), operands = operands[0], operands[1:]
    kept: list[list[Any]] = [given[stack.output] if stack.phase is None else [] for stack in stacks]
    fixed, place, ends = operands[: loop.constants], loop.constants, []
    arrays = operands[place + sum(loop.carries) :]
    for phase, (run, count) in enumerate(
        zip(runs[loop.has_condition :], loop.carries, strict=True)
    ):
        carry, place = operands[place : place + count], place + count
        first = phase == 0
        read = [
            values
            for stack, values in zip(stacks, kept, strict=True)
            if phase in dict(stack.readers)
        ]

        def step(t: int) -> Sequence[Any]:
            results = run(
                *fixed,
                *carry,
                *[a[t] for a in (arrays if first else ())],
                *[values[t] for values in read],
            )
            for stack, values in zip(stacks, kept, strict=True):
                if stack.phase == phase:
                    values.append(np.copy(results[stack.output])[()])
            return results

        if loop.has_condition and first:
            (goes_on,), length = runs[0](*fixed, *carry), 0
            while goes_on:
                if length == loop.most:
                    raise loop.error
                goes_on, *carry = step(length)[: 1 + count]
                length += 1
        else:
            for t in reversed(range(length)) if loop.reverse[phase] else range(length):
                carry = step(t)[:count]
            if loop.reverse[phase]:
                for stack, values in zip(stacks, kept, strict=True):
                    values[:] = values[::-1] if stack.phase == phase else values
        ends += [] if phase < loop.hidden else [np.copy(c)[()] for c in carry]
    if loop.gives:  # the stacks of the first phase, and how many steps there were
        return *ends, (
            length,
            [values for stack, values in zip(stacks, kept, strict=True) if stack.phase == 0],
        )
    for stack, values in zip(stacks, kept, strict=True):
        if stack.result is not None:
            ends.append(np.array(values, stack.aval.dtype).reshape(length, *stack.aval.shape))
    return tuple(ends)
