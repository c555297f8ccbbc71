"""Evaluate a program and keep the value of every variable; enter loops and branches step by step.

Layer: 6.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np

from functrace.control.joining import join_bodies
from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import output_avals
from functrace.ir.primitive import RESULT
from functrace.ir.program import Position, Program
from functrace.ir.structures import Branch, HostCall, Loop, Lowering
from functrace.source import Source

Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


@final
@dataclass(frozen=True, slots=True)
class Step:
    """One run of a sub-program.

    Args:
        operation: name of the operation that runs it.
        number: the step of a loop, in the order of the loop's index, from 0; for a branch, its
            number; ``None`` for a call.
        total: number of steps, if it is known.
        is_backward: True if the loop runs from the last step to the first, as the derivative of a
            loop does.
        is_condition: True for the condition of a loop.

    Example:
        >>> from functrace.debug import Step
        >>> print(Step("scan", 3, 10))
        step 3 of 10 of scan
    """

    operation: str
    number: int | None
    total: int | None = None
    is_backward: bool = False
    is_condition: bool = False

    def __str__(self) -> str:
        if self.number is None:
            return self.operation
        if self.operation == "cond":
            return f"branch {self.number} of cond"
        of = f" of {self.total}" if self.total is not None else ""
        direction = ", which runs backward" if self.is_backward else ""
        part = "the condition of " if self.is_condition else ""
        return f"step {self.number}{of} of {part}{self.operation}{direction}"


@final
@dataclass(eq=False, slots=True)
class Frame:
    """One run of a program, with the values of all its variables.

    Args:
        program: the program.
        values: by variable.
        lines: positions that numbers in the program's positions refer to.
        step: how the operation of the outer frame runs this program.
        outer: the run of the program with that operation, and the operation.
        takers: for a branch that is chosen per example of `functrace.vmap`: which examples take it.
            It runs for all; the results of the others are discarded.
    """

    program: Program
    values: list[Any]
    lines: Sequence[Position] = ()
    step: Step | None = None
    outer: tuple[Frame, int] | None = None
    takers: Mask | None = None
    owners: dict[int, int] = field(default_factory=dict[int, int])
    """The operation of each result."""

    def operand(self, i: int) -> Any:
        """Return the value of an operand: a variable or a Python number."""
        return self.values[i] if i >= 0 else self.program.literals[~i]

    def results(self, k: int) -> range:
        """Return the variables of an operation's results."""
        many = self.program.ops[k][0].many
        return range(k, k + (self.program.result_count(k) if many else 1))

    def source(self, k: int) -> Source | None:
        """Return the user's line of an operation; of the enclosing operation, if it has none."""
        found = self.program.source(k, self.lines)
        if found is None and self.outer is not None:
            return self.outer[0].source(self.outer[1])
        return found

    def instruction(self, k: int) -> tuple[Any, int] | None:
        """Return the user's instruction that an operation comes from; that of a derivative is the
        same. (The reverse pass marks its operations by an odd offset.)"""
        found = self.program.position(k, self.lines)
        return None if found is None else (found[0], found[1] & ~1)

    def of_takers(self, mask: Mask) -> Mask:
        """Return the elements that belong to examples which take this branch, and those around."""
        frame: Frame | None = self
        while frame is not None:
            takers = frame.takers
            if takers is not None and mask.shape[: takers.ndim] == takers.shape:
                mask = mask & takers.reshape(*takers.shape, *[1] * (mask.ndim - takers.ndim))
            frame = None if frame.outer is None else frame.outer[0]
        return mask

    @property
    def steps(self) -> tuple[Step, ...]:
        """The runs of sub-programs that lead here, the outermost first."""
        before = () if self.outer is None else self.outer[0].steps
        return before if self.step is None else (*before, self.step)


Apply: TypeAlias = Callable[[Frame, int], Any]
"""From a frame and one of its operations to the result; a tuple for an operation with several."""


def evaluated(frame: Frame, k: int) -> Any:
    """Evaluate an operation by the eval rule of its primitive."""
    primitive, operands, params = frame.program.ops[k]
    return primitive.eval(*map(frame.operand, operands), *params)


def evaluate_frame(
    program: Program,
    arguments: Sequence[Any],
    lines: Sequence[Position] = (),
    step: Step | None = None,
    outer: tuple[Frame, int] | None = None,
    apply: Apply = evaluated,
    takers: Mask | None = None,
) -> Frame:
    """Evaluate a program operation by operation; NumPy's warnings are off.

    Args:
        program: the program.
        arguments: values, one per input.
        lines: positions of the recording, for a cached program.
        step, outer, takers: see `Frame`.
        apply: evaluates one operation.
    """
    values: list[Any] = [None] * len(program.ops)
    for i, value in zip(program.input_ids, arguments, strict=True):
        values[i] = value
    for i, value in program.constant_values.items():
        values[i] = value
    frame = Frame(program, values, lines, step, outer, takers)
    with np.errstate(all="ignore"):
        for k, _ in program.schedule:
            result = apply(frame, k)
            if program.ops[k][0].many:
                values[k : k + len(result)] = result
            else:
                values[k] = result
            for j in frame.results(k):
                frame.owners[j] = k
    return frame


class Bodies(NamedTuple):
    """The sub-programs of an operation, and how it runs them.

    Args:
        programs: the sub-programs.
        steps: from the position of a sub-program and the number of earlier runs of each to a step.
        join: from the avals of the first sub-program's outputs, and one function per sub-program,
            to the function of the operation.
        is_host: True if that function does more with values than to move them.
        takers: for branches chosen per example: from the position of one to the examples that take
            it.
    """

    programs: tuple[Program, ...]
    steps: Callable[[int, Sequence[int]], Step]
    join: Callable[[Sequence[Any], Sequence[Callable[..., Any]]], Callable[..., Any]]
    is_host: bool = False
    takers: Callable[[int], Mask] | None = None


def bodies_of(frame: Frame, k: int) -> Bodies | None:
    """Return the sub-programs of an operation; ``None`` if it has none."""
    primitive, operands, params = frame.program.ops[k]
    holds = primitive.holds
    if holds is None or primitive is RESULT:
        return None
    values = [frame.operand(i) for i in operands]
    name = primitive.name
    if holds.lowers is None:
        if holds.called_program is None:
            return None
        called = holds.called_program(*params)
        return Bodies((called,), lambda _body, _runs: Step(name, None), lambda _, runs: runs[0])
    lowering: Lowering = holds.lowers(tuple([frame.program.spec(i) for i in operands]), *params)
    structure, bodies = lowering.structure, lowering.bodies

    def step(body: int, runs: Sequence[int]) -> Step:
        if isinstance(structure, Loop):
            return _loop_step(name, structure, values, body, runs)
        return Step("cond", body) if isinstance(structure, Branch) else Step(name, None)

    def takers(body: int) -> Mask:
        return np.asarray(np.clip(values[0], 0, len(bodies) - 1) == body)

    join, is_host = functools.partial(join_bodies, structure), isinstance(structure, HostCall)
    is_by_example = isinstance(structure, Branch) and structure.by_example
    return Bodies(bodies, step, join, is_host, takers if is_by_example else None)


def _loop_step(
    name: str, loop: Loop, values: Sequence[Any], body: int, runs: Sequence[int]
) -> Step:
    number = runs[body]
    if loop.length is not None:
        total: int | None = loop.length
    elif loop.takes is not None:
        total = len(values[0])
    else:
        if body == 0:
            return Step(name, number, is_condition=True)
        total = None if body == 1 else runs[1]
    is_backward = loop.reverse[body - loop.has_condition]
    if is_backward and total is not None:
        number = total - 1 - number
    return Step(name, number, total, is_backward)


def run_steps(
    frame: Frame,
    k: int,
    bodies: Bodies,
    visit: Callable[[Frame], None],
    apply: Apply = evaluated,
    stored: Callable[[ShapeDtype], Any] = lambda aval: aval,
) -> Any:
    """Run an operation again, and visit each run of its sub-programs.

    Args:
        frame: the run of the program with the operation.
        k: the operation.
        bodies: its sub-programs.
        visit: called with each run, in order; it may raise to stop.
        apply: evaluates one operation of a sub-program.
        stored: from an aval to the shape and dtype of the arrays that hold such values.
    """
    counts = [0] * len(bodies.programs)

    def runner(body: int, program: Program) -> Callable[..., tuple[Any, ...]]:
        def run(*arguments: object) -> tuple[Any, ...]:
            step = bodies.steps(body, counts)
            takers = None if bodies.takers is None else bodies.takers(body)
            inner = evaluate_frame(program, arguments, (), step, (frame, k), apply, takers)
            counts[body] += 1
            visit(inner)
            results = [inner.values[i] for i in program.output_ids]
            return tuple(
                [
                    x.copy("K") if shared and isinstance(x, np.ndarray | np.generic) else x
                    for shared, x in zip(program.aliasing, results, strict=True)
                ]
            )

        return run

    with np.errstate(all="ignore"):
        runs = [runner(n, program) for n, program in enumerate(bodies.programs)]
        avals = [stored(aval) for aval in output_avals(bodies.programs[0])]
        return bodies.join(avals, runs)(*map(frame.operand, frame.program.ops[k][1]))
