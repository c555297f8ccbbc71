"""`Transformed`: the functions that transforms return.

Layer: 8.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any, final

from functrace.api.capture.arguments import check_function
from functrace.errors import UnsupportedFunctionError


class SignatureOfWrapped:
    """``__signature__`` of a wrapper: the signature of the wrapped function, for ``inspect`` and
    its users.

    ``inspect.signature`` follows ``__wrapped__`` by itself; ``inspect.getfullargspec`` does not.
    """

    def __get__(self, instance: Any, owner: type | None = None) -> inspect.Signature:
        if instance is not None:
            try:
                return inspect.signature(instance.__wrapped__)
            except (TypeError, ValueError):  # a ufunc, a builtin: it has none
                pass
        raise AttributeError("__signature__")


@final
class Transformed(functools.partial):  # type: ignore[type-arg]  # a call costs 0.04 us more than a function
    """A transformed function, with the name, documentation and signature of the original."""

    transform: str
    """Name of the transform, e.g. ``"grad"``."""

    __signature__ = SignatureOfWrapped()

    def __repr__(self) -> str:
        return f"<functrace {described(self)}>"

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Bind as a method."""
        return self if instance is None else types.MethodType(self, instance)

    def redirect(self, run: Callable[..., Any]) -> None:
        """Call ``run`` from now on, which means the same."""
        self.__setstate__((run, self.args, self.keywords, self.__dict__))  # type: ignore[attr-defined]

    def __copy__(self) -> Transformed:
        return self

    def __deepcopy__(self, memo: object) -> Transformed:
        return self

    def __reduce__(self) -> Any:
        """Pickle by reference, as functions are, if its qualified name refers to it."""
        name: Any = getattr(self, "__qualname__", "")
        found: Any = sys.modules.get(getattr(self, "__module__", None) or "")
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is self:
            return name
        raise UnsupportedFunctionError(
            f"{described(self)} cannot be pickled: {name!r} in its module is another object",
            fix="pickle the function and transform it where it is loaded, or decorate it where it "
            "is defined",
        )


def transformed(
    transform: str, f: Callable[..., Any]
) -> Callable[[Callable[..., Any]], Transformed]:
    """Return a decorator that makes a function the transformed ``f``.

    Raises:
        ArgumentError: if ``f`` is not a function.
    """

    check_function(f, transform)
    return lambda run: as_transformed(transform, f, run)


def as_transformed(
    transform: str, f: Callable[..., Any], run: Callable[..., Any], *first: object
) -> Transformed:
    """Build the result of `transformed` from a function that takes ``first`` before the call's
    arguments.

    Cost:
        1 us.
    """
    made = Transformed(run, *first)
    if type(f) is types.FunctionType:  # inlined `functools.update_wrapper`
        made.__dict__ = {
            "__module__": f.__module__,
            "__name__": f.__name__,
            "__qualname__": f.__qualname__,
            "__doc__": f.__doc__,
            "__annotations__": f.__annotations__,
            "__wrapped__": f,
            "transform": transform,
        }
    else:
        functools.update_wrapper(made, f, updated=())
        made.transform = transform
    return made


def described(f: object) -> str:
    """Describe a function: ``jit(grad(loss))``."""
    if isinstance(f, Transformed):
        return f"{f.transform}({described(f.__wrapped__)})"  # type: ignore[attr-defined]
    return getattr(f, "__qualname__", None) or getattr(f, "__name__", None) or type(f).__name__
