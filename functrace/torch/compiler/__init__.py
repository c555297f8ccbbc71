"""``torch.compile`` and ``torch.compiler``: functions stay as they are.

`functrace.jit` compiles functions of arrays and of tensors; ``torch.compile`` returns its argument,
so that models keep their class and their ``state_dict``.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "reset",
    "set_stance",
]


def compile(model: object = None, **_options: object) -> Any:
    """Return the function or module unchanged; without one, a decorator that does.

    Args:
        model: the function or module.

    Example:
        >>> import functrace.torch as torch
        >>> compiled = torch.compile(torch.sin, mode="max-autotune")
        >>> compiled is torch.sin
        True
    """
    return (lambda given: given) if model is None else model


def disable(fn: object = None, recursive: bool = True, **_options: object) -> Any:
    """Return the function unchanged; without one, a decorator that does."""
    return (lambda given: given) if fn is None else fn


def allow_in_graph(fn: object) -> Any:
    """Return the function unchanged."""
    return fn


def assume_constant_result(fn: object) -> Any:
    """Return the function unchanged."""
    return fn


def substitute_in_graph(original_fn: object, **_options: object) -> Callable[[Any], Any]:
    """Return a decorator that returns its function unchanged."""
    return lambda given: given


def is_compiling() -> bool:
    """Return False."""
    return False


def is_dynamo_compiling() -> bool:
    """Return False."""
    return False


def is_exporting() -> bool:
    """Return False."""
    return False


def reset() -> None:
    """Do nothing."""


def cudagraph_mark_step_begin() -> None:
    """Do nothing."""


def list_backends(exclude_tags: object = ()) -> list[str]:
    """Return no compilers."""
    return []


class set_stance:
    """Setting of the compiler, without effect: a call, a context, and a decorator.

    Args:
        stance: any.
    """

    def __init__(self, stance: str = "default", **_options: object) -> None:
        self.stance = stance

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, *_exception: object) -> None:
        """Do nothing."""

    def __call__(self, fn: object) -> Any:
        """Return the function unchanged."""
        return fn


def wrap_numpy(fn: object) -> Any:
    """Return the function unchanged: it computes with NumPy anyway."""
    return fn
