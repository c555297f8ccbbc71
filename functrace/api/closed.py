"""Closed functions: those that need not be called again, since their code shows that they would do the same.

An un-jitted transform calls the user's function every time, because a function may do anything: read a global, count its
calls, print. Recording that takes most of the time of a small gradient. But the code of many functions shows that they do
nothing of the kind. When such a function has come a few times, it is recorded once without values; if nobody asks for one,
and what is recorded is what it was with values, further calls are served by the program at once, as long as nothing has
changed of what the function reads.

Which functions these are is found in api/closed_code.py, and which calls are alike in api/closed_calls.py.

Note [Who sees that a function is not called]
    A debugger does: while one traces, and inside of `functrace.disable_jit`, functions are called. So it is inside of
    recordings.

Floor: 7.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, final

import numpy as np

from functrace.api.eager import ENTERED
from functrace.caches import Bounded, Kept
from functrace.ir.program import Position
from functrace.later import LaterModules
from functrace.source import hide_own_frames
from functrace.tracing.binding import is_recording

if TYPE_CHECKING:
    from functrace.api.closed_calls import Like
    from functrace.api.closed_code import Guard
    from functrace.tree import PyTreeSpec

FEWEST_CALLS = 3
"""Of functions that come less often nothing is looked at."""

LARGEST = 1 << 20
"""Bytes of an argument: with so many nothing is looked at."""

READERS = LaterModules("functrace.api.checks", "dis", "functrace.api.closed_calls", "functrace.api.closed_code")
"""What reads functions: in many programs none comes often enough."""

MOST_KNOWN = 4
"""Programs of one function and transform, for arguments of so many shapes."""

MOST_TRIES = 6
"""Recordings without values of one function and transform."""

MOST_MISSES = 64
"""Calls, one after the other, that are not like those that are known: then these are forgotten."""


@final
class Known:
    """What serves the calls of a closed function whose arguments are like some.

    Args:
        guard: of the function.
        like: what the arguments are like.
        run: what runs.
        more: its further arguments.
        lines: the user's lines.
    """

    __slots__ = ("_guard", "_lines", "_more", "_order", "_run", "_take", "treedef")

    def __init__(
        self,
        guard: Guard,
        like: Like,
        run: Callable[[Sequence[Any], Sequence[Position]], Sequence[Any]],
        more: Sequence[Any],
        lines: Sequence[Position],
    ) -> None:
        assert like.take is not None
        self._guard, self._take, self.treedef = guard, like.take, like.treedef
        self._order = None if like.order == sorted(like.order) else tuple(like.order)
        self._run, self._more, self._lines = run, tuple(more), tuple(lines)

    def run(self, f: FunctionType, args: tuple[Any, ...]) -> Sequence[Any] | None:
        """Return the results for a call; ``None`` if it is not like those."""
        values = self._take(args)
        if values is None or not self._guard.holds(f):
            return None
        if self._order is not None:
            values = [values[i] for i in self._order]
        try:
            return self._run([*values, *self._more], self._lines)
        except BaseException as error:
            hide_own_frames(error)
            raise


Proof = tuple[Known, bool] | None
"""What would serve calls, and whether it is what a call that was recorded has run; ``None`` if calls cannot be served."""


@final
class Seen(Kept):
    """A function's code under a transform: how often it was called, and what serves its calls if it is closed.

    Args:
        code: the function's.
    """

    __slots__ = ("_calls", "_candidate", "_code", "_known", "_missed", "_tries")

    def __init__(self, code: CodeType) -> None:
        super().__init__(assumed=1 << 19)
        self._code = code
        self._calls = self._tries = self._missed = 0
        self._known: tuple[Known, ...] = ()
        self._candidate: Known | None = None
        """What is to prove itself on the next call."""

    def results(self, f: FunctionType, args: tuple[Any, ...]) -> tuple[Sequence[Any], PyTreeSpec | None] | None:
        """Return the results of a call, if it need not be recorded, and the structure of what is differentiated."""
        if not self._known or self._code is not f.__code__:
            return None
        for known in self._known:
            results = known.run(f, args)
            if results is not None:
                self._missed = 0
                return results, known.treedef
        self._missed += 1
        if self._missed == MOST_MISSES:
            self._known, self._missed = (), 0
            SEEN.changed(self)
        return None

    def came(self, f: FunctionType, args: tuple[Any, ...], results: Sequence[Any], record: Callable[[Guard], Proof]) -> None:
        """Take note of a call that was recorded; if it is the third one, see whether such calls can be served.

        What would serve them, and is not what has run, gives the same results for the next call, or is not kept. (For the
        next one, since no call is to take longer than the first.)

        Args:
            f: the function.
            args: its arguments.
            results: of what has run.
            record: records the call without values.
        """
        if self._code is not f.__code__:
            return
        if self._candidate is not None:
            self._prove(self._candidate, f, args, results)
            return
        self._calls += 1
        if self._calls < FEWEST_CALLS or self._tries == MOST_TRIES or len(self._known) == MOST_KNOWN:
            return
        if any(type(x) is np.ndarray and x.nbytes >= LARGEST for x in args):
            return
        if not READERS.are_there():
            READERS.bring()
            return
        from functrace.api.closed_code import guard_of

        self._calls, self._tries = 0, self._tries + 1
        guard = guard_of(f)
        found = None if guard is None else record(guard)
        if found is None:
            return
        known, has_run = found
        if has_run:
            self._keep(known)
        else:
            self._candidate = known

    def _prove(self, known: Known, f: FunctionType, args: tuple[Any, ...], results: Sequence[Any]) -> None:
        from functrace.api.closed_calls import Warned

        try:
            with np.errstate(all="ignore"), Warned.raised():  # what there is to warn of has been said
                again = known.run(f, args)
        except Exception:  # it is not what a call is
            self._candidate = None
            return
        if again is not None:
            self._candidate = None
            if all(map(_are_the_same, results, again)):
                self._keep(known)

    def _keep(self, known: Known) -> None:
        self._known = (*self._known, known)
        SEEN.changed(self)


def _are_the_same(a: Any, b: Any) -> bool:
    x, y = ((type(z), z.dtype, z.shape, z.strides, z.tobytes("A")) for z in (a, b))
    return x == y


SEEN: Bounded[Seen] = Bounded("calls of functions that need not be recorded", 32 << 20, 1 << 14)
"""By identity of their code, and by transform."""


def seen(f: FunctionType, *transform: Hashable) -> Seen | None:
    """Return what is known of a function's calls under a transform; ``None`` where somebody looks at them."""
    if is_looked_at():
        return None
    key = (id(f.__code__), *transform)
    found = SEEN.entries.get(key)
    if found is None:
        found = Seen(f.__code__)
        SEEN.add(key, found)
    else:
        found.used = SEEN.tick()
    return found


def is_looked_at() -> bool:
    """Whether functions are to be called whatever is known of them; see Note [Who sees that a function is not called]."""
    return bool(ENTERED) or bool(_debugger()) or is_recording()


def _debuggers() -> Callable[[], object]:
    """Python's debuggers ask to be called at every line; from 3.12 on there are others, too."""
    monitoring: Any = getattr(sys, "monitoring", None)
    if monitoring is None:
        return sys.gettrace
    return lambda: sys.gettrace() or monitoring.get_tool(monitoring.DEBUGGER_ID)


_debugger = _debuggers()
