"""``autograd.wrap_util``: extend operators on unary functions to functions of several arguments.

Layer: 10.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from functrace.compat.autograd.util import subvals
from functrace.compat.kinds import Values
from functrace.errors import ArgumentError

__all__ = ["get_name", "unary_to_nary", "wraps"]

Argnum = int | tuple[int, ...] | list[int]
Function = Callable[..., Any]


def get_name(f: object) -> str:
    """Return a function's name."""
    return getattr(f, "__name__", "[unknown name]")


def wraps(fun: Function) -> Callable[[Function], Function]:
    """Return ``functools.wraps`` for any callable."""
    return functools.wraps(fun, updated=())


def check_argnum(argnum: Values, operator: str) -> Any:
    """Return the positions of the selected arguments, one or several.

    Raises:
        ArgumentError: if it is neither.
    """
    given: object = argnum
    places: tuple[object, ...] = argnum if isinstance(given, tuple | list) else (argnum,)
    if not all(type(place) is int for place in places):
        raise ArgumentError(
            f"{operator}: argnum={argnum!r}",
            fix="give the position of an argument, or a tuple of them; grad_named takes a name",
        )
    return argnum


def chosen(
    fun: Function, argnum: Argnum, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Function, Any]:
    """Return ``fun`` as a function of the selected arguments alone, and these: one, or a tuple.

    Raises:
        ArgumentError: if there are too few positional arguments.
    """
    places = (argnum,) if isinstance(argnum, int) else tuple(argnum)
    for place in places:
        if not -len(args) <= place < len(args):
            raise ArgumentError(
                f"{get_name(fun)} was called with {len(args)} positional arguments, but "
                f"argnum={argnum!r}",
                fix="pass what is differentiated by position",
            )

    @wraps(fun)
    def unary(x: Values) -> Any:
        return fun(
            *subvals(args, zip(places, (x,) if isinstance(argnum, int) else x, strict=True)),
            **kwargs,
        )

    return unary, args[argnum] if isinstance(argnum, int) else tuple([args[k] for k in places])


def unary_to_nary(unary_operator: Function) -> Function:
    """Extend an operator on unary functions to functions of several arguments.

    Args:
        unary_operator: ``unary_operator(f, x, …)``.

    Returns:
        ``operator(f, argnum=0, …)``, whose result takes the arguments of ``f``.
    """
    operator = get_name(unary_operator)

    @functools.wraps(unary_operator)
    def nary_operator(
        fun: Function, argnum: Argnum = 0, *rest: object, **named: object
    ) -> Function:
        check_argnum(argnum, operator)

        @wraps(fun)
        def nary(*args: object, **kwargs: object) -> Any:
            unary, x = chosen(fun, argnum, args, kwargs)
            return unary_operator(unary, x, *rest, **named)

        return nary

    return nary_operator
