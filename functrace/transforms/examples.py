"""Questions about values that differ between the examples of a mapped function split the batch by answer.

Python's own ``if`` and ``while`` take one answer. While `vmap` records a function of single examples, a question is
evaluated for the whole batch. If all examples answer alike, the recording goes on. If not, it goes on for the examples that
answer as the first one does; the others wait, and the function is run for them again, from its start (`Paths.waiting`). So
a recording always holds for all the examples that it has, every path is run once, and no example meets code that it does
not take.

Note [What a path takes over]
    A run for examples that have waited records what the run before it did, up to the question that parted them. As long as
    its tape is the same, operation by operation, values that have been evaluated are taken over: array work is done once for
    all the examples that need it, and what must not happen twice (a callback) does not. The tape is compared, so
    a function that does otherwise the second time is evaluated anew.

Note [Whose examples a value is of]
    When examples leave, values that have been evaluated keep them, until the value is read again. So a loop that loses an
    example at every turn does not copy all that it has computed at every turn. ``generations`` has the examples after
    each question that parted them; ``since`` says for a value which of these it is of.

Layer: 4.
"""

# A tracer's own fields are underscored for users; the library's packages read them.
# pyright: reportPrivateUsage=false

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
"""Groups that wait may hold together so many times what one may, before it is looked for values that nothing will read."""

Rows = np.ndarray[Any, np.dtype[np.intp]]
"""Which examples, by their places in the batch, in order."""


class Fork(NamedTuple):
    """A question that parted examples, and the answer that led to where one is.

    Args:
        source: the line that asked.
        answer: what it was told, as text.
    """

    source: Source | None
    answer: str

    def __str__(self) -> str:
        return f"{self.answer} at {self.source}"


class Group(NamedTuple):
    """Examples that have answered alike so far, and for which the function is to be run.

    Args:
        rows: the examples.
        forks: the questions that parted them from others.
        before: what has been evaluated for them.
    """

    rows: Rows
    forks: tuple[Fork, ...] = ()
    before: Before | None = None


@final
class Paths:
    """All runs of a function for one batch.

    Args:
        owner: who maps, for messages.
        size: the number of examples.
        most: how many paths there may be.
    """

    __slots__ = ("count", "most", "nbytes", "owner", "size", "waiting")

    def __init__(self, owner: str, size: int, most: int) -> None:
        self.owner = owner
        self.size = size
        self.most = most
        self.count = 1
        self.waiting = [Group(np.arange(size))]
        self.nbytes = 0
        """Bytes of what has been evaluated for groups that wait, at most."""

    def take(self) -> Group:
        """Return the group whose turn it is."""
        group = self.waiting.pop()
        if group.before is not None and not any(other.before is group.before for other in self.waiting):
            self.nbytes -= group.before.nbytes
        return group

    def allow(self, answers: int, asked: Source | None, made: Source | None, examples: int) -> None:
        """Count the paths that a question makes, of one that there was.

        Raises:
            TooManyPathsError: if that makes too many paths.
        """
        self.count += answers - 1
        if self.count > self.most:
            raise TooManyPathsError(
                f"{self.owner}: this question has {answers} different answers for {examples} examples, which makes "
                f"{self.count} paths or more, and max_paths is {self.most}",
                at=asked,
                made=made,
                fix=f"allow more (vmap(f, max_paths={_round_up(self.count)}); every path is a run of the function), or ask "
                "nothing: np.where or functrace.cond for a choice, scan or while_loop for a loop, "
                "functrace.numpy.take(T, i) for T[i]",
            )

    def part(self, groups: Sequence[Group], before: Before) -> None:
        """Let groups of examples wait, besides the one that goes on."""
        self.nbytes += before.nbytes
        self.waiting.extend(reversed(groups))


def _round_up(count: int) -> int:
    return 1 << count.bit_length()


@final
class Before:
    """What a recording had evaluated when examples left it; see Note [What a path takes over]."""

    __slots__ = ("constants", "generations", "length", "literals", "nbytes", "ops", "since", "values")

    def __init__(self, recording: Recording, examples: Examples) -> None:
        self.nbytes = examples.nbytes
        self.ops: Sequence[Op] = recording.ops
        self.literals: Sequence[Scalar] = recording.literals
        self.constants = recording.constants
        self.length = len(recording.avals)
        self.values = dict(examples.values)
        self.since = dict(examples.since)
        self.generations = list(examples.generations)


class Written(Protocol):
    """A tape with its numbers: of a recording, a program, or what was one."""

    @property
    def ops(self) -> Sequence[Op]:
        """The operations."""
        ...

    @property
    def literals(self) -> Sequence[Scalar]:
        """The numbers among the operands."""
        ...


def same_operation(
    one: Written, constants: Mapping[int, Any], other: Written, other_constants: Mapping[int, Any], k: int
) -> bool:
    """Whether two tapes have the same operation in one place, of the same things."""
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
        return isinstance(a, Tracer) and isinstance(b, Tracer) and a._recording is b._recording and a._id == b._id
    return a is b or np.asarray(a).tobytes() == np.asarray(b).tobytes()


@final
class Examples:
    """The examples that a recording has, and what has been evaluated for them.

    Args:
        paths: all runs, of which this is one.
        group: the examples.
    """

    __slots__ = (
        "_before", "_compared", "_judged", "_most", "_places", "_released", "forks", "generations", "mapped", "nbytes",
        "paths", "since", "values",
    )  # fmt: skip

    def __init__(self, paths: Paths, group: Group) -> None:
        self.paths = paths
        self.forks = group.forks
        self.values: dict[int, Any] = {}
        """Values by variable; those of ``mapped`` ones have the examples along their first axis."""
        self.since: dict[int, int] = {}
        self.mapped: set[int] = set()
        self.generations: list[Rows] = [np.arange(len(group.rows))] if group.before is None else group.before.generations[:]
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
        """The examples that the recording has now."""
        return self.generations[-1]

    @property
    def has_answered(self) -> bool:
        """Whether anything has been evaluated."""
        return bool(self.values)

    def described(self) -> str:
        """Say which examples there are, and what they answered."""
        rows = self.rows
        shown = ", ".join(map(str, rows[:8])) + (f" … ({len(rows)} in all)" if len(rows) > 8 else "")
        return f"example{'s' if len(rows) > 1 else ''} {shown}, which answered {self.forks[-1]}"

    # -- questions -----------------------------------------------------------------------------

    def answer(self, recording: Recording, variable: int) -> Any:
        """Return the value of a variable, the same for all examples that stay; the others wait for a run of their own."""
        self._judge(recording)
        if variable not in self.mapped:
            return evaluated(recording, variable)
        self.evaluate(recording, (variable,))
        value = self._current(variable)
        plain = np.asarray(value._concrete() if isinstance(value, Tracer) else value)
        if not len(plain):
            raise ConcretizationError(
                f"a value is needed, but {recording.owner} has no examples that could answer",
                made=recording.source(variable),
                fix="leave the call out where the batch is empty, or use np.where, functrace.cond or functrace.scan",
            )
        labels, count = distinct(plain)
        if count > 1:
            asked, rows = user_source(), self.rows
            self.paths.allow(count, asked, recording.source(variable), len(rows))
            if self.paths.nbytes + self.nbytes > MOST_WAITING * MOST_HELD and self._most < math.inf:
                self._let_go(recording, (variable,))
            before = Before(recording, self)
            answers = [plain[np.argmax(labels == k)] for k in range(count)]
            forks = [Fork(asked, np.array2string(answer, threshold=4)) for answer in answers]
            groups = [Group(rows[labels == k], (*self.forks, forks[k]), before) for k in range(1, count)]
            self.paths.part(groups, before)
            self.forks = (*self.forks, forks[0])
            self.generations.append(rows[labels == 0])
            self._places.clear()
        return plain[0].copy()

    # -- values --------------------------------------------------------------------------------

    def results(self, recording: Recording, outputs: Sequence[int]) -> list[tuple[Any, bool]]:
        """Return the values of variables for the examples that there are, and whether these stand along their first axis."""
        self._judge(recording)
        self.evaluate(recording, outputs)
        return [(self._current(i), i in self.mapped) for i in outputs]

    def evaluate(self, recording: Recording, wanted: Sequence[int]) -> None:
        """Evaluate variables, and what they depend on, for all examples, by the rules for batches."""
        self._take_over(recording)
        columns, values, known = recording.columns, self.values, recording.values.known
        primitives, operands_of = columns.primitives, columns.operands
        steps = steps_to(recording, wanted, ChainMap(values, known))
        if not self._released.isdisjoint([k for k, _ in steps]):  # from now on nothing is, so that no loop evaluates it all
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
                result = apply_batched(primitive, operands, tuple([i in self.mapped for i in ids]), params)
            for j, found in enumerate(result, k) if primitive.many else ((k, result),):
                self.since[j] = last
                self.nbytes += recording.avals[j].nbytes * (len(self.rows) if j in self.mapped else 1)
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
            self._let_go(recording, wanted)
            self._most = max(MOST_HELD, 2 * self.nbytes)

    def _attribute(self, recording: Recording, k: int, found: Value) -> None:
        """Let what has been recorded outside point at the line that recorded it here, not at the one that asks."""
        if isinstance(found, Tracer) and recording.positions is not None and found._recording.positions is not None:
            found._recording.positions[found._id] = recording.positions[k]

    def _judge(self, recording: Recording) -> None:
        """Find out which variables differ between examples, among those recorded since the last call."""
        ops, mapped = recording.columns, self.mapped
        mapped.update([i for i in recording.values.batches if i not in recording.values.known])
        for k in range(self._judged, len(ops)):
            primitive, operands, params = ops[k]
            if primitive is not RESULT and not mapped.isdisjoint(operands):
                end = k + 1
                while primitive.many and end < len(ops) and ops[end][0] is RESULT:
                    end += 1
                mapped.update(mapped_results(primitive, [i in mapped for i in operands], params, range(k, end)))
        self._judged = len(ops)

    def _current(self, variable: int) -> Any:
        """Return the value of a variable for the examples that there are now."""
        value = self.values[variable]
        if variable in self.mapped and self.since[variable] < len(self.generations) - 1:
            value = self.values[variable] = self._restricted(value, self.since[variable], variable)
        return value

    def _restricted(self, value: Value, since: int, variable: int) -> Any:
        """Return what a value of some generation is for the present one."""
        self.since[variable] = len(self.generations) - 1
        places = self._places.get(since)
        if places is None:
            numbers = np.empty(self.paths.size, np.intp)
            numbers[self.generations[since]] = np.arange(len(self.generations[since]))
            places = self._places[since] = numbers[self.rows]
        return gather(value, (ARRAY,), (places,)) if isinstance(value, Tracer) else np.asarray(value)[places]

    def _take_over(self, recording: Recording) -> None:
        """Take over what was evaluated before, as far as the tape is the same; see Note [What a path takes over]."""
        before = self._before
        if before is None:
            return
        k, end = self._compared, min(len(recording.avals), before.length)
        while k < end and same_operation(recording, recording.constants, before, before.constants, k):
            if k in before.values and k not in self.values:
                self.values[k] = before.values[k]
                if k in before.since:
                    self.since[k] = before.since[k]
            k += 1
        self._compared = k
        if k < end or k == before.length:
            self._before = None

    def _let_go(self, recording: Recording, wanted: Sequence[int]) -> None:
        """Let go the values that nothing will read."""
        held = set(self.values)
        release(recording, wanted, self.values, is_differentiated=False)
        self._released.update(held.difference(self.values))
        size = len(self.rows)
        avals = recording.avals
        self.nbytes = sum([avals[k].nbytes * (size if k in self.mapped else 1) for k in self.values])


def distinct(values: Array) -> tuple[Rows, int]:
    """Number the different rows of an array, bit for bit, in the order in which they appear.

    Returns:
        the number of every row, and how many there are.
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
