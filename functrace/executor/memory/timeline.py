"""`MemoryPlan`: live bytes over the operations of a run, and the lifetime of every array, as data.

A `MemoryPoint` is one operation; its bytes are those of the arrays that the run has allocated and
not yet freed while the operation runs, its results and its work memory included. A `MemoryValue` is
an array from the operation that allocates it to its last use. Arguments and captured arrays are
values, too, but no point counts them: the run allocates none of them.

    sum(v.nbytes for v in plan.alive(i)) == plan.points[i].nbytes

Layer: 7.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, final

from functrace.ir.aval import ShapeDtype
from functrace.source import Source

Phase: TypeAlias = Literal["forward", "backward"]
"""Part of a derivative."""

Kind: TypeAlias = Literal["argument", "captured", "residual", "value", "result", "carry", "work"]
"""Role of an array: ``residual`` for a value of the forward pass that the reverse pass reads,
``carry`` for the second buffer of a loop's carry, ``work`` for memory that an operation takes for
itself."""

GIVEN = ("argument", "captured")
"""Kinds of values that the run does not allocate."""


@final
@dataclass(frozen=True, slots=True)
class MemoryPoint:
    """One operation of a run.

    Args:
        index: its position in the timeline.
        nbytes: live bytes while it runs.
        phase: ``"forward"`` or ``"backward"``.
        operation: name of its primitive.
        text: the operation, as listings show it.
        source: the user's line, if known.
        depth: 0 in the program itself, 1 in a body of one of its loops or branches, and so on. The
            points of a loop's body are those of one step, with all steps' results counted.

    Example:
        >>> import numpy as np, functrace as ft
        >>> plan = ft.memory_plan(lambda x: np.sum(np.sort(x)), backend="numpy")(np.ones(10))
        >>> [(point.operation, point.nbytes) for point in plan.points]
        [('sort', 80), ('reduce_sum', 88)]
    """

    index: int
    nbytes: int
    phase: Phase
    operation: str
    text: str
    source: Source | None
    depth: int


@final
@dataclass(frozen=True, slots=True)
class MemoryValue:
    """One array of a run.

    Args:
        name: its variable, as listings name it.
        aval: its shape and dtype.
        nbytes: bytes of its memory.
        kind: its role.
        made: the operation that makes it, or ``argument x``.
        source: the user's line that it comes from, if known.
        phase: the phase in which it is made.
        birth: index of the first point at which it is alive; -1 for arguments.
        death: index of the last one.
        readers: indices of the points that read it.
        depth: as that of a point.

    Example:
        >>> import numpy as np, functrace as ft
        >>> plan = ft.memory_plan(lambda x: np.sum(np.sort(x)), backend="numpy")(np.ones(10))
        >>> [(value.name, value.kind, value.birth, value.death) for value in plan.values]
        [('x', 'argument', -1, 1), ('a', 'value', 0, 1), ('b', 'result', 1, 1)]
    """

    name: str
    aval: ShapeDtype
    nbytes: int
    kind: Kind
    made: str
    source: Source | None
    phase: Phase
    birth: int
    death: int
    readers: tuple[int, ...]
    depth: int


@final
@dataclass(frozen=True)
class MemoryPlan:
    """Memory of a run: a timeline of live bytes, and the arrays behind it; see the module.

    It prints as text, is a table in notebooks, and `plot` draws it.

    Args:
        name: name of the function.
        runs: how it runs, which decides lifetimes: ``"jit, NumPy"``, ``"un-jitted, instruction
            list"`` …
        points: the operations, in the order in which they run.
        values: the arrays, by birth.
        nbytes_each: bytes that are kept for each step of loops whose number of steps is known at
            run time only; no point counts them.

    Example:
        >>> import numpy as np, functrace as ft
        >>> plan = ft.memory_plan(ft.grad(lambda x: np.sum(np.sin(np.exp(x)))), backend="numpy")(np.ones(1000))
        >>> plan.peak_bytes, plan.given_bytes
        (16000, 8000)
        >>> [value.made for value in plan.at_peak]
        ['exp', 'cos']
    """

    name: str
    runs: str
    points: tuple[MemoryPoint, ...]
    values: tuple[MemoryValue, ...]
    nbytes_each: int = 0

    @property
    def peak(self) -> MemoryPoint | None:
        """The operation at which most bytes are alive, the first of them; ``None`` without any."""
        return max(self.points, key=lambda point: point.nbytes, default=None)

    @property
    def peak_bytes(self) -> int:
        """Most bytes that are alive at one time, without arguments and captured arrays."""
        return 0 if self.peak is None else self.peak.nbytes

    @property
    def given_bytes(self) -> int:
        """Bytes of arguments and captured arrays."""
        return sum([value.nbytes for value in self.values if value.kind in GIVEN])

    @property
    def at_peak(self) -> tuple[MemoryValue, ...]:
        """The values that are alive at the peak, largest first.

        Example:
            >>> import numpy as np, functrace as ft
            >>> plan = ft.memory_plan(lambda x: np.sum(np.sort(x)), backend="numpy")(np.ones(10))
            >>> [(value.made, value.nbytes) for value in plan.at_peak]
            [('sort', 80), ('reduce_sum', 8)]
        """
        return () if self.peak is None else self.alive(self.peak.index)

    def alive(self, index: int) -> tuple[MemoryValue, ...]:
        """Return the values that the run has allocated and that are alive at a point, largest
        first.

        Args:
            index: the point.
        """
        found = [v for v in self.values if v.kind not in GIVEN and v.birth <= index <= v.death]
        return tuple(sorted(found, key=lambda value: -value.nbytes))

    def why(self, value: MemoryValue, index: int) -> str:
        """Say why a value is alive at a point: its next reader, or its role.

        Args:
            value: one of `values`.
            index: the point.
        """
        if value.kind in GIVEN:
            return value.kind
        if value.kind == "work":
            return f"work memory of {self.points[index].operation}"
        if value.kind == "carry":
            return "carry of the step before"
        if value.birth == index and value.kind != "result":
            return f"result of this {self.points[index].operation}"
        reader = next((self.points[k] for k in value.readers if k >= index), None)
        around = next((k for k in value.readers if self._encloses(k, index)), None)
        if around is not None:
            return f"read by this {self.points[around].operation}"
        if reader is None:
            return "result" if value.kind == "result" else "held until the end"
        place = "" if reader.source is None else f" at {reader.source.short}"
        verb = "read by this" if reader.index == index else "read next by"
        if value.kind == "residual":
            return f"residual: {verb} {reader.operation}{place}, {reader.phase}"
        return f"{verb} {reader.operation}{place}"

    def _encloses(self, outer: int, index: int) -> bool:
        """Return True if a point is in a body of the loop at another point."""
        depth = self.points[outer].depth
        return outer < index and all(p.depth > depth for p in self.points[outer + 1 : index + 1])

    def plot(self, path: str) -> None:
        """Draw the timeline into a file, by matplotlib (the extra ``plot``).

        Args:
            path: a file that matplotlib can write: ``.png``, ``.svg``, ``.pdf``.

        Raises:
            UnsupportedFunctionError: if matplotlib is not installed.
        """
        from functrace.executor.memory.pictures import draw

        draw(self, path)

    def __str__(self) -> str:
        from functrace.executor.memory.tables import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from functrace.executor.memory.tables import as_html

        return as_html(self)


@final
class OpenValue:
    """A value that is alive while a timeline is written."""

    __slots__ = ("death", "in_reverse", "readers", "value")

    def __init__(self, value: MemoryValue) -> None:
        self.value = value
        self.death: int | None = None
        self.readers: list[int] = []
        self.in_reverse = False


def phases(
    operations: Sequence[tuple[Sequence[int], Sequence[int]]],
    marked: Sequence[bool],
    outputs: Sequence[int],
) -> list[Phase]:
    """Return the phase of each operation.

    Passes move an operation of the forward pass, or repeat it, where only the reverse pass reads its
    result: then it belongs to the reverse pass.

    Args:
        operations: results and operands, in the order in which they run.
        marked: one flag per operation: True if the reverse pass of the derivative has it.
        outputs: values that are outputs.
    """
    needed: set[int] = set(outputs)  # values that the forward pass reads
    only = [False] * len(operations)
    for k in range(len(operations) - 1, -1, -1):
        results, operands = operations[k]
        only[k] = marked[k] or needed.isdisjoint(results)
        if not only[k]:
            needed.update(operands)
    found: list[Phase] = []
    for flag, alone in zip(marked, only, strict=True):
        is_reverse = flag or (alone and bool(found) and found[-1] == "backward")
        found.append("backward" if is_reverse else "forward")
    return found


@final
class TimelineWriter:
    """Writer of a timeline, operation by operation."""

    def __init__(self) -> None:
        self.points: list[MemoryPoint] = []
        self.now = 0
        """Live bytes."""
        self.nbytes_each = 0
        self._values: list[OpenValue] = []
        self._dropped: set[int] = set()
        """Indices of points that are not shown."""

    @property
    def next(self) -> int:
        """Index of the next point."""
        return len(self.points)

    @property
    def phase(self) -> Phase:
        """Phase of the last operation."""
        return self.points[-1].phase if self.points else "forward"

    def allocate(
        self,
        name: str,
        aval: ShapeDtype,
        made: str,
        source: Source | None,
        phase: Phase,
        *,
        kind: Kind = "value",
        nbytes: int | None = None,
        depth: int = 0,
    ) -> OpenValue:
        """Note that the next operation allocates an array; returns its record."""
        size = aval.nbytes if nbytes is None else nbytes
        given = kind in GIVEN
        birth = -1 if given else self.next
        found = OpenValue(
            MemoryValue(name, aval, size, kind, made, source, phase, birth, birth, (), depth)
        )
        self._values.append(found)
        if not given:
            self.now += size
        return found

    def allocate_work(
        self,
        nbytes: int,
        aval: ShapeDtype,
        made: str,
        source: Source | None,
        phase: Phase,
        *,
        depth: int = 0,
    ) -> OpenValue | None:
        """Note the work memory of the next operation, which `free_work` frees after it; ``None`` if
        it takes none.
        """
        if not nbytes:
            return None
        return self.allocate("", aval, made, source, phase, kind="work", nbytes=nbytes, depth=depth)

    def free_work(self, value: OpenValue | None) -> None:
        """Free the result of `allocate_work`."""
        if value is not None:
            self.free(value)

    def point(
        self, operation: str, text: str, source: Source | None, phase: Phase, depth: int
    ) -> int:
        """Write an operation; its results are allocated before, and freed values after it."""
        index = self.next
        self.points.append(MemoryPoint(index, self.now, phase, operation, text, source, depth))
        return index

    def read(self, value: OpenValue, index: int, phase: Phase) -> None:
        """Note that an operation reads a value."""
        value.readers.append(index)
        if phase == "backward" and value.value.phase == "forward":
            value.in_reverse = True

    def free(self, value: OpenValue) -> None:
        """Note that the last operation was the last use of a value."""
        value.death = self.next - 1
        if value.value.kind not in GIVEN:
            self.now -= value.value.nbytes

    def drop(self, start: int, end: int) -> None:
        """Leave points out: those of steps of a loop that are like another one."""
        self._dropped.update(range(start, end))

    def finish(self, name: str, runs: str, results: Sequence[OpenValue]) -> MemoryPlan:
        """Return the timeline; ``results`` are alive at its end, and so is what was not freed."""
        kept, end = {id(value) for value in results}, self.next - 1
        values: list[MemoryValue] = []
        shown = [k for k in range(self.next) if k not in self._dropped]
        places = {k: n for n, k in enumerate(shown)}
        points = [replace(self.points[k], index=n) for n, k in enumerate(shown)]
        for found in self._values:
            value, kind = found.value, found.value.kind
            if kind == "value":
                kind = (
                    "result" if id(found) in kept else "residual" if found.in_reverse else "value"
                )
            death = end if found.death is None else found.death
            birth, death = bisect_left(shown, value.birth), bisect_right(shown, death) - 1
            if value.birth < 0:
                birth = -1
            elif birth > death:
                continue
            readers = tuple(dict.fromkeys([places[k] for k in found.readers if k in places]))
            values.append(replace(value, kind=kind, birth=birth, death=death, readers=readers))
        return MemoryPlan(name, runs, tuple(points), tuple(values), self.nbytes_each)
