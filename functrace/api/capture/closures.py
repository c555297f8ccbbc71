"""Functions, arrays and generators that a function reaches through its globals and its closure.

Note [Names that a function reaches]
    The names in a function's code refer to globals, to closure variables, and to attributes of
    reachable objects. The walk visits globals, closures and defaults, the contents of partials and
    bound methods, the entries of containers, those attributes of objects (of instances, of their
    classes, of users' modules) whose name occurs in the code, and the functions among all these,
    recursively. It does not find objects reached by a computed name (``getattr(x, word)``), or
    through code that is not Python.

Layer: 8.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import BuiltinMethodType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from functrace.source import is_users
from functrace.tracing.capture import ArrayWatch, ReadSnapshot
from functrace.tracing.copies import is_mapped, is_read_only

_MOST_FUNCTIONS = 64
_MOST_THINGS = 1 << 14
"""Limits on the number of functions and of other objects visited."""

MOST_COMPARED = 64 << 20
"""Bytes of arrays that a function names but did not capture; they are copied, and compared per call
(2 ms)."""

_CONTAINERS = (list, tuple, set, frozenset, deque)
_PLAIN = (str, bytes, int, float, complex, type(None), np.generic, CodeType, Iterator)


def codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function and of the functions defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def named(function: FunctionType) -> dict[str, Any]:
    """Map the names in a function to their values: globals, closure variables, defaults."""
    code, known = function.__code__, function.__globals__
    words = {word for part in codes(code) for word in part.co_names}
    defaults = dict(
        zip(
            code.co_varnames[: code.co_argcount][::-1],
            (function.__defaults__ or ())[::-1],
            strict=False,
        )
    )
    found = {word: known[word] for word in words if word in known}
    return found | _closure(function) | defaults | (function.__kwdefaults__ or {})


def reachable_objects(f: object, kinds: type | tuple[type, ...]) -> list[tuple[str, Any]]:
    """Return all objects of some types that a function reaches, nearest first.

    See Note [Names that a function reaches].

    Args:
        f: the function, a partial, a bound method, or a callable object.
        kinds: the types.

    Returns:
        pairs of the object's name (empty if it has none) and the object.
    """
    words: set[str] = set()
    while True:
        before, found = len(words), list(_reached(f, kinds, words))
        if len(words) == before:  # no new name: no attribute was skipped
            return found


def functions_named(f: object) -> list[FunctionType]:
    """Return the Python function behind wrappers, partials and methods, and the functions that it
    reaches."""
    return [function for _, function in reachable_objects(f, FunctionType)][:_MOST_FUNCTIONS]


def reads_of(
    f: object, name: str, watches: Iterable[ArrayWatch], before: ReadSnapshot | None = None
) -> ReadSnapshot | None:
    """Return the arrays that a staged function reads besides its arguments; None if there are none.

    Args:
        f: the function.
        name: the function's name, for messages.
        watches: arrays that it read while it was recorded.
        before: its other dependencies.
    """
    watches = list(watches)
    captured = {id(watch.held.original()) for watch in watches}
    arrays: list[tuple[str, Any]] = []
    total = 0
    for word, array in reachable_objects(f, np.ndarray):
        if type(array) is not np.ndarray or array.dtype.kind not in "biufcV" or is_mapped(array):
            continue
        if id(array) not in captured and not is_read_only(array):
            if total + array.nbytes > MOST_COMPARED:
                _warn_of_size(f, name, word, array.nbytes)
                continue
            total += array.nbytes
        arrays.append((word, array))
    reads = ReadSnapshot(arrays, watches, before)
    return reads if reads else None


def _warn_of_size(f: object, name: str, word: str, size: int) -> None:
    function = next(iter(functions_named(f)), None)
    warnings.warn_explicit(
        f"jit of {name} names an array{f' ({word})' if word else ''} of {size >> 20:,} MiB, but "
        "does not compute with all "
        "of it: it is too large to be compared at every call, so a change in place is not "
        "detected. Pass it as an "
        "argument, or declare it read-only (flags.writeable = False)",
        UserWarning,
        __file__ if function is None else function.__code__.co_filename,
        0 if function is None else function.__code__.co_firstlineno,
        registry={}
        if function is None
        else function.__globals__.setdefault("__warningregistry__", {}),
    )


def _reached(
    f: object, kinds: type | tuple[type, ...], words: set[str]
) -> Iterator[tuple[str, Any]]:
    """Walk once; adds the names in functions that are visited to ``words``, which selects
    attributes."""
    waiting, seen = deque([("", f)]), set[int]()
    holds = list[Any]()  # keeps objects that are created here alive, so that their ids stay unique
    while waiting and len(seen) < _MOST_THINGS:
        word, thing = waiting.popleft()
        if id(thing) in seen or isinstance(thing, _PLAIN):
            continue
        seen.add(id(thing))
        holds.append(thing)
        if isinstance(thing, kinds):
            yield word, thing
        if not isinstance(thing, np.ndarray):
            for part in _parts(thing, words):
                waiting.append((part[0] or word, part[1]))


def _parts(thing: object, words: set[str]) -> Iterable[tuple[str, Any]]:
    """Return the reachable parts of an object, with their names; ``words`` selects its
    attributes."""
    if isinstance(thing, FunctionType):
        if is_users(thing.__code__.co_filename):
            words.update([word for part in codes(thing.__code__) for word in part.co_names])
        return [*_visible(thing).items(), ("", getattr(thing, "__wrapped__", None))]
    untyped: Any = thing
    kind = type(thing)
    wrapped = getattr(thing, "__dict__", {}).get("__wrapped__")
    if isinstance(thing, functools.partial):
        parts = [("", x) for x in (thing.func, *thing.args)] if wrapped is None else [("", wrapped)]
        return [*parts, *thing.keywords.items()]
    if isinstance(thing, MethodType):
        return [("", thing.__func__), ("", thing.__self__)]
    if isinstance(thing, ModuleType):
        file = getattr(thing, "__file__", None)
        return _chosen(vars(thing), words) if file is not None and is_users(file) else ()
    if isinstance(thing, dict):
        return [(word if isinstance(word, str) else "", x) for word, x in untyped.items()]
    if isinstance(thing, _CONTAINERS):
        entries: list[tuple[str, Any]] = [("", x) for x in untyped]
        return entries if kind in _CONTAINERS else [*entries, *_attributes(untyped, words)]
    if isinstance(thing, staticmethod | classmethod):
        return [("", untyped.__func__)]
    if isinstance(thing, property):
        return [("", thing.fget)]
    if isinstance(thing, type):
        return [
            x for base in thing.__mro__ if _is_users_class(base) for x in _chosen(vars(base), words)
        ]
    if (
        str(type(thing).__module__).partition(".")[0] == __name__.partition(".")[0]
    ):  # its components
        return [
            ("", getattr(thing, word, None))
            for word in ("__wrapped__", "rules", "rule", "vjp", "jvp")
        ]
    if isinstance(thing, BuiltinMethodType):  # a method of a generator, bound to a name
        return [("", thing.__self__)]
    return _attributes(thing, words)


def _attributes(thing: object, words: set[str]) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of an instance that ``words`` selects, and those of its class."""
    yield from _chosen(getattr(thing, "__dict__", {}), words)
    for base in type(thing).__mro__:
        slots = vars(base).get("__slots__", ())
        for word in (slots,) if isinstance(slots, str) else slots:
            if word in words:
                yield word, getattr(thing, word, None)
        if _is_users_class(base):
            yield from _chosen(vars(base), words)
            yield from [pair for pair in vars(base).items() if _is_operator(*pair)]


def _is_operator(word: str, thing: object) -> bool:
    """Return True for a method that Python calls without its name: operators, calls, ``with``."""
    return (
        word.startswith("__")
        and word not in ("__init__", "__new__")
        and isinstance(thing, FunctionType)
    )


def _chosen(held: Mapping[str, Any], words: set[str]) -> list[tuple[str, Any]]:
    return [(word, held[word]) for word in words.intersection(held)]


def _is_users_class(base: type) -> bool:
    module = sys.modules.get(base.__module__)
    file = getattr(module, "__file__", None)
    return base.__module__ != "builtins" and (file is None or is_users(file))


def _visible(function: FunctionType) -> dict[str, Any]:
    """Return the variables of a function; of a library's function, only its closure, as in
    wrappers."""
    return named(function) if is_users(function.__code__.co_filename) else _closure(function)


def _closure(function: FunctionType) -> dict[str, Any]:
    held: dict[str, Any] = {}
    for word, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            held[word] = cell.cell_contents
        except ValueError:  # not bound yet
            continue
    return held
