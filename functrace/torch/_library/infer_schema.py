"""Schema of a custom operator, from the annotations of its function.

Layer: 9.
"""

from __future__ import annotations

import collections.abc
import inspect
import itertools
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, Union

from functrace.torch.tensors.device import device
from functrace.torch.tensors.dtypes import dtype
from functrace.torch.tensors.tensor import Tensor

_BASIC: dict[Any, str] = {
    Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str",
    dtype: "ScalarType", device: "Device",
}  # fmt: skip
_IN_LISTS = {"Tensor", "SymInt", "float", "bool"}
_RETURNED = {"Tensor", "Tensor[]", "SymInt", "float", "bool", "Scalar"}
_SEQUENCES = (list, collections.abc.Sequence)


def _type_name(kind: Any) -> str | None:
    """Return the schema's name of a type; None if it has none."""
    if kind in _BASIC:
        return _BASIC[kind]
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        rest = [arg for arg in args if arg is not type(None)]
        if set(rest) == {int, float, bool}:
            name: str | None = "Scalar"
        else:
            name = _type_name(rest[0]) if len(rest) == 1 else None
        return name if name is None or len(rest) == len(args) else f"{name}?"
    if origin in _SEQUENCES and len(args) == 1:
        name = _type_name(args[0])
        return f"{name}[]" if name in _IN_LISTS or name == "Tensor?" else None
    return None


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: Any,
    op_name: str | None = None,
) -> str:
    """Return the schema of a function with annotations: its arguments and results.

    Args:
        prototype_function: the function.
        mutates_args: names of the arguments that it writes to; ``"unknown"`` for all tensors.
        op_name: a name to begin with.

    Raises:
        ValueError: for missing or unsupported annotations and defaults.

    Example:
        >>> import functrace.torch as torch
        >>> def scaled(x: torch.Tensor, by: float = 2.0) -> torch.Tensor: ...
        >>> torch.library.infer_schema(scaled, mutates_args=())
        '(Tensor x, float by=2.0) -> Tensor'
    """
    signature = inspect.signature(prototype_function)

    def refuse(what: str) -> NoReturn:
        raise ValueError(f"infer_schema(func): {what} Got func with signature {signature})")

    try:
        hints = typing.get_type_hints(prototype_function)
    except NameError as error:
        refuse(f"Unsupported type annotation: {error}.")
    mutated: Iterable[str] = () if mutates_args == "unknown" else mutates_args
    parts: list[str] = []
    numbers = itertools.count()
    is_named = False
    for name, parameter in signature.parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            refuse("We do not support positional-only args, varargs, or varkwargs.")
        if parameter.kind is parameter.KEYWORD_ONLY and not is_named:
            is_named = True
            parts.append("*")
        if name not in hints:
            refuse(f"Parameter {name} must have a type annotation.")
        kind = _type_name(hints[name])
        if kind is None:
            refuse(f"Parameter {name} has unsupported type {hints[name]}.")
        writes = kind.startswith("Tensor") if mutates_args == "unknown" else name in mutated
        if writes:
            if not kind.startswith("Tensor"):
                refuse(
                    f"Parameter {name} is in mutable_args but only Tensors or collections of Tensors "
                    "can be mutated"
                )
            kind = kind.replace("Tensor", f"Tensor(a{next(numbers)}!)", 1)
        default = parameter.default
        if default is parameter.empty:
            parts.append(f"{kind} {name}")
        elif default is None or isinstance(default, (bool, int, float, str, dtype, device)):
            parts.append(f"{kind} {name}={_default(default)}")
        else:
            refuse(f"Parameter {name} has an unsupported default value type {type(default)}.")
    unknown = set(mutated) - set(signature.parameters)
    if unknown:
        refuse(
            f"{unknown} in mutates_args were not found in the custom op's signature. mutates_args "
            "should contain the names of all args that the custom op mutates, or just the string "
            "'unknown' if you don't know."
        )
    if "return" not in hints:
        refuse("No return type annotation was provided. Please add one.")
    results = _results(hints["return"])
    if results is None:
        refuse(f"Return has unsupported type {hints['return']}.")
    return f"{op_name or ''}({', '.join(parts)}) -> {results}"


def _default(value: object) -> str:
    """Return a default as PyTorch writes it in schemas."""
    if isinstance(value, str):
        return f'"{value}"'
    return str(value).removeprefix("torch.")


def _results(kind: Any) -> str | None:
    """Return the results of a schema; None for an unsupported type."""
    if kind is None or kind is type(None):
        return "()"
    if typing.get_origin(kind) is tuple:
        args = typing.get_args(kind)
        names = [None if arg is Ellipsis else _type_name(arg) for arg in args]
        if all(name in _RETURNED for name in names):
            text = ", ".join([str(name) for name in names])
            return f"({text})" if len(names) > 1 else text
        return None
    name = _type_name(kind)
    return name if name in _RETURNED else None
