"""``disable_jit``: run jitted functions as plain Python.

Layer: 8.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from functrace.executor.config import NAN_SWITCHES

_disabled: ContextVar[bool] = ContextVar(
    "whether jitted functions run as plain Python", default=False
)

_diagnosing: ContextVar[bool] = ContextVar(
    "whether programs are traced for a diagnosis", default=False
)

ENTERED: list[bool] = []
"""One entry per `disable_jit`, `diagnosing` or `functrace.residual_policy` block entered, in any
thread, and one while ``functrace.config.check_nans`` is on; while empty, no further check is needed.
"""
ENTERED_COUNT = np.zeros(1, np.int64)
"""The number of these, for machine code."""
_lock = threading.Lock()


@contextmanager
def disable_jit(disable: bool = True) -> Generator[None]:
    """Run jitted functions as plain Python inside of a ``with`` block: a debugger stops in them,
    ``print`` shows values.

    Jitted functions are then called on copies of their arguments, and return fresh arrays; nothing
    is staged or cached. `scan`, `while_loop`, `fori_loop` and `map` are Python loops wherever
    values are concrete, and are recorded where they are not (as under ``trace``). Arrays are not
    donated. The setting applies to this thread and the tasks that it starts, and may be nested.

    Args:
        disable: False to compile again within an enclosing block.

    Returns:
        a context manager.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> @ft.jit
        ... def f(x):
        ...     print(x)
        ...     return x * 2.0
        >>> with ft.disable_jit():
        ...     f(np.arange(3.0))
        [0. 1. 2.]
        array([0., 2., 4.])

    Source:
        ``jax.disable_jit``.
    """
    token = _disabled.set(disable)
    enter()
    try:
        yield
    finally:
        leave()
        _disabled.reset(token)


@contextmanager
def diagnosing() -> Generator[None]:
    """Trace programs for a diagnosis inside of a ``with`` block: jitted functions inline, although
    their programs may be cached, and loops without ``checkpoint=``, whose results have the same
    bits, so that their steps are those of the user's loop."""
    token = _diagnosing.set(True)
    enter()
    try:
        yield
    finally:
        leave()
        _diagnosing.reset(token)


def is_diagnosing() -> bool:
    """Return True inside of `diagnosing`."""
    return _diagnosing.get()


def _note_checks(is_on: bool) -> None:
    """Have jitted functions look at ``functrace.config.check_nans``, or not."""
    enter() if is_on else leave()


NAN_SWITCHES.append(_note_checks)


def enter() -> None:
    """Count a block."""
    with _lock:
        ENTERED.append(True)
        ENTERED_COUNT[0] = len(ENTERED)


def leave() -> None:
    """Count the end of a block."""
    with _lock:
        ENTERED.pop()
        ENTERED_COUNT[0] = len(ENTERED)


def is_jit_disabled() -> bool:
    """Return True inside of `disable_jit`."""
    return bool(ENTERED) and _disabled.get()
