"""Signatures of wrapped functions, which are made at their first use.

``inspect.signature`` of a thousand functions would be a fifth of the time of
``import functrace.torch``: wrappers look at names of parameters alone, which the code object has.

Layer: 9.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, final

_FLAGS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


@final
class LateSignature(inspect.Signature):
    """A signature that is made at its first use.

    Args:
        names: names of the parameters, in any order.
        make: makes the signature.

    Example:
        >>> def of_any(*given): ...
        >>> of_any.__signature__ = LateSignature(("x",), lambda: inspect.signature(lambda x: x))
        >>> inspect.signature(of_any)
        <Signature (x)>
    """

    __slots__ = ("_made", "make", "names")

    def __init__(self, names: tuple[str, ...], make: Callable[[], inspect.Signature]) -> None:
        self.names, self.make = names, make
        self._made: inspect.Signature | None = None

    def made(self) -> inspect.Signature:
        """Return the signature itself."""
        found = self._made
        if found is None:
            found = self._made = self.make()
        return found

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:  # type: ignore[override]
        """The parameters by name."""
        return self.made().parameters

    @property
    def return_annotation(self) -> Any:
        """The annotation of what the function returns."""
        return self.made().return_annotation

    def replace(self, **changes: Any) -> inspect.Signature:  # type: ignore[override]
        """Return a changed copy."""
        return self.made().replace(**changes)

    def __repr__(self) -> str:
        return repr(self.made())

    def __reduce__(self) -> Any:
        return self.made().__reduce__()


def parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of all parameters of a function's signature, in any order.

    Raises:
        TypeError, ValueError: for an object without a signature.
    """
    found: Any = function
    while isinstance(found, FunctionType):
        attributes = found.__dict__
        if "__signature__" in attributes:
            signature = attributes["__signature__"]
            return (
                signature.names
                if isinstance(signature, LateSignature)
                else tuple(signature.parameters)
            )
        if "__wrapped__" not in attributes:
            code = found.__code__
            count = code.co_argcount + code.co_kwonlyargcount
            if code.co_flags & _FLAGS:
                count += bool(code.co_flags & inspect.CO_VARARGS)
                count += bool(code.co_flags & inspect.CO_VARKEYWORDS)
            return code.co_varnames[:count]
        found = attributes["__wrapped__"]
    return tuple(inspect.signature(found).parameters)
