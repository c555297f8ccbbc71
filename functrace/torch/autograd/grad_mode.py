"""Whether operations are recorded: ``no_grad``, ``enable_grad``, ``set_grad_enabled``; one flag per thread.

Floor: 8.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, final

from functrace.torch.sentences import DECORATED_CLASS
from functrace.torch.warnings import warn
from functrace.tracing.recording import newest_recording


@final
class Modes(threading.local):
    """The modes of the running thread; each thread begins with recording on."""

    recording = True
    since = -1
    """Where recording was switched off by the user: the newest recording of functrace's that there was. Values that are
    traced by it, or by older ones, are constants until it is on again; transforms that begin later differentiate."""
    pairs: tuple[tuple[Callable[[Any], Any], Callable[[Any], Any]], ...] = ()
    """The saved-tensor hooks that are active, innermost last; see hooks.py."""
    refusal: str | None = None
    """Why no saved-tensor hooks may be entered, if so."""
    lift: Callable[[Any], Any] | None = None
    """What stands for tensors that a function given to ``torch.func`` closes over; see func.py."""
    randomness: str = "same"
    """What functions of random numbers do: ``"error"`` inside ``torch.func.vmap``, unless it says otherwise."""


MODES = Modes()
"""The modes of the running thread."""


def is_grad_enabled() -> bool:
    """Whether operations of this thread are recorded."""
    return MODES.recording


def switch(recording: bool) -> None:
    """Switch recording on or off, for traced values too."""
    MODES.recording, MODES.since = recording, -1 if recording else newest_recording()


class GradMode:
    """A context, and a decorator of functions and generator functions, under which recording is on or off."""

    def __init__(self, recording: bool) -> None:
        self._recording = recording
        self._before: list[tuple[bool, int]] = []

    def __enter__(self) -> None:
        self._before.append((MODES.recording, MODES.since))
        switch(self._recording)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        MODES.recording, MODES.since = self._before.pop()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate: every call of ``function`` runs in this mode; a generator runs in it between its yields."""
        if inspect.isclass(function):
            warn(DECORATED_CLASS, FutureWarning)
        if inspect.isgeneratorfunction(function):
            return self._around_generator(function)

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with GradMode(self._recording):
                return function(*args, **kwargs)

        return run

    def _around_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            generator = function(*args, **kwargs)
            step: Callable[[], Any] = lambda: next(generator)  # noqa: E731
            while True:
                try:
                    with GradMode(self._recording):
                        value = step()
                except StopIteration as end:
                    return end.value
                try:
                    sent = yield value
                except GeneratorExit:
                    with GradMode(self._recording):
                        generator.close()
                    raise
                except BaseException as error:
                    step = functools.partial(generator.throw, error)
                else:
                    step = functools.partial(generator.send, sent)

        return run


@contextmanager
def without_graph() -> Generator[None]:
    """Make no nodes, as ``no_grad``; but derivatives of traced values go on."""
    before = MODES.recording, MODES.since
    MODES.recording, MODES.since = False, -1
    try:
        yield
    finally:
        MODES.recording, MODES.since = before


@final
class no_grad(GradMode):
    """Run without recording. As in PyTorch, ``@no_grad()`` and ``@no_grad`` both decorate.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.ones(2, requires_grad=True)
        >>> with torch.no_grad():
        ...     (x * 2).requires_grad
        False
    """

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        """Return the context, or a function decorated with it."""
        if function is None:
            return super().__new__(cls)
        return GradMode(False)(function)

    def __init__(self) -> None:
        super().__init__(False)


@final
class enable_grad(GradMode):
    """Run with recording, inside ``no_grad``."""

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        """Return the context, or a function decorated with it."""
        if function is None:
            return super().__new__(cls)
        return GradMode(True)(function)

    def __init__(self) -> None:
        super().__init__(True)


@final
class set_grad_enabled(GradMode):
    """Switch recording on or off, at once; as a context, until it ends."""

    def __init__(self, mode: bool) -> None:
        super().__init__(bool(mode))
        self._outer = MODES.recording, MODES.since
        switch(bool(mode))

    def __enter__(self) -> None:
        self._before.append(self._outer)
        switch(self._recording)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate; the mode of the caller is restored, since only the function's calls were meant."""
        MODES.recording, MODES.since = self._outer
        return super().__call__(function)

    def __repr__(self) -> str:
        return f"set_grad_enabled(mode={self._recording})"
