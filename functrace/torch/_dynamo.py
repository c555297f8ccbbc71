"""``torch._dynamo``: the decorators of the compiler, which return their functions.

Layer: 9.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from functrace.torch.compiler import (
    allow_in_graph,
    assume_constant_result,
    disable,
    is_compiling,
    reset,
)

__all__ = ["allow_in_graph", "assume_constant_result", "disable", "is_compiling", "reset"]

config = SimpleNamespace(
    suppress_errors=False, cache_size_limit=8, verbose=False, error_on_nested_fx_trace=False
)


def graph_break(msg: str = "") -> None:
    """Do nothing."""


def disallow_in_graph(fn: object) -> Any:
    """Return the function unchanged."""
    return fn


def mark_dynamic(t: object, index: object, **_options: object) -> None:
    """Do nothing."""


def mark_static(t: object, index: object = None) -> None:
    """Do nothing."""
