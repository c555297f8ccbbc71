"""The plan of a program: what every backend has to know of liveness, aliasing and memory before it spells a single line.

A plan is frozen. It says in which order operations run and in which groups, what dies with each, which result is written
into an operand's memory, whose memory a variable is in, which outputs have to be copied, and how many bytes are alive at
most. Programs that operations hold have plans of their own. It prints as a table.

Floor: 6.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple, final

from functrace.executor.beside import beside
from functrace.executor.groups import Blocks, blocks_p, grouped, replaceable
from functrace.executor.reuse import Buffers
from functrace.ir.parts import Compiled, Loop
from functrace.ir.primitive import CONSTANT, INPUT, RESULT
from functrace.ir.program import Program
from functrace.ir.unknown import Unknown
from functrace.locks import cached_property
from functrace.passes import optimized, optimizing
from functrace.steps import finished


class Step(NamedTuple):
    """One operation of a plan.

    Args:
        first: the variable of its first result.
        dies: the operands that are read here for the last time.
        into: the operand in whose memory the result is written; it is among those that die.
        bodies: plans of the programs that have to be compiled for it.
        join: makes, of their compiled forms, the function from operands to results; see `functrace.ir.parts.Lowering`.
        blocks: for a group of operations on large arrays, how they are divided; the one body holds the operations.
        loop: what that function does, if it is a loop.
        onto: by result of a group, the place of the operand in whose memory it is written; that operand dies.
    """

    first: int
    dies: tuple[int, ...]
    into: int | None = None
    bodies: tuple[Plan, ...] = ()
    join: Callable[[Sequence[Compiled]], Callable[..., Any]] | None = None
    blocks: Blocks | None = None
    loop: Loop | None = None
    onto: tuple[int | None, ...] = ()


class Group(NamedTuple):
    """Operations that a backend compiles together.

    Args:
        steps: in order.
        takes: the variables that it reads and another group, or the caller, has made; with whether they die in it.
        gives: the variables that it makes and a later group reads.
    """

    steps: tuple[Step, ...]
    takes: Mapping[int, bool]
    gives: tuple[int, ...]


@final
@dataclass(frozen=True, eq=False)
class Plan:
    """How a program is to run.

    Args:
        program: the program, optimised; variables are its variables.
        groups: the operations that matter, in order.
        owners: by variable, whose memory it is in: a view is in that of what it shows, a result that is written into an
            operand in the operand's. Two variables with different owners share no memory, unless the operation that made
            one of them may return a view (`functrace.ir.primitive.Primitive.fresh`).
        copied: by output, whether it has to be copied, since it may share memory with an argument, a constant or an output
            before it.
        alone: by output, whether it is all of an array that the program has made, and that no other output shows.
        homes: by output, the operation whose result, in C order, has the memory that the output is all of; ``None`` where
            that is not known. Written there, it could be written into other memory as well.
    """

    program: Program
    groups: tuple[Group, ...]
    owners: Mapping[int, int]
    copied: tuple[bool, ...]
    alone: tuple[bool, ...] = ()
    homes: tuple[int | None, ...] = ()

    @property
    def steps(self) -> Iterator[Step]:
        """All operations, in order."""
        return (step for group in self.groups for step in group.steps)

    def results(self, step: Step) -> range:
        """The variables of an operation's results."""
        many = self.program.ops[step.first][0].many
        return range(step.first, step.first + (self.program.result_count(step.first) if many else 1))

    @cached_property
    def alive(self) -> tuple[int, ...]:
        """By operation, the bytes of arrays that the program has made and that are alive while it runs; bodies included.

        Arguments and constants are not counted. What functions need inside is, where it is known (`Primitive.scratch`). An
        operation that may return a view counts as if it did not.
        """
        avals, owners = self.program.avals, self.owners
        readers: Counter[int] = Counter()
        own: set[int] = set()
        found: list[int] = []
        now = 0
        for i in self.program.output_ids:
            readers[owners.get(i, i)] += 1
        for step in self.steps:
            results = self.results(step)
            for j in results:
                if owners[j] == j:
                    own.add(j)
                    now += avals[j].nbytes
                readers[owners[j]] += 1
            primitive = self.program.ops[step.first][0]
            found.append(now + self._inside(step) + int(primitive.scratch * avals[step.first].nbytes))
            unread = [j for j in results if j not in self._read]
            for i in (*step.dies, *unread):
                root = owners.get(i, i)
                readers[root] -= 1
                if root in own and not readers[root]:
                    now -= avals[root].nbytes
        return tuple(found)

    def _inside(self, step: Step) -> int:
        """The bytes that programs held by an operation need, beside its results."""
        if step.blocks is not None or not step.bodies:
            return 0  # what a group needs besides its results stays in cache
        if step.loop is not None:
            count = step.loop.carries[-1]
            return max([body._as_step(body.program.output_ids[:count]) for body in step.bodies])
        most = max([body.peak_bytes for body in step.bodies])
        ends = [body.program.avals[i] for body in step.bodies[-1:] for i in body.program.output_ids]
        results = [self.program.avals[j] for j in self.results(step)]
        return max(0, most - sum([aval.nbytes for aval in ends])) if ends == results else most

    def _as_step(self, carried: Sequence[int]) -> int:
        """The bytes that are alive in a step of a loop, which writes what it carries into the carries of two steps ago."""
        avals, waiting = self.program.avals, set(carried)
        found: list[int] = []
        for step, alive in zip(self.steps, self.alive, strict=True):
            if step.into is None:
                waiting.difference_update(self.results(step))
            found.append(alive + sum([avals[i].nbytes for i in waiting if i in self._made]))
            waiting.difference_update(self.results(step))
        return max(found, default=0)

    def needs(self, nbytes: int) -> bool:
        """Whether the arrays take so many bytes at the peak; not if a size is unknown."""
        avals = self.program.avals
        sizes: list[Any] = [aval.nbytes for aval in set(avals)]
        if any(type(size) is Unknown for size in sizes) or max(sizes, default=0) * len(avals) < nbytes:
            return False
        return self.peak_bytes >= nbytes

    @cached_property
    def peak_bytes(self) -> int:
        """The most bytes of arrays that the program has made and that are alive at one time; see `alive`."""
        avals, owners, outputs = self.program.avals, self.owners, self.program.output_ids
        roots = {owners.get(i, i) for i in outputs}
        ends = sum([avals[r].nbytes for r in roots if r in self._made])
        copies = sum([avals[i].nbytes for i, copied in zip(outputs, self.copied, strict=True) if copied])
        return max([ends + copies, *self.alive])

    @cached_property
    def _read(self) -> set[int]:
        """The variables that an operation or the caller reads."""
        found = set(self.program.output_ids)
        for step in self.steps:
            found.update(self.program.ops[step.first][1])
        return found

    @cached_property
    def _made(self) -> set[int]:
        return {j for step in self.steps for j in self.results(step)}

    def __str__(self) -> str:
        """A table: per operation how many bytes are alive, what it writes into, and what dies; groups begin with a dash."""
        return "\n".join(self._lines(""))

    def _lines(self, indent: str) -> Iterator[str]:
        program = self.program
        inputs = ", ".join([f"{self._name(i)}: {program.avals[i]}" for i in program.input_ids])
        yield f"{indent}{program.name}({inputs})  # at most {self.peak_bytes:,} bytes"
        makers = [k for k, op in enumerate(program.ops) if op[0] not in (INPUT, CONSTANT, RESULT)]
        equations = dict(zip(makers, program.equations, strict=True))
        rows: list[tuple[str, str, Step]] = []
        for step, alive in zip(self.steps, self.alive, strict=True):
            text = str(equations[step.first])
            notes = [f"{alive:,} bytes"]
            if step.into is not None:
                notes.append(f"into {self._name(step.into)}")
            taken = [self._name(program.ops[step.first][1][place]) for place in step.onto if place is not None]
            if taken:
                notes.append(f"into {', '.join(taken)}")
            if step.dies:
                notes.append(f"drops {', '.join(map(self._name, step.dies))}")
            rows.append((f"{text.partition(' {')[0]} {{…}}" if step.bodies else text, ", ".join(notes), step))
        width = max([len(text) for text, _, _ in rows], default=0)
        starts = {group.steps[0].first for group in self.groups if group.steps}
        for text, notes, step in rows:
            mark = "- " if len(self.groups) > 1 and step.first in starts else "  "
            yield f"{indent}{mark}{text:<{width}}  # {notes}"
            for body in step.bodies:
                if step.blocks is not None:
                    yield f"{indent}    in blocks of {step.blocks}:" if step.blocks.rows else f"{indent}    side by side:"
                    yield from [f"{indent}    {line}" for line in str(body.program).splitlines()]
                else:
                    yield from body._lines(indent + "    ")
        names = [self._name(i) + (" (a copy)" if copied else "") for i, copied in self._outputs()]
        yield f"{indent}  return {', '.join(names)}"

    def _outputs(self) -> Iterator[tuple[int, bool]]:
        return zip(self.program.output_ids, self.copied, strict=True)

    def _name(self, i: int) -> str:
        return str(self.program.variables[i].name)


def plan(program: Program, *, size: int | None = None) -> Plan:
    """Optimise a program and plan it.

    Args:
        program: any program.
        size: how many operations stand in a group; by default all.

    Cost:
        about 15 us per equation.
    """
    return planned(optimized(program), size=size)


def planned(
    program: Program, *, size: int | None = None, fresh: bool = True, groups: bool = True, donated: Sequence[int] = ()
) -> Plan:
    """Plan a program as it is, at once; see `planning`."""
    return finished(planning(program, size or sys.maxsize, fresh=fresh, groups=groups, donated=donated))


def planning(
    program: Program, size: int, *, fresh: bool, groups: bool = True, donated: Sequence[int] = ()
) -> Generator[None, None, Plan]:
    """Plan a program in steps of ``size`` operations, which are the groups.

    Args:
        program: a program that has been optimised.
        size: how many operations stand in a group.
        fresh: whether no output may share memory with an argument, a constant or another output.
        groups: whether operations on large arrays are to run block by block; see `functrace.executor.groups`.
        donated: places of inputs whose memory is the program's own: results may be written there, and be in it. If there
            are any, all inputs are in C order.
    """
    if groups:
        program = beside(grouped(program))
    buffers = Buffers(program, donated)
    schedule = iter(program.schedule)
    parts: list[tuple[Step, ...]] = []
    while part := tuple(islice(schedule, size)):
        if parts and not len(parts) % 3:  # to plan a group takes a third of what it takes to spell it
            yield
        steps: list[Step] = []
        for k, dies in part:
            primitive, operands, params = program.ops[k]
            lowers = None if primitive.holds is None else primitive.holds.lowers
            escapes = (lowers is not None and primitive.fresh is None) or primitive.effects
            into, onto = None, ()
            if primitive is blocks_p:
                onto = buffers.group(k, dies, replaceable(*params))
            else:
                into = buffers.step(k, dies, escapes=escapes)
            if lowers is None:
                steps.append(Step(k, dies, into))
                continue
            lowering = lowers(tuple(map(program.spec, operands)), *params)
            bodies: list[Plan] = []
            for body in lowering.bodies:
                if lowering.blocks is not None:
                    bodies.append((yield from planning(body, sys.maxsize, fresh=True, groups=False)))
                    continue
                optimised = yield from optimizing(body, size)
                bodies.append((yield from planning(optimised, size, fresh=lowering.fresh, groups=groups)))
            steps.append(Step(k, dies, into, tuple(bodies), lowering.join, lowering.blocks, lowering.loop, onto))
        parts.append(tuple(steps))
    alone = tuple(map(buffers.is_exclusive, program.output_ids))
    copied = [fresh and shared and not mine for shared, mine in zip(program.aliasing, alone, strict=True)]
    homes = tuple(map(buffers.home, program.output_ids))
    return Plan(program, _grouped(program, parts or [()]), MappingProxyType(buffers.owners), tuple(copied), alone, homes)


def _grouped(program: Program, parts: Sequence[tuple[Step, ...]]) -> tuple[Group, ...]:
    """Say what passes from group to group."""
    if len(parts) == 1:
        return (Group(parts[0], MappingProxyType(dict.fromkeys(program.input_ids, False)), ()),)
    homes: dict[int, int] = dict.fromkeys(program.input_ids, -1)
    takes: list[dict[int, bool]] = [{} for _ in parts]
    handed: set[int] = set()
    for number, steps in enumerate(parts):
        for step in steps:
            primitive, operands, _ = program.ops[step.first]
            for i in operands:
                if i in homes and homes[i] != number:
                    takes[number].setdefault(i, False)
            for i in step.dies:
                if i in takes[number]:
                    takes[number][i] = True
            for j in range(program.result_count(step.first) if primitive.many else 1):
                homes[step.first + j] = number
    for i in program.output_ids:
        if i in homes and homes[i] != len(parts) - 1:
            takes[-1].setdefault(i, False)
    for taken in takes:
        handed.update(taken)
    gives: list[list[int]] = [[] for _ in parts]
    for i, number in homes.items():
        if number >= 0 and i in handed:
            gives[number].append(i)
    return tuple([Group(*row) for row in zip(parts, map(MappingProxyType, takes), map(tuple, gives), strict=True)])
