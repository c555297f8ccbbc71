"""The cache of transformed programs: record, then transform and compile once.

(Calls of functions that would be recorded as they were the last time do not come here: functrace/api/closed.py.)

Note [Literals that change]
    The key of a recording is its tape, which names a Python number by position, not by value. The first transformed
    form is specialised to the numbers it was made with (so that ``x ** 3`` differentiates as a power with a known
    exponent). If the same tape comes again with another number at some position, that position becomes an argument
    of a second, general form, and stays one: a loop counter costs two transforms, not one per value.

Note [What may become an argument]
    NumPy is told a number's value, not only its type: it refuses ``uint8 + 300``, and compares a uint8 with 300.
    The general form knows a dtype only, the one that NumPy converts the number to in that place. So a number takes part
    in it only if that dtype holds it, and if the operation then has the same result type. Any other number makes
    a form of its own, and of these the last few are kept: what a call returns never depends on calls before it.

Floor: 6.
"""

from __future__ import annotations

import gc
import math
import struct
import threading
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any, final

import numpy as np

from functrace.caches import Bounded, Facts, Kept
from functrace.executor.inner import with_inner
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import INPUT, Primitive
from functrace.ir.program import Program, goes_by_rule
from functrace.ir.tape import Columns, Spec, infer
from functrace.locks import after_fork
from functrace.ops.elementwise import loop_dtypes, where
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer
from functrace.transforms.given import with_given
from functrace.typing import Scalar

_items: Callable[..., Callable[[Any], Any]] = itemgetter  # whose type says nothing of what it is applied to

MOST_BYTES = 128 << 20
"""Estimated bytes of all cached forms together; the least recently used go first."""

MOST_ENTRIES = 1 << 16
MOST_GUESSES = 1 << 12
"""So many transforms of functions, by name, are looked for first where they were found last."""
MOST_PER_OPERATION = 1 << 12
"""Bytes that a transformed form hardly exceeds for one operation of a tape; 300 to 2,000 as measured."""
MOST_FORMS = 8
"""Forms that are kept for one tape and one transform."""


@final
class Form:
    """One transformed form: for which literals it holds, and which of them are arguments."""

    __slots__ = ("_delicate", "_fixed", "_known", "_pick", "arguments", "avals", "is_plain", "literals", "made")

    _pick: Callable[[Any], Any] | None

    def __init__(
        self, literals: tuple[Scalar, ...], arguments: tuple[int, ...], avals: tuple[ShapeDtype, ...], made: Any
    ) -> None:
        self.literals = literals
        self.arguments = arguments
        self.avals = avals
        self.made = made
        self._fixed = tuple([k for k in range(len(literals)) if k not in arguments])
        self._pick = _items(*self._fixed) if arguments and self._fixed else None
        self._known = literals if not arguments else self._pick(literals) if self._pick is not None else ()
        # What `==` cannot tell apart, or takes apart: zeros with signs, in complex numbers too; nan.
        self._delicate = tuple(
            [k for k in self._fixed if type(literals[k]) in (float, complex) and _is_delicate(literals[k])]
        )
        self.is_plain = not (arguments or self._delicate)

    def values(self, literals: tuple[Scalar, ...]) -> list[Any] | None:
        """Return the values of the arguments for these literals; ``None`` if the form does not hold for them."""
        mine, pick = self.literals, self._pick
        same = (literals if not self.arguments else pick(literals) if pick is not None else ()) == self._known
        if not same and (not self._delicate or not all(_same(literals[k], mine[k]) for k in self._fixed)):
            return None
        for k in self._delicate:
            if not _same(literals[k], mine[k]):
                return None
        values: list[Any] = []
        for k, aval in zip(self.arguments, self.avals, strict=True):
            if not holds(aval.dtype, literals[k]):
                return None
            values.append(np.asarray(literals[k], aval.dtype)[()])
        return values


def _is_delicate(value: complex) -> bool:
    return type(value) is complex or value == 0 or value != value


def _same(a: Scalar, b: Scalar) -> bool:
    """Whether two numbers of one type are the same: not 0.0 and -0.0, but nan and nan."""
    return a is b or (_bits(a) == _bits(b) if type(a) in (float, complex) else a == b)


def _bits(value: complex) -> bytes:
    return struct.pack("dd", value.real, value.imag)


def _range(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    return (float(np.finfo(dtype).min), float(np.finfo(dtype).max)) if dtype.kind != "b" else (0, 1)


_LIMITS = {np.dtype(code): _range(np.dtype(code)) for code in "?bBhHiIlLqQefdgFDG"}
"""The least and the greatest number that a dtype holds, as Python numbers."""


def holds(dtype: np.dtype[Any], value: Scalar) -> bool:
    """Whether a dtype holds a Python number: whether NumPy converts it without a word."""
    limits = _LIMITS.get(dtype)
    if limits is None:
        return False
    low, high = limits
    parts = (value.real, value.imag) if type(value) is complex else (value,)
    return all(low <= part <= high or (type(part) is float and not math.isfinite(part)) for part in parts)


@final
class Entry(Kept):
    """What is cached for one tape and one transform: forms, the newest last."""

    __slots__ = ("forms", "tape")

    def __init__(self, tape: tuple[Any, ...]) -> None:
        super().__init__(assumed=(len(tape[0]) + 16) * MOST_PER_OPERATION)
        self.tape = tape
        self.forms: tuple[Form, ...] = ()

    def find(self, literals: tuple[Scalar, ...]) -> tuple[Form, list[Any]] | None:
        """Return a form that holds for the literals, and the values of its arguments."""
        for form in reversed(self.forms):
            values = form.values(literals)
            if values is not None:
                return form, values
        return None

    def varying(self, literals: tuple[Scalar, ...]) -> set[int]:
        """Which literals have varied so far: those that are arguments, and those that are not what they were."""
        if not self.forms:
            return set()
        last = self.forms[-1]
        changed = {k for k in range(len(literals)) if not _same(literals[k], last.literals[k])}
        return changed.union(*[form.arguments for form in self.forms])


@contextmanager
def collector_paused() -> Generator[None]:
    """Keep Python's cycle collector out of a transform by rules, which makes many small tuples and no garbage.

    Measured: a tenth of the time of a first pullback through 2,000 operations, half of it through 20,000. (By templates, at
    first sight, there is nothing that it would walk.) No user code runs inside.
    """
    if not gc.isenabled():
        yield
        return
    paused = threading.get_ident()
    _pausing.add(paused)
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        _pausing.discard(paused)


_pausing: set[int] = set()
"""The threads that keep the collector out now."""


@after_fork
def _resume_collector() -> None:
    """Let the collector run in a forked child, where the thread that kept it out is not there."""
    if _pausing and threading.get_ident() not in _pausing:
        gc.enable()
    _pausing.intersection_update({threading.get_ident()})


@final
class TransformCache:
    """Transformed forms by tape and transform, bounded in bytes and number; safe under threads."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        # By the hash of the key: keys are long, and to hash one takes a while: longer than to compare it with the one that
        # the same function had the last time. (An entry whose hash is that of another takes its place.)
        self._kept: Bounded[Entry] = Bounded("transformed programs", most_bytes, MOST_ENTRIES)
        self._last = Facts("transformed programs that were found last", MOST_GUESSES)

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def nbytes(self) -> int:
        """Bytes held, as measured."""
        return self._kept.nbytes

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()

    def made(self) -> list[Any]:
        """Return what transforms have made of recordings, that used longest ago first."""
        entries = sorted(self._kept.entries.values(), key=lambda entry: entry.used)
        return [form.made for entry in entries for form in entry.forms]

    def lookup(
        self, recording: Recording, outputs: tuple[int, ...], transform: Hashable, build: Callable[[Program], Any]
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
        primitives, operands, params = recording.primitives, recording.operands, recording.params
        tape = (primitives, operands, params, tuple(map(type, literals)), outputs, transform)
        kept = self._kept
        known = recording.batches or recording.values
        arguments = [known[i] for i in recording.inputs]
        if recording.constants:
            arguments.extend(recording.constants.values())
        guess = hash((recording.owner, transform))  # (a number: it holds nothing)
        key = self._last.get(guess)
        entry = kept.entries.get(key)
        is_known = entry is not None and entry.tape == tape
        if not is_known:
            key = self._last.keep(guess, hash((tuple(primitives), tuple(operands), tuple(params), *tape[3:])))
            entry = kept.entries.get(key)
            is_known = entry is not None and entry.tape == tape
        if entry is not None and is_known:
            entry.used = kept.tick()
            form = entry.forms[-1]
            if form.is_plain and literals == form.literals:  # the common case, in line
                return form.made, arguments
            found = entry.find(literals)
        else:
            entry, found = Entry((list(primitives), list(operands), list(params), *tape[3:])), None
        if found is None:
            program, chosen, avals = template(recording, outputs, entry.varying(literals))
            with collector_paused():
                made = build(program)
            form = Form(literals, chosen, avals, made)
            is_new = not entry.forms
            entry.forms = (*entry.forms[1 - MOST_FORMS :], form)
            if is_new:
                kept.add(key, entry)
            else:
                kept.changed(entry)
            found = form, form.values(literals) or []
        arguments.extend(found[1])
        return found[0].made, arguments


def template(
    recording: Recording, outputs: tuple[int, ...], varying: Iterable[int]
) -> tuple[Program, tuple[int, ...], tuple[ShapeDtype, ...]]:
    """Return the program of a recording with captured values as inputs, and those literals that may be.

    The inputs of literals stand at the start of the tape, before all that reads them, and move every other variable.

    Returns:
        the program, which literals are inputs of it, and their avals.
    """
    primitives, operands, params = list(recording.primitives), list(recording.operands), list(recording.params)
    avals = list(recording.avals)
    for i in recording.constants:
        primitives[i] = INPUT
    chosen: dict[int, ShapeDtype] = {}
    users = {i: k for k, read in enumerate(operands) for i in read if i < 0} if varying else {}
    for literal in sorted(varying):
        k = users.get(~literal)
        if k is None:  # the operation was refused, and the user went on
            continue
        read = operands[k]
        specs = tuple([avals[i] if i >= 0 else type(recording.literals[~i]) for i in read])
        aval = argument_aval(primitives[k], specs, params[k], read.index(~literal), recording.literals[literal])
        if aval is not None:
            chosen[literal] = aval
    first = len(chosen)
    inputs = [first + i for i in (*recording.inputs, *recording.constants)]
    positions: Sequence[int | None] = range(len(avals))  # see Note [Positions in cached programs]
    if chosen:
        new = {~literal: k for k, literal in enumerate(chosen)}
        operands = [tuple([first + i if i >= 0 else new.get(i, i) for i in read]) for read in operands]
        primitives[:0], operands[:0], params[:0] = [INPUT] * first, [()] * first, [(aval,) for aval in chosen.values()]
        avals[:0] = chosen.values()
        inputs += range(first)
        positions = [None] * first + list(positions)
    program = Program(
        Columns(primitives, operands, params),
        avals,
        recording.literals,
        inputs,
        {},
        [first + i for i in outputs],
        positions=positions,
        name=recording.owner,
        lines=recording.positions or (),
    )
    return program, tuple(chosen), tuple(chosen.values())


def argument_aval(
    primitive: Primitive, specs: tuple[Spec, ...], params: tuple[Any, ...], place: int, value: Scalar
) -> ShapeDtype | None:
    """Return the aval of an argument that may stand for a number; see Note [What may become an argument]."""
    kind: type[Scalar] = type(value)
    kinds: list[np.dtype[Any] | type[Any]] = [
        np.dtype(s) if s is bool else s.dtype if isinstance(s, ShapeDtype) else s for s in specs
    ]
    ufunc = primitive.eval
    if isinstance(ufunc, np.ufunc):
        if all(isinstance(k, type) for k in kinds):
            return None
        dtype = loop_dtypes(ufunc, specs)[place]
    elif primitive is where:
        dtype = (
            np.dtype(bool)
            if place == 0
            else np.result_type(*[k.type(0) if isinstance(k, np.dtype) else k() for k in kinds[1:]])
        )
    else:
        dtype = np.dtype(kind)
    if not holds(dtype, value):
        return None
    aval = ShapeDtype((), dtype)
    before = infer(primitive, specs, params)
    return aval if infer(primitive, (*specs[:place], aval, *specs[place + 1 :]), params) == before else None


CACHE = TransformCache()
"""The process's cache."""


def run_recorded(
    recording: Recording,
    outputs: Sequence[int],
    transform: Hashable,
    build: Callable[[Program], Any],
) -> tuple[Any, list[Any]]:
    """Look a recording up in the process's cache; see `TransformCache.lookup`.

    What has been evaluated on the way is among the arguments, and is not evaluated again.
    """
    answers = recording.answers
    given = () if answers is None else _read(recording, answers.variables)
    if not (given or recording.held):
        return CACHE.lookup(recording, tuple(outputs), transform, build)
    return _lookup_with_more(recording, tuple(outputs), transform, build, given)


def _lookup_with_more(
    recording: Recording,
    outputs: tuple[int, ...],
    transform: Hashable,
    build: Callable[[Program], Any],
    given: tuple[int, ...],
) -> tuple[Any, list[Any]]:
    """Look up a recording of which values are known, or whose operations hold programs."""

    def whole(program: Program) -> Any:
        moved = len(program.avals) - len(recording.avals)  # by the numbers that are inputs, at the start of the tape
        if given:
            program = with_given(program, [moved + k for k in given])
        return build(with_inner(program, [moved + k for k in recording.inner or ()]))

    key: tuple[Hashable, ...] = (transform, given, *recording.held)
    made, arguments = CACHE.lookup(recording, outputs, key, whole)
    if given:
        arguments.extend([recording.values[k] for k in given])
    return made, arguments


def _read(recording: Recording, variables: Sequence[int]) -> tuple[int, ...]:
    """Choose which of the values that have been evaluated are read, and not computed by the program.

    A value that belongs to a recording around this one is differentiated there: by what the operations say that made it. So
    what depends on a function with rules of its own is computed by these.
    """
    values = recording.values
    if not any(isinstance(values[k], Tracer) for k in variables):
        return tuple(variables)
    moved: set[int] = set()
    for k, (primitive, operands, params) in enumerate(recording.ops):
        if not moved.isdisjoint(operands) or goes_by_rule(primitive, params):
            moved.add(k)
    return tuple([k for k in variables if k not in moved])
