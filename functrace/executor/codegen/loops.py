"""Inlined loops: the NumPy backend writes loop operations as ``for`` and ``while`` statements
around the lines of their bodies.

Carries are local variables, slices come from iterating over arrays, and stacked results are written
directly into their rows. See Note [Two arrays in turn] in `functrace.executor.plan.loop_phases`.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from functrace.executor.codegen.python_scalars import (
    Range,
    carried_numbers,
    is_counted,
    limits,
    read_as_numbers,
)
from functrace.executor.codegen.statements import Line, StatementWriter
from functrace.executor.plan.loop_phases import LoopPhase, is_short
from functrace.executor.plan.planner import Step
from functrace.ir.structures import Loop
from functrace.tracing.lines import CurrentOperation
from functrace.typing import Array


def walked(array: Array, reverse: bool) -> Iterable[Any]:
    """Return an iterable over the slices of an array, or of a stack of packed values."""
    if type(array) is np.ndarray:
        return array[::-1] if reverse else array
    order = range(array.shape[0])
    slices = (array[t] for t in (reversed(order) if reverse else order))
    return slices if len(array.shape) > 1 else map(scalar, slices)


def numbered(array: Array, reverse: bool) -> list[Any]:
    """Return the elements of an array of integers or bools as Python scalars."""
    found: list[Any] = np.asarray(array).tolist()
    return found[::-1] if reverse else found


def scalar(x: Array) -> Any:
    """Return a value without axes as a NumPy scalar."""
    return np.asarray(x)[()]


@final
class LoopStatements(StatementWriter):
    """Statements, with inlined loops."""

    def is_inlined(self, step: Step) -> bool:
        """Return True if a loop is short enough to inline, and not nested too deeply."""
        return self.values.bodies is self.values.whole and is_short(step, self.depth)

    def loop(self, step: Step, loop: Loop, dead: list[str]) -> list[Line]:
        """Write a loop; see the module's docstring."""
        return _LoopWriter(self, step, loop, dead).lines()


def _over(walks: Sequence[tuple[str, str]]) -> str:
    """Return the head of a ``for`` statement."""
    names, over = zip(*walks, strict=True)
    return f"for {', '.join(names)} in {over[0] if len(over) == 1 else 'zip(' + ', '.join(over) + ')'}:"


class _SavedValues(NamedTuple):
    """A list of the values that a phase has kept, by step.

    Args:
        name: of the list.
        width: number of values per step.
        places: indices of the values that later phases here read.
        reverse: True if the last step is first.
        tuples: True if even a single value is in a tuple.
    """

    name: str
    width: int
    places: tuple[int, ...]
    reverse: bool
    tuples: bool


class _LoopWriter:
    """Writer of one loop.

    Args:
        outer: writer of the enclosing program.
        step, loop: the operation.
        dead: names of operands whose last use this is.
    """

    def __init__(self, outer: LoopStatements, step: Step, loop: Loop, dead: list[str]) -> None:
        self.outer = outer
        self.step = step
        self.order = loop
        self.dead = dead
        self.bind: Callable[[Any], str] = outer.values.bind
        self.now: CurrentOperation = outer.now(step.first)
        self.made: list[Line] = []
        self.local_names: dict[str, None] = {}
        """Names whose last use is in the loop."""
        self.has_condition = int(loop.has_condition)
        bodies = step.bodies[self.has_condition :]
        first = [self.has_condition, *[0] * len(bodies)]
        self.phases = [
            LoopPhase(plan, loop.constants, f, n)
            for plan, f, n in zip(bodies, first, loop.carries, strict=False)
        ]
        self.fixed: list[str] = []
        self.twins: dict[int, str] = {}
        """Names of constants as Python numbers, by index."""

    def lines(self) -> list[Line]:
        """Write the loop."""
        outer, loop, program = self.outer, self.order, self.outer.plan.program
        k = self.step.first
        operands = program.ops[k][1]
        given = [outer.spelled(i, k) for i in operands]
        taken = [given.pop(0)] if loop.takes is not None else []
        ends = loop.constants + sum(loop.carries)
        for spelled in given[: loop.constants]:
            self.fixed.append(spelled if spelled.isidentifier() else self.assigned(spelled))
        starts = given[loop.constants : ends]
        arrays = given[ends:]
        self.count_numbers()
        carries = self.start(starts)
        read = {*self.fixed, *arrays, *taken}
        gone = [name for name in self.dead if name not in read]
        if gone:
            self.add(f"del {', '.join(gone)}")
        outer.free.extend(gone)
        if loop.length is None:
            results = self.unknown(carries, taken)
        else:
            results = self.known(carries, arrays, loop.length)
        made = outer.plan.results(self.step)
        for j, name in zip(made, results, strict=True):
            outer.names[j] = name
            if not program.avals[j].shape:
                outer.scalars.add(j)
        left = [name for name in self.local_names if name not in results]
        if left:
            self.add(f"{' = '.join(left)} = None")
            outer.free.extend(left)
        rest = [name for name in self.dead if name in read]
        rest += [outer.names[j] for j in outer.plan.freed(self.step) if j in made]
        if rest:
            self.add(f"del {', '.join(rest)}")
            outer.free.extend(rest)
        return self.made

    # -- helpers -------------------------------------------------------------------------------

    def add(self, text: str) -> None:
        """Add a line to the loop."""
        self.made.append((text, self.now))

    def new(self, letter: str) -> str:
        """Return a name whose lifetime is the loop."""
        name = self.outer.local(letter)
        self.local_names[name] = None
        return name

    def assigned(self, expression: str) -> str:
        """Assign an expression to a name whose lifetime is the loop."""
        name = self.new("u")
        self.add(f"{name} = {expression}")
        return name

    def count_numbers(self) -> None:
        """Determine which variables are Python numbers, and name the constants among them."""
        kept: list[list[bool]] = (
            [] if self.order.takes is None else [[False] * (len(self.order.takes) - 1)]
        )
        needed: set[int] = set()
        for number, phase in enumerate(self.phases):
            program = phase.plan.program
            given = [i for i in phase.constants if is_counted(program.avals[i])]
            if number or self.order.takes is not None:
                flags = [flag for group in kept for flag in group]
                given += [i for i, flag in zip(phase.others, flags, strict=True) if flag]
            elif not self.has_condition:  # slices only if profitable
                slices = [i for i in phase.others if is_counted(program.avals[i])]
                found = carried_numbers(program, [*given, *slices], phase.inputs, phase.outputs)
                given += [i for i in slices if i in read_as_numbers(program, found)]
            phase.numbers = carried_numbers(program, given, phase.inputs, phase.outputs)
            kept.append([i in phase.numbers for i in phase.kept])
            tested = {
                *read_as_numbers(program, phase.numbers),
                *phase.numbers.intersection((*phase.outputs, *phase.kept)),
            }
            needed.update([place for place, i in enumerate(phase.constants) if i in tested])
        if self.has_condition:
            condition = self.step.bodies[0].program
            ids = condition.input_ids
            found = set(self.condition_numbers())
            tested = read_as_numbers(condition, found)
            needed.update([place for place in range(self.order.constants) if ids[place] in tested])
        avals = self.phases[0].plan.program.avals
        for place in sorted(needed):
            kind = "bool" if avals[self.phases[0].constants[place]].dtype.kind == "b" else "int"
            self.twins[place] = self.assigned(f"{kind}({self.fixed[place]})")

    def condition_numbers(self) -> set[int]:
        """Return the variables of the condition that are Python numbers."""
        condition, phase = self.step.bodies[0].program, self.phases[0]
        count = self.order.constants
        given = [i for i in condition.input_ids[:count] if is_counted(condition.avals[i])]
        given += [
            i
            for i, own in zip(condition.input_ids[count:], phase.inputs, strict=True)
            if own in phase.numbers
        ]
        return carried_numbers(condition, given, (), ())

    def start(self, starts: Sequence[str]) -> list[list[str]]:
        """Write the initial carries of all phases; returns their names."""
        found: list[list[str]] = []
        values = iter(starts)
        for phase in self.phases:
            avals, mine = phase.plan.program.avals, list[str]()
            for i in phase.inputs:
                name, value = self.new("c"), next(values)
                if i in phase.numbers:
                    value = f"{'bool' if avals[i].dtype.kind == 'b' else 'int'}({value})"
                elif not avals[i].shape:
                    value = f"{self.bind(scalar)}({value})"
                self.add(f"{name} = {value}")
                mine.append(name)
            found.append(mine)
        return found

    def body(
        self,
        phase: LoopPhase,
        carry: Sequence[str],
        others: Sequence[str],
        targets: dict[int, str],
        ranges: dict[int, Range] | None = None,
    ) -> LoopStatements:
        """Write the lines of a phase's body, indented; returns their writer, which has the names of
        results.
        """
        names = dict(zip(phase.constants, self.fixed, strict=True))
        names.update(zip(phase.inputs, carry, strict=True))
        names.update(zip(phase.others, others, strict=True))
        inner = LoopStatements(
            phase.plan,
            names,
            self.outer.values,
            reserved=set(self.fixed),
            targets=targets,
            numbers=phase.numbers.difference(phase.constants),
            twins={phase.constants[place]: name for place, name in self.twins.items()},
            ranges=ranges,
            scalars=phase.scalars().union(
                [
                    i
                    for i in phase.others
                    if not (self.has_condition or phase.plan.program.avals[i].shape)
                ]
            ),
            within=self.now,
            depth=self.outer.depth + 1,
        )
        lines = inner.write([*phase.plan.steps])
        self.made += [(f"    {text}", now) for text, now in lines]
        self.local_names.update(inner.locals)
        self.outer.locals.update(inner.locals)
        return inner

    def after(
        self,
        phase: LoopPhase,
        carry: Sequence[str],
        inner: LoopStatements,
        spares: dict[int, tuple[str, str]],
    ) -> None:
        """Write the carry updates at the end of a step."""
        after = [inner.exact(i) if i in phase.numbers else inner.names[i] for i in phase.outputs]
        for j, (spare, last) in spares.items():
            self.add(f"    {spare} = {last}")
            self.add(f"    {last} = {after[j]}")
        pairs = {name: value for name, value in zip(carry, after, strict=True) if name != value}
        while pairs:
            free = [name for name in pairs if name not in pairs.values()]
            if not free:
                self.add(f"    {', '.join(pairs)} = {', '.join(pairs.values())}")
                break
            for name in free:
                self.add(f"    {name} = {pairs.pop(name)}")
        kept = {*carry, *self.fixed, *self.twins.values()}
        avals = phase.plan.program.avals
        found = [inner.names[i] for i in (*phase.outputs, *phase.kept) if avals[i].shape]
        dead = [name for name in found if name in inner.locals and name not in kept]
        if dead:
            self.add(f"    del {', '.join(dict.fromkeys(dead))}")

    def double_buffered(
        self, phase: LoopPhase, copies: bool
    ) -> tuple[dict[int, tuple[str, str]], dict[int, str]]:
        """Write the buffers of double-buffered carries; returns names of buffers and targets."""
        spares: dict[int, tuple[str, str]] = {}
        targets: dict[int, str] = {}
        for j in phase.double_buffered(copies):
            home = phase.home(phase.first + j)
            if home is not None and home not in targets:
                spares[j] = (self.new("b"), self.new("l"))
                targets[home] = spares[j][0]
        if spares:
            self.add(f"{' = '.join([name for pair in spares.values() for name in pair])} = None")
        return spares, targets

    def ends(
        self, phase: LoopPhase, carry: Sequence[str], spares: dict[int, tuple[str, str]], steps: int
    ) -> list[str]:
        """Write the final carry that the phase returns, in arrays that the loop owns.

        Args:
            phase: the phase.
            carry: names of its carry.
            spares: names of the buffers of double-buffered carries.
            steps: minimum number of steps.
        """
        avals = phase.plan.program.avals
        for j, (i, name) in enumerate(zip(phase.inputs, carry, strict=True)):
            copied = f"{name} = {self.bind(np.copy)}({name})"
            if i in phase.numbers:
                self.add(f"{name} = {self.bind(avals[i].dtype.type)}({name})")
            elif not avals[i].shape:
                self.add(f"{name} = {self.bind(scalar)}({name})")
            elif not (steps and phase.plan.alone[phase.first + j]):
                self.add(f"if {spares[j][1]} is None: {copied}" if j in spares else copied)
        return list(carry)

    # -- loops of known length -----------------------------------------------------------------

    def known(self, carries: list[list[str]], arrays: Sequence[str], length: int) -> list[str]:
        """Write a ``for`` statement over slices; returns the names of the results."""
        (phase,), (carry,), (reverse,) = self.phases, carries, self.order.reverse
        program = phase.plan.program
        spares, targets = self.double_buffered(phase, copies=True)
        walks: list[tuple[str, str]] = []
        slices: list[str] = []
        for i, array in zip(phase.others, arrays, strict=True):
            helper = numbered if i in phase.numbers else walked
            slices.append(self.new("s"))
            walks.append((slices[-1], f"{self.bind(helper)}({array}, {reverse})"))
        stacks: list[str] = []
        written: dict[int, str] = {}
        for n, i in enumerate(phase.kept, phase.first + phase.count):
            aval, stack = program.avals[i], self.new("y")
            stacks.append(stack)
            self.add(
                f"{stack} = {self.bind(np.empty)}({(length, *aval.shape)!r}, "
                f"{self.bind(aval.dtype)})"
            )
            home = phase.home(n)
            if home is not None and home not in targets:
                targets[home] = written[n] = self.new("r")
                walks.append((written[n], f"{stack}[::-1]" if reverse else stack))
        steps = f"range({length - 1}, -1, -1)" if reverse else f"range({length})"
        if len(written) < len(stacks) or not walks:
            walks.append((self.new("t"), steps))
        t = walks[-1][0]
        self.add(_over(walks))
        inner = self.body(phase, carry, slices, targets)
        for n, (i, stack) in enumerate(
            zip(phase.kept, stacks, strict=True), phase.first + phase.count
        ):
            if n not in written:
                value = inner.exact(i) if i in phase.numbers else inner.names[i]
                self.add(f"    {stack}[{t}] = {value}")
        self.after(phase, carry, inner, spares)
        if self.made[-1][0].startswith("for "):
            self.add("    pass")
        return [*self.ends(phase, carry, spares, length), *stacks]

    # -- loops of data-dependent length --------------------------------------------------------

    def unknown(self, carries: list[list[str]], taken: Sequence[str]) -> list[str]:
        """Write a ``while`` statement, and a ``for`` statement over its steps for each further
        phase.

        Args:
            carries: names of the carries of all phases.
            taken: name of the list of kept values of the first phase, if it has run already.
        """
        loop, results = self.order, list[str]()
        kept: list[_SavedValues] = []
        if loop.takes is not None:
            width, *places = loop.takes
            kept.append(_SavedValues(taken[0], width, tuple(places), reverse=False, tuples=True))
        else:
            results += self.first(carries[0], kept)
        for number, (phase, carry) in enumerate(zip(self.phases, carries, strict=True)):
            if self.has_condition and not number:
                continue
            spares, targets = self.double_buffered(phase, copies=False)
            slices: list[str] = []
            walks: list[tuple[str, str]] = []
            for rows in kept:
                names = [self.new("s") for _ in range(rows.width)]
                slices += [names[place] for place in rows.places]
                left = (
                    names[0]
                    if names and not rows.tuples
                    else f"({', '.join(names)},)"
                    if names
                    else self.new("s")
                )
                walks.append(
                    (
                        left,
                        f"reversed({rows.name})"
                        if rows.reverse != loop.reverse[number]
                        else rows.name,
                    )
                )
            mine = self.rows(phase, loop.reverse[number]) if phase.kept else None
            self.add(_over(walks))
            inner = self.body(phase, carry, slices, targets)
            if mine is not None:
                self.add(f"    {mine.name}.append({self.row(phase, inner)})")
                kept.append(mine)
            self.after(phase, carry, inner, spares)
            if self.made[-1][0].startswith("for "):
                self.add("    pass")
            if number >= loop.hidden:
                results += self.ends(phase, carry, spares, 0)
        return [*results, kept[0].name] if loop.gives else results

    def first(self, carry: list[str], kept: list[_SavedValues]) -> list[str]:
        """Write the ``while`` statement; returns the names of its results."""
        loop, phase = self.order, self.phases[0]
        goes_on = self.first_condition(carry)
        if loop.gives or len(self.phases) > 1:
            kept.append(self.rows(phase, reverse=False))
        spares, targets = self.double_buffered(phase, copies=False)
        steps = self.new("t") if loop.most is not None else ""
        if steps:
            self.add(f"{steps} = 0")
        self.add(f"while {goes_on}:")
        if steps:
            self.add(f"    if {steps} == {loop.most}: {self.bind(loop.refuse)}()")
            self.add(f"    {steps} += 1")
        condition, ids = self.step.bodies[0].program, [*phase.constants, *phase.inputs]
        ranges = limits(
            condition, dict(zip(condition.input_ids, ids, strict=True)), phase.plan.program
        )
        inner = self.body(phase, carry, (), targets, ranges)
        if kept:
            self.add(f"    {kept[0].name}.append({self.row(phase, inner)})")
        again = phase.plan.program.output_ids[0]
        self.add(
            f"    {goes_on} = {inner.exact(again) if again in phase.numbers else inner.names[again]}"
        )
        self.after(phase, carry, inner, spares)
        return [] if loop.hidden else self.ends(phase, carry, spares, 0)

    def rows(self, phase: LoopPhase, reverse: bool) -> _SavedValues:
        """Write an empty list for the values that a phase keeps of each step."""
        name, count = self.new("q"), len(phase.kept)
        self.add(f"{name} = []")
        return _SavedValues(
            name, count, tuple(range(count)), reverse, tuples=self.order.gives or count != 1
        )

    def first_condition(self, carry: Sequence[str]) -> str:
        """Write the first evaluation of the condition; returns the name of its result."""
        plan, phase = self.step.bodies[0], self.phases[0]
        ids, count = plan.program.input_ids, self.order.constants
        found = self.condition_numbers()
        inner = LoopStatements(
            plan,
            dict(zip(ids, [*self.fixed, *carry], strict=True)),
            self.outer.values,
            reserved={*self.fixed, *carry},
            numbers=found.difference(ids[:count]),
            twins={ids[place]: name for place, name in self.twins.items()},
            scalars={
                i
                for i, own in zip(ids[count:], phase.inputs, strict=True)
                if own in phase.scalars()
            },
            within=self.now,
            depth=self.outer.depth + 1,
        )
        self.made += inner.write([*plan.steps])
        self.local_names.update(inner.locals)
        self.outer.locals.update(inner.locals)
        outcome = plan.program.output_ids[0]
        return self.assigned(inner.exact(outcome) if outcome in found else inner.names[outcome])

    def row(self, phase: LoopPhase, inner: LoopStatements) -> str:
        """Spell the values that a phase keeps of a step; values that leave the loop are NumPy's."""
        gives, avals = self.order.gives, phase.plan.program.avals
        kept: list[str] = []
        for i in phase.kept:
            if i not in phase.numbers:
                kept.append(inner.names[i])
            else:
                kept.append(
                    f"{self.bind(avals[i].dtype.type)}({inner.exact(i)})"
                    if gives
                    else inner.exact(i)
                )
        return (
            kept[0] if len(kept) == 1 and not gives else f"({', '.join(kept)}{',' if kept else ''})"
        )
