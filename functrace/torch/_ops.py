"""``torch.ops``: the identities of operations, for dispatch modes and checkpoint policies.

``torch.ops.aten.add`` is an `OpOverloadPacket`, ``torch.ops.aten.add.Tensor`` one of its
`OpOverload`: a unique object that can be compared, printed and called. Its schema is a line of
schemas.txt. identities.py finds the overload of an operation, overloads.py the function that an
overload runs.

Layer: 9.
"""

from __future__ import annotations

import ast
import functools
import importlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

from functrace.locks import cached_property
from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES

_ARGUMENT = re.compile(
    r"(?P<type>[A-Za-z]+)(?P<alias>\([^)]*\))?(?P<rest>[][0-9?]*)(?P<set>\([^)]*\))?(?P<opt>\??)\s*(?P<name>\w+)?(=(?P<default>.*))?$"
)
_KINDS = {
    "Scalar": "number", "SymInt": "int", "ScalarType": "int", "Layout": "int",
    "MemoryFormat": "int",
}  # fmt: skip
"""PyTorch's printed type names that differ from the names in schemas."""


@final
@dataclass(frozen=True)
class AliasInfo:
    """Memory that an argument or a result shares, and whether it is written to."""

    is_write: bool
    before_set: frozenset[str]
    after_set: frozenset[str]


@final
@dataclass(frozen=True)
class Argument:
    """An argument of an overload, or a result."""

    name: str
    type: str
    default_value: Any = None
    kwarg_only: bool = False
    alias_info: AliasInfo | None = None
    is_out: bool = False
    has_default: bool = False

    def has_default_value(self) -> bool:
        """Return True if it may be left out."""
        return self.has_default


@final
class FunctionSchema:
    """Signature of an overload, parsed from its line.

    Args:
        text: ``"aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"``.

    Example:
        >>> schema = FunctionSchema("aten::neg_(Tensor(a!) self) -> Tensor(a!)")
        >>> schema.name, schema.arguments[0].name, schema.arguments[0].alias_info.is_write
        ('aten::neg_', 'self', True)
    """

    def __init__(self, text: str) -> None:
        self._text = text
        head, _, rest = text.partition("(")
        given, _, made = rest.rpartition(" -> ")
        self.name, _, self.overload_name = head.partition(".")
        self.arguments = list(_arguments(given[:-1]))
        self.returns = list(_arguments(made[1:-1] if made.startswith("(") else made))
        self.is_mutable = any(
            a.alias_info is not None and a.alias_info.is_write for a in self.arguments
        )

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__


def _arguments(text: str) -> Iterator[Argument]:
    """Yield the arguments of a list."""
    named_only = False
    for part in _parts(text):
        if part == "*":
            named_only = True
            continue
        found = _ARGUMENT.match(part)
        assert found is not None, part
        kind = _KINDS.get(found["type"], found["type"])
        for mark in re.findall(r"\[[0-9]*\]|\?", found["rest"] + found["opt"]):
            kind = f"Optional[{kind}]" if mark == "?" else f"List[{kind}]"
        alias = found["alias"] or found["set"]
        info = None if alias is None else _alias(alias[1:-1], is_list="[" in found["rest"])
        is_out = named_only and info is not None and info.is_write
        has_default = found["default"] is not None
        default = _value(found["default"]) if has_default else None
        yield Argument(found["name"] or "", kind, default, named_only, info, is_out, has_default)


def _parts(text: str) -> Iterator[str]:
    """Split at the commas outside of brackets."""
    depth = start = 0
    for k, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if character == "," and not depth:
            yield text[start:k].strip()
            start = k + 1
    if text[start:].strip():
        yield text[start:].strip()


def _alias(text: str, *, is_list: bool) -> AliasInfo:
    """Parse ``a!`` or ``a -> *``; for a list, its elements share memory, not the list."""
    before, _, after = text.replace("!", "").partition(" -> ")
    sets = [frozenset(() if is_list else part.split("|")) for part in (before, after or before)]
    return AliasInfo("!" in text, *sets)


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


@functools.lru_cache(maxsize=1)
def schema_lines() -> dict[str, dict[str, str]]:
    """Return the schemas by name and overload; loaded on first use."""
    found: dict[str, dict[str, str]] = {}
    with open(os.path.join(os.path.dirname(__file__), "schemas.txt"), encoding="utf-8") as file:
        lines = file.read().splitlines()
    for line in lines:
        name, _, overload = line.partition("(")[0].partition(".")
        found.setdefault(name, {})[overload or "default"] = f"aten::{line}"
    return found


@final
@dataclass(frozen=True)
class Calls:
    """Implementation of calls of operations; see overloads.py.

    Args:
        function_of: the function of an overload.
        overload_for: the overload of a name that fits the arguments.
        found: an operation by its names, for unpickling.
    """

    function_of: Callable[[OpOverload], Callable[..., Any]]
    overload_for: Callable[[OpOverloadPacket, Sequence[Any], Mapping[str, Any]], OpOverload]
    found: Callable[..., Any]


@final
class OpOverload:
    """One operation: ``torch.ops.aten.add.Tensor``; call it, or compare it with the ``func`` of a
    dispatch mode.

    Example:
        >>> import functrace.torch as torch
        >>> torch.ops.aten.add.Tensor(torch.ones(2), 2, alpha=3)
        tensor([7., 7.])
        >>> str(torch.ops.aten.add.Tensor), torch.ops.aten.add.Tensor is torch.ops.aten.add.Tensor
        ('aten.add.Tensor', True)
    """

    def __init__(self, packet: OpOverloadPacket, overload: str, text: str) -> None:
        self._overloadpacket = packet
        self._overloadname = overload
        self._opname = packet.__name__
        self.namespace, self._text = packet._namespace, text
        self.__name__ = f"{packet.__name__}.{overload}"
        self.__module__ = packet.__module__

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        """The packet of all overloads of this name."""
        return self._overloadpacket

    @cached_property
    def _schema(self) -> FunctionSchema:
        return FunctionSchema(self._text)

    @cached_property
    def is_view(self) -> bool:
        """True if the result shares memory with an argument that is not written to."""
        infos = [a.alias_info for a in self._schema.arguments]
        return any(info is not None and not info.is_write for info in infos)

    @cached_property
    def _function(self) -> Callable[..., Any]:
        return self._overloadpacket._calls.function_of(self)

    def name(self) -> str:
        """Return the name as in schemas: ``aten::add.Tensor``."""
        plain = self._overloadname == "default"
        return self._overloadpacket._qualified_op_name + ("" if plain else f".{self._overloadname}")

    def __call__(self, /, *args: object, **kwargs: object) -> Any:
        """Run the operation; within a dispatch mode's handler, beneath autograd and for the mode
        around it.
        """
        dispatch = MODES.dispatch
        if dispatch is None or not dispatch.is_beneath:
            return self._function(*args, **kwargs)
        return dispatch.run(self, args, kwargs)

    def __str__(self) -> str:
        return f"{self.namespace}.{self._opname}.{self._overloadname}"

    def __repr__(self) -> str:
        return (
            f"<OpOverload(op='{self.namespace}.{self._opname}', overload='{self._overloadname}')>"
        )

    def __deepcopy__(self, memo: object) -> OpOverload:
        return self

    def __reduce__(self) -> Any:
        return self._overloadpacket._calls.found, (self.namespace, self._opname, self._overloadname)


@final
class OpOverloadPacket:
    """All overloads of one name: ``torch.ops.aten.add``. A call selects the overload by its
    arguments.
    """

    def __init__(self, namespace: str, name: str, texts: dict[str, str], calls: Calls) -> None:
        self._namespace, self._texts, self._calls = namespace, texts, calls
        self._qualified_op_name = f"{namespace}::{name}"
        self.__name__ = name
        self.__module__ = f"torch._ops.{namespace}"

    def overloads(self) -> list[str]:
        """Return the names of the overloads."""
        return list(self._texts)

    def __getattr__(self, overload: str) -> OpOverload:
        texts = self.__dict__.get("_texts", {})
        if overload not in texts:
            raise AttributeError(errors.no_overload(f"{self._namespace}.{self.__name__}", overload))
        made = self.__dict__[overload] = OpOverload(self, overload, texts[overload])
        return made

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._texts]

    def __call__(self, /, *args: object, **kwargs: object) -> Any:
        """Run the first overload whose schema the arguments fit."""
        return self._calls.overload_for(self, args, kwargs)(*args, **kwargs)

    def __str__(self) -> str:
        return f"{self._namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"

    def __reduce__(self) -> Any:
        return self._calls.found, (self._namespace, self.__name__)


class HigherOrderOperator:
    """Operator with functions as operands; there is none here. Exists for ``isinstance``."""

    def __init__(self) -> None:
        raise NotImplementedError(
            "there are no higher-order operators here: use functrace.cond, functrace.scan …"
        )


@final
class _OpNamespace(ModuleType):
    """The operations of one library: ``torch.ops.aten``."""

    def __init__(self, name: str, calls: Calls) -> None:
        super().__init__(f"torch.ops.{name}")
        self._called, self._calls = name, calls

    def __getattr__(self, name: str) -> OpOverloadPacket:
        called = self.__dict__.get("_called", "")
        texts = (
            _texts(called, name)
            if not name.startswith("__") or name.strip("_") in _OPERATORS
            else None
        )
        if texts is None:
            raise AttributeError(f"'_OpNamespace' '{called}' object has no attribute '{name}'")
        made = self.__dict__[name] = OpOverloadPacket(called, name, texts, self._calls)
        return made

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(schema_lines() if self._called == "aten" else ())})


_OPERATORS = frozenset(
    {"and", "or", "xor", "iand", "ior", "ixor", "lshift", "rshift", "ilshift", "irshift"}
)


def _texts(namespace: str, name: str) -> dict[str, str] | None:
    """Return the schemas of a name by overload; None if there is none."""
    if namespace == "aten":
        return schema_lines().get(name)
    if namespace == "prim" and name == "device":
        return {"default": "prim::device(Tensor a) -> Device"}
    if name in REGISTERED.get(namespace, ()):
        return {"default": REGISTERED[namespace][name].text}
    return OWN.get(name) if namespace == "functrace" else None


OWN: dict[str, dict[str, str]] = {}
"""The schemas of operations that PyTorch does not have; see identities.py."""


REGISTERED: dict[str, dict[str, Any]] = {}
"""Custom operators by namespace and name; see _library/custom_ops.py."""


@final
class Ops(ModuleType):
    """``torch.ops``.

    Args:
        calls: implementation of calls.
    """

    def __init__(self, calls: Calls) -> None:
        super().__init__("torch.ops")
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module 'torch.ops' has no attribute '{name}'")
        if name == "profiler":  # functions that begin and end ranges
            return importlib.import_module("functrace.torch.autograd.profiler")
        made = self.__dict__[name] = _OpNamespace(name, self._calls)
        return made
