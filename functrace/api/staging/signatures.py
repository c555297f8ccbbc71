"""Signatures: the properties of a call that its staged program depends on.

Layer: 8.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, cast, final

import numpy as np

from functrace.api.capture.arguments import (
    ARRAYS,
    NO_LEAF,
    argument_names,
    as_value,
    check_argnums,
    function_name,
)
from functrace.api.capture.record import Called
from functrace.errors import ArgumentError
from functrace.ir.aval import ShapeDtype
from functrace.keys import exact_key
from functrace.numpy.arrays.traced_number import DTYPES, NumberRecording, TracedNumber
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer
from functrace.tree import flatten, tree_key, unflatten
from functrace.tree.nodes import is_value

_ONE_PROGRAM_PER_VALUE = (
    "name the argument in static_argnums or static_argnames: there will be one program per value"
)


@final
class Parameters:
    """Static or donated parameters of a function, by position and by name.

    Args:
        f: the function.
        argnums: their positions.
        argnames: their names.
        word: ``static`` or ``donate``, as in ``static_argnums``.

    Raises:
        ArgumentError: if the function has no such parameter.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        argnums: int | Sequence[int],
        argnames: str | Sequence[str],
        word: str,
    ) -> None:
        numbers = check_argnums(argnums, "jit", f"{word}_argnums")
        names = (argnames,) if isinstance(argnames, str) else tuple(argnames)
        self.any = bool(numbers or names)
        self.positions: frozenset[int] = frozenset()
        self.names: frozenset[str] = frozenset(names)
        if not self.any:
            return
        try:
            parameters = list(inspect.signature(f).parameters.values())
        except (TypeError, ValueError):
            if any(k < 0 for k in numbers):
                raise ArgumentError(
                    f"jit of {function_name(f)}: its parameters are unknown", fix="count from 0"
                ) from None
            self.positions = frozenset(numbers)
            return
        placed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        many = any(p.kind is p.VAR_POSITIONAL for p in parameters)
        if not many and any(not -len(placed) <= k < len(placed) for k in numbers):
            raise ArgumentError(
                f"jit of {function_name(f)}: {word}_argnums={argnums!r}, but it has {len(placed)} "
                "positional parameters",
                fix=f"count from 0; a keyword-only parameter goes into {word}_argnames",
            )
        known = {p.name for p in parameters}
        if not any(p.kind is p.VAR_KEYWORD for p in parameters) and not known.issuperset(names):
            missing = ", ".join(sorted(set(names) - known))
            raise ArgumentError(
                f"jit of {function_name(f)}: it has no parameter {missing}",
                fix=f"name one of {', '.join(sorted(known))}",
            )
        positions = {k % len(placed) if k < 0 else k for k in numbers}
        positions |= {
            k for k, p in enumerate(placed) if p.name in names and p.kind is not p.POSITIONAL_ONLY
        }
        self.positions = frozenset(positions)
        self.names |= {placed[k].name for k in positions if k < len(placed)}

    def both(self, other: Parameters) -> bool:
        """Return True if two sets of parameters intersect."""
        return not (
            self.positions.isdisjoint(other.positions) and self.names.isdisjoint(other.names)
        )


Jit: TypeAlias = Callable[[object, Callable[..., Any]], Callable[..., Any]]
"""Returns a jitted function of arrays, with the same options; cached by the first argument."""


class BoxedArrays(Exception):
    """An argument wraps arrays; the ``__functrace_jit__`` of its class jits functions of such
    arguments.

    Args:
        run: ``(jit, f, args, kwargs) -> result``, see `Jit`.
    """

    def __init__(self, run: Callable[..., Any]) -> None:
        super().__init__()
        self.run = run


@final
class Signature:
    """The arguments of a call, and the key of its program."""

    __slots__ = (
        "donation", "is_traced", "key", "leaves", "named", "numbers", "placed", "policy", "specs",
        "static", "statics", "tree",
        "values", "variables",
    )  # fmt: skip

    def __init__(
        self,
        statics: Parameters,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str,
        jitted: object,
        device_arrays: tuple[type, ...] = (),
        policy: Any = None,
    ) -> None:
        """Take a call apart.

        Args:
            statics: the static parameters.
            args, kwargs: of the call.
            name: the function's name, for messages.
            jitted: the jitted function.
            device_arrays: further types of arrays, which are passed on as they are.
            policy: the residual policy of `functrace.residual_policy` that is in force.
        """
        self.policy = policy
        self.static: dict[int | str, Any] = {}
        if statics.any:
            self.static.update({k: args[k] for k in statics.positions if k < len(args)})
            self.static.update(
                {key: value for key, value in kwargs.items() if key in statics.names}
            )
        keys = [(k, _static_key(value, k, name)) for k, value in self.static.items()]
        if args and 0 not in self.static and _is_method_of(args[0], name, jitted):
            _check_value(args[0], name)
            self.static[0] = args[0]
            keys.append((0, _static_key(args[0], 0, name)))
        self.placed = tuple([None if k in self.static else x for k, x in enumerate(args)])
        self.named = {key: x for key, x in kwargs.items() if key not in self.static}
        self.leaves, self.tree = flatten((self.placed, self.named))
        self.is_traced = False
        self.variables: dict[int, Any] | None = None
        """Values computed by guards, by variable; see `functrace.api.staging.guards.ValueGuard`."""
        self.numbers: NumberRecording | None = None
        self.specs: list[Any] = []
        self.values: list[Any] = []
        for k, leaf in enumerate(self.leaves):
            if device_arrays and isinstance(leaf, device_arrays):
                self.specs.append((leaf.shape, leaf.dtype))
                self.values.append(leaf)
            else:
                self._add(k, leaf, name)
        self.statics = keys
        self.key = self._key(args, keys)
        if policy is not None:
            self.key = (policy, self.key)

    def _key(self, args: tuple[Any, ...], keys: list[Any]) -> Any:
        if (
            not (keys or self.named)
            and len(self.leaves) == len(args)
            and all(map(operator.is_, self.leaves, args))
        ):
            parts: list[Any] = []  # leaves only, as in the fast path
            for spec in self.specs:
                if isinstance(spec, type):
                    parts.append(spec)
                else:
                    parts += spec
            return tuple(parts)
        return (tree_key(self.tree), frozenset(keys), *self.specs)

    def _add(self, k: int, leaf: Any, name: str) -> None:
        one: object = leaf
        kind = type(one)
        if kind in DTYPES:
            self.specs.append(kind)
            self.values.append(DTYPES[kind].type(leaf) if kind is not int else _int64(leaf, name))
        elif isinstance(leaf, TracedNumber):
            self.is_traced = True
            self.specs.append(leaf.kind)
            self.values.append(leaf.strong())
        elif isinstance(leaf, Tracer):
            self.is_traced = True
            self.specs.append((leaf.shape, leaf.dtype))
            self.values.append(leaf)
        elif isinstance(leaf, ARRAYS):
            value = as_value(leaf, f"an argument of {name}")
            self.specs.append((value.shape, value.dtype))
            self.values.append(value)
        elif hasattr(kind, "__functrace_jit__"):
            raise BoxedArrays(cast("Any", kind).__functrace_jit__)
        else:
            raise ArgumentError(
                f"jit of {name}: {argument_names(self.tree)[k]} is a {kind.__name__}, not an array "
                "or a number",
                fix="name it in static_argnums or static_argnames if it is hashable; None and "
                "pytrees of arrays are fine; " + NO_LEAF,
            )

    def arguments(self, leaves: Iterable[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return args and kwargs with other leaves."""
        placed, named = unflatten(self.tree, leaves)
        static = self.static
        return tuple([static.get(k, x) for k, x in enumerate(placed)]), {
            **named, **{key: value for key, value in static.items() if isinstance(key, str)}
        }  # fmt: skip

    def leaves_of(self, parameters: Parameters) -> tuple[int, ...]:
        """Return the indices of the leaves of some parameters."""
        parts = [(k in parameters.positions, x) for k, x in enumerate(self.placed)]
        parts += [(word in parameters.names, self.named[word]) for word in sorted(self.named)]
        flags = [flag for flag, part in parts for _ in flatten(part)[0]]
        return tuple([k for k, flag in enumerate(flags) if flag])

    def inputs(self, recording: Recording) -> Called:
        """Make the leaves abstract inputs of a recording; return args and kwargs."""
        self.numbers = numbers = NumberRecording(recording, _ONE_PROGRAM_PER_VALUE)
        leaves = [
            numbers.number(spec)
            if isinstance(spec, type)
            else recording.new_input(ShapeDtype(*spec))
            for spec in self.specs
        ]
        return self.arguments(leaves)

    def names(self) -> list[str | None]:
        """Name the leaves of keyword arguments, for listings."""
        placed = len(flatten(self.placed)[0])
        found: list[str | None] = [None] * placed
        for key in sorted(self.named):
            count = len(flatten(self.named[key])[0])
            found += [key if count == 1 else None] * count
        return found


def _int64(value: int, name: str) -> np.int64:
    try:
        return np.int64(value)
    except OverflowError:
        raise ArgumentError(
            f"jit of {name}: the integer {value} does not fit into 64 bits",
            fix="name the argument in static_argnums",
        ) from None


def _static_key(value: object, place: int | str, name: str) -> Any:
    """Return a static value as a key."""
    try:
        return exact_key(value)
    except TypeError:
        kind = type(value).__name__
        way = (
            "a tuple"
            if isinstance(value, list)
            else "an object that can be hashed, such as a frozen dataclass"
        )
        if isinstance(value, (Tracer, np.ndarray)):
            way = "arrays without static_argnums"
        raise ArgumentError(
            f"jit of {name}: the static argument {place!r} is a {kind}, which cannot be hashed",
            fix=f"pass {way}",
        ) from None


def _check_value(owner: object, name: str) -> None:
    """Check that the object of a jitted method is compared by its contents, so that changes are
    detected.

    Raises:
        ArgumentError: if it is compared by identity only: the staged program would use stale
            attributes.
    """
    kind = type(owner)
    if kind.__eq__ is object.__eq__ or kind.__hash__ is object.__hash__:
        raise ArgumentError(
            f"jit of {name}: it is a method of a {kind.__name__}, whose attributes would be frozen "
            "as they are now; later "
            "changes would not be detected",
            fix="jit a function that takes the arrays as arguments; or make the class a dataclass, "
            "or register it "
            "(functrace.tree.register), so that its arrays are arguments; static_argnums=0 "
            "declares that the object never "
            "changes",
        )


_NO_OBJECTS = (*ARRAYS, tuple, list, dict, type(None))


def _is_method_of(owner: object, name: str, jitted: object) -> bool:
    """Return True if ``owner`` is an instance with the jitted method, and neither a pytree nor a
    number.

    A hashable dataclass without arrays is a value rather than a pytree, unless it is registered.
    """
    if type(owner) in DTYPES or isinstance(owner, _NO_OBJECTS):
        return False
    if inspect.getattr_static(type(owner), name, None) is not jitted:
        return False
    leaves, tree = flatten(owner)
    if tree.is_leaf():
        return True
    return is_value(owner) and not any(isinstance(leaf, ARRAYS) for leaf in leaves)
