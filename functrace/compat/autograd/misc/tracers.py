"""``autograd.misc.tracers``: functions with some arguments bound.

Layer: 10.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from functrace.compat.kinds import Given

__all__ = ["const_graph"]


def const_graph(fun: Callable[..., Any], *args: Given, **kwargs: Given) -> Callable[..., Any]:
    """Return ``fun`` with some arguments bound; use `functrace.jit` to record it once."""
    return functools.partial(fun, *args, **kwargs)
