"""Decide which recording records an operation.

`bind` applies a primitive: if an operand is traced, the *newest* recording among the operands
records it; otherwise NumPy evaluates it. A body that is being recorded claims all operations.

Note [Newest recording wins]
    Recordings are numbered as they start, and an inner transform starts later than an outer one.
    When a recording encounters a value of an older one, it captures it: the value becomes a
    `CONSTANT` of the newer tape, and its concrete value is the outer tracer. An operation on outer
    values only is recorded outside. There is no stack and no global state: perturbations of
    different transforms are on different tapes and cannot be confused, threads are independent, and
    an exception cannot leave a transform active. The same rule is partial evaluation: in
    `linearize`, primals are tracers of an older recording than tangents, so all that depends on
    primals alone is recorded in the forward program, and the values that the linear program
    captures from it are the residuals.

Note [A body is what runs inside]
    The newest-recording rule alone would let an operation on captured values escape from the body
    of `checkpoint`, `cond`, `scan`, `jit` or a custom rule: it would be computed outside, whether
    or not the body runs, and kept. So a body (`BODY`) claims all operations while it is recorded:
    if the newest recording among the operands is older than the innermost body, the body records
    the operation and captures the operands. Only this needs a context (a `ContextVar`, local to the
    thread). Recordings outside of bodies have no overhead: older recordings count the open bodies
    in ``shadows``, and the hot paths test only that. A body is recorded once and runs any number of
    times (or never), so values of older recordings, and its own arguments, are read-only meanwhile
    (`check_writable`). The same holds for `vmap` (`MAPPED`), except that operations that do not
    depend on its arguments may be recorded outside.

Layer: 1.
"""

# A tracer's own fields are underscored for users; the library's packages read them.

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, final

from functrace.errors import CapturedArrayError
from functrace.ir.primitive import Primitive
from functrace.locks import Lock
from functrace.tracing.tracer import Tracer

if TYPE_CHECKING:
    from functrace.tracing.recording import Recording

OPEN, MAPPED, BODY = "open", "mapped", "body"
"""Scopes of a recording; see Note [A body is what runs inside]."""


@final
class RecordingCounter:
    """Counter of recordings: objects store it to note which recordings enclose them."""

    __slots__ = ("newest",)
    newest: int

    def __init__(self) -> None:
        self.newest = -1


@final
class ScopeState:
    """State of a body or mapped function between `enter` and `leave`.

    Args:
        body: the innermost body at that time, which may be the recording itself.
        outside: tape lengths of the older recordings of user code at that time.
        token: token that resets `INNERMOST`.
    """

    __slots__ = ("body", "outside", "token")

    def __init__(
        self, body: Recording | None, outside: dict[Recording, int], token: Token[Recording | None]
    ) -> None:
        self.body, self.outside, self.token = body, outside, token


STARTED = RecordingCounter()
"""Holds the serial of the newest recording, ended or not."""
INNERMOST: ContextVar[Recording | None] = ContextVar(
    "the innermost mapped function or body being recorded", default=None
)
RUNS_HERE: ContextVar[Recording | None] = ContextVar(
    "the recording of the user's function that runs here", default=None
)
OPENED: dict[int, Recording] = {}
"""The recordings of user code that have not ended, of all threads, by serial."""
_shadowing = Lock()


def bind(primitive: Primitive, operands: tuple[Any, ...], params: tuple[Any, ...] = ()) -> Any:
    """Apply a primitive: record it where an operand is traced, otherwise evaluate it.

    Returns one result, or a tuple of results if the primitive has ``many``.
    """
    newest = None
    for value in operands:
        if isinstance(value, Tracer):
            recording = value.ft_recording
            if newest is None or recording.serial > newest.serial:
                newest = recording
    if newest is None:
        return primitive.eval(*operands, *params)
    if newest.shadows:
        newest = claimed(newest)
    return newest.record(primitive, operands, params)


def claimed(recording: Recording) -> Recording:
    """Return the recording of an operation with newest operand of ``recording``: it, or a body.

    See Note [A body is what runs inside].
    """
    body = _innermost_body() if recording.shadows else None
    return recording if body is None or body.serial < recording.serial else body


def _innermost_body() -> Recording | None:
    innermost = INNERMOST.get()
    return None if innermost is None or innermost.entered is None else innermost.entered.body


def recording_serial(tracer: Tracer) -> int:
    """Return the serial of the recording that records an operation on a tracer, or the body's."""
    body = _innermost_body()
    return (
        tracer.ft_recording.serial if body is None else max(tracer.ft_recording.serial, body.serial)
    )


def renewed(tracer: Tracer) -> Any:
    """Return a writable handle of a value in the innermost body or mapped function: a copy."""
    recording, home = tracer.ft_recording, INNERMOST.get()
    if home is None or home.serial < recording.serial:
        home = recording
    return (
        recording.handle(tracer.ft_variable)
        if home is recording
        else home.handle(home.capture(tracer))
    )


def check_writable(tracer: Tracer) -> None:
    """Check that a handle may be written to; see Note [A body is what runs inside].

    Raises:
        CapturedArrayError: if the value was traced outside of the body that is being recorded, or
            is an argument of it.
    """
    scope = INNERMOST.get()
    if scope is None:
        return
    recording = tracer.ft_recording
    outside = {} if scope.entered is None else scope.entered.outside
    if recording.serial < scope.serial and tracer.ft_variable < outside.get(recording, math.inf):
        what = "a value that was traced outside of it"
    elif any(tracer is argument for argument in scope.arguments):
        what = "its argument"
    else:
        return
    raise CapturedArrayError(
        f"{scope.owner} writes into {what}, but is recorded once, however often it runs",
        made=recording.source(tracer.ft_variable),
        fix="write into a copy (x = x.copy()) and return that: in the carry of scan, as a result "
        "of the function",
    )


def call_recorded(
    recording: Recording, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """Call a user's function; its recording is `running` until it returns.

    Cost:
        0.1 us.
    """
    token = RUNS_HERE.set(recording)
    try:
        return f(*args, **kwargs)
    finally:
        RUNS_HERE.reset(token)


def running() -> Recording | None:
    """Return the recording of the user's function running in this thread and task, if any."""
    recording = RUNS_HERE.get()
    return None if recording is None or recording.closed else recording


def is_recording() -> bool:
    """Return True if any thread records user code, so that a function may capture traced values."""
    return bool(OPENED)


def newest_recording() -> int:
    """Return the serial of the newest open recording of user code; -1 if there is none."""
    return max(OPENED, default=-1)


def enter(recording: Recording) -> None:
    """Make the recording of a body, or of a mapped function, the innermost one until `leave`."""
    body = recording if recording.scope is BODY else _innermost_body()
    outside = {
        older: len(older.primitives)
        for older in list(OPENED.values())
        if older.serial < recording.serial
    }
    recording.entered = ScopeState(body, outside, INNERMOST.set(recording))
    if recording.scope is BODY:
        with _shadowing.now:
            for older in outside:
                older.shadows += 1


def leave(recording: Recording) -> None:
    """Restore the innermost recording from before `enter`."""
    entered = recording.entered
    assert entered is not None
    INNERMOST.reset(entered.token)
    if recording.scope is BODY:
        with _shadowing.now:
            for older in entered.outside:
                older.shadows -= 1
    recording.entered = None
