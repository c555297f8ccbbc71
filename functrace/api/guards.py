"""Paths of a jitted function through Python's own ``if`` and ``while``: what ``jit(f, guards=True)`` keeps.

The function is recorded with the values of a call. What it asks is answered, and noted: a question is a *guard* of the
path that was taken, and its answer says where the path goes on. Paths of one signature make a tree (`Tree`), with a guard
at every fork. A call runs the program of the first guard, goes where its value says, runs what the next guard needs beyond
that, and at the leaf the results. If there is no way on, the function is recorded once more.

Note [Nothing is speculated]
    A piece of a path (`Piece`) computes what its guard needs, which was asked for at that place in Python. Nothing of what
    lies behind a guard is carried out before the guard has been answered, so there is no failed speculation to hide: no
    warning, no error and no callback of a path that is not taken. What a piece has computed is handed to the next ones,
    and to a recording that goes another way: it is not carried out twice.

Note [Pieces of one tape]
    Paths that share guards share the tape up to them, variable by variable, so a piece of one is a piece of the other.
    Only what is handed on may be more, which compiles the piece anew. If the tape is not the same (an array that the
    function reads has changed), what was kept of other paths is no longer true, and is dropped.

Floor: 7.
"""

# A tracer's own fields are underscored for users; the library's rooms read them.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from functrace.api.retracing import Described, Retraces
from functrace.caches import Bounded, Kept
from functrace.errors import ArgumentError
from functrace.executor.runner import compile_at_once
from functrace.ir.parts import restrict
from functrace.ir.primitive import CONSTANT, INPUT, RESULT
from functrace.ir.program import Program
from functrace.locks import Lock
from functrace.tracing.answers import evaluated
from functrace.tracing.capture import Reads
from functrace.tracing.lines import name_warnings, raised_in, stop_naming
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer
from functrace.transforms.examples import same_operation

if TYPE_CHECKING:
    from functrace.tree import PyTreeSpec

MOST_BYTES = 256 << 20
"""Estimated bytes of one jitted function's programs, with the constants that they own; the oldest go first."""

Answer = bytes
"""The value that a guard has, bit for bit: its variable says of what shape and dtype."""


class Taken(NamedTuple):
    """A path as it was recorded.

    Args:
        program: the outputs are the results.
        questions: the guards, in the order in which they were asked, and their answers.
        out_tree: structure of the result.
    """

    program: Program
    questions: Sequence[tuple[int, Answer]]
    out_tree: PyTreeSpec


class Missed(NamedTuple):
    """How far a call came in the tree.

    Args:
        program: a path that the call has shared so far; ``None`` if it has shared none.
        values: what has been computed, by variable of that program.
    """

    program: Program | None
    values: dict[int, Any]


# -- recording -------------------------------------------------------------------------------------------------------------


@final
class Guards:
    """Answers what a recording is asked by the values of one call, and notes it.

    Args:
        values: of the inputs, in order.
        missed: what has been computed already.
    """

    __slots__ = ("_compared", "_dependent", "_inputs", "_judged", "_missed", "is_faulty", "questions", "values")

    def __init__(self, values: Sequence[Any], missed: Missed) -> None:
        self._inputs = values
        self._missed = missed
        self._compared = self._judged = 0
        self._dependent: set[int] = set()
        self.values: dict[int, Any] = {}
        self.questions: dict[int, Answer] = {}
        self.is_faulty = False
        """Whether a question has raised: who caught it went a way that no guard tells."""

    def answer(self, recording: Recording, variable: int) -> Any:
        """Return the value of a variable, which is a guard from now on."""
        value = self.value(recording, variable)
        while isinstance(value, Tracer):
            value = value._concrete()
        if variable not in self.questions and self._is_dependent(recording, variable):
            self.questions[variable] = answer_of(value)
        return value

    def value(self, recording: Recording, variable: int) -> Any:
        """Return the value of a variable."""
        self._begin(recording)
        try:
            return self.values[variable] if variable in self.values else evaluated(recording, variable, self.values)
        except BaseException:
            self.is_faulty = True
            raise

    def _begin(self, recording: Recording) -> None:
        """Take over what is known: the inputs, and what was computed before, as far as the tape is the same."""
        values, (program, known) = self.values, self._missed
        if not self._compared:
            values.update(zip(recording.inputs, self._inputs, strict=False))
        if program is None:
            self._compared = 1
            return
        k, end = self._compared, min(len(recording.avals), len(program.avals))
        while k < end and same_operation(recording, recording.constants, program, program.constant_values, k):
            if k in known and k not in values:
                values[k] = known[k]
            k += 1
        self._compared = max(k, 1)
        if k < end:
            self._missed = Missed(None, {})

    def _is_dependent(self, recording: Recording, variable: int) -> bool:
        """Whether a value depends on the arguments."""
        dependent, primitives, operands = self._dependent, recording.primitives, recording.operands
        for k in range(self._judged, len(primitives)):
            if primitives[k] is INPUT or not dependent.isdisjoint(operands[k]):
                dependent.add(k)
        self._judged = len(primitives)
        return variable in dependent


def answer_of(value: Any) -> Answer:
    """Return a value as what is compared."""
    return value.tobytes() if isinstance(value, np.ndarray | np.generic) else np.asarray(value).tobytes()


# -- the tree --------------------------------------------------------------------------------------------------------------


@final
class Piece:
    """What one guard, or the results, need beyond what pieces before have computed.

    Args:
        program: of a path that it is a piece of.
        wanted: what is to be computed: the guard, or the results.
        reads: variables that it is given.
        writes: those that it returns: what is wanted, then what is handed on.
    """

    __slots__ = ("_compiled", "is_known", "program", "reads", "wanted", "writes")

    def __init__(self, program: Program, wanted: tuple[int, ...], reads: Sequence[int], writes: Sequence[int]) -> None:
        self.program = program
        self.wanted = wanted
        self.reads = tuple(reads)
        self.writes = tuple(writes)
        self.is_known = set(wanted) <= set(reads)
        """Whether pieces before have computed all that is wanted."""
        self._compiled: tuple[tuple[int, ...], Callable[[dict[int, Any]], Sequence[Any]]] | None = None

    def hand_on(self, variable: int) -> None:
        """Return one more variable, which a later piece reads."""
        if variable not in self.writes:
            self.writes = (*self.writes, variable)

    def run(self, values: dict[int, Any]) -> Sequence[Any]:
        """Return what is written, computed from the values of variables."""
        compiled = self._compiled
        if compiled is None or compiled[0] is not self.writes:
            compiled = self._compile()
        return compiled[1](values)

    def _compile(self) -> tuple[tuple[int, ...], Callable[[dict[int, Any]], Sequence[Any]]]:
        reads, writes = self.reads, self.writes
        run = compile_at_once(restrict(self.program, reads, writes, keep=True).program)
        picked: Callable[[dict[int, Any]], Any] = itemgetter(*reads) if reads else lambda _: ()

        def of_values(values: dict[int, Any]) -> Sequence[Any]:
            try:
                given = picked(values)
            except KeyError:
                raise Outdated from None
            return run(given) if len(reads) == 1 else run(*given)

        self._compiled = (writes, of_values)
        return self._compiled


class Outdated(Exception):
    """Another thread has let pieces hand on more, after this call had run them."""


@final
class Fork:
    """A guard, and where its answers lead."""

    __slots__ = ("next", "piece")

    def __init__(self, piece: Piece) -> None:
        self.piece = piece
        self.next: dict[Answer, Fork | Leaf] = {}


@final
class Leaf:
    """The end of a path: its results."""

    __slots__ = ("is_leaf", "out_tree", "piece", "used")

    def __init__(self, piece: Piece, out_tree: PyTreeSpec) -> None:
        self.piece = piece
        self.out_tree = out_tree
        self.is_leaf = out_tree.is_leaf()
        self.used = 0


class GuardsInfo(NamedTuple):
    """What ``f.cache_info()`` returns of a function that is jitted with guards.

    Args:
        hits: calls that found their path.
        misses: calls that were recorded.
        maxsize: how many signatures are kept.
        currsize: how many there are.
        paths: how many paths they have.
        max_paths: how many paths of one signature are kept.
        guard_misses: calls that were recorded although there were paths: their guards had other values.
    """

    hits: int
    misses: int
    maxsize: int
    currsize: int
    paths: int
    max_paths: int
    guard_misses: int


@final
class PathCache:
    """Trees of paths by signature, and counts of calls.

    Args:
        name: of the function.
        maxsize: how many signatures are kept.
        max_paths: how many paths of one.
    """

    def __init__(self, name: str, maxsize: int, max_paths: int) -> None:
        if maxsize < 1 or max_paths < 1:
            raise ArgumentError(f"jit: maxsize={maxsize}, max_paths={max_paths} keep no program", fix="give 1 or more")
        self.kept: Bounded[Tree] = Bounded(f"paths of jit of {name}", MOST_BYTES, maxsize)
        self.max_paths = max_paths
        self.misses = self.guard_misses = 0
        self.retraces = Retraces(name)
        self.hit = itertools.count().__next__
        """Counts a call that has found its path."""
        self._others = 0  # counts that are no hits

    def miss(self, *, has_paths: bool) -> None:
        """Count a call that has not."""
        self.misses += 1
        self.guard_misses += has_paths

    def tree(self, key: object) -> Tree:
        """Return the tree of a signature, a new one if need be."""
        found = self.kept.get(key)
        if found is None:
            found = Tree(self.max_paths)
            self.kept.add(key, found)
        return found

    def info(self) -> GuardsInfo:
        """Say how often a path was found, how often not, and how many are kept."""
        paths = sum([tree.paths for tree in list(self.kept.entries.values())])
        hits = self.hit() - self._others
        self._others += 1
        return GuardsInfo(hits, self.misses, self.kept.most, len(self.kept), paths, self.max_paths, self.guard_misses)

    def clear(self) -> None:
        """Forget all paths and counts."""
        self.kept.clear()
        self._others = self.hit() + 1
        self.misses = self.guard_misses = 0
        self.retraces.clear()


@final
class Tree(Kept):
    """The paths of one signature.

    Args:
        most: how many are kept; the least recently used go first.
    """

    __slots__ = ("_lock", "_tick", "described", "most", "reads", "root")

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most
        self.root: Fork | Leaf | None = None
        self.reads: Reads | None = None
        """What the paths were made of, besides arguments."""
        self.described: Described | None = None
        """The signature, as messages tell of it."""
        self._lock = Lock()
        self._tick = itertools.count(1).__next__

    @property
    def paths(self) -> int:
        """How many paths are kept."""
        return sum([1 for _ in _leaves(self.root)])

    def run(self, inputs: Sequence[Any]) -> tuple[Leaf, Sequence[Any]] | Missed:
        """Follow the guards to a leaf, and return it with its results; or say how far the call has come.

        Args:
            inputs: the arguments' leaves.
        """
        node, program = self.root, None
        values: dict[int, Any] = {}
        if node is not None:
            values.update(zip(node.piece.program.input_ids, inputs, strict=True))
        named = name_warnings()
        try:
            while node is not None:
                piece = node.piece
                if isinstance(node, Leaf):
                    node.used = self._tick()
                    return node, piece.run(values)
                program = piece.program
                if not piece.is_known:
                    values.update(zip(piece.writes, piece.run(values), strict=True))
                node = node.next.get(values[piece.wanted[0]].tobytes())
        except Outdated:
            return self.run(inputs)
        except Exception as error:
            if isinstance(node, Leaf):
                source = raised_in(error.__traceback__, ())
                if source is not None:
                    error.add_note(f"  recorded at {source}")
                raise
            # In Python it is raised by the question, where it may be caught.
        finally:
            stop_naming(named)
        return Missed(program, values)

    def add(self, taken: Taken) -> None:
        """Keep a path; if there are too many, the least recently used goes."""
        with self._lock.now:
            if not self._agrees(taken):
                self.root = None
            self._insert(taken)
            leaves = list(_leaves(self.root))
            if len(leaves) > self.most:
                oldest = min(leaves, key=lambda leaf: leaf.used)
                self.root = _without(self.root, oldest)

    def clear(self) -> None:
        """Forget all paths: an array that they read has changed."""
        with self._lock.now:
            self.root = self.reads = None

    def _agrees(self, taken: Taken) -> bool:
        """Whether a path has the tape of those that are kept, up to where it parts from them."""
        own, node, other, shared = taken.program, self.root, taken.program, 0
        for variable, answer in taken.questions:
            if node is None:
                break
            if isinstance(node, Leaf) or node.piece.wanted != (variable,):
                return False
            other, shared = node.piece.program, variable + 1
            node = node.next.get(answer)
        if isinstance(node, Fork):
            return False
        return all(same_operation(own, own.constant_values, other, other.constant_values, k) for k in range(shared))

    def _insert(self, taken: Taken) -> None:
        program = taken.program
        made: dict[int, Piece | None] = dict.fromkeys(program.input_ids)
        node, before = self.root, None
        for variable, answer in taken.questions:
            piece, computed = _piece(program, (variable,), made)
            if node is None:
                node = Fork(piece)
                self._put(before, node)
            assert isinstance(node, Fork)
            made.update(dict.fromkeys(computed, node.piece))
            before = node, answer
            node = node.next.get(answer)
        piece, _ = _piece(program, program.output_ids, made, is_last=True)
        leaf = Leaf(piece, taken.out_tree)
        leaf.used = self._tick()
        self._put(before, leaf)

    def _put(self, before: tuple[Fork, Answer] | None, node: Fork | Leaf) -> None:
        if before is None:
            self.root = node
        else:
            before[0].next[before[1]] = node


def _piece(
    program: Program, wanted: Sequence[int], made: dict[int, Piece | None], *, is_last: bool = False
) -> tuple[Piece, list[int]]:
    """Make a piece of a path; returns it, and the variables that it computes.

    Args:
        program: of the path.
        wanted: what it is to compute.
        made: which piece has computed a variable; ``None`` for inputs.
        is_last: whether nothing follows it.
    """
    ops = program.ops
    reads: dict[int, None] = {}
    needed: set[int] = set()
    stack = list(wanted)
    while stack:
        k = stack.pop()
        if k < 0 or k in needed:
            continue
        if k in made:
            reads[k] = None
            source = made[k]
            if source is not None:
                source.hand_on(k)
            continue
        head = ops[k][1][0] if ops[k][0] is RESULT else k
        needed.update(range(head, head + program.result_count(head)))
        stack.extend(ops[head][1])
    computed = sorted([k for k in needed if ops[k][0] is not CONSTANT])
    lasting = [k for k in computed if ops[ops[k][1][0] if ops[k][0] is RESULT else k][0].effects]  # never again
    writes = [*wanted, *[k for k in lasting if k not in wanted and not is_last]]
    return Piece(program, tuple(wanted), sorted(reads), writes), computed


def _leaves(node: Fork | Leaf | None) -> Iterator[Leaf]:
    stack = [node]
    while stack:
        top = stack.pop()
        if type(top) is Leaf:
            yield top
        elif isinstance(top, Fork):
            stack.extend(list(top.next.values()))


def _without(node: Fork | Leaf | None, leaf: Leaf) -> Fork | Leaf | None:
    """Return a tree without a leaf, and without forks that lead nowhere; those that stay are the same."""
    if node is leaf or node is None:
        return None
    if isinstance(node, Fork):
        for answer, after in list(node.next.items()):
            if _without(after, leaf) is None:
                del node.next[answer]
        return node if node.next else None
    return node
