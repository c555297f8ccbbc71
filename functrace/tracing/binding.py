"""Which recording an operation belongs to.

`bind` applies a primitive: if an operand is traced, the *newest* recording among the operands records it, otherwise NumPy
evaluates it. Only a body has a say in what runs while it is recorded.

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

Layer: 1.
"""

# A tracer's own fields are underscored for users; the library's packages read them.
# pyright: reportPrivateUsage=false

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
class Started:
    """How many recordings have begun: what is made later knows by it what it was made inside of."""

    __slots__ = ("newest",)
    newest: int

    def __init__(self) -> None:
        self.newest = -1


@final
class Entered:
    """A body, or a mapped function, from when its recording is entered until it is left.

    Args:
        body: the innermost body at that time, which may be the recording itself.
        outside: tape lengths of the older recordings of user code at that time.
        token: token that resets `INNERMOST`.
    """

    __slots__ = ("body", "outside", "token")

    def __init__(self, body: Recording | None, outside: dict[Recording, int], token: Token[Recording | None]) -> None:
        self.body, self.outside, self.token = body, outside, token


STARTED = Started()
"""Holds the serial of the newest recording that has begun, ended or not."""
INNERMOST: ContextVar[Recording | None] = ContextVar("the innermost mapped function or body being recorded", default=None)
RUNS_HERE: ContextVar[Recording | None] = ContextVar("the recording of the user's function that runs here", default=None)
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
            recording = value._recording
            if newest is None or recording.serial > newest.serial:
                newest = recording
    if newest is None:
        return primitive.eval(*operands, *params)
    if newest.shadows:
        newest = claimed(newest)
    return newest.record(primitive, operands, params)


def claimed(recording: Recording) -> Recording:
    """Return the body that claims an operation whose newest operand is of ``recording``, or ``recording`` itself.

    See Note [A body is what runs inside].
    """
    body = _innermost_body() if recording.shadows else None
    return recording if body is None or body.serial < recording.serial else body


def _innermost_body() -> Recording | None:
    innermost = INNERMOST.get()
    return None if innermost is None or innermost.entered is None else innermost.entered.body


def recorder(tracer: Tracer) -> int:
    """The serial of the recording that an operation on a traced value is recorded by: its own, or the innermost body."""
    body = _innermost_body()
    return tracer._recording.serial if body is None else max(tracer._recording.serial, body.serial)


def renewed(tracer: Tracer) -> Any:
    """Return another handle of a value, of the innermost body or mapped function, which may write into it: a copy."""
    recording, home = tracer._recording, INNERMOST.get()
    if home is None or home.serial < recording.serial:
        home = recording
    return recording.handle(tracer._id) if home is recording else home.handle(home.capture(tracer))


def check_writable(tracer: Tracer) -> None:
    """Check that an in-place operation on a handle means what it means in Python; see Note [A body is what runs inside].

    Raises:
        CapturedArrayError: if the value was traced outside of the body that is being recorded, or is an argument of it.
    """
    scope = INNERMOST.get()
    if scope is None:
        return
    recording = tracer._recording
    outside = {} if scope.entered is None else scope.entered.outside
    if recording.serial < scope.serial and tracer._id < outside.get(recording, math.inf):
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


def call_recorded(recording: Recording, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call a user's function; until it returns, its recording is the one that is `running`.

    Cost:
        0.1 us.
    """
    token = RUNS_HERE.set(recording)
    try:
        return f(*args, **kwargs)
    finally:
        RUNS_HERE.reset(token)


def running() -> Recording | None:
    """The recording of the user's function that is running here, in this thread and task; ``None`` outside of all."""
    recording = RUNS_HERE.get()
    return None if recording is None or recording.closed else recording


def is_recording() -> bool:
    """Whether user code of any thread is being recorded, so that a function may close over traced values."""
    return bool(OPENED)


def newest_recording() -> int:
    """The serial of the newest recording of user code that has not ended; -1 if there is none."""
    return max(OPENED, default=-1)


def enter(recording: Recording) -> None:
    """Let the recording of a body, or of a mapped function, be the innermost one until it is left."""
    body = recording if recording.scope is BODY else _innermost_body()
    outside = {older: len(older.primitives) for older in list(OPENED.values()) if older.serial < recording.serial}
    recording.entered = Entered(body, outside, INNERMOST.set(recording))
    if recording.scope is BODY:
        with _shadowing.now:
            for older in outside:
                older.shadows += 1


def leave(recording: Recording) -> None:
    """Let the one be the innermost that was so before; see `enter`."""
    entered = recording.entered
    assert entered is not None
    INNERMOST.reset(entered.token)
    if recording.scope is BODY:
        with _shadowing.now:
            for older in entered.outside:
                older.shadows -= 1
    recording.entered = None
