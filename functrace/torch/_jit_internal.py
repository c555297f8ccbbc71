"""``torch._jit_internal``: marks for TorchScript, which have no effect, and choice by a flag.

Layer: 9.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from functrace.torch.jit import annotate, export, ignore, is_scripting, unused

__all__ = [
    "BroadcastingList1",
    "BroadcastingList2",
    "BroadcastingList3",
    "Final",
    "annotate",
    "boolean_dispatch",
    "export",
    "ignore",
    "is_scripting",
    "unused",
]
T = TypeVar("T")


class BroadcastingList1(Generic[T]):
    """In annotations: one number, or a list."""


class BroadcastingList2(Generic[T]):
    """In annotations: a number for both sides, or a list of two."""


class BroadcastingList3(Generic[T]):
    """In annotations: a number for all sides, or a list of three."""


def boolean_dispatch(
    arg_name: str,
    arg_index: int,
    default: bool,
    if_true: Callable[..., Any],
    if_false: Callable[..., Any],
    module_name: str,
    func_name: str,
) -> Callable[..., Any]:
    """Return a function that calls one of two, as a flag among its arguments says.

    Args:
        arg_name: the flag's name.
        arg_index: its place.
        default: its value if it is not given.
        if_true: the function for True.
        if_false: the function for False.
        module_name: the module of the result.
        func_name: its name.
    """

    @functools.wraps(if_false)
    def chosen(*args: Any, **kwargs: Any) -> Any:
        given = args[arg_index] if arg_index < len(args) else kwargs.get(arg_name, default)
        return (if_true if given else if_false)(*args, **kwargs)

    chosen.__doc__ = if_true.__doc__ or if_false.__doc__
    chosen.__module__, chosen.__name__ = module_name, func_name
    return chosen


def _overload(func: T) -> T:
    """Return the function unchanged."""
    return func


def _overload_method(func: T) -> T:
    """Return the function unchanged."""
    return func


def _copy_to_script_wrapper(fn: T) -> T:
    """Return the function unchanged."""
    return fn
