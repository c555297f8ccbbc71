"""Guards of jitted functions: arrays captured from the closure, and concrete values that ``if``
reads.

With ``jit(f, guards=True)`` the function is recorded with the concrete values of a call. A value
that it reads (``if x > 0``) is a *guard* of the trace path taken. Paths of one signature form a
tree: a call runs the program of the first guard, follows the branch for its value, runs what the
next guard needs in addition, and finally computes the results. If no branch has the value, the
function is recorded again.

Note [Nothing is speculated]
    A piece of a path (`PathSegment`) computes the value of its guard, which Python code reads at that
    place. No operation behind a guard runs before the guard has its value. So no speculation can
    fail: a path that is not taken emits no warning, raises no error and calls no callback. Later
    pieces, and a recording that takes another branch, reuse what a piece has computed.

Note [Pieces of one tape]
    Paths with common guards have equal tapes up to these, variable by variable, so they share
    pieces. For a new path a piece may have to return more values; it is then recompiled. If the
    tapes differ, the other paths are invalid and are dropped.

Layer: 8.
"""

# A tracer's own fields are underscored for users; the library's packages read them.

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Protocol, cast, final

import numpy as np

from functrace.executor.runner import compile_at_once
from functrace.ir.parts import restrict
from functrace.ir.primitive import CONSTANT, INPUT, RESULT
from functrace.ir.program import Program
from functrace.specialize import Guard, Node
from functrace.tracing.capture import ReadSnapshot
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer
from functrace.tracing.values import evaluated
from functrace.transforms.examples import same_operation

Outcome = bytes
"""The bytes of a guard's value; its variable has the shape and dtype."""


@final
class CapturedArraysGuard:
    """Guard: captured arrays, compared with their contents at recording time.

    Args:
        reads: the captured arrays, if there are any.
        function: the function's name, for messages.
    """

    __slots__ = ("function", "reads")

    def __init__(self, reads: ReadSnapshot | None, function: str) -> None:
        self.reads, self.function = reads, function

    def outcome(self, _call: object) -> str | None:
        """Return the name of an array that has been changed; ``None`` if there is none."""
        return None if self.reads is None else self.reads.changed()

    def why(self, kept: Sequence[Hashable], now: Hashable) -> str:
        """Name the array."""
        return f"{now or 'an array'}, which it reads from its closure or globals, has been changed in place"

    def merged(self, other: Guard[Any]) -> CapturedArraysGuard | None:
        """Return the other guard, which includes this one's arrays, if these are unchanged."""
        return (
            other if isinstance(other, CapturedArraysGuard) and self.outcome(None) is None else None
        )


# -- recording -------------------------------------------------------------------------------------


@final
class GuardRecorder:
    """Concretize the values that a recording reads, from those of one call, and record them as
    guards.

    Args:
        values: of the inputs, in order.
        program: the path that the call has followed so far; ``None`` if none.
        known: values computed on it, by variable of that program.
    """

    __slots__ = (
        "_compared",
        "_dependent",
        "_inputs",
        "_judged",
        "_known",
        "_program",
        "is_faulty",
        "outcomes",
        "values",
    )

    def __init__(
        self, values: Sequence[Any], program: Program | None, known: dict[int, Any]
    ) -> None:
        self._inputs = values
        self._program, self._known = program, known
        self._compared = self._judged = 0
        self._dependent: set[int] = set()
        self.values: dict[int, Any] = {}
        self.outcomes: dict[int, Outcome] = {}
        """The variables whose values were read, in order."""
        self.is_faulty = False
        """True if an evaluation has raised: if the function caught it, no guard records the branch
        taken."""

    def outcome(self, recording: Recording, variable: int) -> Any:
        """Return the value of a variable, which is a guard from now on."""
        value = self.value(recording, variable)
        while isinstance(value, Tracer):
            value = value.ft_concrete()
        if variable not in self.outcomes and self._is_dependent(recording, variable):
            self.outcomes[variable] = comparison_key(value)
        return value

    def value(self, recording: Recording, variable: int) -> Any:
        """Return the value of a variable."""
        self._begin(recording)
        try:
            return (
                self.values[variable]
                if variable in self.values
                else evaluated(recording, variable, self.values)
            )
        except BaseException:
            self.is_faulty = True
            raise

    def _begin(self, recording: Recording) -> None:
        """Reuse the inputs, and earlier values as far as the tapes are equal."""
        values, program, known = self.values, self._program, self._known
        if not self._compared:
            values.update(zip(recording.inputs, self._inputs, strict=False))
        if program is None:
            self._compared = 1
            return
        k, end = self._compared, min(len(recording.avals), len(program.avals))
        while k < end and same_operation(
            recording, recording.constants, program, program.constant_values, k
        ):
            if k in known and k not in values:
                values[k] = known[k]
            k += 1
        self._compared = max(k, 1)
        if k < end:
            self._program = None

    def _is_dependent(self, recording: Recording, variable: int) -> bool:
        """Return True if a value depends on the arguments."""
        dependent, primitives, operands = self._dependent, recording.primitives, recording.operands
        for k in range(self._judged, len(primitives)):
            if primitives[k] is INPUT or not dependent.isdisjoint(operands[k]):
                dependent.add(k)
        self._judged = len(primitives)
        return variable in dependent


def comparison_key(value: Any) -> Outcome:
    """Return the bytes of a value, for comparison."""
    return (
        value.tobytes()
        if isinstance(value, np.ndarray | np.generic)
        else np.asarray(value).tobytes()
    )


# -- paths -----------------------------------------------------------------------------------------


def _nothing(_values: dict[int, Any]) -> tuple[()]:
    return ()


@final
class PathSegment:
    """The part of a path that computes one guard, or the results, from values of earlier pieces.

    Args:
        program: of a path with this piece.
        wanted: the guard or the results to compute.
        reads: input variables.
        writes: output variables: ``wanted``, then those that later pieces read.
    """

    __slots__ = ("_compiled", "is_concrete", "program", "reads", "wanted", "writes")

    def __init__(
        self, program: Program, wanted: tuple[int, ...], reads: Sequence[int], writes: Sequence[int]
    ) -> None:
        self.program = program
        self.wanted = wanted
        self.reads = tuple(reads)
        self.writes = tuple(writes)
        self.is_concrete = set(wanted) <= set(reads)
        """True if earlier pieces compute all of ``wanted``."""
        self._compiled: tuple[tuple[int, ...], Callable[[dict[int, Any]], Sequence[Any]]] | None = (
            None
        )

    def add_result(self, variable: int) -> None:
        """Add a result, which a later piece reads."""
        if variable not in self.writes:
            self.writes = (*self.writes, variable)

    def run(self, values: dict[int, Any]) -> Sequence[Any]:
        """Compute ``writes`` from the values of variables."""
        compiled = self._compiled
        if compiled is None or compiled[0] is not self.writes:
            compiled = self._compile()
        return compiled[1](values)

    def _compile(self) -> tuple[tuple[int, ...], Callable[[dict[int, Any]], Sequence[Any]]]:
        reads, writes = self.reads, self.writes
        run = compile_at_once(restrict(self.program, reads, writes, keep=True).program)
        picked = cast("Callable[[dict[int, Any]], Any]", itemgetter(*reads)) if reads else _nothing

        def of_values(values: dict[int, Any]) -> Sequence[Any]:
            try:
                given = picked(values)
            except KeyError:
                raise SegmentsChanged from None
            return run(given) if len(reads) == 1 else run(*given)

        self._compiled = (writes, of_values)
        return self._compiled


class SegmentsChanged(Exception):
    """Another thread has added results to pieces that this call had already run."""


class HasVariables(Protocol):
    """A call whose values guards read."""

    values: Sequence[Any]
    variables: dict[int, Any] | None


_FAILED = object()
"""Result of a guard whose value raised: the Python code raises there, too, and may catch it."""


@final
class ValueGuard:
    """Guard: the value of a variable that the function has read.

    Args:
        piece: computes it from the results of earlier pieces.
        begin: the first variable of the tape that no earlier guard depends on.
    """

    __slots__ = ("begin", "piece", "variable")

    def __init__(self, piece: PathSegment, begin: int) -> None:
        self.piece, self.begin, self.variable = piece, begin, piece.wanted[0]

    def outcome(self, call: HasVariables) -> Hashable:
        """Compute and return the value; the call keeps the intermediate results."""
        piece, variables = self.piece, call.variables
        if variables is None:
            variables = call.variables = dict(
                zip(piece.program.input_ids, call.values, strict=True)
            )
        if not piece.is_concrete:
            try:
                variables.update(zip(piece.writes, piece.run(variables), strict=True))
            except SegmentsChanged:
                raise
            except Exception:
                return _FAILED
        return variables[self.variable].tobytes()

    def why(self, kept: Sequence[Hashable], now: Hashable) -> str:
        """Name the line that reads the value."""
        source = self.piece.program.source(self.variable)
        return f"the value read{'' if source is None else f' at {source}'} differs from those of all paths kept"

    def merged(self, other: Guard[Any]) -> ValueGuard | None:
        """Return itself if the other guard reads the same variable of the same tape."""
        if other is self:
            return self
        if not isinstance(other, ValueGuard) or (other.variable, other.begin) != (
            self.variable,
            self.begin,
        ):
            return None
        one, two = self.piece.program, other.piece.program
        same = all(
            same_operation(one, one.constant_values, two, two.constant_values, k)
            for k in range(self.begin, self.variable + 1)
        )
        return self if same else None


def guarded_path(
    start: Any, program: Program, outcomes: Mapping[int, Outcome]
) -> tuple[list[tuple[Guard[Any], Hashable]], PathSegment]:
    """Return the guards of a path, reusing those of other paths, and the piece that computes the
    results.

    Args:
        start: the node of the tree where the path begins.
        program: the path.
        ``outcomes``: the variables that were read, in order, and their values.
    """
    made: dict[int, PathSegment | None] = dict.fromkeys(program.input_ids)
    path: list[tuple[Guard[Any], Hashable]] = []
    node: Any = start
    begin = 0
    for variable, outcome in outcomes.items():
        piece, computed = _piece(program, (variable,), made)
        guard = ValueGuard(piece, begin)
        if (
            Node is type(node)
            and isinstance(node.guard, ValueGuard)
            and node.guard.merged(guard) is node.guard
        ):
            guard, node = node.guard, node.next.get(outcome)
        else:
            node = None
        made.update(dict.fromkeys(computed, guard.piece))
        path.append((guard, outcome))
        begin = variable + 1
    return path, _piece(program, program.output_ids, made, is_last=True)[0]


def _piece(
    program: Program,
    wanted: Sequence[int],
    made: dict[int, PathSegment | None],
    *,
    is_last: bool = False,
) -> tuple[PathSegment, list[int]]:
    """Create a piece of a path; return it, and the variables that it computes.

    Args:
        program: of the path.
        wanted: the variables to compute.
        made: the piece that computes a variable; ``None`` for inputs.
        is_last: whether it is the last piece.
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
                source.add_result(k)
            continue
        head = ops[k][1][0] if ops[k][0] is RESULT else k
        needed.update(range(head, head + program.result_count(head)))
        stack.extend(ops[head][1])
    computed = sorted([k for k in needed if ops[k][0] is not CONSTANT])
    lasting = [
        k for k in computed if ops[ops[k][1][0] if ops[k][0] is RESULT else k][0].effects
    ]  # run only once
    writes = [*wanted, *[k for k in lasting if k not in wanted and not is_last]]
    return PathSegment(program, tuple(wanted), sorted(reads), writes), computed
