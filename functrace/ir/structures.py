"""Structures: how an operation runs its sub-programs, as data that every backend reads.

A primitive with sub-programs returns a `Lowering`: the sub-programs to compile, and their
structure, which is a `Loop`, a `Branch`, a fusion group (`FusionGroup`), or, where no description fits,
a `HostCall`. control/joining.py runs a structure in Python; backends generate their own code for
it.

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
    """Per-step outputs of a loop body, stacked along a new first axis that grows while the loop
    runs.

    Args:
        aval: aval of the value of one step.
        phase: number of the phase whose body outputs it; ``None`` if another operation made it (see
            `Loop.takes`).
        output: position among the outputs of that body, or among the stacks of the other operation.
        readers: body inputs that read the value of the same step, as pairs of phase and position.
        result: index of the result of the operation that holds it; ``None`` if only later phases
            read it.
    """

    aval: ShapeDtype
    phase: int | None
    output: int
    readers: tuple[tuple[int, int], ...] = ()
    result: int | None = None


class Loop(NamedTuple):
    """A loop of one or more phases: the order of its bodies, their inputs, and the sources of the
    results.

    Operands are constants, the initial carries of all phases, and arrays that the first phase scans
    along their first axis. The body of a phase takes the constants, its carry, a slice of each
    array (in the first phase), and the per-step outputs of earlier phases at the same step; it
    returns its carry and its own per-step outputs. Results are the final carries and, for a loop of
    static length, which has one phase, its stacked per-step outputs.

    Args:
        constants: number of operands that are constants.
        carries: for each phase, the number of carried values.
        reverse: for each phase, True if it runs from the last step to the first.
        hidden: number of leading phases whose final carries are not results.
        length: number of steps. ``None`` if it depends on values: then the first body is the loop
            condition, a bool computed from constants and the first phase's carry; the next body,
            the first phase's, returns that bool before its carry.
        most: maximum number of steps, or ``None``; one more raises `error`.
        gives: True if there is one more result: the stacks of the first phase, packed into one.
        takes: if the first operand is such a packed result, which the first phase reads: the number
            of stacks in it, then the indices of those that are read. Such a loop has no condition
            body.
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
    def has_condition(self) -> bool:
        """True if the first body is the loop condition."""
        return self.length is None and self.takes is None

    @property
    def error(self) -> ArgumentError:
        """Error that is raised if the loop needs more than `most` steps."""
        return ArgumentError(
            f"a while loop is not done after max_steps={self.most}", fix="allow more steps"
        )

    def refuse(self) -> NoReturn:
        """Raise `error`."""
        raise self.error

    def stacks(self, bodies: Sequence[Program]) -> tuple[Stack, ...]:
        """Return the stacked per-step outputs of the bodies, in the order in which bodies read
        them.
        """
        phases, ends, found = (
            bodies[self.has_condition :],
            sum(self.carries[self.hidden :]),
            list[Stack](),
        )
        for n in (self.takes or (0,))[1:]:
            read = phases[0].input_ids[self.constants + self.carries[0] + len(found)]
            found.append(Stack(phases[0].avals[read], None, n))
        for phase, (body, count) in enumerate(zip(phases, self.carries, strict=True)):
            place, skipped = self.constants + count, count + (self.has_condition and not phase)
            found = [
                stack._replace(readers=(*stack.readers, (phase, place + n)))
                for n, stack in enumerate(found)
            ]
            for n, aval in enumerate(output_avals(body)[skipped:]):
                result = (
                    ends + n
                    if self.length is not None
                    else ends
                    if self.gives and not phase
                    else None
                )
                found.append(Stack(aval, phase, skipped + n, (), result))
        return tuple(found)


class Branch(NamedTuple):
    """A branch (switch): the first operand is the index of the body that maps the other operands to
    the results.

    An index out of range is clamped.

    Args:
        by_example: True if the first operand holds one index per example of a batch. Each body then
            computes all examples, and the results are selected per example. A body that no example
            chose is not run. If only some examples chose a body, its floating-point warnings are
            dropped, and its results for the others are discarded by selection, never by
            multiplication with zero.
    """

    by_example: bool = False


class HostCall(NamedTuple):
    """A Python function, for an operation that no description fits.

    Args:
        join: maps the compiled bodies to the function from operands to results.
        length: number of times that each body runs; ``None`` if it depends on values.
    """

    join: Callable[[Sequence[Compiled]], Callable[..., Any]]
    length: int | None = 1


@final
@dataclass(frozen=True, slots=True)
class FusionGroup:
    """A fusion group: an operation with one body, and how that body may be split into tiles
    (blocks).

    Args:
        rows: sizes of the leading axes that its arrays share; a block takes a slice along them. If
            empty, the operations of the group are independent, and may run concurrently.
        whole: positions of the inputs that every block takes whole.
        has_products: True if matrix products are among its operations.
        tile: makes the function that runs the group, from the one that runs it by NumPy; only
            backends that compile groups themselves set it.
    """

    rows: tuple[int, ...]
    whole: tuple[int, ...] = ()
    has_products: bool = False
    tile: Callable[[Compiled], Compiled] | None = None


Structure: TypeAlias = Loop | Branch | FusionGroup | HostCall


class Lowering(NamedTuple):
    """Lowering of an operation with sub-programs: the programs to compile, and the structure that
    runs them.

    Args:
        bodies: programs to compile; they may differ from its sub-programs. The body of a fusion
            group is optimised already.
        structure: how the operation runs them.
        fresh: True if the outputs of a compiled body must not share memory with its arguments.
    """

    bodies: tuple[Program, ...]
    structure: Structure
    fresh: bool
