"""Seconds by phase of a first call: recording, passes, plan, code, LLVM.

The work of a phase runs in ``with phase("plan"):``. The seconds of a phase inside another one do not
count for the outer one. Nothing is measured outside of ``with PhaseClock() as clock:``, which
measures the phases of its own thread.

Layer: b (base).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar, Token
from time import perf_counter
from typing import Final, Literal, TypeAlias, final

PhaseName: TypeAlias = Literal["record", "passes", "plan", "code", "llvm"]
"""Name of a phase: recording of the function, passes, plans (with the passes of sub-programs in
``passes``), generated code (of Python, or lowering to LLVM's text), and LLVM with linking.
"""

PHASES: Final[tuple[PhaseName, ...]] = ("record", "passes", "plan", "code", "llvm")


@final
class PhaseClock:
    """Measure the phases of what runs in the ``with`` block, in this thread.

    Attributes:
        seconds: seconds by phase, without those of inner phases.

    Example:
        >>> import numpy as np, functrace as ft
        >>> with PhaseClock() as clock:
        ...     y = ft.jit(np.sin)(0.0)
        >>> [name for name, seconds in clock.seconds.items() if seconds]
        ['record', 'passes', 'plan', 'code']
    """

    __slots__ = ("_last", "_open", "_token", "seconds")

    def __init__(self) -> None:
        self.seconds: dict[PhaseName, float] = dict.fromkeys(PHASES, 0.0)
        self._open: list[PhaseName] = []
        self._last = 0.0
        self._token: Token[PhaseClock | None] | None = None

    def __enter__(self) -> PhaseClock:
        self._token = _clock.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._token is not None
        _clock.reset(self._token)

    def begin(self, name: PhaseName) -> None:
        """Begin a phase."""
        self._count()
        self._open.append(name)

    def end(self) -> None:
        """End the innermost phase."""
        self._count()
        self._open.pop()

    def _count(self) -> None:
        """Count the time since the last change for the innermost phase."""
        now = perf_counter()
        if self._open:
            self.seconds[self._open[-1]] += now - self._last
        self._last = now


_clock: ContextVar[PhaseClock | None] = ContextVar("functrace_phase_clock", default=None)
_UNMEASURED: Final = nullcontext()


@final
class _Phase:
    """A phase that a clock measures."""

    __slots__ = ("_clock", "_name")

    def __init__(self, clock: PhaseClock, name: PhaseName) -> None:
        self._clock = clock
        self._name: PhaseName = name

    def __enter__(self) -> None:
        self._clock.begin(self._name)

    def __exit__(self, *_: object) -> None:
        self._clock.end()


def phase(name: PhaseName) -> AbstractContextManager[None]:
    """Return the context of a phase's work.

    Args:
        name: its name.

    Cost:
        0.2 us if there is no clock.
    """
    clock = _clock.get()
    return _UNMEASURED if clock is None else _Phase(clock, name)
