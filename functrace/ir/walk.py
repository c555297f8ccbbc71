"""Walk programs: find the live operations and last uses, and interpret them in order.

Layer: 0.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from types import CodeType
from typing import Any, Protocol

from functrace.ir.primitive import CONSTANT, INPUT, RESULT
from functrace.ir.tape import Columns, Op
from functrace.source import SourceLine

Schedule = tuple[tuple[int, tuple[int, ...]], ...]


def reachable(ops: Sequence[Op], outputs: Iterable[int]) -> Schedule:
    """Return the live operations in order, each with the variables whose last use it is.

    Operations with side effects (`Primitive.kept`) are live.
    """
    seen = bytearray(len(ops))
    for i in outputs:
        seen[i] = 1
    schedule: list[tuple[int, tuple[int, ...]]] = []
    append = schedule.append
    for k in range(len(ops) - 1, -1, -1):
        primitive, operands, params = ops[k]
        if not seen[k] and (primitive.kept is None or not primitive.kept(*params)):
            continue
        if not operands and (primitive is INPUT or primitive is CONSTANT):
            continue
        dying: tuple[int, ...] = ()
        for i in operands:
            if i >= 0 and not seen[i]:
                seen[i] = 1
                dying += (i,)
        if primitive is not RESULT:
            append((k, dying))
    schedule.reverse()
    return tuple(schedule)


class Tape(Protocol):
    """An object that can be interpreted: a program, or an open recording."""

    @property
    def columns(self) -> Columns:
        """The operations."""
        ...

    @property
    def literals(self) -> Sequence[Any]:
        """The numbers among the operands."""
        ...

    def position(self, variable: int) -> tuple[CodeType | SourceLine, int] | None:
        """Return the position in the user's code that made a variable, for warnings."""
        ...


Apply = Callable[[int, tuple[Any, ...]], Any]
"""Maps an operation (its first result) and the values of its operands to its result, or a tuple."""


def interpret(
    tape: Tape, env: dict[int, Any], apply: Apply, steps: Iterable[tuple[int, tuple[int, ...]]]
) -> None:
    """Interpret operations in order, for any kind of values and any meaning of ``apply``.

    The evaluator (tracing/evaluate.py) is the same walk, inlined for speed; a law compares both.

    Args:
        tape: the program or recording.
        env: value by variable; results are added, and values are dropped after their last use.
        apply: applies an operation.
        steps: the operations, each with the variables whose last use it is: a program's
            ``schedule``, or `steps_to`.
    """
    primitives, operands, literals = tape.columns.primitives, tape.columns.operands, tape.literals
    for k, dying in steps:
        result = apply(k, tuple([env[i] if i >= 0 else literals[~i] for i in operands[k]]))
        if primitives[k].many:
            env |= enumerate(result, k)
        else:
            env[k] = result
        for i in dying:
            del env[i]


def steps_to(
    tape: Tape, wanted: Iterable[int], known: Container[int]
) -> list[tuple[int, tuple[int, ...]]]:
    """Return the operations that variables need beyond known ones, in order."""
    columns, needed, stack = tape.columns, set[int](), list(wanted)
    primitives, operands = columns.primitives, columns.operands
    while stack:
        k = stack.pop()
        if k >= 0 and k not in known and k not in needed:
            needed.add(k)
            stack.extend(operands[k])
    return [(k, ()) for k in sorted(needed) if primitives[k] is not RESULT]


def aliasing_outputs(ops: Sequence[Op], outputs: Iterable[int]) -> tuple[bool, ...]:
    """Return which outputs may share memory with arguments, constants or earlier outputs."""
    roots: dict[int, int] = {}
    viewed: set[int] = set()
    for k, (primitive, operands, _) in enumerate(ops):
        if primitive.view and operands:
            viewed.add(k)  # also a literal: broadcast_to makes a read-only view
            if operands[0] >= 0:
                roots[k] = roots.get(operands[0], operands[0])
    owned: set[int] = set()
    copied: list[bool] = []
    for out in outputs:
        root = roots.get(out, out)
        foreign = ops[root][0] in (INPUT, CONSTANT) or out in viewed or root in owned
        owned.add(root)
        copied.append(foreign)
    return tuple(copied)
