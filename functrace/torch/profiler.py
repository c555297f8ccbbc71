"""``torch.profiler``: `record_function` as a context without effect; profiles are refused.

Layer: 9.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

from functrace.errors import UnsupportedFunctionError

__all__ = ["profile", "record_function"]


class record_function:
    """Context and decorator that names a part of a profile; it has no effect.

    Args:
        name: the name.
        args: ignored.
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args

    def __enter__(self) -> record_function:
        return self

    def __exit__(self, *_exception: object) -> None:
        """Do nothing."""

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does the same."""

        @functools.wraps(func)
        def decorated(*args: object, **kwargs: object) -> Any:
            return func(*args, **kwargs)

        return decorated


class profile:
    """Profile of PyTorch's operations: refused."""

    def __new__(cls, *_arguments: object, **_options: object) -> NoReturn:
        """Raise."""
        raise UnsupportedFunctionError(
            "functrace.torch has no profiler of operations",
            fix="use cProfile, or functrace.debug",
        )
