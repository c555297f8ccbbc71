"""Grad mode: ``no_grad``, ``enable_grad``, ``set_grad_enabled``; and other thread-local flags.

Layer: 9.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, final

from functrace.torch.errors import DECORATED_CLASS, PRESERVED_VERSIONS, flag_type
from functrace.torch.errors.warnings import warn
from functrace.tracing.binding import newest_recording

if TYPE_CHECKING:
    from functrace.torch.tensors.tensor import Tensor


@final
class Modes(threading.local):
    """The modes of the current thread; each thread begins with recording on."""

    recording: bool | None = True
    """True if operations are recorded; None in inference mode: they are not, and their results are
    inference tensors.
    """
    requested = False
    """The value that `is_grad_enabled` returns in inference mode."""
    forward = True
    """True if operations propagate tangents of dual tensors; see forward_ad.py. In inference mode
    they do not.
    """
    since = -1
    """The newest functrace recording when the user switched recording off; -1 while it is on.
    Values traced by it, or by older ones, are constants until recording is on again; transforms
    that begin later differentiate, and switch recording on for the functions they transform.
    """
    floor = -1
    """The newest recording for which a user's Function runs; see `without_graph`."""
    begun: int | None = None
    """The newest recording when the forward of the user's Function that runs began. The Function
    may write to values made since then; its backward may also write to those that its forward
    made.
    """
    pairs: tuple[tuple[Callable[[Any], Any], Callable[[Any], Any]], ...] = ()
    """The active saved-tensor hooks, innermost last; see hooks.py."""
    watches: tuple[Callable[[Tensor], None], ...] = ()
    """Callbacks that get every tensor that is about to be overwritten; see mutation.py."""
    refusal: str | None = None
    """The message with which saved-tensor hooks are refused, or None if they are allowed."""
    functional = False
    """True while a function transformed by ``torch.func`` runs."""
    lift: Callable[[Any], Any] | None = None
    """Replaces tensors captured by a function that ``torch.func`` transforms; see func/nodes.py."""
    multithreading = True
    """True if PyTorch would be allowed to run backward passes in its own threads; here it has no
    effect.
    """
    replays_views = False
    """True if views are replayed step by step when their base has changed, in place of one
    ``AsStridedBackward0``.
    """
    autocast: Any = None
    """NumPy's dtype of the lower precision while autocast on the CPU is on; see
    dispatch/autocasting.py.
    """
    dispatch: Any = None
    """The handler that gets operations instead of running them, while a dispatch mode is active;
    see dispatch.py.
    """
    step: Callable[[str, Callable[[], Any]], Any] | None = None
    """Runs a named part of an operation as an event of the active profile; see
    dispatch/profiling.py.
    """
    graph_exec_group: Any = None
    """The group of backward passes for which checkpoints recompute once; see
    utils/recomputation.py.
    """
    examples: tuple[tuple[int, Any], ...] = ()
    """The size and the example's traced number of each ``torch.func.vmap`` around, outermost
    first, whose ``randomness`` is ``"different"``.
    """
    randomness: str = "same"
    """The treatment of random functions: ``"error"`` inside ``torch.func.vmap``, unless its
    ``randomness`` differs; ``"unsupported"`` inside PyTorch's older ``vmap``.
    """


MODES = Modes()
"""The modes of the current thread."""


def is_dispatching() -> bool:
    """Return True if a dispatch mode replaces operations; an active profile alone does not."""
    dispatch = MODES.dispatch
    return dispatch is not None and not (dispatch.is_passive and dispatch.inner is None)


def is_grad_enabled() -> bool:
    """Return True if operations of this thread are recorded.

    Returns:
        True if they are.

    Example:
        >>> import functrace.torch as torch
        >>> torch.is_grad_enabled()
        True
    """
    return MODES.requested if MODES.recording is None else MODES.recording


def switch(recording: bool) -> None:
    """Switch recording on or off, for traced values too; in inference mode nothing is recorded
    regardless.
    """
    if MODES.recording is None:
        MODES.requested = recording
    else:
        MODES.recording, MODES.since = recording, -1 if recording else newest_recording()


@contextmanager
def without_random_numbers() -> Generator[None, None, None]:
    """Refuse random functions, as inside PyTorch's older ``vmap``, which checks use."""
    before, MODES.randomness = MODES.randomness, "unsupported"
    try:
        yield
    finally:
        MODES.randomness = before


State = tuple[bool | None, int, bool]


def state() -> State:
    """Return the recording state, for `restore`."""
    return MODES.recording, MODES.since, MODES.requested


def restore(before: State) -> None:
    """Restore a recording state."""
    MODES.recording, MODES.since, MODES.requested = before


class DecoratingContext:
    """A context, and a decorator of functions and generator functions: each call runs in a context
    like this one.
    """

    def clone(self) -> DecoratingContext:
        """Return another context of this kind."""
        return type(self)()

    def __enter__(self) -> object:
        raise NotImplementedError

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        raise NotImplementedError

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate: every call of ``function`` runs in this context; a generator runs in it between
        its yields.
        """
        if inspect.isclass(function):
            warn(DECORATED_CLASS, FutureWarning)
            made = function
            function = lambda *args, **kwargs: made(*args, **kwargs)  # noqa: E731
        if inspect.isgeneratorfunction(function):
            return self._around_generator(function)

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return run

    def _around_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            generator = function(*args, **kwargs)
            step: Callable[[], Any] = lambda: next(generator)  # noqa: E731
            while True:
                try:
                    with self.clone():
                        value = step()
                except StopIteration as end:
                    return end.value
                try:
                    sent = yield value
                except GeneratorExit:
                    with self.clone():
                        generator.close()
                    raise
                except BaseException as error:
                    step = functools.partial(generator.throw, error)
                else:
                    step = functools.partial(generator.send, sent)

        return run


class GradMode(DecoratingContext):
    """A context, and a decorator, under which recording is on or off."""

    def __init__(self, recording: bool) -> None:
        self._recording = recording
        self._before: list[State] = []

    def clone(self) -> GradMode:
        """Return another context of this kind."""
        return GradMode(self._recording)

    def __enter__(self) -> None:
        self._before.append(state())
        switch(self._recording)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._before:
            restore(self._before.pop())
        else:
            self._leave_without_entering()

    def _leave_without_entering(self) -> None:
        """Switch recording off, as PyTorch does: its constructors note no mode to restore."""
        switch(False)


@contextmanager
def without_graph(begun: int | None = None) -> Generator[None]:
    """Create no nodes, as ``no_grad``, around a user's Function that is traced: derivatives of
    traced values continue.

    Args:
        begun: see `Modes`.

    Note [Detaching in custom rules]
        Inside, ``detach()``, ``.data`` and ``no_grad`` concern only the graphs that the Function
        builds itself. They do not make traced values constant: forward and backward are programs,
        which transforms differentiate as they are. So a backward that runs its forward again on
        detached inputs has correct derivatives; PyTorch's second derivative is silently wrong
        there.
    """
    before = MODES.recording, MODES.since, MODES.floor, MODES.functional, MODES.begun
    MODES.recording, MODES.since, MODES.floor, MODES.functional = (
        MODES.recording and False,
        -1,
        newest_recording(),
        False,
    )
    MODES.begun = begun
    try:
        yield
    finally:
        MODES.recording, MODES.since, MODES.floor, MODES.functional, MODES.begun = before


@final
class no_grad(GradMode):
    """Disable recording: a context manager and a decorator (``@no_grad()`` or ``@no_grad``).

    Args:
        function: the function, if it is used as a decorator without parentheses.

    Returns:
        a context manager, or the decorated function.

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
    """Record operations inside ``no_grad``: a context manager and a decorator.

    Args:
        orig_func: the function, if it is used as a decorator without parentheses.

    Returns:
        a context manager, or the decorated function.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.ones(2, requires_grad=True)
        >>> with torch.no_grad(), torch.enable_grad():
        ...     (x * 2).requires_grad
        True
    """

    def __new__(cls, orig_func: Callable[..., Any] | None = None) -> Any:
        """Return the context, or a function decorated with it."""
        if orig_func is None:
            return super().__new__(cls)
        return GradMode(True)(orig_func)

    def __init__(self) -> None:
        super().__init__(True)


@final
class set_grad_enabled(GradMode):
    """Switch recording on or off immediately; as a context manager, until the block ends.

    Args:
        mode: True to record.

    Example:
        >>> import functrace.torch as torch
        >>> with torch.set_grad_enabled(False):
        ...     torch.is_grad_enabled()
        False
    """

    def __init__(self, mode: bool) -> None:
        super().__init__(bool(mode))
        self._outer = state()
        switch(bool(mode))

    def __enter__(self) -> None:
        self._before.append(self._outer)
        switch(self._recording)

    def _leave_without_entering(self) -> None:
        restore(self._outer)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate; restores the caller's mode, since only the function's calls were meant."""
        restore(self._outer)
        return super().__call__(function)

    def __repr__(self) -> str:
        return f"torch.autograd.grad_mode.set_grad_enabled(mode={self._recording})"


def is_inference_mode_enabled() -> bool:
    """Return True if inference mode is on in this thread."""
    return MODES.recording is None


@final
class inference_mode(DecoratingContext):
    """Record nothing, and create inference tensors.

    They have no version counter, are never saved for backward, and must not be overwritten
    outside.

    Args:
        mode: whether it is on; or a function, which is decorated.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.ones(2, requires_grad=True)
        >>> with torch.inference_mode():
        ...     y = x * 2
        >>> y.requires_grad, y.is_inference()
        (False, True)
    """

    def __new__(cls, mode: bool | Callable[..., Any] = True) -> Any:
        """Return the context, or a function decorated with it."""
        return super().__new__(cls) if isinstance(mode, bool) else cls()(mode)

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode
        self._before: list[State] = []

    def clone(self) -> inference_mode:
        """Return another context of this kind."""
        return inference_mode(self.mode)

    def __enter__(self) -> None:
        self._before.append(state())
        restore((None, newest_recording(), False) if self.mode else (True, -1, False))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        restore(self._before.pop())


class Flag(DecoratingContext):
    """A thread-local setting, changed immediately and restored when the context ends.

    Args:
        mode: the new value.
    """

    _name: str
    """The attribute of `Modes`."""
    _setter: str
    """The name of PyTorch's setter."""

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(flag_type(self._setter, type(mode).__name__))
        self.prev = getattr(MODES, self._name)
        self.mode = mode
        setattr(MODES, self._name, mode)

    def clone(self) -> Flag:
        """Return another context of this kind."""
        return type(self)(self.mode)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        setattr(MODES, self._name, self.prev)


@final
class set_multithreading_enabled(Flag):
    """Set whether backward passes may use the engine's threads; it has no effect here.

    As in PyTorch, it stays set by the line that decorates a function.

    Args:
        mode: the setting.

    Example:
        >>> import functrace.torch as torch
        >>> with torch.autograd.set_multithreading_enabled(False):
        ...     torch.autograd.is_multithreading_enabled()
        False
    """

    _name, _setter = "multithreading", "set_multithreading_enabled"

    def __init__(self, mode: bool) -> None:
        super().__init__(mode)


@final
class _force_original_view_tracking(Flag):
    """Replay views step by step when their base has changed, in place of one
    ``AsStridedBackward0``.
    """

    _name, _setter = "replays_views", "set_view_replay_enabled"

    def __init__(self, mode: bool) -> None:
        super().__init__(mode)

    def __enter__(self) -> None:
        MODES.replays_views = self.mode

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate; restores the caller's mode, since only the function's calls were meant."""
        MODES.replays_views = self.prev
        return super().__call__(function)


def is_multithreading_enabled() -> bool:
    """Return the setting of `set_multithreading_enabled`, which has no effect here.

    Returns:
        True by default.

    Example:
        >>> import functrace.torch as torch
        >>> torch.autograd.is_multithreading_enabled()
        True
    """
    return MODES.multithreading


def is_view_replay_enabled() -> bool:
    """Return the setting of view replay: True if nodes of views are rebuilt step by step.

    Returns:
        False by default.

    Example:
        >>> import functrace.torch as torch
        >>> torch.autograd.is_view_replay_enabled()
        False
    """
    return MODES.replays_views


@final
class _unsafe_preserve_version_counter(DecoratingContext):
    """Hide overwrites inside the context: version counters are restored when it ends.

    Args:
        tensors: a tensor, or a tuple of them.
    """

    def __init__(self, tensors: Tensor | tuple[Tensor, ...]) -> None:
        given: Any = (tensors,) if hasattr(tensors, "_counter") else tensors
        if not isinstance(given, tuple):
            raise AssertionError(PRESERVED_VERSIONS)
        self.tensors: tuple[Tensor, ...] = given
        self.prev_versions = tuple([tensor._version for tensor in self.tensors])

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for tensor, version in zip(self.tensors, self.prev_versions, strict=True):
            tensor._counter[0] = version
