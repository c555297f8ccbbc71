"""Recordings: record a user's Python code as a program.

A `Recording` is a builder that is filled by running the user's code: each operation on one of its
`Tracer`s appends an entry. `bind` decides which recording records an operation
(tracing/binding.py). Apart from the tape, a recording consists of
four parts, each in a file of its own with the functions that act on it:

* `Captures` (tracing/capture.py): captured outer values and their variables;
* `Views` (tracing/views.py): live views, and memory layouts;
* `RecordedValues` (tracing/values.py): concrete values, evaluated on demand and freed;
* `ScopeState` (tracing/binding.py): the tracing context in which a body began.

Note [Why recording is lazy]
    Recording appends to the tape and does no array work. If the inputs have concrete values, any
    variable can be read (`bool(x > 0)`): the operations that it depends on are then evaluated,
    once. All else waits for the end, when the whole program is recorded and its transformed,
    compiled form may already be in a cache.

Layer: 1.
"""

# A tracer's own fields are underscored for users; the library's packages read them.

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from types import CodeType
from typing import Any, ClassVar, NoReturn

from functrace.errors import ArgumentError
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import INPUT, Primitive
from functrace.ir.program import Param, Position, Program
from functrace.ir.tape import Builder, Spec, failing, infer, inferred
from functrace.source import Source, SourceLine, hide_own_frames, user_position
from functrace.tracing.binding import OPEN, OPENED, STARTED, ScopeState, enter, leave
from functrace.tracing.capture import Captures, capture
from functrace.tracing.release import Handles
from functrace.tracing.tracer import LITERALS, Tracer, Value, ended
from functrace.tracing.values import RecordedValues, raise_now, read
from functrace.tracing.views import Views
from functrace.typing import Scalar

_serials = itertools.count()
_new = object.__new__
_NOTHING: dict[Any, Any] = {}  # read-only
_NONE: list[Any] = []  # read-only


class Recording(Builder):
    """A tape that is filled by running Python code.

    Args:
        owner: name for messages, e.g. ``"grad of loss"``.
        keeps_source: True to store the user's position for every operation.
        scope: `OPEN`, `MAPPED` or `BODY`; see Note [A body is what runs inside].
        is_certain: True if the recorded code certainly runs; a branch of a conditional may not.
        is_run: True if the program is run at the end and not inspected: inner transforms may then
            be recorded as calls (executor/inner_calls.py).
    """

    __slots__ = (
        "_values",
        "_views",
        "arguments",
        "captures_if_any",
        "closed",
        "entered",
        "handles",
        "held",
        "inner",
        "is_certain",
        "makes_arrays",
        "origins",
        "owner",
        "positions",
        "scope",
        "serial",
        "shadows",
    )  # fmt: skip

    tracer_class: ClassVar[type[Tracer]] = Tracer
    """Class of the tracers."""

    def __init__(
        self,
        owner: str,
        *,
        keeps_source: bool = True,
        scope: str = OPEN,
        is_certain: bool = True,
        is_run: bool = False,
    ) -> None:
        self.primitives, self.operands, self.params, self.avals = (
            [],
            [],
            [],
            [],
        )  # `Builder.__init__`, inlined
        self.literals, self.inputs, self.constants = [], [], {}
        self.owner = owner
        self.scope = scope
        self.is_certain = is_certain
        self.serial = STARTED.newest = next(_serials)
        self.shadows = 0
        """Number of newer bodies being recorded."""
        self.entered: ScopeState | None = None
        self.arguments: tuple[Tracer, ...] = ()
        """Arguments of a body, which are read-only."""
        if keeps_source:
            OPENED[self.serial] = self
        self.positions: list[Position] | None = [] if keeps_source else None
        self.captures_if_any: Captures | None = None
        self._views: Views | None = None
        self._values: RecordedValues | None = None
        self.handles: Handles | None = None
        """Tracers through which values can be read; ``None`` if no variable has a value."""
        self.origins: list[int] = []
        """Variable of the source program for each variable; empty unless transforming one."""
        self.held: list[int] = []
        """Identities of sub-programs, as part of cache keys: equal programs may have different
        source lines."""
        self.inner: list[int] | None = [] if is_run else None
        """First results of the call operations recorded for inner transforms; ``None`` if it
        records no such calls.
        """
        self.closed = False
        self.makes_arrays = False
        """True if it made arrays from plain numbers.

        See Note [What outlives its transform] in numpy/arrays/recording.py.
        """

    @property
    def captures(self) -> Captures:
        """Captured outer values."""
        if self.captures_if_any is None:
            self.captures_if_any = Captures()
        return self.captures_if_any

    @property
    def views(self) -> Views:
        """Views and memory layouts of its variables."""
        if self._views is None:
            self._views = Views()
        return self._views

    @property
    def values(self) -> RecordedValues:
        """Concrete values of its variables."""
        if self._values is None:
            self._values = RecordedValues()
        return self._values

    def blank(self, owner: str) -> Recording:
        """Return an empty recording of the same kind, without source positions."""
        return Recording(owner, keeps_source=False)

    # -- handles -------------------------------------------------------------------------------

    def handle(self, variable: int) -> Any:
        """Return a tracer for a variable."""
        tracer = object.__new__(self.tracer_class)
        tracer.ft_recording = self
        tracer.ft_variable = variable
        aval = tracer.aval = self.avals[variable]
        tracer.ft_view = None
        handles = self.handles
        if handles is not None and (aval.is_large or handles.of_all):
            handles.append(weakref.ref(tracer))
        return tracer

    def new_input(self, aval: ShapeDtype, value: Value | None = None) -> Any:
        """Add an input and return its tracer; ``value`` is its concrete value, if it has one."""
        variable = len(self.primitives)  # `Builder.input`, inlined
        self.inputs.append(variable)
        self.primitives.append(INPUT)
        self.operands.append(())
        self.params.append((aval,))
        self.avals.append(aval)
        if self.positions is not None:
            self.positions.append(None)
        if value is not None:
            (self._values or self.values).known[variable] = value
            if self.handles is None:
                self.handles = Handles()
        tracer = _new(self.tracer_class)  # `handle`, inlined
        tracer.ft_recording = self
        tracer.ft_variable = variable
        tracer.aval = aval
        tracer.ft_view = None
        handles = self.handles
        if handles is not None and (aval.is_large or handles.of_all):
            handles.append(weakref.ref(tracer))
        return tracer

    def capture(self, value: Value) -> int:
        """Return the variable for an outer value: an outer tracer or an array."""
        return capture(self, value)

    def operand(self, value: Any) -> tuple[int, Spec]:
        """Return the operand number and the spec of a value in this recording."""
        if isinstance(value, Tracer):
            if value.ft_recording is self:
                return value.ft_variable, value.aval
        else:
            kind = value.__class__
            if kind in LITERALS:
                self.literals.append(value)
                return -len(self.literals), kind
        variable = capture(self, value)
        return variable, self.avals[variable]

    def record(
        self, primitive: Primitive, operands: tuple[Any, ...], params: tuple[Any, ...] = ()
    ) -> Any:
        """Append an operation; return its tracer, or a tuple of them if it has several results."""
        ids: tuple[int, ...]
        specs: tuple[Spec, ...]
        if len(operands) == 2:  # inlined: a loop over two operands costs 0.3 us more
            x, y = operands
            if isinstance(x, Tracer) and x.ft_recording is self:
                i, p = x.ft_variable, x.aval
            else:
                i, p = self.operand(x)
            if isinstance(y, Tracer) and y.ft_recording is self:
                j, q = y.ft_variable, y.aval
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
                positions.append(user_position())
            if may_fail:
                raise_now(self, first)
            tracer = _new(self.tracer_class)
            tracer.ft_recording = self
            tracer.ft_variable = first
            tracer.aval = aval
            tracer.ft_view = None
            handles = self.handles
            if handles is not None and (aval.is_large or handles.of_all):
                handles.append(weakref.ref(tracer))
            return tracer
        if not self.entries(
            primitive, ids, params, avals
        ):  # no entries: remove its literals, which are the last ones
            del self.literals[len(self.literals) - sum([i < 0 for i in ids]) :]
            if primitive.kept is not None and primitive.kept(*params):
                raise ArgumentError(
                    f"{primitive.name}: a function that only prints, or calls back, returns "
                    "nothing to hold it by",
                    fix="return a number from it, too",
                )
        if positions is not None:
            positions.extend([user_position()] * len(avals))
        param: Program | tuple[Param, ...] | Scalar  # others hold no programs
        for param in params if primitive.holds is not None else ():
            for part in param if type(param) is tuple else (param,):
                if type(part) is Program:
                    self.held.append(id(part))
        if may_fail:
            raise_now(self, first)
        return tuple(self.handle(first + k) for k in range(len(avals)))

    def call(
        self,
        primitive: Primitive,
        operands: Sequence[Any],
        program: Program,
        params: tuple[Any, ...],
    ) -> list[Any]:
        """Append a call of an inner transform's program; return tracers of its results."""
        ids = tuple(
            [
                x.ft_variable
                if isinstance(x, Tracer) and x.ft_recording is self
                else self.operand(x)[0]
                for x in operands
            ]
        )
        first, avals, positions = len(self.primitives), program.avals, program.positions
        count = self.entries(
            primitive, ids, (program, *params), tuple([avals[i] for i in program.output_ids])
        )
        if self.positions is not None:
            here = user_position()
            self.positions.extend([positions[i] or here for i in program.output_ids])
        self.held.append(id(program))
        assert self.inner is not None
        self.inner.append(first)
        return [self.handle(first + k) for k in range(count)]

    # -- values --------------------------------------------------------------------------------

    def value(self, variable: int) -> Any:
        """Return the value of a variable, after evaluating its dependencies (once).

        The result is an array, or an outer tracer if this recording runs inside another one.
        """
        return read(self, variable)

    def callers_array(self, variable: int) -> Any:
        """Return the value of a captured variable: the caller's own array, if it is unchanged.

        So another recording that this one's program is passed to repeatedly captures the array
        once. (Copies of large arrays are shared in any case.)
        """
        held = self.captures.held(variable)
        return self.constants[variable] if held is None else held.forwarded()

    def position(self, variable: int) -> tuple[CodeType | SourceLine, int] | None:
        """Return the position in the user's code that made a variable."""
        position = (
            self.positions[variable]
            if self.positions and 0 <= variable < len(self.positions)
            else None
        )
        return position if isinstance(position, tuple) else None

    def source(self, variable: int) -> Source | None:
        """Return the user's line that made a variable."""
        position = self.position(variable)
        return None if position is None else Source(*position)

    # -- the end -------------------------------------------------------------------------------

    def program(self, outputs: tuple[int, ...], **details: Any) -> Program:
        """Freeze the tape."""
        return Program.from_builder(self, outputs, positions=self.positions or (), **details)

    def close(self) -> None:
        """End the recording: its tracers become invalid, and its values are freed."""
        if self.closed:
            return
        self.closed = True
        OPENED.pop(self.serial, None)
        if self.makes_arrays:
            self.outlive()
        else:
            self.constants = _NOTHING
            self.primitives = closed = _ClosedPrimitives()
            closed.owner = (
                self.owner
            )  # (not `self`: that would be a cycle for the collector, at every call)
            self.operands, self.params = _NONE, _NONE
        self.captures_if_any = self._values = self.handles = None
        if self._views is not None:
            self._views.references = []
        self.arguments = ()

    def outlive(self) -> None:
        """Keep the tape after the end.

        See Note [What outlives its transform] in numpy/arrays/recording.py.
        """
        self.shadows += 1  # disables the fast path

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


class _ClosedPrimitives(list[Any]):
    """Primitives of a closed recording: every access is the use of a leaked tracer, and raises."""

    __slots__ = ("owner",)
    owner: str

    def append(self, _op: object) -> None:
        raise ended(self.owner)

    def __getitem__(self, _k: object) -> NoReturn:  # type: ignore[override]
        raise ended(self.owner)
