"""The cache of transformed programs: record, then transform and compile once.

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

Layer: 7.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, final

import numpy as np

from functrace.caches import Facts
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
from functrace.transforms.given import with_given
from functrace.typing import Scalar

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
class Form(Specialization):
    """Result of a transform, and the numbers of the recording that are passed to it as last arguments.

    Args:
        made: the result.
        arguments: which literals of the recording.
        avals: theirs.
        assumed: bytes that it hardly takes, see `Kept`.
    """

    __slots__ = ("arguments", "avals", "made")

    def __init__(self, made: Any, arguments: tuple[int, ...], avals: tuple[ShapeDtype, ...], assumed: int) -> None:
        super().__init__(assumed=assumed)
        self.made, self.arguments, self.avals = made, arguments, avals

    def values(self, literals: tuple[Scalar, ...]) -> list[Any]:
        """Return the values of the arguments."""
        return [np.asarray(literals[k], aval.dtype)[()] for k, aval in zip(self.arguments, self.avals, strict=True)]


class Called(NamedTuple):
    """A recording, as guards read it.

    Args:
        guess: a number for the function and the transform by name.
        tape: operations, types of literals, outputs and transform; as the recording has them.
        literals: the numbers among the operands.
    """

    guess: int
    tape: tuple[Any, ...]
    literals: tuple[Scalar, ...]


@final
class ByTape:
    """Guard: which operations were recorded, under which transform.

    The answer is a number: the hash of the tape, or the next one that is free if another tape has the same hash. (Tapes are
    long, and to hash one takes longer than to compare it with the one that the same function had the last time.)
    """

    __slots__ = ("_last", "nodes")

    def __init__(self) -> None:
        self.nodes: Mapping[Any, Any] = {}
        """The nodes behind the answers, whose guards hold the tapes."""
        self._last = Facts("transformed programs that were found last", MOST_GUESSES)

    def answer(self, call: Called) -> int:
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
        """Say that no such recording is known."""
        return f"other operations were recorded than those of the {len(kept)} recordings that are kept"

    def merged(self, other: Guard[Any]) -> ByTape | None:
        """Return itself: there is one."""
        return self if other is self else None


@final
class ByNumbers:
    """Guard: which Python numbers stand among the operands; see Note [Literals that change].

    Args:
        tape: of the recording, kept from changing.
        arguments: by literal that may be an argument, its aval.
        literals: of the recording that this was made for.
    """

    __slots__ = ("_last", "arguments", "literals", "tape")

    def __init__(self, tape: tuple[Any, ...], arguments: dict[int, ShapeDtype], literals: tuple[Scalar, ...]) -> None:
        self.tape, self.arguments, self.literals = tape, arguments, literals
        self._last: tuple[Any, tuple[Any, ...]] = (None, ())  # literals that `==` tells from others, and the answer

    def answer(self, call: Called) -> tuple[Any, ...]:
        """Return the numbers, but for those that are arguments."""
        literals, (plain, found) = call.literals, self._last
        if literals == plain:
            return found
        known = self.arguments
        answer = tuple([
            None if k in known and holds(known[k].dtype, value) else number_key(value) for k, value in enumerate(literals)
        ])  # fmt: skip
        if not any(type(part) is bytes for part in answer):
            self._last = literals, answer
        return answer

    def why(self, kept: Sequence[Hashable], now: Hashable) -> str:
        """Say that the numbers are new."""
        return f"the numbers among the operands are other ones than in {len(kept)} forms that are kept"

    def merged(self, other: Guard[Any]) -> ByNumbers | None:
        """Return itself, unless there are other arguments."""
        return self if other is self else None

    def varying(self, literals: tuple[Scalar, ...]) -> set[int]:
        """Return which literals have varied so far: those that are arguments, and those that are not what they were."""
        pairs = zip(literals, self.literals, strict=True)
        return {k for k, (a, b) in enumerate(pairs) if number_key(a) != number_key(b)}.union(self.arguments)


@contextmanager
def collector_paused() -> Generator[None]:
    """Keep Python's cycle collector out of a transform by rules, which makes many small tuples and no garbage.

    Measured: a tenth of the time of a first pullback through 2,000 operations, half of it through 20,000. (Templates
    leave nothing that it would walk.) No user code runs inside.
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
class TransformCache(Table[Form]):
    """Cache of transformed recordings by tape, transform and numbers; bounded in bytes and number."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        guard = ByTape()
        super().__init__("transformed programs", guard, most_bytes, MOST_ENTRIES)
        guard.nodes = self.root.next

    def made(self) -> list[Any]:
        """Return what transforms have made of recordings, that used longest ago first."""
        return [form.made for form in sorted(self.entries.values(), key=lambda form: form.used)]

    def lookup(
        self, recording: Recording, outputs: tuple[int, ...], transform: Hashable, build: Callable[[Program], Any]
    ) -> tuple[Any, list[Any]]:
        """Return what a transform makes of a recording, and the arguments to run it on.

        Args:
            recording: what was recorded.
            outputs: the variables that are its outputs.
            transform: hashable; with the tape, the key.
            build: makes it from the program, in which captured values are inputs; whatever it returns is kept.

        Returns:
            what ``build`` returned, and the values of its program's inputs, in order: inputs, captured values, numbers
            that have become arguments.
        """
        literals = tuple(recording.literals)
        tape = (
            recording.primitives, recording.operands, recording.params, tuple(map(type, literals)), outputs, transform,
        )  # fmt: skip
        values = recording.values
        known = values.batches or values.known
        arguments = [known[i] for i in recording.inputs]
        if recording.constants:
            arguments.extend(recording.constants.values())
        call = Called(hash((recording.owner, transform)), tape, literals)  # (a number: it holds nothing)
        found = self.find(call)
        if found.__class__ is Miss:
            found = self._added(call, recording, outputs, build)
        if found.arguments:  # type: ignore[union-attr]
            arguments.extend(found.values(literals))  # type: ignore[union-attr]
        return found.made, arguments  # type: ignore[union-attr]

    def _added(self, call: Called, recording: Recording, outputs: tuple[int, ...], build: Callable[[Program], Any]) -> Form:
        """Make a form for a recording, and keep it."""
        key = self.root.guard.answer(call)
        node: Any = self.root.next.get(key)
        before: ByNumbers | None = None if node is None else node.guard
        program, chosen, avals = template(recording, outputs, () if before is None else before.varying(call.literals))
        with collector_paused():
            made = build(program)
        form = Form(made, chosen, avals, (len(recording.primitives) + 16) * MOST_PER_OPERATION)
        known = dict(zip(chosen, avals, strict=True))
        if before is not None and known.keys() <= before.arguments.keys():
            guard = before
        else:
            tape = (*map(list, call.tape[:3]), *call.tape[3:])
            guard = ByNumbers(tape, {} if before is None else before.arguments | known, call.literals)
        self.insert([(self.root.guard, key), (guard, guard.answer(call))], form)
        self.trim(self.root.next.get(key), MOST_FORMS)
        return form


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
    """Look up a recording of which values are known, or whose operations hold programs."""

    def whole(program: Program) -> Any:
        moved = len(program.avals) - len(recording.avals)  # by the numbers that are inputs, at the start of the tape
        if given:
            program = with_given(program, [moved + k for k in given])
        return build(with_inner(program, [moved + k for k in recording.inner or ()]))

    key: tuple[Hashable, ...] = (transform, given, *recording.held)
    made, arguments = CACHE.lookup(recording, outputs, key, whole)
    if given:
        arguments.extend([recording.values.known[k] for k in given])
    return made, arguments


def _read(recording: Recording, variables: Sequence[int]) -> tuple[int, ...]:
    """Choose which of the values that have been evaluated are read, and not computed by the program.

    A value that belongs to a recording around this one is differentiated there: by what the operations say that made it. So
    what depends on a function with rules of its own is computed by these.
    """
    values = recording.values.known
    if not any(isinstance(values[k], Tracer) for k in variables):
        return tuple(variables)
    moved: set[int] = set()
    for k, (primitive, operands, params) in enumerate(recording.ops):
        if not moved.isdisjoint(operands) or goes_by_rule(primitive, params):
            moved.add(k)
    return tuple([k for k in variables if k not in moved])
