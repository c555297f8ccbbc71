"""Tests for traced values, and their plain values.

Layer: 10.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from functrace.api.capture.programs import value
from functrace.compat.kinds import Values
from functrace.tracing.tracer import Tracer

__all__ = ["Box", "getval", "isbox", "notrace_primitive"]

Box = Tracer


def isbox(x: object) -> bool:
    """Return True if a value is traced."""
    return isinstance(x, Tracer)


def getval(x: Values) -> Any:
    """Return the plain value of a traced value, and anything else as it is.

    Raises:
        ConcretizationError: under `functrace.jit` and `functrace.vmap`, where values are abstract.
    """
    return value(x) if isinstance(x, Tracer) else x


def notrace_primitive(f: Callable[..., Any]) -> Callable[..., Any]:
    """Call a function with the plain values of its positional arguments, without derivative."""

    @functools.wraps(f, updated=())
    def call(*args: object, **kwargs: object) -> Any:
        return f(*map(getval, args), **kwargs)

    return call
