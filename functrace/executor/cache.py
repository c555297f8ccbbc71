"""The cache of transformed programs: record always, transform and compile once.

Note [Literals that change]
    The key of a recording is its tape, which names a Python number by position, not by value. The first transformed
    form is specialised to the numbers it was made with (so that ``x ** 3`` differentiates as a power with a known
    exponent). If the same tape comes again with another number at some position, that position becomes an argument
    of a second, general form, and stays one: a loop counter costs two transforms, not one per value.

Floor: 6.
"""

from __future__ import annotations

import gc
import itertools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, final

import numpy as np

from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import INPUT
from functrace.ir.program import Program
from functrace.tracing.recording import Recording

MOST_BYTES = 128 << 20
"""Estimated bytes of all cached forms together; the least recently used go first."""

_BYTES_PER_OP = 2_000


@final
class Specialization:
    """One transformed form: for which literals it holds, and which of them are arguments."""

    __slots__ = ("arguments", "literals", "made", "zeros")

    def __init__(self, literals: tuple[Any, ...], arguments: tuple[int, ...], made: Any) -> None:
        self.literals = literals
        self.arguments = arguments
        self.made = made
        self.zeros = tuple(k for k, v in enumerate(literals) if v == 0)

    def fits(self, literals: tuple[Any, ...]) -> bool:
        """Whether the literals are the same numbers (0.0 and -0.0 are not)."""
        if literals != self.literals:
            return False
        return all(_signs(literals[k]) == _signs(self.literals[k]) for k in self.zeros)


def _signs(value: Any) -> tuple[float, ...]:
    if isinstance(value, complex):
        return math.copysign(1, value.real), math.copysign(1, value.imag)
    return (math.copysign(1, value),)


@final
class Entry:
    """What is cached for one tape and one transform."""

    __slots__ = ("exact", "general", "size", "used")

    def __init__(self, size: int) -> None:
        self.exact: Specialization | None = None
        self.general: Specialization | None = None
        self.size = size
        self.used = 0


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep Python's cycle collector out of a transform, which makes many small tuples and no garbage.

    Measured: a sixth of the time of a first gradient through 2,000 operations. No user code runs inside.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@final
class TransformCache:
    """Transformed forms by tape and transform, bounded in bytes; safe under threads."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._entries: dict[Any, Entry] = {}
        self._clock = itertools.count()
        self._lock = threading.Lock()
        self._bytes = 0
        self.most_bytes = most_bytes

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def nbytes(self) -> int:
        """Estimated bytes held."""
        return self._bytes

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._bytes = 0

    def lookup(
        self, recording: Recording, outputs: tuple[int, ...], transform: Any, build: Callable[[Program], Any]
    ) -> tuple[Any, list[Any]]:
        """Return the transformed form of a recording, and the arguments to run it on.

        Args:
            recording: what was recorded; its tape is the key.
            outputs: the variables that are its outputs.
            transform: hashable; with the tape, the key.
            build: makes the transformed form from the program, in which captured values are inputs; ``lookup``
                remembers whatever it returns.

        Returns:
            what ``build`` returned, and the values of its program's inputs, in order: inputs, captured values, numbers
            that have become arguments.
        """
        literals = tuple(recording.literals)
        key = (tuple(recording.ops), tuple(map(type, literals)), outputs, transform)
        entry = self._entries.get(key)
        if entry is None:
            entry = Entry(_BYTES_PER_OP * (len(recording.ops) + 4))
        entry.used = next(self._clock)
        known = recording.batches or recording.values
        arguments = [known[i] for i in recording.inputs]
        if recording.constants:
            arguments.extend(recording.constants.values())
        exact, general = entry.exact, entry.general
        if exact is not None and exact.fits(literals):
            return exact.made, arguments
        if general is not None:
            fixed = set(range(len(literals))).difference(general.arguments)
            if all(_same(literals[k], general.literals[k]) for k in fixed):
                avals = general.made[1]
                arguments.extend(
                    np.asarray(literals[k], aval.dtype)[()] for k, aval in zip(general.arguments, avals, strict=True)
                )
                return general.made[0], arguments
        if exact is None:
            with collector_paused():
                made = build(template(recording, outputs, ())[0])
            entry.exact = Specialization(literals, (), made)
        else:
            before = general.literals if general is not None else exact.literals
            varying = set(general.arguments) if general is not None else set()
            varying |= {k for k in range(len(literals)) if not _same(literals[k], before[k])}
            chosen = tuple(sorted(varying))
            program, avals = template(recording, outputs, chosen)
            with collector_paused():
                made = build(program)
            entry.general = Specialization(literals, chosen, (made, avals))
            arguments.extend(np.asarray(literals[k], a.dtype)[()] for k, a in zip(chosen, avals, strict=True))
        with self._lock:
            if key not in self._entries:
                self._entries[key] = entry
                self._bytes += entry.size
            while self._bytes > self.most_bytes and len(self._entries) > 1:
                oldest = min(self._entries, key=lambda k: self._entries[k].used)
                self._bytes -= self._entries.pop(oldest).size
        return made, arguments


def _same(a: Any, b: Any) -> bool:
    return (a is b or a == b or (a != a and b != b)) and _signs(a) == _signs(b)


def template(
    recording: Recording, outputs: tuple[int, ...], varying: tuple[int, ...]
) -> tuple[Program, tuple[ShapeDtype, ...]]:
    """Return the program of a recording with captured values, and chosen literals, as inputs.

    The variables keep their numbers; the new inputs of literals stand at the end of the tape. (A tape is evaluated by
    schedule, in which inputs come first wherever they stand.)
    """
    ops, avals = list(recording.ops), list(recording.avals)
    inputs = [*recording.inputs, *recording.constants]
    for i in recording.constants:
        ops[i] = (INPUT, (), ops[i][2])
    replaced: dict[int, int] = {}
    made = []
    users: dict[int, int] = {}
    for k, (_, operands, _) in enumerate(ops):
        for i in operands:
            if i < 0:
                users[i] = k
    for k in varying:
        literal = ~k
        _, operands, _ = ops[users[literal]]
        dtypes = [avals[i].dtype for i in operands if i >= 0]
        dtype = np.result_type(*dtypes, recording.literals[k]) if dtypes else np.asarray(recording.literals[k]).dtype
        aval = ShapeDtype((), dtype)
        replaced[literal] = len(ops)
        inputs.append(len(ops))
        ops.append((INPUT, (), (aval,)))
        avals.append(aval)
        made.append(aval)
    if replaced:
        for literal in replaced:
            k = users[literal]
            primitive, operands, params = ops[k]
            ops[k] = (primitive, tuple(replaced.get(i, i) for i in operands), params)
    positions = range(len(recording.ops))  # see Note [Positions in cached programs]
    program = Program(ops, avals, recording.literals, inputs, {}, outputs, positions=positions, name=recording.owner)
    program.lines = recording.positions or ()
    return program, tuple(made)


CACHE = TransformCache()
"""The process's cache."""


def run_recorded(
    recording: Recording,
    outputs: Sequence[int],
    transform: Any,
    build: Callable[[Program], Any],
) -> tuple[Any, list[Any]]:
    """Look a recording up in the process's cache; see `TransformCache.lookup`."""
    return CACHE.lookup(recording, tuple(outputs), (transform, *recording.held), build)
