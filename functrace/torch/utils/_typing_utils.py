"""``torch.utils._typing_utils``: helpers for annotations.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def not_none(obj: T | None) -> T:
    """Return an object that is not None.

    Raises:
        TypeError: for None.
    """
    if obj is None:
        raise TypeError("Invariant encountered: value was None when it should not be")
    return obj


def copy_func_params(source_func: Any) -> Callable[[Any], Any]:
    """Return a decorator that returns its function unchanged."""
    return lambda function: function


copy_method_params = copy_func_params
