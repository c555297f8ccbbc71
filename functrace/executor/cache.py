"""Cache of transformed programs: record each time, transform and compile once.

Note [Literals that change]
    The key of a recording is its tape, which identifies a Python number by position, not by value.
    The first transformed form is specialized to the numbers of its recording (so that ``x ** 3``
    differentiates as a power with a constant exponent). If the same tape returns with another
    number at some position, that position becomes an argument of a second, general form, and stays
    one: a loop counter costs two transforms, not one per value.

Note [What may become an argument]
    NumPy promotion depends on a Python literal's value, not only its type: it refuses
    ``uint8 + 300``, and compares a uint8 with 300. The general form has a fixed dtype, to which
    NumPy converts the number at that position. So a number can be an argument only if that dtype
    holds it, and if the operation then has the same result type. Any other number gets a form of
    its own, and the last few of these are kept: results never depend on earlier calls.

Layer: 7.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, final

import numpy as np

from functrace.caches import MemoTable
from functrace.executor.inner_calls import with_inner
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import INPUT, Primitive
from functrace.ir.program import Program, goes_by_rule
from functrace.ir.tape import Columns, Spec, infer
from functrace.keys import number_key
from functrace.locks import after_fork
from functrace.ops.elementwise import holds, loop_dtypes, where
from functrace.specialize import Guard, Miss, Specialization, Table
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer
from functrace.transforms.precomputed import with_given
from functrace.typing import Scalar

MOST_BYTES = 128 << 20
"""Maximum estimated bytes of all cached forms; the least recently used are evicted first."""

MOST_ENTRIES = 1 << 16
MOST_GUESSES = 1 << 12
"""Number of functions and transforms whose last cache key is remembered and tried first."""
MOST_PER_OPERATION = 1 << 12
"""Upper estimate of the bytes of a transformed form per operation of its tape; 300 to 2,000 as
measured.
"""
MOST_FORMS = 8
"""Maximum number of forms of one tape and one transform."""


@final
class TransformedRecording(Specialization):
    """Result of a transform, and the literals of the recording that are its last arguments.

    Args:
        made: the result.
        arguments: indices of literals of the recording.
        avals: their avals.
        assumed: upper estimate of its bytes, see `CacheEntry`.
    """

    __slots__ = ("arguments", "avals", "made")

    def __init__(
        self, made: Any, arguments: tuple[int, ...], avals: tuple[ShapeDtype, ...], assumed: int
    ) -> None:
        super().__init__(assumed=assumed)
        self.made, self.arguments, self.avals = made, arguments, avals

    def values(self, literals: tuple[Scalar, ...]) -> list[Any]:
        """Return the values of the arguments."""
        return [
            np.asarray(literals[k], aval.dtype)[()]
            for k, aval in zip(self.arguments, self.avals, strict=True)
        ]


class RecordingView(NamedTuple):
    """View of a recording that guards read.

    Args:
        guess: hash of the function's name and the transform.
        tape: operations, types of literals, outputs and transform, in the recording's own lists.
        literals: the Python numbers among the operands.
    """

    guess: int
    tape: tuple[Any, ...]
    literals: tuple[Scalar, ...]


@final
class TapeGuard:
    """Guard on the recorded operations and the transform.

    Its key is a number: the hash of the tape, or the next free number if another tape has the same
    hash. (Hashing a long tape is slower than comparing it with the last tape of the same function.)
    """

    __slots__ = ("_last", "nodes")

    def __init__(self) -> None:
        self.nodes: Mapping[Any, Any] = {}
        """Cache nodes by key; their guards hold the tapes."""
        self._last = MemoTable("transformed programs that were found last", MOST_GUESSES)

    def outcome(self, call: RecordingView) -> int:
        """Return the number of the tape."""
        tape, nodes = call.tape, self.nodes
        key: Any = self._last.get(call.guess)
        node = nodes.get(key)
        if node is not None and node.guard.tape == tape:
            return key
        primitives, operands, params, *rest = tape
        key = hash((tuple(primitives), tuple(operands), tuple(params), *rest))
        while (node := nodes.get(key)) is not None and node.guard.tape != tape:
            key += 1
        self._last.keep(call.guess, key)
        return key

    def why(self, kept: Sequence[Hashable], now: Hashable) -> str:
        """Return the reason of a miss: no such recording is cached."""
        return (
            f"other operations were recorded than those of the {len(kept)} recordings that are kept"
        )

    def merged(self, other: Guard[Any]) -> TapeGuard | None:
        """Return the guard itself: there is one per cache."""
        return self if other is self else None


@final
class LiteralsGuard:
    """Guard on the Python numbers among the operands; see Note [Literals that change].

    Args:
        tape: of the recording; an immutable copy.
        arguments: avals of the literals that may be arguments, by index.
        literals: of the recording for which the guard was created.
    """

    __slots__ = ("_last", "arguments", "literals", "tape")

    def __init__(
        self, tape: tuple[Any, ...], arguments: dict[int, ShapeDtype], literals: tuple[Scalar, ...]
    ) -> None:
        self.tape, self.arguments, self.literals = tape, arguments, literals
        self._last: tuple[Any, tuple[Any, ...]] = (None, ())  # last literals, and their key

    def outcome(self, call: RecordingView) -> tuple[Any, ...]:
        """Return the numbers, except those that are arguments."""
        literals, (plain, found) = call.literals, self._last
        if literals == plain:
            return found
        known = self.arguments
        outcome = tuple([
            None if k in known and holds(known[k].dtype, value) else number_key(value) for k,
            value in enumerate(literals)
        ])  # fmt: skip
        if not any(type(part) is bytes for part in outcome):
            self._last = literals, outcome
        return outcome

    def why(self, kept: Sequence[Hashable], now: Hashable) -> str:
        """Return the reason of a miss: the numbers are new."""
        return (
            f"the numbers among the operands are other ones than in {len(kept)} forms that are kept"
        )

    def merged(self, other: Guard[Any]) -> LiteralsGuard | None:
        """Return the guard itself, if ``other`` is it."""
        return self if other is self else None

    def varying(self, literals: tuple[Scalar, ...]) -> set[int]:
        """Return the indices of literals that have varied so far: arguments, and those that differ
        from the guard's.
        """
        pairs = zip(literals, self.literals, strict=True)
        return {k for k, (a, b) in enumerate(pairs) if number_key(a) != number_key(b)}.union(
            self.arguments
        )


@contextmanager
def collector_paused() -> Generator[None]:
    """Pause the garbage collector during a transform by rules, which creates many small tuples and
    no cycles.

    Measured: 10% of the time of a first pullback through 2,000 operations, 50% through 20,000.
    (Templates leave no objects for the collector.) No user code runs inside.
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
"""Threads that have paused the collector."""


@after_fork
def _resume_collector() -> None:
    """Resume the collector in a forked child, if the thread that paused it does not exist there."""
    if _pausing and threading.get_ident() not in _pausing:
        gc.enable()
    _pausing.intersection_update({threading.get_ident()})


@final
class TransformCache(Table[TransformedRecording]):
    """Cache of transformed recordings by tape, transform and numbers; bounded in bytes and
    number.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        guard = TapeGuard()
        super().__init__("transformed programs", guard, most_bytes, MOST_ENTRIES)
        guard.nodes = self.root.next

    def made(self) -> list[Any]:
        """Return the cached results of transforms, least recently used first."""
        return [form.made for form in sorted(self.entries.values(), key=lambda form: form.used)]

    def lookup(
        self,
        recording: Recording,
        outputs: tuple[int, ...],
        transform: Hashable,
        build: Callable[[Program], Any],
    ) -> tuple[Any, list[Any]]:
        """Return the transformed program of a recording, and its arguments.

        Args:
            recording: the recording.
            outputs: its output variables.
            transform: hashable; with the tape, the key.
            build: function of the program, in which captured values are inputs; its result is
                cached.

        Returns:
            the result of ``build``, and the values of its program's inputs, in order: inputs,
            captured values, literals that have become arguments.
        """
        literals = tuple(recording.literals)
        tape = (
            recording.primitives, recording.operands, recording.params, tuple(map(type, literals)),
            outputs, transform,
        )  # fmt: skip
        values = recording.values
        known = values.batches or values.known
        arguments = [known[i] for i in recording.inputs]
        if recording.constants:
            arguments.extend(recording.constants.values())
        call = RecordingView(
            hash((recording.owner, transform)), tape, literals
        )  # (holds no references)
        found = self.find(call)
        if found.__class__ is Miss:
            found = self._added(call, recording, outputs, build)
        if found.arguments:  # type: ignore[union-attr]
            arguments.extend(found.values(literals))  # type: ignore[union-attr]
        return found.made, arguments  # type: ignore[union-attr]

    def _added(
        self,
        call: RecordingView,
        recording: Recording,
        outputs: tuple[int, ...],
        build: Callable[[Program], Any],
    ) -> TransformedRecording:
        """Build a form for a recording, and cache it."""
        key = self.root.guard.outcome(call)
        node: Any = self.root.next.get(key)
        before: LiteralsGuard | None = None if node is None else node.guard
        program, chosen, avals = template(
            recording, outputs, () if before is None else before.varying(call.literals)
        )
        with collector_paused():
            made = build(program)
        form = TransformedRecording(
            made, chosen, avals, (len(recording.primitives) + 16) * MOST_PER_OPERATION
        )
        known = dict(zip(chosen, avals, strict=True))
        if before is not None and known.keys() <= before.arguments.keys():
            guard = before
        else:
            tape = (*map(list, call.tape[:3]), *call.tape[3:])
            guard = LiteralsGuard(
                tape, {} if before is None else before.arguments | known, call.literals
            )
        self.insert([(self.root.guard, key), (guard, guard.outcome(call))], form)
        self.trim(self.root.next.get(key), MOST_FORMS)
        return form


def template(
    recording: Recording, outputs: tuple[int, ...], varying: Iterable[int]
) -> tuple[Program, tuple[int, ...], tuple[ShapeDtype, ...]]:
    """Return the program of a recording; captured values and eligible literals are inputs.

    The inputs of literals are at the start of the tape, before their readers, and shift every other
    variable.

    Returns:
        the program, the indices of the literals that are inputs, and their avals.
    """
    primitives, operands, params = (
        list(recording.primitives),
        list(recording.operands),
        list(recording.params),
    )
    avals = list(recording.avals)
    for i in recording.constants:
        primitives[i] = INPUT
    chosen: dict[int, ShapeDtype] = {}
    users = {i: k for k, read in enumerate(operands) for i in read if i < 0} if varying else {}
    for literal in sorted(varying):
        k = users.get(~literal)
        if k is None:  # the operation failed, and the user continued
            continue
        read = operands[k]
        specs = tuple([avals[i] if i >= 0 else type(recording.literals[~i]) for i in read])
        aval = argument_aval(
            primitives[k], specs, params[k], read.index(~literal), recording.literals[literal]
        )
        if aval is not None:
            chosen[literal] = aval
    first = len(chosen)
    inputs = [first + i for i in (*recording.inputs, *recording.constants)]
    positions: Sequence[int | None] = range(len(avals))  # see Note [Positions in cached programs]
    if chosen:
        new = {~literal: k for k, literal in enumerate(chosen)}
        operands = [
            tuple([first + i if i >= 0 else new.get(i, i) for i in read]) for read in operands
        ]
        primitives[:0], operands[:0], params[:0] = (
            [INPUT] * first,
            [()] * first,
            [(aval,) for aval in chosen.values()],
        )
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
    primitive: Primitive,
    specs: tuple[Spec, ...],
    params: tuple[Any, ...],
    place: int,
    value: Scalar,
) -> ShapeDtype | None:
    """Return the aval of an argument that replaces a number; see Note [What may become an
    argument].
    """
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
    return (
        aval
        if infer(primitive, (*specs[:place], aval, *specs[place + 1 :]), params) == before
        else None
    )


CACHE = TransformCache()
"""The process's cache."""


def run_recorded(
    recording: Recording,
    outputs: Sequence[int],
    transform: Hashable,
    build: Callable[[Program], Any],
) -> tuple[Any, list[Any]]:
    """Look a recording up in the process's cache; see `TransformCache.lookup`.

    Values that were already evaluated are among the arguments, and are not recomputed.
    """
    evaluation = recording.values.evaluation
    given = () if evaluation is None else _read(recording, evaluation.variables)
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
    """Look up a recording that has evaluated values or sub-programs."""

    def whole(program: Program) -> Any:
        moved = len(program.avals) - len(recording.avals)  # offset of literals that are inputs
        if given:
            program = with_given(program, [moved + k for k in given])
        return build(with_inner(program, [moved + k for k in recording.inner or ()]))

    key: tuple[Hashable, ...] = (transform, given, *recording.held)
    made, arguments = CACHE.lookup(recording, outputs, key, whole)
    if given:
        arguments.extend([recording.values.known[k] for k in given])
    return made, arguments


def _read(recording: Recording, variables: Sequence[int]) -> tuple[int, ...]:
    """Choose the evaluated values that the program takes as arguments instead of recomputing them.

    A value of an enclosing recording is differentiated there, through the operations that computed
    it. So the program recomputes every value that depends on a function with custom rules.
    """
    values = recording.values.known
    if not any(isinstance(values[k], Tracer) for k in variables):
        return tuple(variables)
    moved: set[int] = set()
    for k, (primitive, operands, params) in enumerate(recording.ops):
        if not moved.isdisjoint(operands) or goes_by_rule(primitive, params):
            moved.add(k)
    return tuple([k for k in variables if k not in moved])
