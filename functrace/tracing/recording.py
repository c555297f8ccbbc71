"""Recordings: how a user's Python becomes a program.

A `Recording` is a builder that the user's code writes by running: each operation on a `Tracer` of it appends an entry.
`bind` decides which recording an operation belongs to (tracing/binding.py). Apart from the tape, a recording consists of
four parts, each in a file of its own with the functions that act on it:

* `Captures` (tracing/capture.py): values from outside, and the variables that hold them;
* `Views` (tracing/views.py): views that are alive, and memory layouts;
* `Values` (tracing/values.py): concrete values, evaluated on demand and freed;
* `Entered` (tracing/binding.py): the tracing context in which a body began.

Note [Why recording is lazy]
    Recording appends to the tape and does no array work. If the inputs have values, those of all variables can be read
    (`bool(x > 0)`): the operations that the value depends on are then evaluated, once. Everything else waits for the end,
    when the whole program is known and its transformed, compiled form may already be in a cache.

Layer: 1.
"""

# A tracer's own fields are underscored for users; the library's packages read them.
# pyright: reportPrivateUsage=false

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
from functrace.source import Place, Source, hide_own_frames, user_position
from functrace.tracing.binding import OPEN, OPENED, STARTED, Entered, enter, leave
from functrace.tracing.capture import Captures, capture
from functrace.tracing.release import Handles
from functrace.tracing.tracer import LITERALS, Tracer, Value, ended
from functrace.tracing.values import Values, raise_now, read
from functrace.tracing.views import Views
from functrace.typing import Scalar

_serials = itertools.count()
_new = object.__new__
_NOTHING: dict[Any, Any] = {}  # nobody writes to it
_NONE: list[Any] = []  # nor to this


class Recording(Builder):
    """A tape that is being written by running Python code.

    Args:
        owner: who records, as messages name it, e.g. ``"grad of loss"``.
        keeps_source: whether the user's position is kept beside every operation.
        scope: `OPEN`, or what else Note [A body is what runs inside] says.
        is_certain: whether what is recorded will run in any case; a branch of a choice may not.
        is_run: whether it is run at its end, and read by nobody: what transforms inside of it run may be recorded as calls
            (executor/inner_calls.py).
    """

    __slots__ = (
        "_captures", "_values", "_views", "arguments", "closed", "entered", "handles", "held", "inner", "is_certain",
        "makes_arrays", "origins", "owner", "positions", "scope", "serial", "shadows",
    )  # fmt: skip

    tracer_class: ClassVar[type[Tracer]] = Tracer
    """Class of its tracers."""

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
        """Number of newer bodies that are being recorded."""
        self.entered: Entered | None = None
        self.arguments: tuple[Tracer, ...] = ()
        """The arguments of a body, which it may not write into."""
        if keeps_source:
            OPENED[self.serial] = self
        self.positions: list[Position] | None = [] if keeps_source else None
        self._captures: Captures | None = None
        self._views: Views | None = None
        self._values: Values | None = None
        self.handles: Handles | None = None
        """Tracers by which values can be read; ``None`` if no variable has a value."""
        self.origins: list[int] = []
        """Variable of the source program for each variable; empty if no program is being transformed."""
        self.held: list[int] = []
        """Identities of the sub-programs of operations, as part of cache keys: equal programs may come from other lines."""
        self.inner: list[int] | None = [] if is_run else None
        """First results of the call operations recorded for inner transforms; ``None`` if it records no such calls."""
        self.closed = False
        self.makes_arrays = False
        """True if it created arrays from plain numbers; see Note [What outlives its transform] in numpy/arrays/recording.py.
        """

    @property
    def captures(self) -> Captures:
        """Values that it has captured from outside."""
        if self._captures is None:
            self._captures = Captures()
        return self._captures

    @property
    def views(self) -> Views:
        """Views and memory layouts of its variables."""
        if self._views is None:
            self._views = Views()
        return self._views

    @property
    def values(self) -> Values:
        """Concrete values of its variables."""
        if self._values is None:
            self._values = Values()
        return self._values

    def blank(self, owner: str) -> Recording:
        """Return an empty recording of the same kind, without source positions."""
        return Recording(owner, keeps_source=False)

    # -- handles -------------------------------------------------------------------------------

    def handle(self, variable: int) -> Any:
        """Return a tracer for a variable."""
        tracer = object.__new__(self.tracer_class)
        tracer._recording = self
        tracer._id = variable
        aval = tracer.aval = self.avals[variable]
        tracer._view = None
        handles = self.handles
        if handles is not None and (aval.is_large or handles.of_all):
            handles.append(weakref.ref(tracer))
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
            (self._values or self.values).known[variable] = value
            if self.handles is None:
                self.handles = Handles()
        tracer = _new(self.tracer_class)  # `handle`, in line
        tracer._recording = self
        tracer._id = variable
        tracer.aval = aval
        tracer._view = None
        handles = self.handles
        if handles is not None and (aval.is_large or handles.of_all):
            handles.append(weakref.ref(tracer))
        return tracer

    def capture(self, value: Value) -> int:
        """Return the variable that holds a value from outside: an outer tracer or an array."""
        return capture(self, value)

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
        variable = capture(self, value)
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
                positions.append(user_position())
            if may_fail:
                raise_now(self, first)
            tracer = _new(self.tracer_class)
            tracer._recording = self
            tracer._id = first
            tracer.aval = aval
            tracer._view = None
            handles = self.handles
            if handles is not None and (aval.is_large or handles.of_all):
                handles.append(weakref.ref(tracer))
            return tracer
        if not self.entries(primitive, ids, params, avals):  # its numbers are the last ones
            del self.literals[len(self.literals) - sum([i < 0 for i in ids]) :]
            if primitive.kept is not None and primitive.kept(*params):
                raise ArgumentError(
                    f"{primitive.name}: a function that only prints, or calls back, returns nothing to hold it by",
                    fix="return a number from it, too",
                )
        if positions is not None:
            positions.extend([user_position()] * len(avals))
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
            here = user_position()
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
        return read(self, variable)

    def callers_array(self, variable: int) -> Any:
        """Return the value of a captured variable: the caller's own array, if it still is what was captured.

        So a recording that this one's program is handed to captures it once, however often it is handed. (Of large arrays
        the copy is shared in any case.)
        """
        held = self.captures.held(variable)
        return self.constants[variable] if held is None else held.handed_on()

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
        """End the recording: its tracers become invalid, and its values are freed."""
        if self.closed:
            return
        self.closed = True
        OPENED.pop(self.serial, None)
        if self.makes_arrays:
            self.outlive()
        else:
            self.constants = _NOTHING
            self.primitives = closed = _Closed()
            closed.owner = self.owner  # (not `self`: that would be a cycle for the collector, at every call)
            self.operands, self.params = _NONE, _NONE
        self._captures = self._values = self.handles = None
        if self._views is not None:
            self._views.references = []
        self.arguments = ()

    def outlive(self) -> None:
        """Keep the tape beyond the end; see Note [What outlives its transform] in numpy/arrays/recording.py."""
        self.shadows += 1  # no short path

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


class _Closed(list[Any]):
    """Stands in for the primitives of a closed recording: whoever writes to it uses a leaked tracer."""

    __slots__ = ("owner",)
    owner: str

    def append(self, _op: object) -> None:
        raise ended(self.owner)

    def __getitem__(self, _k: object) -> NoReturn:  # type: ignore[override]
        raise ended(self.owner)
