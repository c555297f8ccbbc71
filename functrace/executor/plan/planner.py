"""The plan of a program: schedule, liveness, aliasing and buffer reuse, for every backend.

A plan is frozen. It lists the operations in order, the last use of each variable, the results that
are written into an operand's memory, the owner of each variable's memory, the outputs that have to
be copied, and the peak of live bytes. Sub-programs have plans of their own. A plan prints as a
table.

Layer: 7.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, final

from functrace.executor.plan.arena import (
    Arena,
    Donation,
    StaticView,
    arena_of,
    donations_of,
    static_views,
)
from functrace.executor.plan.fusion import blocks_p, replaceable
from functrace.executor.plan.liveness import live_bytes
from functrace.executor.plan.loop_nests import Part, nests_of
from functrace.executor.plan.promotion import ComputeDtypes, typed
from functrace.executor.plan.reuse import BufferTracker
from functrace.executor.policy import NUMPY_POLICY, Policy
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import CONSTANT, INPUT, RESULT
from functrace.ir.program import Program
from functrace.ir.structures import Branch, FusionGroup, Loop, Structure
from functrace.ir.symbolic_numbers import SymbolicNumber
from functrace.locks import cached_property
from functrace.ops.indexing import gather_p
from functrace.ops.shaping import reshape_p
from functrace.passes import PIPELINE, optimized


class Step(NamedTuple):
    """One operation of a plan.

    Args:
        first: the variable of its first result.
        `dies`: operands whose last use this is; see `Plan.freed`.
        into: the operand that the result overwrites, at its last use.
        bodies: plans of its sub-programs that are compiled.
        structure: how it runs the bodies; ``None`` without any. See `functrace.ir.structures`.
        onto: by result of a group, the index of the operand that it overwrites, at its last use.
    """

    first: int
    dies: tuple[int, ...]
    into: int | None = None
    bodies: tuple[Plan, ...] = ()
    structure: Structure | None = None
    onto: tuple[int | None, ...] = ()


class Lifetime(NamedTuple):
    """Lifetime of an array that a plan allocates.

    Args:
        variable: the variable whose operation allocates it.
        nbytes: its bytes.
        first, last: indices of the first and the last step at which it is alive.
    """

    variable: int
    nbytes: int
    first: int
    last: int


@final
@dataclass(frozen=True, eq=False)
class Plan:
    """An execution plan of a program.

    Args:
        program: the optimized program; variables are its variables.
        steps: the live operations, in order.
        owners: by variable, the owner of its memory: a view has the owner of its operand, an
            in-place result that of the operand that it overwrites. Two variables with different
            owners share no memory, unless the operation of one of them may return a view
            (`functrace.ir.primitive.Primitive.fresh`).
        copied: by output, True if it is copied, since it may share memory with an argument, a
            constant or an earlier output.
        alone: by output, True if it is all of an array that the program has allocated, and no other
            output shares it.
        homes: by output, the operation that allocates exactly its memory, in C order, and so could
            also write into a given target; ``None`` if unknown.
        donated: indices of the inputs whose memory the program may overwrite; see `donations`.
    """

    program: Program
    steps: tuple[Step, ...]
    owners: Mapping[int, int]
    copied: tuple[bool, ...]
    alone: tuple[bool, ...] = ()
    homes: tuple[int | None, ...] = ()
    donated: tuple[int, ...] = ()

    def results(self, step: Step) -> range:
        """Return the variables of an operation's results."""
        many = self.program.ops[step.first][0].many
        return range(
            step.first, step.first + (self.program.result_count(step.first) if many else 1)
        )

    def freed(self, step: Step) -> tuple[int, ...]:
        """Return the variables to free after an operation: last uses, and results that are never
        read.
        """
        return (*step.dies, *[j for j in self.results(step) if j not in self._read])

    @cached_property
    def lifetimes(self) -> tuple[Lifetime, ...]:
        """Lifetimes of the arrays that the program allocates, in the order of their first uses.

        Arguments and constants are not among them. An operation that may return a view counts as if
        it did not.
        """
        roots, own = self.memory, self.made
        readers: Counter[int] = Counter([roots.get(i, i) for i in self.program.output_ids])
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for n, step in enumerate(self.steps):
            for j in self.results(step):
                if roots[j] == j:
                    first[j] = n
                readers[roots[j]] += 1
            for i in self.freed(step):
                root = roots.get(i, i)
                readers[root] -= 1
                if root in own and not readers[root]:
                    last[root] = n
        end = len(self.steps) - 1
        return tuple(
            [Lifetime(j, self.allocated(j), n, last.get(j, end)) for j, n in first.items()]
        )

    @cached_property
    def alive(self) -> tuple[int, ...]:
        """Live bytes of arrays that the program has allocated, by operation; bodies included.

        Work memory of NumPy's functions counts (`Primitive.scratch`).
        `functrace.executor.memory` has the same figures with the arrays behind them.
        """
        return tuple(self._live_bytes[0])

    @cached_property
    def _live_bytes(self) -> tuple[list[int], int]:
        return live_bytes(self)

    @cached_property
    def memory(self) -> Mapping[int, int]:
        """By variable that an operation computes, the one whose memory it is in.

        As `owners`, but for operations that may return a view, and here return a new array: a
        ``reshape`` whose operand's memory is not in order, and a ``gather`` by arrays.
        """
        program = self.program
        copies: set[int] = set()
        for step in self.steps:
            k = step.first
            primitive, operands, _ = program.ops[k]
            if primitive is gather_p:
                if any(type(x) is ShapeDtype and x.shape for x in map(program.spec, operands[1:])):
                    copies.add(k)
            elif primitive is reshape_p and (i := operands[0]) >= 0:
                before = program.ops[i][0]
                if before.view and before is not reshape_p and self.views.get(k, k) is None:
                    copies.add(k)
        if not copies:
            return self.owners
        roots = dict(self.owners)
        for step in self.steps:
            k = step.first
            primitive, operands, _ = program.ops[k]
            if k in copies:
                roots[k] = k
            elif primitive.view and roots[k] != k:
                roots[k] = roots.get(operands[0], operands[0])
            elif step.into is not None:
                roots[k] = roots.get(step.into, step.into)
        return roots

    def allocated(self, j: int) -> int:
        """Return the bytes that the operation of a variable allocates: none for a number that is
        repeated by a view.
        """
        primitive, operands, _ = self.program.ops[j]
        is_free = primitive.view and len(operands) > 0 and operands[0] < 0
        return 0 if is_free else self.program.avals[j].nbytes

    def work_bytes(self, step: Step) -> int:
        """Return the bytes that an operation takes for itself, and frees at its end."""
        program, k = self.program, step.first
        primitive, operands, params = program.ops[k]
        if type(step.structure) is Branch:
            return flag_bytes(step.structure, program.avals[operands[0]])
        if not primitive.scratch:
            return 0
        outputs = tuple([program.avals[j] for j in self.results(step)])
        return primitive.work_bytes(tuple(map(program.spec, operands)), outputs, params)

    def returns_of_bodies(self, step: Step) -> bool:
        """Return True if the results of an operation are arrays that its body allocates."""
        structure = step.structure
        if structure is None or type(structure) in (FusionGroup, Loop):
            return False
        if type(structure) is Branch and structure.by_example:
            return False  # the results are selected from those of the bodies
        ends = [body.program.avals[i] for body in step.bodies[-1:] for i in body.program.output_ids]
        return ends == [self.program.avals[j] for j in self.results(step)]

    def needs(self, nbytes: int) -> bool:
        """Return True if peak live bytes are at least ``nbytes``; False if a size is unknown."""
        avals = self.program.avals
        sizes: list[Any] = [aval.nbytes for aval in set(avals)]
        if (
            any(type(size) is SymbolicNumber for size in sizes)
            or max(sizes, default=0) * len(avals) < nbytes
        ):
            return False
        return self.peak_bytes >= nbytes

    @cached_property
    def peak_bytes(self) -> int:
        """Peak of live bytes of arrays that the program has allocated; see `alive`."""
        alive, at_end = self._live_bytes
        return max([at_end, *alive])

    @cached_property
    def has_known_sizes(self) -> bool:
        """True if no size is symbolic."""
        return all(type(n) is int for aval in set(self.program.avals) for n in aval.shape)

    @cached_property
    def views(self) -> Mapping[int, StaticView | None]:
        """Root, offset and strides of variables that may be views; see
        `functrace.executor.plan.arena.static_views`.
        """
        return static_views(self.program)

    @cached_property
    def arena(self) -> Arena:
        """Offsets in one buffer for all arrays that do not escape the program; see
        `functrace.executor.plan.arena`.
        """
        return arena_of(self)

    @cached_property
    def nests(self) -> tuple[Part, ...]:
        """Loop nests with their index maps, and the other steps; see
        `functrace.executor.plan.loop_nests`.
        """
        return tuple(nests_of(self))

    @cached_property
    def donations(self) -> tuple[Donation, ...]:
        """Results that may be written into donated inputs."""
        return donations_of(self)

    @cached_property
    def typed(self) -> Mapping[int, ComputeDtypes]:
        """Compute dtypes by operation; see `functrace.executor.plan.promotion`."""
        return {step.first: typed(self.program, step.first) for step in self.steps}

    @cached_property
    def _read(self) -> set[int]:
        """Variables that an operation or the caller reads."""
        found = set(self.program.output_ids)
        for step in self.steps:
            found.update(self.program.ops[step.first][1])
        return found

    @cached_property
    def made(self) -> Set[int]:
        """The variables that operations compute."""
        return {j for step in self.steps for j in self.results(step)}

    def __str__(self) -> str:
        """Return a table: live bytes, buffer reuse and last uses per operation."""
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
            taken = [
                self._name(program.ops[step.first][1][place])
                for place in step.onto
                if place is not None
            ]
            if taken:
                notes.append(f"into {', '.join(taken)}")
            freed = self.freed(step)
            if freed:
                notes.append(f"drops {', '.join(map(self._name, freed))}")
            rows.append(
                (
                    f"{text.partition(' {')[0]} {{…}}" if step.bodies else text,
                    ", ".join(notes),
                    step,
                )
            )
        width = max([len(text) for text, _, _ in rows], default=0)
        for text, notes, step in rows:
            yield f"{indent}  {text:<{width}}  # {notes}"
            for body in step.bodies:
                if type(step.structure) is FusionGroup:
                    yield (
                        f"{indent}    in blocks of {step.structure}:"
                        if step.structure.rows
                        else f"{indent}    side by side:"
                    )
                    yield from [f"{indent}    {line}" for line in str(body.program).splitlines()]
                else:
                    yield from body._lines(indent + "    ")
        names = [self._name(i) + (" (a copy)" if copied else "") for i, copied in self._outputs()]
        yield f"{indent}  return {', '.join(names)}"

    def _outputs(self) -> Iterator[tuple[int, bool]]:
        return zip(self.program.output_ids, self.copied, strict=True)

    def _name(self, i: int) -> str:
        return str(self.program.variables[i].name)


def flag_bytes(structure: Structure, which: ShapeDtype) -> int:
    """Return the bytes of the flags of the examples that take a branch.

    Args:
        structure: how an operation runs its bodies.
        which: the operation's first operand.
    """
    is_by_example = isinstance(structure, Branch) and structure.by_example
    return which.size if is_by_example else 0


def plan(program: Program, policy: Policy = NUMPY_POLICY) -> Plan:
    """Optimize a program and plan it.

    Args:
        program: any program.
        policy: the backend's policy.

    Cost:
        about 10 us per equation.
    """
    return planned(optimized(program, policy.passes(PIPELINE)), policy)


def planned(
    program: Program,
    policy: Policy = NUMPY_POLICY,
    *,
    fresh: bool = True,
    donated: Sequence[int] = (),
) -> Plan:
    """Plan a program without optimizing it; its sub-programs are optimized.

    Args:
        program: an optimized program.
        policy: the backend's policy.
        fresh: True if no output may share memory with an argument, a constant or another output.
        donated: indices of the inputs whose memory results may overwrite and share. If there are
            any, all inputs are in C order.
    """
    if policy.group is not None:
        program = policy.group(program)
    buffers = BufferTracker(program, donated, reuses=policy.reuses)
    steps: list[Step] = []
    for k, dies in program.schedule:
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
        if type(lowering.structure) is FusionGroup:
            bodies = [planned(body, policy.ungrouped) for body in lowering.bodies]
        else:
            rows = policy.passes(PIPELINE)
            bodies = [
                planned(optimized(body, rows), policy, fresh=lowering.fresh)
                for body in lowering.bodies
            ]
        steps.append(Step(k, dies, into, tuple(bodies), lowering.structure, onto))
    alone = tuple(map(buffers.is_exclusive, program.output_ids))
    copied = [
        fresh and shared and not mine for shared, mine in zip(program.aliasing, alone, strict=True)
    ]
    homes = tuple(map(buffers.home, program.output_ids))
    return Plan(
        program,
        tuple(steps),
        MappingProxyType(buffers.owners),
        tuple(copied),
        alone,
        homes,
        tuple(donated),
    )
