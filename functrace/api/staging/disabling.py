"""``disable_jit``: run jitted functions as plain Python.

Layer: 8.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_disabled: ContextVar[bool] = ContextVar(
    "whether jitted functions run as plain Python", default=False
)

ENTERED: list[bool] = []
"""One entry per `disable_jit` block entered, in any thread; while empty, no further check is
needed."""


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
    ENTERED.append(disable)
    try:
        yield
    finally:
        ENTERED.pop()
        _disabled.reset(token)


def is_jit_disabled() -> bool:
    """Return True inside of `disable_jit`."""
    return bool(ENTERED) and _disabled.get()
