"""``disable_jit``: for a while, jitted functions are the functions that they were made of.

Layer: 8.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_disabled: ContextVar[bool] = ContextVar("whether jitted functions run as plain Python", default=False)

ENTERED: list[bool] = []
"""One entry per `disable_jit` that has been entered, in any thread: where it is empty nobody needs to look further."""


@contextmanager
def disable_jit(disable: bool = True) -> Iterator[None]:
    """Let jitted functions run as plain Python inside of a ``with`` block: a debugger stops in them, ``print`` shows values.

    A function under `jit` is then called itself, on copies of its arguments, and returns arrays of its own, as ever; it is
    not staged, and no program is kept. `scan`, `while_loop`, `fori_loop` and `map` are Python loops wherever values are
    known. (Where they are not, as under ``trace``, they are recorded.) Donated arrays are not taken.

    Args:
        disable: False lets what is inside be compiled again.

    It holds for this thread (and for tasks that it starts), and may be nested.

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
    """Whether this runs inside of `disable_jit`."""
    return bool(ENTERED) and _disabled.get()
