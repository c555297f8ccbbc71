"""Recordings and tracers: how a user's Python becomes a program.

A `Recording` is a builder that the user's code writes by running. A `Tracer` is a handle to one of its
variables: it knows shape and dtype at once and nothing else. `bind` applies a primitive: if an operand is
traced, the *newest* recording among the operands records it, otherwise NumPy evaluates it.

Note [Newest recording wins]
    Recordings are numbered as they start, and an inner transform starts later than an outer one. A value of an
    older recording met by a newer one is captured: it becomes a `CONSTANT` of the newer tape whose value is the
    outer tracer. An operation on outer values only is recorded outside. There is no stack and no global state:
    perturbations of different transforms live on different tapes and cannot be confused, threads do not meet,
    and an exception cannot leave anything active. The same rule is partial evaluation: in `linearize` primals
    are tracers of an older recording than tangents, so whatever depends on primals alone is recorded in the
    forward program, and what the linear program captures of it are the residuals.

Note [A body is what runs inside]
    The newest-recording rule would let an operation on closed-over values escape from the body of `checkpoint`, `cond`,
    `scan`, `jit` or a custom rule: it would be computed outside, whether or not the body runs, and kept. So a body (`BODY`)
    claims all that runs while it is recorded: if the newest recording among the operands is older than the innermost body,
    the body records, and what it closes over is captured. Only in this is there a context (a `ContextVar`, so threads do not
    meet). It costs recordings outside of bodies nothing: while a body is open, the recordings that are older count it in
    ``shadows``, and the hot paths look there only. A body is recorded once and stands for any number of runs (or none), so
    values of older recordings, and its own arguments, are read-only meanwhile (`check_writable`); for `vmap`
    (`MAPPED`) this holds too, while what does not depend on its arguments may be recorded outside.

Note [Why recording is lazy]
    Recording appends to the tape and does no array work. If the inputs have values, the recording can be asked
    (`bool(x > 0)`): it then evaluates what the question needs, once. Everything else waits for the end, when the
    whole program is known and its transformed, compiled form may already be in a cache.

Note [Errors where they stand]
    What NumPy lets fail on values (``cholesky``, an index out of bounds) must raise in the user's line, where a ``try`` may
    wait for it. So an operation whose primitive says that it `fails` is evaluated as soon as it is recorded, if what it
    depends on is known and what is recorded will run in any case (`Recording.is_certain`). While staging it raises when
    the program runs.

Note [What outlives its transform]
    A traced value that is used after its transform has ended raises. But what plain code makes of plain numbers may be kept
    by it: a table that it memoises. So where arrays of the namespace were made (`Recording.makes_arrays`), a recording
    keeps its tape for as long as somebody holds one of its values, and becomes an `Ended` one: what depends on no input
    stands for its plain value there, and operations on it give plain results, in whatever is recorded then, or outside.

Floor: 1.
"""

# A tracer's own fields are underscored for users; the library's rooms read them.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import itertools
import math
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from types import CodeType
from typing import Any, ClassVar, Protocol, TypeAlias, final

import numpy as np

from functrace.errors import (
    ArgumentError,
    CapturedArrayError,
    ConcretizationError,
    LeakedTracerError,
    LostGradientError,
    NotDifferentiableError,
)
from functrace.ir.aval import ShapeDtype, aval_of, check_plain
from functrace.ir.primitive import CONSTANT, INPUT, LinearOperand, Primitive, is_linear
from functrace.ir.program import Param, Position, Program
from functrace.ir.tape import Builder, Spec, failing, infer, inferred
from functrace.ir.walk import interpret, steps_to
from functrace.source import PACKAGE_PREFIX, SEEN, Place, Source, hide_own_frames, user_source
from functrace.tracing.capture import SMALL, Held, Watch, held_array, is_read_only
from functrace.tracing.lines import name_warnings, stop_naming
from functrace.typing import Array, Scalar

LITERALS = frozenset({bool, int, float, complex})
"""Python types that stand in an equation as literals (weakly typed, NEP 50)."""

OPEN, MAPPED, BODY = "open", "mapped", "body"
"""Scopes of a recording; see Note [A body is what runs inside]."""

MOST_HELD = 16 << 20
"""Bytes of values that a recording which is asked holds before it looks for those that nothing will read."""

BLOCKS = 1 << 17
"""Blocks of memory that Python has given out: the more, the longer it takes to look, and the later it is done."""

_serials = itertools.count()


@final
class Started:
    """How many recordings have begun: what is made later knows by it what it was made inside of."""

    __slots__ = ("newest",)
    newest: int

    def __init__(self) -> None:
        self.newest = -1


STARTED = Started()
"""Holds the serial of the newest recording that has begun, ended or not."""
_innermost: ContextVar[Recording | None] = ContextVar("the innermost mapped function or body being recorded", default=None)
_running: ContextVar[Recording | None] = ContextVar("the recording of the user's function that runs here", default=None)
_opened: dict[int, Recording] = {}
"""The recordings of user code that have not ended, of all threads, by serial."""
_shadowing = threading.Lock()
_new = object.__new__
_NOTHING: dict[Any, Any] = {}  # nobody writes to it
_NONE: list[Any] = []  # nor to this


class Tracer:
    """A handle to a variable of a recording: it knows shape and dtype, and can be asked for its value.

    ``functrace.Tracer`` is for annotations and ``isinstance``: all that a traced function gets in place of arrays is one.
    Final form, with NumPy's operators: `functrace.numpy.array.TracedArray`.
    """

    __slots__ = ("__weakref__", "_id", "_recording", "_view", "aval")
    _recording: Recording
    _id: int
    aval: ShapeDtype
    _view: Any
    is_number: ClassVar[bool] = False
    """Whether it stands for a Python number, and not for an array or a NumPy scalar."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes by axis."""
        return self.aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.aval.shape)

    def _concrete(self) -> Any:
        """The plain value; raises where values are not known."""
        value: Any = self
        while isinstance(value, Tracer):
            if value._recording.closed:
                return plain_value(value)
            value = value._recording.value(value._id)
        return value


Value: TypeAlias = Array | np.generic | Tracer | LinearOperand | Scalar
"""What a primitive can be applied to: arrays, NumPy scalars, traced values, Python numbers. Transpose rules need not look
which of several operands are linear: `as_array` refuses a second one."""
Nest: TypeAlias = "Value | list[Nest] | tuple[Nest, ...]"
"""What NumPy would make an array of."""


@final
class Answers:
    """What a recording knows because somebody has asked for values; made at the first question."""

    __slots__ = ("hidden", "judged", "most", "nbytes", "released", "unknown", "variables")

    def __init__(self) -> None:
        self.variables: list[int] = []
        """The results of operations whose values are known, because somebody has asked; of an operation all or none."""
        self.released: set[int] = set()
        """Variables whose values were let go."""
        self.unknown: set[int] = set()
        """Variables that depend on what has no value, or may not be computed, among the first ``judged`` ones."""
        self.hidden: set[int] = set()
        """Those of them that depend on what has no value."""
        self.judged = 0
        self.nbytes = 0
        self.most: float = MOST_HELD


class Asked(Protocol):
    """Who answers questions about what has no value of its own: the examples of a mapped function, the guards of a path."""

    def answer(self, recording: Recording, variable: int, /) -> Any:
        """Return the value of a variable that the recording goes on with."""
        ...


class Recording(Builder):
    """A tape that is being written by running Python code; questions about values are answered if its inputs have any.

    Args:
        owner: who records, as messages name it, e.g. ``"grad of loss"``.
        keeps_source: whether the user's position is kept beside every operation.
        scope: `OPEN`, or what else Note [A body is what runs inside] says.
        is_certain: whether what is recorded will run in any case; a branch of a choice may not.
        is_run: whether it is run at its end, and read by nobody: what transforms inside of it run may be recorded as calls
            (executor/inner.py).
    """

    __slots__ = (
        "_token", "answers", "arguments", "asked", "batches", "body", "captured", "closed", "copies", "held", "inner",
        "is_certain", "layouts", "lent", "makes_arrays", "origins", "outside", "owner", "positions", "scope", "serial",
        "shadows", "values", "views",
    )  # fmt: skip

    tracer_class: type[Tracer] = Tracer
    """The class of handles; set once, by ``functrace/__init__.py``, to the one with NumPy's operators."""

    release: ClassVar[Callable[[Recording, Sequence[int], dict[int, Any]], None]]
    """Lets go the values that nothing will read; set once, by ``functrace/__init__.py``."""

    evaluate: ClassVar[Callable[[Program, Sequence[Any]], list[Any]]]
    """Carries out a program operation by operation; set once, by ``functrace/__init__.py``."""

    def __init__(
        self,
        owner: str,
        *,
        keeps_source: bool = True,
        scope: str = OPEN,
        is_certain: bool = True,
        is_run: bool = False,
    ) -> None:
        self.primitives, self.operands, self.params, self.avals = [], [], [], []  # `Builder`'s own, in line
        self.literals, self.inputs, self.constants = [], [], {}
        self.owner = owner
        self.scope = scope
        self.is_certain = is_certain
        self.serial = STARTED.newest = next(_serials)
        self.shadows = 0
        self.arguments: tuple[Tracer, ...] = ()
        self.outside: dict[Recording, int] = _NOTHING
        self.body: Recording | None = None
        if keeps_source:
            _opened[self.serial] = self
        self.positions: list[Position] | None = [] if keeps_source else None
        self.values: dict[int, Any] = {}
        self.batches: dict[int, Any] = {}
        self.captured: dict[Any, tuple[int, Any]] = {}
        self.views: list[weakref.ref[Tracer]] = []
        self.layouts: dict[int, Any] = {}  # of variables: where they are not as the tape tells, or were worked out
        self.copies: dict[int, list[Any]] = {}  # further layouts of variables that several handles name
        self.origins: list[int] = []
        self.closed = False
        self.makes_arrays = False
        """Whether arrays were made in it of plain numbers; see Note [What outlives its transform]."""
        self.lent: list[tuple[Watch, str, Source | None]] | None = None
        """Plain arrays that a result would be in NumPy, whose, and the user's line; see `lend`."""
        self.held: list[int] = []
        """Identities of the programs that operations hold, as part of keys: equal ones may come from other lines."""
        self.inner: list[int] | None = [] if is_run else None
        """First results of the calls that stand for what transforms inside of it have run; ``None`` where there are none."""
        self.answers: Answers | None = None
        self.asked: Asked | None = None
        """Who answers questions about what has no value of its own; ``None`` where nobody does."""

    # -- handles -------------------------------------------------------------------------------

    def handle(self, variable: int) -> Any:
        """Return a tracer for a variable."""
        tracer = object.__new__(self.tracer_class)
        tracer._recording = self
        tracer._id = variable
        tracer.aval = self.avals[variable]
        tracer._view = None
        return tracer

    def new_input(self, aval: ShapeDtype, value: Value | None = None) -> Any:
        """Add an input and return its tracer; ``value`` is its value where values are known."""
        variable = len(self.primitives)  # `Builder.input`, in line
        self.inputs.append(variable)
        self.primitives.append(INPUT)
        self.operands.append(())
        self.params.append((aval,))
        self.avals.append(aval)
        if self.positions is not None:
            self.positions.append(None)
        if value is not None:
            self.values[variable] = value
        tracer = _new(self.tracer_class)  # `handle`, in line
        tracer._recording = self
        tracer._id = variable
        tracer.aval = aval
        tracer._view = None
        return tracer

    def capture(self, value: Value) -> int:
        """Return the variable that holds a value from outside: an outer tracer or an array."""
        if self.closed:
            raise _ended(self.owner)
        if isinstance(value, Tracer):
            outer = value._recording
            if outer.closed:
                return self.capture(plain_value(value))
            key: Any = (outer, value._id)
            found = self.captured.get(key)
            if found is not None:
                return found[0]
            # A user's handle may be moved on by an in-place operation; a transform's cannot.
            kept = value if outer.positions is None else outer.handle(value._id)
            variable = self._hold(kept, value.aval)
            self.captured[key] = (variable, None)
            return variable
        if not isinstance(value, np.ndarray):
            value = value if isinstance(value, np.generic) else as_array(value)[()]
        if isinstance(value, np.generic):
            return self._hold(value, aval_of(value))
        if not value.ndim:
            return self._hold(held_array(value)[()], aval_of(value))
        found = self.captured.get(id(value))
        if found is not None and found[1].holds(value):
            return found[0]
        aval = aval_of(value)
        held = Held(value)
        if value.nbytes <= SMALL:
            variable = self._hold(held.array, aval)
        else:  # its copy may be shared
            found = self.captured.get(id(held.array))
            if found is None or found[1].array is not held.array:  # the number may have been that of an array that is gone
                found = self.captured[id(held.array)] = (self._hold(held.array, aval), held)
            variable = found[0]
        self.captured[id(value)] = (variable, held)
        return variable

    def _hold(self, value: Array | np.generic | Tracer, aval: ShapeDtype) -> int:
        variable = self.constant(value, aval)
        if self.positions is not None:
            self.positions.append(_position())
        return variable

    def operand(self, value: Any) -> tuple[int, Spec]:
        """Return how a value stands in an equation of this recording, and its spec."""
        if isinstance(value, Tracer):
            if value._recording is self:
                return value._id, value.aval
        else:
            kind = value.__class__
            if kind in LITERALS:
                self.literals.append(value)
                return -len(self.literals), kind
        variable = self.capture(value)
        return variable, self.avals[variable]

    def record(self, primitive: Primitive, operands: tuple[Any, ...], params: tuple[Any, ...] = ()) -> Any:
        """Append an operation; returns its tracer, or a tuple of them if it has several results."""
        ids: tuple[int, ...]
        specs: tuple[Spec, ...]
        if len(operands) == 2:  # in line: a loop over two operands costs 0.3 us more
            x, y = operands
            if isinstance(x, Tracer) and x._recording is self:
                i, p = x._id, x.aval
            else:
                i, p = self.operand(x)
            if isinstance(y, Tracer) and y._recording is self:
                j, q = y._id, y.aval
            else:
                j, q = self.operand(y)
            ids, specs = (i, j), (p, q)
        elif len(operands) == 1:
            i, p = self.operand(operands[0])
            ids, specs = (i,), (p,)
        else:
            placed = [self.operand(value) for value in operands]
            ids = tuple([i for i, _ in placed])
            specs = tuple([p for _, p in placed])
        avals = inferred.get((primitive, specs, params)) if primitive.holds is None else None
        may_fail = False
        if avals is None:
            avals = infer(primitive, specs, params)
            may_fail = primitive.fails is not None and (primitive, specs, params) in failing
        primitives = self.primitives
        first = len(primitives)
        positions = self.positions
        if not primitive.many:
            primitives.append(primitive)
            self.operands.append(ids)
            self.params.append(params)
            aval = avals[0]
            self.avals.append(aval)
            if positions is not None:
                positions.append(_position())
            if may_fail:
                self.raise_now(first)
            tracer = _new(self.tracer_class)
            tracer._recording = self
            tracer._id = first
            tracer.aval = aval
            tracer._view = None
            return tracer
        if not self.entries(primitive, ids, params, avals):  # its numbers are the last ones
            del self.literals[len(self.literals) - sum([i < 0 for i in ids]) :]
            if primitive.kept is not None and primitive.kept(*params):
                raise ArgumentError(
                    f"{primitive.name}: a function that only prints, or calls back, returns nothing to hold it by",
                    fix="return a number from it, too",
                )
        if positions is not None:
            positions.extend([_position()] * len(avals))
        param: Program | tuple[Param, ...] | Scalar  # or what else is no program
        for param in params if primitive.holds is not None else ():
            for part in param if type(param) is tuple else (param,):
                if type(part) is Program:
                    self.held.append(id(part))
        if may_fail:
            self.raise_now(first)
        return tuple(self.handle(first + k) for k in range(len(avals)))

    def call(self, primitive: Primitive, operands: Sequence[Any], program: Program, params: tuple[Any, ...]) -> list[Any]:
        """Append the call of a program that a transform inside of this recording runs; returns tracers of its results."""
        ids = tuple([x._id if isinstance(x, Tracer) and x._recording is self else self.operand(x)[0] for x in operands])
        first, avals, positions = len(self.primitives), program.avals, program.positions
        count = self.entries(primitive, ids, (program, *params), tuple([avals[i] for i in program.output_ids]))
        if self.positions is not None:
            here = _position()
            self.positions.extend([positions[i] or here for i in program.output_ids])
        self.held.append(id(program))
        assert self.inner is not None
        self.inner.append(first)
        return [self.handle(first + k) for k in range(count)]

    # -- values --------------------------------------------------------------------------------

    def raise_now(self, variable: int) -> None:
        """Let an operation that may fail on values do so at once; see Note [Errors where they stand]."""
        primitive, operands, params = self.primitives[variable], self.operands[variable], self.params[variable]
        if primitive.check is not None:
            specs = [self.spec(i) for i in operands]
            value: Callable[[int], Any] = lambda place: self._plain(operands[place])  # noqa: E731
            primitive.check(value, *specs, *params)
        elif self.values and self.is_known(variable):
            self.value(variable)

    def _plain(self, operand: int) -> Any:
        """The plain value of an operand, or ``None`` where it is not known."""
        if operand < 0:
            return self.literals[~operand]
        return self.handle(operand)._concrete() if self.is_known(operand) else None

    def is_known(self, variable: int) -> bool:
        """Whether a variable's plain value can be had, and is sure to be computed.

        Cost:
            0.2 us per operation recorded since the last call.
        """
        return self.is_certain and variable not in self._judged().unknown

    def has_value(self, variable: int) -> bool:
        """Whether a variable's plain value can be had, whether or not it is computed: nobody else has to be asked."""
        return variable not in self._judged().hidden

    def _judged(self) -> Answers:
        """Say of all variables whether they depend on what has no value."""
        if self.answers is None:
            self.answers = Answers()
        unknown, hidden = self.answers.unknown, self.answers.hidden
        operands = self.operands
        new = range(self.answers.judged, len(operands))
        for k in new:  # first: a value that is given to an operation is an input that stands behind it
            primitive = self.primitives[k]
            if primitive is INPUT or primitive is CONSTANT:
                value = self.values.get(k) if primitive is INPUT else self.constants[k]
                if value is None:
                    unknown.add(k)
                    hidden.add(k)
                elif isinstance(value, Tracer):
                    if not value._recording.is_known(value._id):
                        unknown.add(k)
                    if not value._recording.has_value(value._id):
                        hidden.add(k)
        for k in new:
            if not unknown.isdisjoint(operands[k]):
                unknown.add(k)
                if not hidden.isdisjoint(operands[k]):
                    hidden.add(k)
        self.answers.judged = len(operands)
        return self.answers

    def value(self, variable: int) -> Any:
        """Return the value of a variable, evaluating (once) what it depends on.

        The result is an array, or an outer tracer if this recording runs inside another one.
        """
        if variable in self.values:
            return self.values[variable]
        if self.closed:
            raise leaked(self.handle(variable))
        asked = self.asked  # what a question needs is computed where it was recorded
        innermost, function = _innermost.set(None if asked is None or self.scope is BODY else self), _running.set(None)
        try:
            return self.evaluated(variable) if asked is None else asked.answer(self, variable)
        finally:
            _innermost.reset(innermost)
            _running.reset(function)

    def evaluated(self, variable: int, values: dict[int, Any] | None = None) -> Any:
        """Evaluate what a variable depends on, in order; warnings name the lines that recorded it.

        Args:
            variable: whose value is wanted.
            values: what is known, and will be, by variable; by default the recording's own.
        """
        primitives, avals, positions = self.primitives, self.avals, self.positions
        if values is None:
            values = self.values
        steps = steps_to(self, (variable,), values)
        if any(primitives[k] is INPUT for k, _ in steps):
            raise ConcretizationError(
                f"a value is needed, but {self.owner} records without values",
                made=self.source(variable),
                fix="use functrace.cond or np.where for a choice that depends on values, functrace.scan or "
                "while_loop for a loop, or compute the value from something that is not traced (grad, vjp, jvp and "
                "vmap know values, as does jit(f, guards=True); jit, trace, and the bodies of cond and scan do not)",
            )
        if self.answers is None:
            self.answers = Answers()
        answers = self.answers
        if any(k in answers.released for k, _ in steps):  # from now on nothing is, so that no loop evaluates over and over
            answers.most = math.inf
        now = -1

        def apply(k: int, operands: tuple[Any, ...]) -> Any:
            nonlocal now
            primitive, params = primitives[k], self.params[k]
            if primitive is CONSTANT:
                return self.constants[k]
            if answers.nbytes > answers.most:
                self._let_go(variable, answers, values)
            now = k
            if self.inner and k in self.inner and any(isinstance(x, Tracer) for x in operands):
                result = tuple(Recording.evaluate(params[0], operands))  # who records outside decides
            else:
                result = bind(primitive, operands, params)
            for j, found in enumerate(result, k) if primitive.many else ((k, result),):
                answers.variables.append(j)
                answers.nbytes += avals[j].nbytes
                if isinstance(found, Tracer) and positions is not None and found._recording.positions is not None:
                    found._recording.positions[found._id] = positions[k]  # not the line that asks
            return result

        named = name_warnings()
        try:
            interpret(self, values, apply, steps)
            if answers.nbytes > answers.most:
                self._let_go(variable, answers, values)
        except Exception as error:
            source = self.source(now)
            if source is not None and now != steps[-1][0]:
                error.add_note(f"  recorded at {source}")
            raise
        finally:
            stop_naming(named)
        return values[variable]

    def _let_go(self, wanted: int, answers: Answers, values: dict[int, Any]) -> None:
        """Let go the values that nothing will read, if they are enough for a search through all objects."""
        enough = most_held()
        if answers.nbytes <= enough:
            answers.most = enough
            return
        before = answers.variables
        Recording.release(self, (wanted,), values)
        answers.variables = [k for k in before if k in values]
        answers.released.update([k for k in before if k not in values])
        answers.nbytes = sum([self.avals[k].nbytes for k in answers.variables])
        answers.most = max(enough, 2 * answers.nbytes)

    def callers_array(self, variable: int) -> Any:
        """Return the value of a captured variable: the caller's own array, if it still is what was captured.

        So a recording that this one's program is handed to captures it once, however often it is handed. (Of large arrays
        the copy is shared in any case.)
        """
        for captured, held in self.captured.values():
            if captured == variable and held is not None:
                return held.handed_on()
        return self.constants[variable]

    def position(self, variable: int) -> tuple[CodeType | Place, int] | None:
        """The user's position that made a variable."""
        position = self.positions[variable] if self.positions and 0 <= variable < len(self.positions) else None
        return position if isinstance(position, tuple) else None

    def source(self, variable: int) -> Source | None:
        """The user's line that made a variable."""
        position = self.position(variable)
        return None if position is None else Source(*position)

    # -- the end -------------------------------------------------------------------------------

    def program(self, outputs: tuple[int, ...], **details: Any) -> Program:
        """Freeze the tape."""
        return Program.from_builder(self, outputs, positions=self.positions or (), **details)

    def lend(self, array: Array, owner: str) -> None:
        """Note that a result of ``owner`` would be (a view of) a plain array, which then nobody may write to."""
        if not is_read_only(array):
            self.lent = [] if self.lent is None else self.lent
            self.lent.append((Watch(array, Held(array)), owner, user_source()))

    def check_lent(self) -> None:
        """Raise if a plain array was written to that a result would be in NumPy, since a program cannot say that.

        Raises:
            CapturedArrayError: if one was.
        """
        for watch, owner, at in self.lent or ():
            if watch.changed():
                raise CapturedArrayError(
                    f"a plain array was written to after {owner} returned it: the result, which is (a view of) it, changes",
                    at=at,
                    fix="return a copy (x.copy()) from the function, or write into one",
                )

    def close(self) -> None:
        """End the recording: its tracers are dead, and what it held is let go."""
        if self.closed:
            return
        self.closed = True
        _opened.pop(self.serial, None)
        if self.makes_arrays:
            self.__class__ = Ended  # pyright: ignore[reportAttributeAccessIssue]
            self.shadows += 1  # no short path
        else:
            self.constants = _NOTHING
            self.primitives = closed = _Closed()
            closed.owner = self.owner  # (not `self`: that would be a cycle for the collector, at every call)
            self.operands, self.params = _NONE, _NONE
        self.values = self.batches = self.captured = _NOTHING
        self.views = []
        self.arguments, self.body = (), None

    def __enter__(self) -> Recording:
        if self.scope is not OPEN:
            enclosing = _innermost.get()
            self._token = _innermost.set(self)
            self.outside = {older: len(older.primitives) for older in list(_opened.values()) if older.serial < self.serial}
            if self.scope is BODY:
                self.body = self
                with _shadowing:
                    for older in self.outside:
                        older.shadows += 1
            elif enclosing is not None:
                self.body = enclosing.body
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if error is not None:
            hide_own_frames(error)
        if self.scope is not OPEN:
            _innermost.reset(self._token)
            if self.scope is BODY:
                with _shadowing:
                    for older in self.outside:
                        older.shadows -= 1
            self.outside = _NOTHING
        self.close()


@final
class Ended(Recording):
    """A recording that has ended, but in which arrays were made; see Note [What outlives its transform]."""

    __slots__ = ()

    def record(self, primitive: Primitive, operands: tuple[Any, ...], params: tuple[Any, ...] = ()) -> Any:
        """Apply a primitive to plain values in place of its own.

        Raises:
            LeakedTracerError: if one of them depends on an input.
        """
        plain = [plain_value(x) if isinstance(x, Tracer) and x._recording.closed else x for x in operands]
        return bind(primitive, tuple(plain), params)

    def value(self, variable: int) -> Any:
        """Return the plain value of a variable that depends on no input."""
        tracer = self.handle(variable)
        if not is_constant(tracer):
            raise leaked(tracer)
        self.values, self.answers = {}, None
        return self.evaluated(variable)


def plain_value(tracer: Tracer) -> Any:
    """Return the plain value of a tracer whose recording has ended.

    Raises:
        LeakedTracerError: if it depends on an input, or nothing is kept of the recording.
    """
    if not isinstance(tracer._recording, Ended):
        raise leaked(tracer)
    value = tracer._recording.value(tracer._id)
    return value._concrete() if isinstance(value, Tracer) else value


class _Closed(list[Any]):
    """Stands in for the primitives of a closed recording: whoever writes to it uses a leaked tracer."""

    __slots__ = ("owner",)
    owner: str

    def append(self, _op: object) -> None:
        raise _ended(self.owner)


def _ended(owner: str) -> LeakedTracerError:
    """The error for writing to a recording that has ended."""
    return LeakedTracerError(
        f"a traced value was used after {owner} had ended",
        fix="return it from the function (has_aux=True carries extra results) instead of storing it outside",
    )


def leaked(tracer: Tracer) -> LeakedTracerError:
    """The error for a tracer that outlived its recording."""
    recording = tracer._recording
    return LeakedTracerError(
        f"a traced value ({tracer.aval}) was used after {recording.owner} had ended",
        made=recording.source(tracer._id),
        fix="return it from the function (has_aux=True carries extra results) instead of storing it outside",
    )


def claimed(recording: Recording) -> Recording:
    """Return the body that claims an operation whose newest operand is of ``recording``, or ``recording`` itself.

    See Note [A body is what runs inside].
    """
    innermost = _innermost.get() if recording.shadows else None
    body = None if innermost is None else innermost.body
    return recording if body is None or body.serial < recording.serial else body


def has_value(x: object) -> bool:
    """Whether the plain value of something that may be traced can be had; that of a mapped function's examples cannot."""
    return not isinstance(x, Tracer) or x._recording.closed or x._recording.has_value(x._id)


def known_value(x: object) -> Any:
    """Return the plain value of something that may be traced; ``None`` where values are not known."""
    if not isinstance(x, Tracer):
        return x
    recording = x._recording
    return x._concrete() if recording.closed or recording.is_known(x._id) else None


def is_recording() -> bool:
    """Whether user code of any thread is being recorded, so that a function may close over traced values."""
    return bool(_opened)


def running() -> Recording | None:
    """The recording of the user's function that is running here, in this thread and task; ``None`` outside of all."""
    recording = _running.get()
    return None if recording is None or recording.closed else recording


def stages() -> str | None:
    """Who records here what will run on other values, or any number of times: a number drawn now would stay the same.

    Returns:
        the recording's owner; ``None`` outside of all recordings, and where values are known.
    """
    body = _innermost.get()
    if body is None:
        body = running()
    if body is None:
        return None
    inputs = [k for k, primitive in enumerate(body.primitives) if primitive is INPUT]
    is_known = bool(inputs) or body.scope is OPEN
    return None if is_known and all(map(body.is_known, inputs)) else body.owner


def call_recorded(recording: Recording, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call a user's function; until it returns, its recording is the one that is `running`.

    Cost:
        0.1 us.
    """
    token = _running.set(recording)
    try:
        return f(*args, **kwargs)
    finally:
        _running.reset(token)


def most_held() -> float:
    """Bytes of values to be held before those that nothing will read are looked for, in a process as it is now.

    Cost:
        up to 4 ns per block of memory that Python has given out; to look takes 30.
    """
    return MOST_HELD * max(1.0, sys.getallocatedblocks() / BLOCKS)


def is_constant(x: Tracer) -> bool:
    """Whether a traced value depends on no input of any transform: it is known, and a derivative by it cannot be lost.

    Cost:
        0.1 us per operation that it depends on.
    """
    return not _depends(x, through_integers=True)


def has_no_derivative(x: Tracer) -> bool:
    """Whether no derivative is lost if the plain value is taken: it is of integers, or depends on inputs by integers only.

    Cost:
        0.1 us per operation that it depends on.
    """
    return x.aval.dtype.kind not in "fc" or not _depends(x, through_integers=False)


def _depends(x: Tracer, *, through_integers: bool) -> bool:
    """Whether a value depends on an input, of all kinds of values or of floats and complex numbers only."""
    if x.is_number:
        return True
    seen: set[tuple[int, int]] = set()
    todo: list[tuple[Recording, int]] = [(x._recording, x._id)]
    while todo:
        recording, variable = todo.pop()
        if recording.closed and not isinstance(recording, Ended):
            return True  # whoever asks for its value is told
        if (id(recording), variable) in seen:
            continue
        seen.add((id(recording), variable))
        if not through_integers and recording.avals[variable].dtype.kind not in "fc":
            continue
        primitive, operands = recording.primitives[variable], recording.operands[variable]
        if primitive is INPUT:
            return True
        if primitive is CONSTANT:
            value = recording.constants[variable]
            if isinstance(value, Tracer):
                if value.is_number:
                    return True
                todo.append((value._recording, value._id))
        else:
            todo.extend([(recording, i) for i in operands if i >= 0])
    return False


def newest_recording() -> int:
    """The serial of the newest recording of user code that has not ended; -1 if there is none."""
    return max(_opened, default=-1)


def recorder(tracer: Tracer) -> int:
    """The serial of the recording that an operation on a traced value is recorded by: its own, or the innermost body."""
    home = _innermost.get()
    body = None if home is None else home.body
    return tracer._recording.serial if body is None else max(tracer._recording.serial, body.serial)


def renewed(tracer: Tracer) -> Any:
    """Return another handle of a value, of the innermost body or mapped function, which may write into it: a copy."""
    recording, home = tracer._recording, _innermost.get()
    if home is None or home.serial < recording.serial:
        home = recording
    return recording.handle(tracer._id) if home is recording else home.handle(home.capture(tracer))


def check_writable(tracer: Tracer) -> None:
    """Check that an in-place operation on a handle means what it means in Python; see Note [A body is what runs inside].

    Raises:
        CapturedArrayError: if the value was traced outside of the body that is being recorded, or is an argument of it.
    """
    scope = _innermost.get()
    if scope is None:
        return
    recording = tracer._recording
    if recording.serial < scope.serial and tracer._id < scope.outside.get(recording, math.inf):
        what = "a value that was traced outside of it"
    elif any(tracer is argument for argument in scope.arguments):
        what = "its argument"
    else:
        return
    raise CapturedArrayError(
        f"{scope.owner} writes into {what}, but is recorded once, however often it runs",
        made=recording.source(tracer._id),
        fix="write into a copy (x = x.copy()) and return that: in the carry of scan, as a result of the function",
    )


def bind(primitive: Primitive, operands: tuple[Any, ...], params: tuple[Any, ...] = ()) -> Any:
    """Apply a primitive: record it where an operand is traced, otherwise evaluate it.

    Returns one result, or a tuple of results if the primitive has ``many``.
    """
    newest = None
    for value in operands:
        if isinstance(value, Tracer):
            recording = value._recording
            if newest is None or recording.serial > newest.serial:
                newest = recording
    if newest is None:
        return primitive.eval(*operands, *params)
    if newest.shadows:
        newest = claimed(newest)
    return newest.record(primitive, operands, params)


def as_array(value: Nest) -> np.ndarray[Any, Any]:
    """Return a plain value as an array; refuses nests that hold traced values, and objects."""
    if _holds_tracer(value):  # checks as it goes that what the list holds are plain arrays
        raise LostGradientError(
            "a list that holds traced values cannot become an array without losing its derivative",
            fix="use np.stack([...]), np.concatenate([...]) or functrace.numpy.array([...])",
        )
    if is_linear(value):  # a transpose rule that knows one linear operand has been given two
        raise NotDifferentiableError(
            "what is transposed here is not linear: an operation combines two values that both depend on its argument",
            fix="make it linear: a jvp rule in the tangents; a backward rule, for forward mode, in the cotangents",
        )
    array = np.asarray(value)
    if array.dtype == object:
        from functrace.errors import DtypeError

        raise DtypeError(
            f"a {type(value).__name__} cannot be used as an operand: it has no numeric dtype",
            fix="pass arrays and numbers only",
        )
    return array


def _holds_tracer(value: Nest) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_holds_tracer, value))
    check_plain(value)
    return isinstance(value, Tracer)


def _position() -> Position:
    """The user's position: the innermost running frame outside functrace."""
    frame: Any = sys._getframe(3)  # past this function, record (or capture) and its caller, which are functrace's own
    code = frame.f_code
    while code.co_filename is not SEEN[0]:
        if code.co_filename.startswith(PACKAGE_PREFIX):
            frame = frame.f_back
            if frame is None:
                return None
            code = frame.f_code
        else:
            SEEN[0] = code.co_filename
    return code, frame.f_lasti
