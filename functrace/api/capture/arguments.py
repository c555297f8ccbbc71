"""Arguments of transforms: validation, and selection by position (``argnums``).

Layer: 8.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from functrace.errors import ArgumentError, DtypeError
from functrace.ir.aval import check_plain
from functrace.numpy.arrays.traced_number import TracedNumber
from functrace.tracing.tracer import Tracer, as_array, fix_for
from functrace.tree import paths

if TYPE_CHECKING:
    from functrace.tree import PyTreeSpec

NUMERIC = (Tracer, np.ndarray, np.generic, bool, int, float, complex)
"""Types of arrays and numbers, traced or not. (A tuple: ``A | B`` would build a new type per
call.)"""

ARRAYS = (Tracer, np.ndarray, np.generic)
"""Types of operands; Python numbers stay Python numbers."""


def function_name(f: Callable[..., Any]) -> str:
    """Return the name of a function for messages."""
    return getattr(f, "__name__", None) or type(f).__name__


class _Accepted(threading.local):
    """Arrays of which functrace.torch's transforms accept more than others do, by thread."""

    bfloat16 = False

    def of_package(self, array: Any) -> bool:
        """Return True for an array of ml_dtypes' bfloat16, if those are accepted."""
        return self.bfloat16 and array.dtype.name == "bfloat16"


ACCEPTED = _Accepted()


def as_value(leaf: Any, what: str) -> Any:
    """Return an argument's leaf as an array, a NumPy scalar or a traced value.

    Raises:
        DtypeError: if it is not numeric.
    """
    if np.ndarray is type(leaf) and leaf.ndim and leaf.dtype.kind in "fc":
        return leaf
    one: object = leaf
    if isinstance(one, np.ndarray):
        check_plain(leaf)
        if leaf.dtype.kind not in "biufc" and not ACCEPTED.of_package(leaf):
            raise DtypeError(
                f"{what} has dtype {leaf.dtype}, which is not numeric",
                fix="pass arrays and numbers",
            )
        leaf = leaf if np.ndarray is type(leaf) else leaf.view(np.ndarray)
        return leaf if leaf.ndim else leaf[()]
    if isinstance(one, (Tracer, np.generic)):
        return leaf.strong() if TracedNumber is type(leaf) else leaf
    if isinstance(leaf, float):
        return np.float64(leaf)
    array = None if _is_nest(leaf) else as_array(leaf)
    if array is None or array.dtype.kind not in "biufc":
        raise DtypeError(
            f"{what} is a {type(leaf).__name__}, not an array or a number",
            fix=fix_for(leaf, "pass arrays and numbers"),
        )
    return array[()]


def _is_nest(leaf: object) -> bool:
    """Return True for an unregistered subclass of a container, which no transform flattens."""
    kind = type(leaf)
    return isinstance(leaf, dict | set | frozenset | list | tuple) and kind not in (list, tuple)


def argument_names(treedef: PyTreeSpec) -> list[str]:
    """Name the leaves of the structure of ``(args, kwargs)``: ``args[0]['w'].scale``,
    ``kwargs['rate']``.
    """
    placed, named = treedef.children()
    return [f"args{path}" for path in paths(placed)] + [f"kwargs{path}" for path in paths(named)]


def as_values(
    leaves: Sequence[Any],
    owner: str,
    names: Callable[[], Sequence[str]],
    wanted: Sequence[bool] | None = None,
) -> list[Any]:
    """Convert the leaves of a pytree by `as_value`; those that are not ``wanted`` are unchanged.

    Args:
        leaves: leaves of the pytree.
        owner: the transform and its function, for messages.
        names: returns the paths of the leaves; called only for a message.
        wanted: flags of the leaves that must be numeric; default: all.

    Raises:
        DtypeError: if a leaf is not numeric; the message names its path.
    """
    try:
        if wanted is None:
            return [as_value(leaf, owner) for leaf in leaves]
        return [
            as_value(leaf, owner) if flag else leaf
            for leaf, flag in zip(leaves, wanted, strict=True)
        ]
    except DtypeError:
        for k, leaf in enumerate(leaves):
            if wanted is None or wanted[k]:
                check_leaf(leaf, owner, names()[k])
        raise


def check_leaf(leaf: object, owner: str, name: str) -> None:
    """Check that a leaf of an argument is numeric.

    Raises:
        DtypeError: if not.
    """
    try:
        as_value(leaf, f"{owner}: {name}")
    except DtypeError as error:
        raise DtypeError(error.what, at=error.at, fix=f"{error.fix}; {NO_LEAF}") from None


NO_LEAF = (
    "separate other objects from the arrays of a pytree with functrace.tree.partition, or declare "
    "them static fields of "
    "a dataclass (functrace.tree.static); register a class that is a pytree with "
    "functrace.tree.register"
)
"""The fix for leaves that no transform accepts."""


def is_position(argnums: object) -> TypeGuard[int]:
    """Return True if ``argnums`` is one position, so that the result is not a tuple; bools are no
    positions."""
    return isinstance(argnums, (int, np.integer)) and not isinstance(argnums, bool)


def is_pair(value: object) -> TypeGuard[tuple[Any, Any]]:
    """Return True for a tuple of two, which a user's function returns."""
    given: Any = value
    return isinstance(value, tuple) and len(given) == 2


def check_argnums(argnums: object, transform: str, name: str = "argnums") -> tuple[int, ...]:
    """Return ``argnums`` (or the parameter called ``name``) as a tuple.

    Raises:
        ArgumentError: if it is neither a position nor a sequence of positions.
    """
    if type(argnums) is int or is_position(argnums):
        return (argnums,)
    given: Any = argnums
    if isinstance(argnums, tuple | list | range) and all(map(is_position, given)):
        return tuple(given)
    is_name = isinstance(argnums, str)
    shown = (
        repr(given)
        if isinstance(argnums, bool | str | tuple | list)
        else f"a {type(argnums).__name__}"
    )
    raise ArgumentError(
        f"{transform}: {name} is {shown}, not a position or a sequence of positions",
        fix=f"count positional arguments from 0: {name}=0, {name}=(0, 2)"
        if is_name or name != "argnums" or type(given) is bool
        else f"{transform}(f, argnums) returns a function: call {transform}(f)(x)",
    )


def check_choice(
    owner: str, name: str, value: object, choices: Sequence[str], related: str = ""
) -> None:
    """Check that an argument is one of some words.

    Args:
        owner: name of the function, for errors.
        name: name of the argument.
        value: the argument.
        choices: the words.
        related: which function does something else, for errors.

    Raises:
        ArgumentError: if it is not.
    """
    if value not in choices:
        raise ArgumentError(
            f"{owner}: {name}={value!r} is not known",
            fix="; ".join(filter(None, (f"pass one of {', '.join(choices)}", related))),
        )


def check_function(
    f: object, transform: str, usage: str = "{0}(f) returns a function: call {0}(f)(x)"
) -> None:
    """Check that ``f`` is callable.

    Raises:
        ArgumentError: if not.
    """
    if not callable(f):
        raise ArgumentError(
            f"{transform} takes a function, not a {type(f).__name__}", fix=usage.format(transform)
        )


def normalize_argnums(
    argnums: object, count: int, what: str, name: str = "argnums"
) -> tuple[int, ...]:
    """Return ``argnums`` as a tuple of non-negative positions.

    Raises:
        ArgumentError: if a position does not exist in this call, or is named twice.
    """
    numbers = check_argnums(argnums, what.partition(" of ")[0], name)
    for k in numbers:
        if not -count <= k < count:
            raise ArgumentError(
                f"{what}: {name}={argnums!r}, but the function was called with {count} positional "
                "arguments",
                fix=("keyword arguments are not differentiated: " if name == "argnums" else "")
                + f"pass by position what {name} names"
                + (f" (positions are 0 to {count - 1})" if count else ""),
            )
    positions = tuple([int(k) % count for k in numbers])
    if len(set(positions)) < len(positions):
        raise ArgumentError(
            f"{what}: {name}={argnums!r} names an argument twice (of {count})",
            fix="name every position once",
        )
    return positions
