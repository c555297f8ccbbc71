"""Profiles: time, costs and source lines of the operations of a plan.

`ProfilingBackend` is a backend that compiles like `NumPySource`, and reads a clock before and after every
operation, also in sub-programs. The program is also timed without clocks, so that a profile can
report their overhead. The public function is `functrace.debug.profile`.

Layer: 7.
"""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from time import perf_counter
from typing import final

import numpy as np

from functrace.executor.codegen.numpy_source import NUMPY, NumPySource
from functrace.executor.plan.planner import Plan, Step, planned
from functrace.executor.policy import NUMPY_POLICY
from functrace.executor.runner import Runner, run_compiled
from functrace.ir.cost import EquationCost, program_cost, shown
from functrace.ir.files import write_atomically
from functrace.ir.parts import Compiled
from functrace.ir.primitive import CONSTANT, INPUT, RESULT
from functrace.ir.program import Program
from functrace.ir.structures import FusionGroup
from functrace.ops.blas import one_thread
from functrace.passes import LAST, LATE, Pass, applied, optimized
from functrace.phases import PhaseClock, PhaseName, phase
from functrace.source import Source, printable
from functrace.threads import THREADS
from functrace.typing import Array

FEWEST_RUNS = 3
MOST_RUNS = 1_000


@final
@dataclass(frozen=True, slots=True)
class OperationTime:
    """Time and cost of one operation, or of several that run together.

    Args:
        text: the operation, as listings show it.
        seconds: median time per run of the program.
        runs: number of executions in a run of the program.
        bytes: bytes of operands and results in a run of the program; 0 for a view.
        flops: floating-point operations in a run of the program, as `functrace.Program.cost` counts
            them.
        source: the user's line, if known.
        depth: 0 in the program itself, 1 in a sub-program of one of its operations, and so on.
        estimated: True if it runs block by block in the fusion group above it: its seconds are the
            group's, divided in proportion to the time of each operation on a block of ones. The
            group's own bytes are those of its operands and results: other values stay in cache.
    """

    text: str
    seconds: float
    runs: int
    bytes: int
    flops: int
    source: Source | None
    depth: int
    estimated: bool = False

    @property
    def bandwidth(self) -> float:
        """Bytes per second."""
        return self.bytes / self.seconds if self.seconds else 0.0

    @property
    def time(self) -> str:
        """The seconds as listings show them: ``1.2 ms``, and ``≈ 1.2 ms`` if they are estimated."""
        return f"{'≈ ' if self.estimated else ''}{shown(self.seconds)}s"

    @property
    def speed(self) -> float:
        """Floating-point operations per second."""
        return self.flops / self.seconds if self.seconds else 0.0


@final
@dataclass(frozen=True, slots=True)
class LineTime:
    """Time of a line of user code, over all its operations.

    Args:
        place: as ``train.py:14``; ``"?"`` for operations without a known line.
        text: the line.
        seconds: per run of the program.
    """

    place: str
    text: str
    seconds: float


@final
@dataclass(frozen=True, slots=True)
class Profile:
    """Time of a program by operation and by line; prints as a table, and is a picture in notebooks
    (`svg`).

    Args:
        name: name of the function.
        seconds: median time of a run without clocks.
        watched: median time of a run with a clock around every operation.
        runs: number of timed runs of either kind.
        peak_bytes: peak of live bytes of arrays that the program has allocated.
        rows: the operations, in order; those of a sub-program follow their operation, one level
            deeper.
        compiling: seconds by phase before the first run: recording, passes, plan, generated code.

    Example:
        >>> import numpy as np, functrace as ft
        >>> found = ft.debug.profile(lambda x: np.sum(np.sin(x)), seconds=0.0)(np.ones(1000))
        >>> [row.text for row in found.rows]
        ['a: f64[1000] = sin x', 'b: f64[] = reduce_sum a {axes=(0,)}']
    """

    name: str
    seconds: float
    watched: float
    runs: int
    peak_bytes: int
    rows: tuple[OperationTime, ...]
    compiling: Mapping[PhaseName, float] = field(default_factory=dict[PhaseName, float])

    @property
    def flops(self) -> int:
        """Floating-point operations of a run."""
        return sum(row.flops for row in self.rows if not row.depth)

    @property
    def bytes(self) -> int:
        """Bytes of all operands and results of a run."""
        return sum(row.bytes for row in self.rows if not row.depth)

    @property
    def lines(self) -> tuple[LineTime, ...]:
        """The lines of user code, slowest first; operations in sub-programs count for their own
        lines.
        """
        seconds: dict[tuple[str, str], float] = {}
        for k, row in enumerate(self.rows):
            inner = 0.0
            for deeper in self.rows[k + 1 :]:
                if deeper.depth <= row.depth:
                    break
                inner += deeper.seconds if deeper.depth == row.depth + 1 else 0.0
            where = (
                ("?", "")
                if row.source is None
                else (row.source.short, printable(row.source.expression))
            )
            seconds[where] = seconds.get(where, 0.0) + max(0.0, row.seconds - inner)
        found = [LineTime(place, text, spent) for (place, text), spent in seconds.items()]
        return tuple(sorted(found, key=lambda line: -line.seconds))

    def svg(self) -> str:
        """Return an SVG with a bar per operation, as long as its time, and one per line."""
        from functrace.executor.profile_picture import profile_svg

        return profile_svg(self)

    def perfetto(self, path: str | os.PathLike[str]) -> None:
        """Write the profile as a trace, which ui.perfetto.dev and ``chrome://tracing`` open.

        The trace is one run of the program: its operations after each other, each as long as its
        median time, with those of sub-programs below. The source lines and the phases of
        compilation are threads of their own.

        Args:
            path: file to write, e.g. ``"step.json"``. One that exists is replaced.

        Raises:
            OSError: if it cannot be written.

        Example:
            >>> import json, os, tempfile, numpy as np, functrace as ft
            >>> found = ft.debug.profile(lambda x: np.sum(np.sin(x)), seconds=0.0)(np.ones(1000))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     found.perfetto(os.path.join(folder, "step.json"))
            ...     with open(os.path.join(folder, "step.json")) as file:
            ...         events = json.load(file)["traceEvents"]
            >>> [event["name"] for event in events if event.get("cat") == "operation"]
            ['a: f64[1000] = sin x', 'b: f64[] = reduce_sum a {axes=(0,)}']

        Source:
            "Trace Event Format", Google, 2016.
        """
        from functrace.executor.profile_trace import trace_json

        write_atomically(path, trace_json(self))

    def _repr_svg_(self) -> str:
        return self.svg()

    def __str__(self) -> str:
        return "\n".join(_table(self))


def profile_program(
    make: Callable[[], Program],
    arguments: Sequence[Array],
    seconds: float,
    passes: Sequence[Pass] = (),
) -> Profile:
    """Run a compiled program alternately with and without clocks.

    Args:
        make: records the program.
        arguments: arrays, one per input.
        seconds: time to spend; there are at least three runs of either kind.
        passes: the passes that `functrace.jit` was given.
    """
    with PhaseClock() as clock:
        program = make()
        flat = optimized(Runner(program).flat, (*applied(passes), *LATE, *LAST))
        with phase("plan"):
            whole = planned(flat)
        with phase("code"):
            plain = NUMPY.compile(whole)
    backend = ProfilingBackend()
    watched = backend.compile(whole)
    for run in (plain, watched):  # a first run without measurement: it initializes caches
        run_compiled(run, arguments)
    times: list[float] = []
    slower: list[float] = []
    per_entry: list[list[float]] = []
    end = perf_counter() + seconds
    while len(times) < FEWEST_RUNS or (perf_counter() < end and len(times) < MOST_RUNS):
        times.append(_timed(plain, arguments))
        backend.reset()
        slower.append(_timed(watched, arguments))
        per_entry.append([entry.seconds for entry in backend.entries])
    medians = [statistics.median(column) for column in zip(*per_entry, strict=True)]
    rows = tuple(
        _rows(backend, watched, dict(zip(map(id, backend.entries), medians, strict=True)), 0)
    )
    return Profile(
        program.name,
        statistics.median(times),
        statistics.median(slower),
        len(times),
        whole.peak_bytes,
        rows,
        {name: spent for name, spent in clock.seconds.items() if spent},
    )


def _timed(run: Compiled, arguments: Sequence[Array]) -> float:
    begin = perf_counter()
    results = run_compiled(run, arguments)
    seconds = perf_counter() - begin
    del results
    return seconds


@final
@dataclass(eq=False, slots=True)
class StepTime:
    """A step of a plan, its accumulated time, and the compiled sub-programs of its operation."""

    plan: Plan
    step: Step
    bodies: list[Compiled] = field(default_factory=list[Compiled])
    seconds: float = 0.0
    runs: int = 0


@final
class ProfilingBackend:
    """The profiling backend; see the module's docstring."""

    def __init__(self) -> None:
        self.policy = NUMPY_POLICY
        self.entries: list[StepTime] = []
        self.of: dict[int, list[StepTime]] = {}
        """Entries of a compiled program, by its id."""
        self._made: list[Compiled] = []
        self._inner: dict[int, list[Compiled]] = {}
        """Compiled programs by id of their plans."""

    def reset(self) -> None:
        """Reset all counters."""
        for entry in self.entries:
            entry.seconds, entry.runs = 0.0, 0

    def compile(self, plan: Plan) -> Compiled:
        """Compile a plan with a clock after each operation."""
        entries = [StepTime(plan, step) for step in plan.steps]
        self.entries.extend(entries)

        def tick(number: int, before: float) -> float:
            if number >= 0:
                entries[number].seconds += perf_counter() - before
                entries[number].runs += 1
            return perf_counter()

        run = NumPySource(self).timed(plan, tick)
        for entry in entries:
            entry.bodies = [
                made for body in entry.step.bodies for made in self._inner.get(id(body), ())
            ]
        self._inner.setdefault(id(plan), []).append(run)
        self._made.append(run)
        self.of[id(run)] = entries
        return run


def _rows(
    backend: ProfilingBackend, run: Compiled, seconds: dict[int, float], depth: int
) -> Iterator[OperationTime]:
    """Yield the rows of a compiled program."""
    entries = backend.of[id(run)]
    costs = _costs(entries[0].plan.program) if entries else {}
    for entry in entries:
        step, cost = entry.step, costs[entry.step.first]
        if type(step.structure) is FusionGroup:
            yield from _group_rows(entry, seconds[id(entry)], costs, depth)
            continue
        moved = 0 if _is_view(entry.plan, step.first, step.into) else cost.bytes
        text = (
            f"{cost.text.partition(' {')[0]} {{…}}"
            if entry.bodies
            else cost.text.partition("\n")[0]
        )
        yield OperationTime(
            text,
            seconds[id(entry)],
            entry.runs,
            moved * entry.runs,
            cost.flops * entry.runs,
            cost.source,
            depth,
        )
        for body in entry.bodies:
            yield from _rows(backend, body, seconds, depth + 1)


def _group_rows(
    entry: StepTime, seconds: float, costs: dict[int, EquationCost], depth: int
) -> Iterator[OperationTime]:
    """Yield the row of a group that runs block by block, and estimated rows of its operations."""
    step = entry.step
    (body,) = step.bodies
    program, cost = entry.plan.program, costs[step.first]
    operands = [program.avals[i] for i in dict.fromkeys(program.ops[step.first][1]) if i >= 0]
    moved = sum(
        [aval.nbytes for aval in (*operands, *[program.avals[j] for j in entry.plan.results(step)])]
    )
    text = f"{cost.text.partition(' {')[0]} {{…}}"
    yield OperationTime(
        text, seconds, entry.runs, moved * entry.runs, cost.flops * entry.runs, cost.source, depth
    )
    inner = _costs(body.program)
    assert isinstance(step.structure, FusionGroup)
    blocks = _blocks_of_ones(body.program, step.structure)
    weights = [_seconds_of_block(body.program, part.first, blocks) for part in body.steps]
    total = sum(weights) or 1.0
    for part, weight in zip(body.steps, weights, strict=True):
        own = inner[part.first]
        size = 0 if _is_view(body, part.first, part.into) else own.bytes
        text, share = own.text.partition("\n")[0], seconds * weight / total
        yield OperationTime(
            text,
            share,
            entry.runs,
            size * entry.runs,
            own.flops * entry.runs,
            own.source,
            depth + 1,
            True,
        )


def _blocks_of_ones(program: Program, blocks: FusionGroup) -> dict[int, Array]:
    """Return an array of ones for every variable of a group's body, in the size of a block."""
    if not blocks.rows:
        return {i: np.ones(aval.shape, aval.dtype) for i, aval in enumerate(program.avals)}
    rows, whole = blocks.rows, {program.input_ids[place] for place in blocks.whole}
    for k, _ in program.schedule:
        read = [i for i in program.ops[k][1] if i >= 0]
        if read and whole.issuperset(read):
            whole.add(k)
    avals = program.avals
    divided = [
        i for i in range(len(avals)) if i not in whole and avals[i].shape[: len(rows)] == rows
    ]
    each = max([math.prod(avals[i].shape[1:]) for i in divided], default=1)
    count = max(1, THREADS.block // max(1, each))
    found: dict[int, Array] = {}
    for i in range(len(avals)):
        shape = avals[i].shape
        found[i] = np.ones(
            (min(shape[0], count), *shape[1:]) if i in divided else shape, avals[i].dtype
        )
    return found


def _seconds_of_block(program: Program, k: int, blocks: Mapping[int, Array]) -> float:
    """Return the seconds of an operation on a block; 0 for a view."""
    primitive, operands, params = program.ops[k]
    if primitive.view:
        return 0.0
    given = [blocks[i] if i >= 0 else program.literals[~i] for i in operands]
    found: list[float] = []
    with np.errstate(all="ignore"), one_thread() or nullcontext():
        for _ in range(FEWEST_RUNS):
            begin = perf_counter()
            primitive.eval(*given, *params)
            found.append(perf_counter() - begin)
    return min(found)


def _is_view(plan: Plan, k: int, into: int | None) -> bool:
    return into is None and plan.program.ops[k][0].view and plan.owners.get(k, k) != k


def _costs(program: Program) -> dict[int, EquationCost]:
    """Return the cost of every operation, by its first result."""
    makers = [k for k, op in enumerate(program.ops) if op[0] not in (INPUT, CONSTANT, RESULT)]
    return dict(zip(makers, program_cost(program).equations, strict=True))


# -- as text ---------------------------------------------------------------------------------------


def _table(profile: Profile) -> Iterator[str]:
    total = sum(row.seconds for row in profile.rows if not row.depth) or 1.0
    yield (
        f"{printable(profile.name)}: {shown(profile.seconds)}s; "
        f"{shown(profile.watched)}s with a clock around every operation (medians of {profile.runs} "
        "runs); "
        f"at most {shown(profile.peak_bytes)}B"
    )
    if profile.compiling:
        parts = [f"{name} {shown(spent)}s" for name, spent in profile.compiling.items()]
        yield f"compiled in {shown(sum(profile.compiling.values()))}s: {', '.join(parts)}"
    titles = ("time", "share", "runs", "bytes", "B/s", "flop/s", "operation")
    cells: list[tuple[str, ...]] = [titles]
    for row in profile.rows:
        where = "" if row.source is None else f"  # {row.source.short}"
        cells.append(
            (
                row.time,
                f"{row.seconds / total:.1%}",
                str(row.runs),
                f"{shown(row.bytes)}B" if row.bytes else "–",
                shown(row.bandwidth) if row.bytes else "–",
                shown(row.speed) if row.flops else "–",
                "  " * row.depth + row.text + where,
            )
        )
    yield from _aligned(cells)
    yield ""
    yield from _aligned(
        [
            ("time", "share", "line"),
            *[
                (
                    f"{shown(line.seconds)}s",
                    f"{line.seconds / total:.1%}",
                    f"{line.place}  {line.text}".rstrip(),
                )
                for line in profile.lines
            ],
        ]
    )


def _aligned(cells: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[k]) for row in cells) for k in range(len(cells[0]) - 1)]
    for row in cells:
        yield "  ".join(
            ["", *(cell.rjust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]
        ).rstrip()
