"""Recordings: how a user's Python becomes a program.

A `Recording` is a builder that the user's code writes by running: each operation on a `Tracer` of it appends an entry, and
what comes from outside is captured. Whose an operation is says `functrace.tracing.binding`; what a recording answers about
values, `functrace.tracing.answers`.

Note [Why recording is lazy]
    Recording appends to the tape and does no array work. If the inputs have values, the recording can be asked
    (`bool(x > 0)`): it then evaluates what the question needs, once. Everything else waits for the end, when the
    whole program is known and its transformed, compiled form may already be in a cache.

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
import sys
import weakref
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, ClassVar, NoReturn, final

import numpy as np

from functrace.errors import ArgumentError
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.ir.primitive import INPUT, Primitive
from functrace.ir.program import Param, Position, Program
from functrace.ir.tape import Builder, Spec, failing, infer, inferred
from functrace.source import PACKAGE_PREFIX, SEEN, Place, Source, hide_own_frames
from functrace.tracing.answers import Answers, Asked, evaluated, is_constant, raise_now
from functrace.tracing.binding import BODY, INNERMOST, OPEN, OPENED, RUNS_HERE, STARTED, bind, enter, leave
from functrace.tracing.capture import SMALL, Held, Watch, held_array
from functrace.tracing.tracer import LITERALS, Tracer, Value, as_array, ended, leaked
from functrace.typing import Array, Scalar

_serials = itertools.count()
_new = object.__new__
_NOTHING: dict[Any, Any] = {}  # nobody writes to it
_NONE: list[Any] = []  # nor to this


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
            OPENED[self.serial] = self
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
        """Plain arrays that a result would be in NumPy, whose, and the user's line; see `functrace.api.results`."""
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
            raise ended(self.owner)
        if isinstance(value, Tracer):
            outer = value._recording
            self.makes_arrays = self.makes_arrays or outer.makes_arrays  # what is computed of these may be kept, too
            if outer.closed:
                return self.capture(value._concrete())
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
                raise_now(self, first)
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
            raise_now(self, first)
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

    def value(self, variable: int) -> Any:
        """Return the value of a variable, evaluating (once) what it depends on.

        The result is an array, or an outer tracer if this recording runs inside another one.
        """
        if variable in self.values:
            return self.values[variable]
        if self.closed:
            raise leaked(self.handle(variable))
        asked = self.asked  # what a question needs is computed where it was recorded
        innermost, function = INNERMOST.set(None if asked is None or self.scope is BODY else self), RUNS_HERE.set(None)
        try:
            return evaluated(self, variable) if asked is None else asked.answer(self, variable)
        finally:
            INNERMOST.reset(innermost)
            RUNS_HERE.reset(function)

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

    def close(self) -> None:
        """End the recording: its tracers are dead, and what it held is let go."""
        if self.closed:
            return
        self.closed = True
        OPENED.pop(self.serial, None)
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
            enter(self)
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if error is not None:
            hide_own_frames(error)
        if self.scope is not OPEN:
            leave(self)
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
        plain = [x._concrete() if isinstance(x, Tracer) and x._recording.closed else x for x in operands]
        return bind(primitive, tuple(plain), params)

    def value(self, variable: int) -> Any:
        """Return the plain value of a variable that depends on no input."""
        tracer = self.handle(variable)
        if not is_constant(tracer):
            raise leaked(tracer)
        self.values, self.answers = {}, None
        return evaluated(self, variable)


class _Closed(list[Any]):
    """Stands in for the primitives of a closed recording: whoever writes to it uses a leaked tracer."""

    __slots__ = ("owner",)
    owner: str

    def append(self, _op: object) -> None:
        raise ended(self.owner)

    def __getitem__(self, _k: object) -> NoReturn:  # type: ignore[override]
        raise ended(self.owner)


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
