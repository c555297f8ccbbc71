"""Data-dependent branches under `vmap`: divergent examples split the batch into trace paths.

A Python ``if`` or ``while`` needs one concrete value. While `vmap` records a function of one
example, reading a concrete value evaluates it for the whole batch. If all examples agree, recording
continues. If not, it continues for the examples with the first one's value; the others wait, and
the function runs again for them from its start (`TracePaths.waiting`). So a recording is always valid
for all examples that it has, every path runs once, and no example runs code of another branch.

Note [What a path takes over]
    A run for waiting examples records the same operations as the run before it, up to the branch
    where they diverged. While its tape is the same, operation by operation, evaluated values are
    reused: array work is done once for all examples that need it, and side effects (a callback) are
    not repeated. Since the tapes are compared, a function that behaves differently the second time
    is evaluated again.

Note [Whose examples a value is of]
    When examples leave, evaluated values keep their rows until the value is read again. So a loop
    that loses an example at every iteration does not copy all its values at every iteration.
    ``generations`` has the examples after each divergent branch; ``since`` is the generation of
    each value.

Layer: 4.
"""

# A tracer's own fields are underscored for users; the library's packages read them.

from __future__ import annotations

import itertools
import math
from collections import ChainMap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, final

import numpy as np

from functrace.errors import ConcretizationError, TooManyPathsError
from functrace.ir.primitive import CONSTANT, INPUT, RESULT
from functrace.ir.tape import Op
from functrace.ir.walk import interpret, steps_to
from functrace.ops.indexing import ARRAY, gather
from functrace.source import Source, user_source
from functrace.tracing.binding import bind
from functrace.tracing.lines import name_warnings, stop_naming
from functrace.tracing.recording import Recording
from functrace.tracing.release import release
from functrace.tracing.tracer import Tracer, Value
from functrace.tracing.values import MOST_HELD, evaluated
from functrace.transforms.vmap import apply_batched, mapped_results
from functrace.typing import Array, Scalar

MOST_WAITING = 4
"""Waiting groups may hold this many times the bytes that one may, before dead values are freed."""

Rows = np.ndarray[Any, np.dtype[np.intp]]
"""Positions of examples in the batch, in order."""


class Divergence(NamedTuple):
    """A divergent branch, and the value that led to the current path.

    Args:
        source: the line that read the value.
        `outcome`: the value, as text.
    """

    source: Source | None
    outcome: str

    def __str__(self) -> str:
        return f"{self.outcome} at {self.source}"


class ExampleGroup(NamedTuple):
    """Examples on the same trace path, for which the function is to be run.

    Args:
        rows: the examples; a range for all of them, which takes no memory.
        forks: branches where they diverged from others.
        before: values that were evaluated for them.
    """

    rows: Rows | range
    forks: tuple[Divergence, ...] = ()
    before: EarlierValues | None = None


@final
class TracePaths:
    """All trace paths of a function for one batch.

    Args:
        owner: name of the transform, for messages.
        size: the number of examples.
        most: the maximum number of paths.
    """

    __slots__ = ("count", "most", "nbytes", "owner", "size", "waiting")

    def __init__(self, owner: str, size: int, most: int) -> None:
        self.owner = owner
        self.size = size
        self.most = most
        self.count = 1
        self.waiting = [ExampleGroup(range(size))]
        self.nbytes = 0
        """Upper bound for the bytes of evaluated values of waiting groups."""

    def take(self) -> ExampleGroup:
        """Return the next group to run."""
        group = self.waiting.pop()
        if group.before is not None and not any(
            other.before is group.before for other in self.waiting
        ):
            self.nbytes -= group.before.nbytes
        return group

    def allow(
        self, outcomes: int, read_at: Source | None, made: Source | None, examples: int
    ) -> None:
        """Count the paths that one path diverges into.

        Raises:
            TooManyPathsError: if there are too many paths.
        """
        self.count += outcomes - 1
        if self.count > self.most:
            raise TooManyPathsError(
                f"{self.owner}: this branch has {outcomes} different values for {examples} "
                "examples, which makes "
                f"{self.count} paths or more, and max_paths is {self.most}",
                at=read_at,
                made=made,
                fix=f"allow more (vmap(f, max_paths={_round_up(self.count)}); every path is a run "
                "of the function), or "
                "avoid it: np.where or functrace.cond for a choice, scan or while_loop for a loop, "
                "functrace.numpy.take(T, i) for T[i]",
            )

    def part(self, groups: Sequence[ExampleGroup], before: EarlierValues) -> None:
        """Add groups of examples to those that wait; the current group continues."""
        self.nbytes += before.nbytes
        self.waiting.extend(reversed(groups))


def _round_up(count: int) -> int:
    return 1 << count.bit_length()


@final
class EarlierValues:
    """Evaluated values of a recording that examples left; see Note [What a path takes over]."""

    __slots__ = (
        "constants",
        "generations",
        "length",
        "literals",
        "nbytes",
        "ops",
        "since",
        "values",
    )

    def __init__(self, recording: Recording, examples: Examples) -> None:
        self.nbytes = examples.nbytes
        self.ops: Sequence[Op] = recording.ops
        self.literals: Sequence[Scalar] = recording.literals
        self.constants = recording.constants
        self.length = len(recording.avals)
        self.values = dict(examples.values)
        self.since = dict(examples.since)
        self.generations = list(examples.generations)


class TapeWithLiterals(Protocol):
    """The tape of a recording or program, with its literals."""

    @property
    def ops(self) -> Sequence[Op]:
        """The operations."""
        ...

    @property
    def literals(self) -> Sequence[Scalar]:
        """The numbers among the operands."""
        ...


def same_operation(
    one: TapeWithLiterals,
    constants: Mapping[int, Any],
    other: TapeWithLiterals,
    other_constants: Mapping[int, Any],
    k: int,
) -> bool:
    """Return True if two tapes have the same operation on the same operands at an index."""
    (primitive, operands, params), (its, others, theirs) = one.ops[k], other.ops[k]
    if primitive is not its or params != theirs or len(operands) != len(others):
        return False
    for i, j in zip(operands, others, strict=True):
        if i != j or (i < 0 and not _is_same_number(one.literals[~i], other.literals[~j])):
            return False
    return primitive is not CONSTANT or _is_same_value(constants[k], other_constants[k])


def _is_same_number(a: Scalar, b: Scalar) -> bool:
    return type(a) is type(b) and np.asarray(a).tobytes() == np.asarray(b).tobytes()


def _is_same_value(a: Value, b: Value) -> bool:
    if isinstance(a, Tracer) or isinstance(b, Tracer):
        return (
            isinstance(a, Tracer)
            and isinstance(b, Tracer)
            and a.ft_recording is b.ft_recording
            and a.ft_variable == b.ft_variable
        )
    return a is b or np.asarray(a).tobytes() == np.asarray(b).tobytes()


@final
class Examples:
    """The examples of a recording, and the values evaluated for them.

    Args:
        paths: all paths of the batch.
        group: the examples.
    """

    __slots__ = (
        "_before", "_compared", "_judged", "_most", "_places", "_released", "forks", "generations",
        "mapped", "nbytes",
        "paths", "since", "values",
    )  # fmt: skip

    def __init__(self, paths: TracePaths, group: ExampleGroup) -> None:
        self.paths = paths
        self.forks = group.forks
        self.values: dict[int, Any] = {}
        """Values by variable; ``mapped`` variables have examples along their first axis."""
        self.since: dict[int, int] = {}
        self.mapped: set[int] = set()
        self.generations: list[Rows | range] = (
            [range(len(group.rows))] if group.before is None else group.before.generations[:]
        )
        if group.before is not None:
            self.generations.append(group.rows)
        self._before = group.before
        self._compared = self._judged = 0
        self._released: set[int] = set()
        self.nbytes = 0
        self._most: float = MOST_HELD
        self._places: dict[int, Rows] = {}

    @property
    def rows(self) -> Rows:
        """The current examples of the recording."""
        last = self.generations[-1]
        if isinstance(last, range):
            last = self.generations[-1] = np.arange(len(last))
        return last

    @property
    def has_outcome(self) -> bool:
        """True if anything has been evaluated."""
        return bool(self.values)

    def described(self) -> str:
        """Describe the examples, and the values of their branches."""
        rows = self.rows
        shown = ", ".join(map(str, rows[:8])) + (
            f" … ({len(rows)} in all)" if len(rows) > 8 else ""
        )
        return f"example{'s' if len(rows) > 1 else ''} {shown}, which had {self.forks[-1]}"

    # -- concrete values -----------------------------------------------------------------------

    def outcome(self, recording: Recording, variable: int) -> Any:
        """Return a variable's value common to all examples that stay; other examples will wait."""
        self._judge(recording)
        if variable not in self.mapped:
            return evaluated(recording, variable)
        self.evaluate(recording, (variable,))
        value = self._current(variable)
        plain = np.asarray(value.ft_concrete() if isinstance(value, Tracer) else value)
        if not len(plain):
            raise ConcretizationError(
                f"a value is needed, but {recording.owner} has no examples",
                made=recording.source(variable),
                fix="leave the call out where the batch is empty, or use np.where, functrace.cond "
                "or functrace.scan",
            )
        labels, count = distinct(plain)
        if count > 1:
            read_at, rows = user_source(), self.rows
            self.paths.allow(count, read_at, recording.source(variable), len(rows))
            if self.paths.nbytes + self.nbytes > MOST_WAITING * MOST_HELD and self._most < math.inf:
                self._free_unread(recording, (variable,))
            before = EarlierValues(recording, self)
            outcomes = [plain[np.argmax(labels == k)] for k in range(count)]
            forks = [
                Divergence(read_at, np.array2string(outcome, threshold=4)) for outcome in outcomes
            ]
            groups = [
                ExampleGroup(rows[labels == k], (*self.forks, forks[k]), before)
                for k in range(1, count)
            ]
            self.paths.part(groups, before)
            self.forks = (*self.forks, forks[0])
            self.generations.append(rows[labels == 0])
            self._places.clear()
        return plain[0].copy()

    # -- evaluation ----------------------------------------------------------------------------

    def results(self, recording: Recording, outputs: Sequence[int]) -> list[tuple[Any, bool]]:
        """Return values for the current examples, with flags: True if examples are along axis 0."""
        self._judge(recording)
        self.evaluate(recording, outputs)
        return [(self._current(i), i in self.mapped) for i in outputs]

    def evaluate(self, recording: Recording, wanted: Sequence[int]) -> None:
        """Evaluate variables and their dependencies for all examples, by the batch rules."""
        self._take_over(recording)
        columns, values, known = recording.columns, self.values, recording.values.known
        primitives, operands_of = columns.primitives, columns.operands
        steps = steps_to(recording, wanted, ChainMap(values, known))
        if not self._released.isdisjoint(
            [k for k, _ in steps]
        ):  # free no more, so that no loop recomputes all
            self._most = math.inf
        for i in itertools.chain(wanted, *[operands_of[k] for k, _ in steps]):
            if i in values:
                self._current(i)
            elif i in known:
                values[i] = known[i]
        now, last = -1, len(self.generations) - 1

        def apply(k: int, operands: tuple[Any, ...]) -> Any:
            nonlocal now
            primitive, ids, params = primitives[k], operands_of[k], columns.params[k]
            if primitive is INPUT:
                if k not in self.mapped:
                    return known[k]
                self.since[k] = 0
                batches = recording.values.batches
                return batches[k] if last == 0 else self._restricted(batches[k], 0, k)
            if primitive is CONSTANT:
                return recording.constants[k]
            now = k
            if self.mapped.isdisjoint(ids):
                result = bind(primitive, operands, params)
            else:
                result = apply_batched(
                    primitive, operands, tuple([i in self.mapped for i in ids]), params
                )
            for j, found in enumerate(result, k) if primitive.many else ((k, result),):
                self.since[j] = last
                self.nbytes += recording.avals[j].nbytes * (
                    len(self.generations[-1]) if j in self.mapped else 1
                )
                self._attribute(recording, k, found)
            return result

        named = name_warnings()
        try:
            interpret(recording, values, apply, steps)
        except Exception as error:
            source = recording.source(now)
            if source is not None:
                error.add_note(f"  recorded at {source}")
            raise
        finally:
            stop_naming(named)
        if self.nbytes > self._most:
            self._free_unread(recording, wanted)
            self._most = max(MOST_HELD, 2 * self.nbytes)

    def _attribute(self, recording: Recording, k: int, found: Value) -> None:
        """Set outside positions to the lines recorded here, not the line that reads the value."""
        if (
            isinstance(found, Tracer)
            and recording.positions is not None
            and found.ft_recording.positions is not None
        ):
            found.ft_recording.positions[found.ft_variable] = recording.positions[k]

    def _judge(self, recording: Recording) -> None:
        """Find newly recorded variables that differ between examples."""
        ops, mapped = recording.columns, self.mapped
        mapped.update([i for i in recording.values.batches if i not in recording.values.known])
        for k in range(self._judged, len(ops)):
            primitive, operands, params = ops[k]
            if primitive is not RESULT and not mapped.isdisjoint(operands):
                end = k + 1
                while primitive.many and end < len(ops) and ops[end][0] is RESULT:
                    end += 1
                mapped.update(
                    mapped_results(
                        primitive, [i in mapped for i in operands], params, range(k, end)
                    )
                )
        self._judged = len(ops)

    def _current(self, variable: int) -> Any:
        """Return the value of a variable for the current examples."""
        value = self.values[variable]
        if variable in self.mapped and self.since[variable] < len(self.generations) - 1:
            value = self.values[variable] = self._restricted(value, self.since[variable], variable)
        return value

    def _restricted(self, value: Value, since: int, variable: int) -> Any:
        """Restrict a value of an older generation to the current one."""
        self.since[variable] = len(self.generations) - 1
        places = self._places.get(since)
        if places is None:
            numbers = np.empty(self.paths.size, np.intp)
            numbers[self.generations[since]] = np.arange(len(self.generations[since]))
            places = self._places[since] = numbers[self.rows]
        return (
            gather(value, (ARRAY,), (places,))
            if isinstance(value, Tracer)
            else np.asarray(value)[places]
        )

    def _take_over(self, recording: Recording) -> None:
        """Reuse evaluated values while the tape is the same; see Note [What a path takes over]."""
        before = self._before
        if before is None:
            return
        k, end = self._compared, min(len(recording.avals), before.length)
        while k < end and same_operation(
            recording, recording.constants, before, before.constants, k
        ):
            if k in before.values and k not in self.values:
                self.values[k] = before.values[k]
                if k in before.since:
                    self.since[k] = before.since[k]
            k += 1
        self._compared = k
        if k < end or k == before.length:
            self._before = None

    def _free_unread(self, recording: Recording, wanted: Sequence[int]) -> None:
        """Free the values that nothing will read."""
        held = set(self.values)
        release(recording, wanted, self.values, is_differentiated=False)
        self._released.update(held.difference(self.values))
        size = len(self.generations[-1])
        avals = recording.avals
        self.nbytes = sum(
            [avals[k].nbytes * (size if k in self.mapped else 1) for k in self.values]
        )


def distinct(values: Array) -> tuple[Rows, int]:
    """Number the distinct rows of an array, bit for bit, in order of appearance.

    Returns:
        the number of every row, and the count of distinct rows.
    """
    n = len(values)
    bits = np.ascontiguousarray(values).reshape(n, -1).view(np.uint8)
    labels = np.zeros(n, np.intp)
    if (bits == bits[0]).all():
        return labels, 1
    if values.dtype == np.bool_ and bits.shape[1] == 1:
        labels[bits[:, 0] != bits[0, 0]] = 1
        return labels, 2
    whole = np.ascontiguousarray(bits).view(np.dtype((np.void, bits.shape[1])))[:, 0]
    _, first, inverse = np.unique(whole, return_index=True, return_inverse=True)
    numbers = np.empty(len(first), np.intp)
    numbers[np.argsort(first)] = np.arange(len(first))
    return numbers[inverse.reshape(-1)], len(first)
