"""``autograd.misc.tracers``: functions with some arguments given.

Layer: 10.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from functrace.compat.kinds import Given

__all__ = ["const_graph"]


def const_graph(fun: Callable[..., Any], *args: Given, **kwargs: Given) -> Callable[..., Any]:
    """Return ``fun`` with some arguments given; `functrace.jit` is what records a function once and runs the program."""
    return functools.partial(fun, *args, **kwargs)
