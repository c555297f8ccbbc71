"""``torch.overrides``: classes that take over functions; functrace.torch calls no
``__torch_function__``.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from functrace.errors import UnsupportedFunctionError
from functrace.torch.tensors.tensor import Tensor

__all__ = [
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "wrap_torch_function",
]


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Return False: no class takes over functions."""
    return False


def has_torch_function_unary(obj: object) -> bool:
    """Return False."""
    return False


def has_torch_function_variadic(*args: object) -> bool:
    """Return False."""
    return False


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: object, **kwargs: object
) -> NoReturn:
    """Raise: no class takes over functions."""
    raise TypeError(
        f"no implementation found for {public_api!r}: functrace.torch calls no __torch_function__"
    )


def is_tensor_like(inp: object) -> bool:
    """Return True for a tensor, and for an object of a class with ``__torch_function__``."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def wrap_torch_function(dispatcher: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return a decorator that returns its function unchanged."""
    return lambda function: function


class TorchFunctionMode:
    """Context that takes over functions: refused.

    See `functrace.torch.utils._python_dispatch.TorchDispatchMode`, which works.
    """

    def __enter__(self) -> NoReturn:
        raise UnsupportedFunctionError(
            "functrace.torch has no TorchFunctionMode",
            fix="use torch.utils._python_dispatch.TorchDispatchMode, which sees every operation",
        )

    def __exit__(self, *_exception: object) -> None:
        """Do nothing."""
