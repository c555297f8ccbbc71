"""``autograd.tracer``: tests for traced values, their plain values, and primitives.

Layer: 10.
"""

from __future__ import annotations

from typing import NoReturn

from functrace.compat.autograd.boxes import Box, getval, isbox, notrace_primitive
from functrace.compat.autograd.extend import primitive

__all__ = ["Box", "getval", "isbox", "notrace_primitive", "primitive"]


def __getattr__(name: str) -> NoReturn:
    """Raise with the replacement for autograd's graph."""
    raise AttributeError(
        f"module {__name__!r} has no attribute {name!r}: functrace records programs, and has no "
        "graph of nodes; "
        "functrace.trace(f)(x) is the program of a function"
    )
