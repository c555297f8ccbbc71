"""Recording of a profile: the operations of a thread, the nodes of its backward passes, and the
user's ranges, with their times.

While a profile is active, ``MODES.dispatch`` is an `Observer`: it runs what it gets as if it was
not there, for the dispatch modes inside it or for none, and notes the time. Without a profile
nothing of this runs.

Note [Events of composite functions]
    ``F.linear`` is several operations, which are dispatched one by one. PyTorch has an event of the
    function around them. For this, a profile replaces the functions in the public namespaces as long
    as it runs, the way `functrace.torch.dispatch.overrides` does it. A method that is several
    operations has no event of its own, and neither has a function that was imported by name.

Note [Time of backward nodes]
    A node's backward is one program, which is run as a whole: the event of the node has its time, and
    none of operations inside. With ``create_graph``, operations run, and have events.

Layer: 9.
"""

from __future__ import annotations

import contextlib
import math
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np

from functrace.torch._ops import OpOverload, schema_lines
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.autograd.profiler_util import EventList, FunctionEvent
from functrace.torch.dispatch import applying, overrides
from functrace.torch.dispatch.applying import Op
from functrace.torch.dispatch.identities import described
from functrace.torch.dispatch.modes import bound
from functrace.torch.dispatch.overloads import ops, overload_for
from functrace.torch.dispatch.overrides import Overridable, overridable
from functrace.torch.dispatch.rows import FFT, FUNCTIONAL, LINALG, NN, SPECIAL, TORCH
from functrace.torch.tensors import views
from functrace.torch.tensors.tensor import Tensor

Described: TypeAlias = tuple[str, str, list[Any], list[Any]]
"""Name, overload, shapes of the arguments, and arguments that are no tensors."""
FUNCTION, BACKWARD, USER = 0, 1, 7
"""Scopes of events."""
_HERE = str(Path(__file__).parents[2])
_WITHOUT_SCHEMA = NotImplementedError, AttributeError, TypeError
"""Errors for a function that PyTorch has no operation or no overload of."""


@final
class Record:
    """One event while it is recorded."""

    __slots__ = (
        "concrete", "depth", "end", "flops", "fwd_thread", "has_child", "is_function", "memory",
        "name",
        "overload", "scope", "sequence", "shapes", "stack", "start", "thread",
    )  # fmt: skip

    def __init__(self, name: str, scope: int, thread: int) -> None:
        self.name, self.scope, self.thread = name, scope, thread
        self.overload = ""
        self.start = self.end = 0
        self.depth = 1
        self.fwd_thread = 0
        self.has_child = self.is_function = False
        self.memory = self.flops = 0
        self.sequence = -1
        self.shapes: list[Any] = []
        self.concrete: list[Any] = []
        self.stack: list[str] = []


@final
class Session:
    """The records of one profile.

    Args:
        shapes: True to record the shapes of arguments.
        stacks: True to record positions in the source.
        memory: True to record the bytes of results that are allocated and freed.
        flops: True to count floating-point operations.
    """

    def __init__(self, *, shapes: bool, stacks: bool, memory: bool, flops: bool) -> None:
        self.shapes, self.stacks, self.memory, self.flops = shapes, stacks, memory, flops
        self.records: list[Record] = []
        self.threads: dict[int, tuple[int, list[Record]]] = {}
        self.makers: dict[int, int] = {}
        """Thread of each node that was made, by sequence number."""
        self.living: dict[int, Any] = {}
        """Weak references to arrays that were allocated, by identity."""
        self.names: dict[Any, Described] = {}
        self.began = time.perf_counter_ns()
        self.began_at = time.time_ns()
        self.ended: int | None = None

    # -- records -----------------------------------------------------------------------------------

    def here(self) -> tuple[int, list[Record]]:
        """Return the number of this thread, and its open records."""
        found = self.threads.get(threading.get_ident())
        if found is None:
            found = self.threads[threading.get_ident()] = (len(self.threads) + 1, [])
        return found

    def begin(self, name: str, scope: int = FUNCTION) -> Record:
        """Open a record; an operation of a function that has its name continues its record."""
        number, around = self.here()
        if self.ended is not None:  # another thread ended the profile
            return Record(name, scope, number)
        if around:
            last = around[-1]
            if last.is_function and scope == FUNCTION and last.name == name and not last.has_child:
                last.has_child = True
                last.depth += 1
                return last
            last.has_child = True
        record = Record(name, scope, number)
        if self.stacks:
            record.stack = _stack()
        around.append(record)
        self.records.append(record)
        record.start = time.perf_counter_ns()
        return record

    def end(self, record: Record) -> None:
        """Close a record."""
        now = time.perf_counter_ns()
        record.depth -= 1
        if record.depth or self.ended is not None:
            return
        record.end = now
        for _, around in self.threads.values():
            if record in around:
                around.remove(record)

    def step(self, name: str, run: Callable[[], Any]) -> Any:
        """Run a part of an operation, as an event."""
        record = self.begin(name)
        try:
            return run()
        finally:
            self.end(record)

    def finish(self) -> None:
        """Close all records."""
        self.ended = time.perf_counter_ns()
        for record in self.records:
            record.end = record.end or self.ended
        self.living.clear()

    # -- what is recorded --------------------------------------------------------------------------

    def describe(self, record: Record, call: Described) -> None:
        """Note the arguments of a call."""
        _, overload, shapes, concrete = call
        if not record.overload:
            record.overload = overload
        if self.shapes:
            record.shapes, record.concrete = shapes, concrete
        if self.flops:
            record.flops = flops_of(record.name, shapes, concrete)

    def named(
        self, op: Op, operands: tuple[Any, ...], params: tuple[Any, ...], *, in_place: bool
    ) -> Described:
        """Return the name, the overload, and the arguments of an operation."""
        key: Any = (
            op, in_place, params,
            *[(x._array.shape, x._array.dtype) if isinstance(x, Tensor) else (type(x), x)
              for x in operands],
        )  # fmt: skip
        try:
            found = self.names.get(key)
        except TypeError:  # (an operand without a hash)
            found = key = None
        if found is None:
            try:
                found = arguments_of(*described(op, operands, params, in_place=in_place))
            except _WITHOUT_SCHEMA:
                name = (op.called or op.node.partition("Backward")[0]) + "_" * in_place
                found = f"functrace::{name}", "", [_shape(x) for x in operands], []
            if key is not None:
                self.names[key] = found
        return found

    def note(self, record: Record, made: Any, before: Sequence[Any], *, counts: bool) -> None:
        """Note the node and the memory of results."""
        for one in made if isinstance(made, tuple) else (made,):
            if not isinstance(one, Tensor):
                continue
            node = one._node
            if node is not None and not any(node is x for x in before) and record.sequence < 0:
                record.sequence = node._sequence
                self.makers[node._sequence] = record.thread
            if counts and self.memory:
                self._allocated(record, one._array)

    def _allocated(self, record: Record, array: Any) -> None:
        while isinstance(array, np.ndarray) and isinstance(array.base, np.ndarray):
            array = array.base
        key = id(array)
        if not isinstance(array, np.ndarray) or key in self.living:
            return
        count = array.nbytes
        record.memory += count
        self.living[key] = weakref.ref(array, lambda _: self._freed(key, count))

    def _freed(self, key: int, count: int) -> None:
        if self.living.pop(key, None) is None or self.ended is not None:
            return
        number, around = self.here()
        if around:
            around[-1].memory -= count
            return
        record = Record("[memory]", FUNCTION, number)
        record.start = record.end = time.perf_counter_ns()
        record.memory = -count
        self.records.append(record)

    # -- the result --------------------------------------------------------------------------------

    def events(self) -> EventList:
        """Return the events, by their starts, as a tree."""
        made = EventList(profile_memory=self.memory, with_flops=self.flops)
        records = sorted(self.records, key=lambda record: (record.start, -record.end))
        for k, record in enumerate(records):
            is_step = record.name.startswith("ProfilerStep#")  # steps are averaged together
            made.append(
                FunctionEvent(
                    k + 1,
                    "ProfilerStep*" if is_step else record.name,
                    record.thread,
                    (record.start - self.began) / 1e3,
                    (record.end - self.began) / 1e3,
                    overload_name=record.overload,
                    fwd_thread=record.fwd_thread,
                    input_shapes=record.shapes,
                    stack=record.stack,
                    scope=record.scope,
                    cpu_memory_usage=record.memory,
                    sequence_nr=record.sequence,
                    flops=record.flops,
                    trace_name=record.name,
                    concrete_inputs=record.concrete,
                    kwinputs={},
                    is_user_annotation=record.scope == USER,
                )
            )
        made._populate_cpu_children()
        for event in reversed(made):  # children come after their parents
            if event.cpu_parent is not None:
                event.cpu_parent.cpu_memory_usage += event.cpu_memory_usage
        made._remove_dup_nodes()
        made._set_backward_stacktraces()
        made._tree_built = True
        return made


def _shape(value: object) -> list[Any]:
    return list(value._array.shape) if isinstance(value, Tensor) else []


def arguments_of(overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Described:
    """Return the name and the overload of an operation, the shapes of its arguments, and those that
    are no tensors.
    """
    given = {argument.name: value for argument, value in bound(overload, args, kwargs)}
    values = [
        given.get(argument.name, argument.default_value) for argument in overload._schema.arguments
    ]
    name, _, text = overload.name().partition(".")
    return name, text, [_shape(x) for x in values], [_concrete(x) for x in values]


def _concrete(value: object) -> Any:
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (tuple, list)) and all(isinstance(x, (bool, int, float)) for x in value):
        return list(value)
    return None


def _stack() -> list[str]:
    """Return the positions in the user's source, innermost first."""
    found = []
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith((_HERE, contextlib.__file__)):
            found.append(f"{code.co_filename}({frame.f_lineno}): {code.co_name}")
        frame = frame.f_back
    return found


def flops_of(name: str, shapes: list[Any], concrete: list[Any]) -> int:
    """Return the number of floating-point operations that PyTorch counts."""
    if name in ("aten::mul", "aten::add"):
        return math.prod(max(shapes[:2], key=math.prod)) if shapes and shapes[0] else 0
    factors = {"aten::mm": (0, 1), "aten::bmm": (0, 1), "aten::addmm": (1, 2),
               "aten::baddbmm": (1, 2)}.get(name)  # fmt: skip
    if factors is not None:
        first, second = shapes[factors[0]], shapes[factors[1]]
        return 2 * math.prod(first) * second[-1]
    if name == "aten::conv2d" and len(shapes) == 7 and len(shapes[0]) == 4:
        x, w = shapes[:2]
        pairs = [_pair(value) for value in concrete[3:6]]
        if any(pair is None for pair in pairs):
            return 0
        stride, padding, dilation = pairs
        out = [
            (x[2 + k] + 2 * padding[k] - dilation[k] * (w[2 + k] - 1) - 1) // stride[k] + 1
            for k in range(2)
        ]
        return 2 * x[0] * w[0] * math.prod(w[1:]) * math.prod(out)
    return 0


def _pair(value: Any) -> Any:
    if isinstance(value, int):
        return value, value
    return value if isinstance(value, list) and len(value) == 2 else None


# -- the observer ----------------------------------------------------------------------------------


@final
class Observer:
    """Runs operations for a session.

    Args:
        session: the profile.
        inner: the dispatch modes inside, or None.
    """

    __slots__ = ("inner", "session")
    is_passive = True

    def __init__(self, session: Session, inner: Any) -> None:
        self.session, self.inner = session, inner

    @property
    def modes(self) -> tuple[Any, ...]:
        """The modes inside."""
        return () if self.inner is None else self.inner.modes

    @property
    def is_beneath(self) -> bool:
        """True while the handler of a mode runs."""
        return self.inner is not None and self.inner.is_beneath

    @property
    def call(self) -> Any:
        """The operation that a handler was called for."""
        return None if self.inner is None else self.inner.call

    def _inside(self, run: Callable[[], Any]) -> Any:
        MODES.dispatch = self.inner
        try:
            return run()
        finally:
            MODES.dispatch = self

    def _operation(
        self,
        op: Op,
        operands: tuple[Any, ...],
        params: tuple[Any, ...],
        run: Callable[[], Any],
        *,
        in_place: bool,
    ) -> Any:
        session = self.session
        before = [x._node for x in operands if isinstance(x, Tensor) and x._node is not None]
        call = session.named(op, operands, params, in_place=in_place)
        record = session.begin(call[0])
        try:
            made = self._inside(run)
        finally:
            session.end(record)
        session.describe(record, call)
        session.note(record, made, before, counts=not in_place and not op.is_view)
        return made

    def apply(self, op: Op, operands: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """Apply an op."""
        run = lambda: applying.apply(op, operands, params)  # noqa: E731
        return self._operation(op, operands, params, run, in_place=False)

    def write(self, op: Op, operands: tuple[Any, ...], params: tuple[Any, ...]) -> Tensor:
        """Apply an op in place."""
        run = lambda: views.write(op, operands, params)  # noqa: E731
        return self._operation(op, operands, params, run, in_place=True)

    def put_out(self, name: str, args: tuple[Any, ...], out: Any, run: Callable[[], Any]) -> Any:
        """Compute into ``out`` tensors."""
        with self.function(f"aten::{name}", args, {}):
            if self.inner is None:
                return self._inside(run)
            return self._inside(lambda: self.inner.put_out(name, args, out, run))

    def make(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[[], Any]
    ) -> Any:
        """Run an operation that is no op."""
        with self.function(f"aten::{name}", args, kwargs) as record:
            if self.inner is None:
                made = self._inside(run)
            else:
                made = self._inside(lambda: self.inner.make(name, args, kwargs, run))
        self.session.note(record, made, (), counts=True)
        return made

    def call_custom(
        self,
        overload: OpOverload,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        run: Callable[[], Any],
    ) -> Any:
        """Run a custom operator, whose operations are recorded, too."""
        with self.function(overload.name(), args, kwargs):
            if self.inner is None:
                return run()
            return self._inside(lambda: self.inner.call_custom(overload, args, kwargs, run))

    def detach(self, tensor: Tensor, types: tuple[type, ...] = ()) -> Tensor:
        """Return an alias without history."""
        run = tensor._alias if self.inner is None else lambda: self.inner.detach(tensor, types)
        if types:  # a saved tensor
            return self._inside(run)
        with self.function("aten::detach", (tensor,), {}):
            return self._inside(run)

    def seed(self, output: object, ones: Tensor) -> Any:
        """Return the default gradient of a root."""
        return ones if self.inner is None else self._inside(lambda: self.inner.seed(output, ones))

    def lift(self, constant: Tensor) -> Any:
        """Return an assigned number as a tensor."""
        if self.inner is None:
            return constant
        return self._inside(lambda: self.inner.lift(constant))

    def run(self, overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a handler's call."""
        return self._inside(lambda: self.inner.run(overload, args, kwargs))

    @contextmanager
    def function(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Iterator[Record]:
        """Record a call of a function."""
        session = self.session
        record = session.begin(name)
        if session.shapes or session.flops:
            try:
                namespace, _, plain = name.partition("::")
                packet = getattr(getattr(ops, namespace), plain)
                call = arguments_of(overload_for(packet, args, kwargs), args, kwargs)
            except _WITHOUT_SCHEMA:
                call = name, "", [_shape(x) for x in args], []
            session.describe(record, call)
        try:
            yield record
        finally:
            session.end(record)

    @contextmanager
    def range(self, name: str) -> Iterator[None]:
        """Record a range of the user's."""
        record = self.session.begin(name, USER)
        try:
            yield
        finally:
            self.session.end(record)

    @contextmanager
    def running(self, name: str, node: Any, given: Sequence[Any] | None = None) -> Iterator[None]:
        """Record a backward node: its evaluation by the engine, or its run on gradients."""
        session = self.session
        record = session.begin(name, FUNCTION if given is None else BACKWARD)
        record.stack = []
        if hasattr(node, "_plan"):
            record.sequence = node._sequence
            record.fwd_thread = session.makers.get(node._sequence, 0)
        if given is not None and session.shapes:
            record.shapes = [_shape(x) for x in given]
        try:
            yield
        finally:
            session.end(record)


# -- composite functions ---------------------------------------------------------------------------

_CALLED = {"cross_entropy": "cross_entropy_loss", "grid_sample": "grid_sampler"}
"""PyTorch's names of operations that differ from those of the functions."""
_QUERIES = frozenset({
    "can_cast", "is_complex", "is_conj", "is_distributed", "is_floating_point", "is_inference",
    "is_neg", "is_nonzero", "is_same_size", "is_signed", "promote_types", "result_type",
})  # fmt: skip
"""Functions that run no operation."""


class Watched(Overridable):
    """A public function as long as a profile runs; equal to the plain one."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        super().__init__(function)
        self.called = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, with a record if this thread is observed."""
        call = super().__call__ if overrides.is_installed() else self.function
        observer = MODES.dispatch
        if type(observer) is not Observer:
            return call(*args, **kwargs)
        with observer.function(self.called, args, kwargs) as record:
            record.is_function = True
            return call(*args, **kwargs)


_PLACES = (
    (TORCH, ""), (FUNCTIONAL, ""), (NN, ""), (LINALG, "linalg_"), (SPECIAL, "special_"),
    (FFT, "fft_"),
)  # fmt: skip
"""Namespaces, and how PyTorch's names of their operations begin."""
_LOCK = threading.RLock()
"""(The garbage collector may end a profile at any time.)"""
_RUNNING: list[Session] = []
_REPLACED: list[tuple[Any, str, Any]] = []


def _watch(session: Session) -> None:
    """Replace the functions in the public namespaces, for the first running session."""
    with _LOCK:
        _RUNNING.append(session)
        if len(_RUNNING) > 1:
            return
        known = schema_lines()
        for place, prefix in _PLACES:
            module = sys.modules.get(place)
            if module is None:
                continue
            for name, (_, function) in overrides.ENTRIES[place].items():
                called = f"{prefix}{_CALLED.get(name, name)}"
                if called not in known or called in _QUERIES:
                    continue
                now = vars(module).get(name)
                if now is function or (isinstance(now, Overridable) and now.function is function):
                    _REPLACED.append((module, name, function))
                    setattr(module, name, Watched(function, f"aten::{called}"))


def _unwatch(session: Session) -> None:
    """Restore the functions, after the last session."""
    with _LOCK:
        _RUNNING[:] = [one for one in _RUNNING if one is not session]
        if _RUNNING:
            return
        for module, name, function in _REPLACED:
            if isinstance(vars(module).get(name), Watched):
                setattr(
                    module, name, overridable(function) if overrides.is_installed() else function
                )
        del _REPLACED[:]


# -- begin and end ---------------------------------------------------------------------------------


def start(session: Session) -> None:
    """Begin to observe this thread.

    Raises:
        RuntimeError: if it is observed already.
    """
    while (now := observer()) is not None and now.session.ended is not None:
        MODES.dispatch, MODES.step = now.inner, None  # another thread ended that profile
    if now is not None:
        raise RuntimeError("Profiler is already enabled on this thread.")
    _watch(session)
    MODES.dispatch, MODES.step = Observer(session, MODES.dispatch), session.step


def stop(session: Session) -> None:
    """End a session, unless it has ended; from any thread."""
    now = observer()
    if now is not None and now.session is session:
        MODES.dispatch, MODES.step = now.inner, None
    if session.ended is None:
        _unwatch(session)
        session.finish()


def observer() -> Observer | None:
    """Return the observer of this thread."""
    found = MODES.dispatch
    return found if type(found) is Observer else None
