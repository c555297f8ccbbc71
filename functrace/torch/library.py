"""``torch.library``: custom operators.

`custom_op` makes a function an operator, `register_autograd` sets its derivative; `Library`,
`define` and `impl` do it by schemas. What is for compilers and other devices is accepted without
effect (`register_fake`) or refused (`triton_op`).

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from functrace.errors import UnsupportedFunctionError
from functrace.torch._library.custom_ops import (
    CustomOpDef,
    Library,
    _scoped_library,  # noqa: F401 (PyTorch's tests use it)
    custom_op,
    registered,
)
from functrace.torch._library.infer_schema import infer_schema

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "impl",
    "infer_schema",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "triton_op",
]

_FRAGMENTS: dict[str, Library] = {}
"""Libraries of the operators that `define` makes."""


def define(qualname: str, schema: str, *, lib: Library | None = None, tags: object = ()) -> None:
    """Define an operator by its name and schema.

    Example:
        >>> import functrace.torch as torch
        >>> torch.library.define("docs::twice", "(Tensor x) -> Tensor")
        >>> torch.library.impl("docs::twice", "cpu", lambda x: 2 * x)
        >>> torch.ops.docs.twice(torch.ones(2))
        tensor([2., 2.])
    """
    namespace, _, name = qualname.partition("::")
    if not name:
        raise ValueError(f"the name of an operator has a namespace, mylib::{qualname}")
    if lib is None:
        lib = _FRAGMENTS.setdefault(namespace, Library(namespace, "FRAGMENT"))
    lib.define(name + schema)


def impl(
    qualname: Any,
    types: str | Sequence[str],
    func: Callable[..., Any] | None = None,
    *,
    lib: Library | None = None,
) -> Any:
    """Set the kernel of an operator for devices; a decorator without ``func``."""

    def register(func: Callable[..., Any]) -> None:
        operator = registered(qualname)
        for place in [types] if isinstance(types, str) else types:
            (lib or Library(operator.namespace, "IMPL")).impl(operator.name, func, place)

    return register if func is None else register(func)


def register_kernel(
    op: Any,
    device_types: str | Sequence[str] | None,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
) -> Any:
    """Set the kernel of an operator for devices; a decorator without ``func``."""
    places = "default" if device_types is None else device_types
    if func is not None:
        impl(op, places, func, lib=lib)
        return func

    def register(func: Callable[..., Any]) -> Callable[..., Any]:
        impl(op, places, func, lib=lib)
        return func

    return register


def register_autograd(
    op: Any,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Library | None = None,
) -> None:
    """Set the derivative of an operator; see `CustomOpDef.register_autograd`."""
    operator = registered(op)
    CustomOpDef(operator, lambda: None).register_autograd(backward, setup_context=setup_context)


def register_fake(op: Any, func: Callable[..., Any] | None = None, /, **_options: object) -> Any:
    """Return the function, or a decorator that does: nothing computes without values here."""
    registered(op)
    return (lambda func: func) if func is None else func


def triton_op(name: str, *_arguments: object, **_options: object) -> NoReturn:
    """Raise: there is no Triton.

    Raises:
        UnsupportedFunctionError: always.
    """
    raise UnsupportedFunctionError(
        "functrace.torch has no torch.library.triton_op: there is no GPU",
        fix="write a torch.library.custom_op, a torch.autograd.Function, or use functrace.primitive",
    )
