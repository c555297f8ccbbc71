"""Statements: the NumPy backend's code for the operations of a plan, in order.

Each operation is one statement. A variable's local name is reused or deleted at its last use in the
plan, so that arrays are freed as early as possible.

Layer: 7.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, final

import numpy as np

from functrace.executor.backend import Backend, function_of
from functrace.executor.codegen.python_scalars import Range, is_float_of_number, spelled_number
from functrace.executor.kernels import (
    KERNELS,
    OPERATORS,
    layout_sensitive,
    scalar_operator,
    spelled_literal,
    spelled_target,
)
from functrace.executor.parallel.blocks import in_blocks
from functrace.executor.parallel.operations import ParallelUfunc, spread_operations
from functrace.executor.plan.planner import Plan, Step
from functrace.ir.aval import ShapeDtype
from functrace.ir.structures import FusionGroup, Loop
from functrace.locks import cached_property
from functrace.ops.reductions import reduce_sum_p
from functrace.ops.shaping import broadcast_to_p, convert_p
from functrace.tracing.lines import CurrentOperation

FLOAT = ShapeDtype((), np.dtype(np.float64))

Line = tuple[str, CurrentOperation | None]
"""A line of source, and its operation."""


@final
class NameBindings:
    """Bindings of names in a source, and a supply of unique names.

    Args:
        bodies: compiles sub-programs that are not inlined.
        whole: compiles groups that cannot run in blocks; it inlines loops.
    """

    def __init__(self, bodies: Backend, whole: Backend) -> None:
        self.bodies = bodies
        self.whole = whole
        self.bound: dict[str, Any] = {}
        self._names: dict[int, str] = {}
        self._numbers = itertools.count()

    def bind(self, value: object) -> str:
        """Bind a value to a name."""
        found = self._names.get(id(value))
        if found is None:
            found = self._names[id(value)] = f"k{len(self.bound)}"
            self.bound[found] = value
        return found

    def local(self, letter: str = "v") -> str:
        """Return a new local name."""
        return f"{letter}{next(self._numbers)}"


class StatementWriter(ABC):
    """Writer of the operations of one plan; `functrace.executor.codegen.loops` adds loops.

    Args:
        plan: the plan.
        names: of the inputs, by variable.
        values: bindings of names.
        `reserved`: names that this plan must not reuse: enclosing code reads them later.
        targets: by operation, the name of an array to write the result into, or of ``None``.
        numbers: variables that are Python numbers, see `functrace.executor.codegen.python_scalars`.
        twins: names of Python numbers equal to inputs that are arrays.
        ranges: of such variables, if known.
        scalars: inputs that are NumPy scalars.
        within: the operation whose body this is, if it is inlined.
        depth: number of enclosing loops.
    """

    def __init__(
        self,
        plan: Plan,
        names: dict[int, str],
        values: NameBindings,
        *,
        reserved: Collection[str] = (),
        targets: Mapping[int, str] | None = None,
        numbers: Collection[int] = (),
        twins: Mapping[int, str] | None = None,
        ranges: dict[int, Range] | None = None,
        scalars: Collection[int] = (),
        within: CurrentOperation | None = None,
        depth: int = 0,
    ) -> None:
        program = plan.program
        self.plan = plan
        self.values = values
        self.names = names
        self.free: list[str] = []
        self.reserved = reserved
        self.targets: Mapping[int, str] = targets or {}
        self.numbers = numbers
        self.twins: Mapping[int, str] = twins or {}
        self.ranges: dict[int, Range] = ranges or {}
        self.scalars = set(scalars)
        self.within = within
        self.depth = depth
        self.locals: dict[str, None] = {}
        """The names that this writer has created, in order."""
        for i, value in program.constant_values.items():
            names[i] = values.bind(value)
            if isinstance(value, np.generic):
                self.scalars.add(i)

    def write(self, steps: Sequence[Step]) -> list[Line]:
        """Write operations."""
        lines: list[Line] = []
        for step in steps:
            lines += self._step(step)
        return lines

    def now(self, k: int) -> CurrentOperation:
        """Describe an operation for error messages; without a line of its own it has that of the
        enclosing operation.
        """
        program, outer = self.plan.program, self.within
        position = program.positions[k] if k < len(program.positions) else None
        return CurrentOperation(
            program.ops[k][0],
            outer.position if position is None and outer is not None else position,
        )

    def local(self, letter: str = "v") -> str:
        """Create a local name for this plan."""
        name = self.values.local(letter)
        self.locals[name] = None
        return name

    def spelled(self, i: int, k: int) -> str:
        """Spell an operand of an operation for NumPy."""
        if i < 0:
            return spelled_literal(self.plan.program, i, k, self.values.bind)
        if i in self.numbers and i not in self.plan.program.constant_values:
            return f"{self.values.bind(self.plan.program.avals[i].dtype.type)}({self.names[i]})"
        return self.names[i]

    def exact(self, i: int) -> str:
        """Spell an operand that is a Python number."""
        program = self.plan.program
        value: Any = program.literals[~i] if i < 0 else program.constant_values.get(i)
        if value is not None:
            number = bool(value) if np.asarray(value).dtype.kind == "b" else int(value)
            return repr(number) if number >= 0 else f"({number!r})"
        return self.twins.get(i) or self.names[i]

    # -- operations ----------------------------------------------------------------------------

    def _step(self, step: Step) -> list[Line]:
        """Write one operation, and free the variables whose last use it is."""
        program, names, now = self.plan.program, self.names, self.now(step.first)
        k, into = step.first, step.into
        primitive, operands, _ = program.ops[k]
        dead = [
            names[i]
            for i in step.dies
            if not names[i].startswith("k") and names[i] not in self.reserved
        ]
        if type(step.structure) is Loop and self.is_inlined(step):
            return self.loop(step, step.structure, dead)
        if k in self.numbers:
            given = [self.exact(i) for i in operands]
            name = names[k] = self._new(dead)
            lines = spelled_number(program, k, name, given, self.ranges, self.values.bind)
            return [(line, now) for line in [*lines, *self._dropped(dead, [name])]]
        expression = self._expression(step)
        if into is not None:
            dead.remove(names[into])
        self.free.extend(dead)
        results = self.plan.results(step)
        for j in results:
            names[j] = names[into] if into is not None else self._new(())
        made = [names[j] for j in results]
        unread = [names[j] for j in self.plan.freed(step) if j in results]
        left = ", ".join(made) + ("," if primitive.many else "")
        lines = [f"{left} = {expression}", *self._dropped(dead, made), *self._dropped(unread, ())]
        self.free.extend(unread)
        return [(line, now) for line in lines]

    def _new(self, dead: Sequence[str]) -> str:
        """Return a free name."""
        self.free.extend(dead)
        return self.free.pop() if self.free else self.local()

    def _dropped(self, dead: Sequence[str], made: Sequence[str]) -> list[str]:
        """Delete dead names that are not reused at once."""
        unused = [d for d in dead if d not in made]
        return [f"del {', '.join(dict.fromkeys(unused))}"] if unused else []

    def _expression(self, step: Step) -> str:
        program, bind_value = self.plan.program, self.values.bind
        k, into = step.first, step.into
        primitive, operands, params = program.ops[k]
        operator = self._operator(k)
        if operator is not None:
            self.scalars.add(k)
            return operator
        if primitive.is_ufunc or primitive is reduce_sum_p:
            self.scalars.add(k)
        arguments = tuple([self.spelled(i, k) for i in operands])
        target = self.names[into] if into is not None else self.targets.get(k)
        if target is not None:
            arguments = (*arguments, spelled_target(primitive, target))
        if step.structure is not None:
            values, in_groups = self.values, type(step.structure) is FusionGroup
            run = (
                in_blocks(step, values.whole)
                if in_groups
                else function_of(self.plan, step, values.bodies)
            )
            return f"{bind_value(run)}({', '.join(arguments)})"
        kernel = KERNELS.get(primitive)
        if kernel is not None and (
            primitive is not broadcast_to_p or k not in self._layout_sensitive
        ):
            return kernel(params).spell(arguments, bind_value)
        static = tuple([bind_value(p) for p in params])
        return (
            f"{bind_value(self._spread.get(k, primitive.eval))}({', '.join((*arguments, *static))})"
        )

    @cached_property
    def _layout_sensitive(self) -> set[int]:
        return layout_sensitive(self.plan.program)

    @cached_property
    def _spread(self) -> dict[int, ParallelUfunc]:
        return spread_operations(self.plan.program)

    def _operator(self, k: int) -> str | None:
        """Spell an operation on single floats as a Python operator; ``None`` if it has none."""
        program = self.plan.program
        primitive, operands, params = program.ops[k]
        if program.avals[k].shape:
            return None
        if primitive is convert_p and params[0] == np.float64 and operands[0] >= 0:
            kind = program.avals[operands[0]].dtype
            if operands[0] in self.numbers or (
                operands[0] in self.scalars and kind.kind in "biuf" and kind.itemsize <= 8
            ):
                x = (
                    self.exact(operands[0])
                    if operands[0] in self.numbers
                    else self.names[operands[0]]
                )
                return f"{self.values.bind(np.float64)}({x})"
        if primitive not in OPERATORS or not any(
            i in self.scalars or i in self.numbers for i in operands
        ):
            return None
        made = program.avals[k].dtype
        counts = is_float_of_number(program, k)
        literals = [program.literals[~i] for i in operands if i < 0]
        specs = [FLOAT if counts and i >= 0 else program.spec(i) for i in operands]
        kernel = scalar_operator(primitive, specs, literals)
        if kernel is None:
            return None
        given: list[str] = []
        for i in operands:
            if i < 0:
                given.append(f"({program.literals[~i]!r})")
            elif program.avals[i].dtype != made and counts:
                given.append(
                    f"{self.values.bind(np.float64)}({self.exact(i) if i in self.numbers else self.names[i]})"
                )
            else:
                given.append(self.names[i])
        return kernel.spell(given, self.values.bind)

    # -- loops ---------------------------------------------------------------------------------

    @abstractmethod
    def is_inlined(self, step: Step) -> bool:
        """Return True if a loop is inlined, not called with functions for its bodies."""

    @abstractmethod
    def loop(self, step: Step, loop: Loop, dead: list[str]) -> list[Line]:
        """Write a loop.

        Args:
            step, loop: the operation.
            dead: names of operands whose last use this is.
        """
