"""Structures: what an operation does with the programs that it holds, as data that every backend reads.

A primitive with sub-programs says in a `Lowering` which of them are to be compiled, and what becomes of them: a `Loop`, a
`Branch`, a fusion group (`Blocks`), or, where no description fits, a `HostCall`. control/joining.py runs a description in
Python; backends write it in their own way.

Layer: 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn, TypeAlias, final

from functrace.errors import ArgumentError
from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import Compiled, output_avals
from functrace.ir.program import Program


class Stack(NamedTuple):
    """What a body of a loop keeps of every step: values behind a new first axis, which grows while the loop runs.

    Args:
        aval: of the value of one step.
        phase: whose body keeps it; ``None`` where that was another operation (see `Loop.takes`).
        output: which output of that body it is; which of the stacks, where they come from another operation.
        readers: the inputs that are the value of the same step, as phase and place.
        result: which result of the operation holds it, or ``None`` where only later phases read it.
    """

    aval: ShapeDtype
    phase: int | None
    output: int
    readers: tuple[tuple[int, int], ...] = ()
    result: int | None = None


class Loop(NamedTuple):
    """A loop: in which order it carries out its bodies, what these take, and where the results come from.

    Operands are constants, the initial carries of all phases, and arrays whose first axis the first phase walks along. The
    body of a phase takes the constants, its carry, a slice of each array (that of the first phase), and what earlier phases
    kept of the same step; it returns its carry, and what it keeps of the step. Results are the carries in the end, and what
    the only phase of a loop of known length kept, stacked.

    Args:
        constants: how many operands are constants.
        carries: of each phase, how many values it carries.
        reverse: of each phase, whether it walks from the last step to the first.
        hidden: how many of the first phases do not return what they carry.
        length: the number of steps. ``None`` where values decide: then a first body says, of constants and the first phase's
            carry, whether there is a step, and the next one, which is the first phase's, returns that before its carry.
        most: the largest number of steps that is allowed, or ``None``; one more raises `error`.
        gives: whether there is one more result: the stacks of the first phase, all in one.
        takes: where such a result is the first operand, and the first phase here reads of it: how many stacks it holds, then
            which of them are read. There is then no body that asks.
    """

    constants: int
    carries: tuple[int, ...]
    reverse: tuple[bool, ...]
    hidden: int = 0
    length: int | None = None
    most: int | None = None
    gives: bool = False
    takes: tuple[int, ...] | None = None

    @property
    def asks(self) -> bool:
        """Whether the first body says whether there is a step."""
        return self.length is None and self.takes is None

    @property
    def error(self) -> ArgumentError:
        """What is raised where there is one more step than is allowed."""
        return ArgumentError(f"a while loop is not done after max_steps={self.most}", fix="allow more steps")

    def refuse(self) -> NoReturn:
        """Raise `error`."""
        raise self.error

    def stacks(self, bodies: Sequence[Program]) -> tuple[Stack, ...]:
        """Return what the bodies of the loop keep of every step, in the order in which bodies read it."""
        phases, ends, found = bodies[self.asks :], sum(self.carries[self.hidden :]), list[Stack]()
        for n in (self.takes or (0,))[1:]:
            read = phases[0].input_ids[self.constants + self.carries[0] + len(found)]
            found.append(Stack(phases[0].avals[read], None, n))
        for phase, (body, count) in enumerate(zip(phases, self.carries, strict=True)):
            place, skipped = self.constants + count, count + (self.asks and not phase)
            found = [stack._replace(readers=(*stack.readers, (phase, place + n))) for n, stack in enumerate(found)]
            for n, aval in enumerate(output_avals(body)[skipped:]):
                result = ends + n if self.length is not None else ends if self.gives and not phase else None
                found.append(Stack(aval, phase, skipped + n, (), result))
        return tuple(found)


class Branch(NamedTuple):
    """A choice: the first operand is the number of the body that takes the other operands and gives the results.

    A number below 0, or above the last, counts as the nearest one.

    Args:
        by_example: whether the first operand holds one number per example. Bodies then compute all examples, and of each
            result an example gets what its own body computed. A body without any example is not run. Of one that not all
            examples chose, floating-point warnings are dropped, and what it computes for others is selected away, never
            multiplied by zero.
    """

    by_example: bool = False


class HostCall(NamedTuple):
    """A Python function, for an operation that no description fits.

    Args:
        join: makes, of the compiled bodies, the function from operands to results.
    """

    join: Callable[[Sequence[Compiled]], Callable[..., Any]]


@final
@dataclass(frozen=True, slots=True)
class Blocks:
    """A fusion group: the one body runs as it is. What is said here is how it may be divided.

    Args:
        rows: the leading axes that its arrays share; a block takes some of their elements. Without any, the operations of
            the group do not need each other, and may run concurrently.
        whole: places of the inputs that every block takes as they are.
        has_products: whether there are products of matrices among its operations.
    """

    rows: tuple[int, ...]
    whole: tuple[int, ...] = ()
    has_products: bool = False


Structure: TypeAlias = Loop | Branch | Blocks | HostCall


class Lowering(NamedTuple):
    """How an operation that holds programs runs.

    Args:
        bodies: the programs to compile; they need not be the very ones that are held. That of a group is optimised already.
        structure: what the operation does with them.
        fresh: whether what a compiled body returns must not share memory with its arguments.
    """

    bodies: tuple[Program, ...]
    structure: Structure
    fresh: bool
