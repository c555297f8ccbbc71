"""Draws from NumPy's own generators while a function is staged: what they draw becomes a constant of the program.

Note [Draws while staging are seen by the state]
    A generator cannot say who draws from it, but its state moves. So the states of NumPy's global generator, and of those
    that a function names (its globals, what it closes over, its defaults; and the functions among these, in turn), are
    compared before and after it is staged: 60 us for the global one, nothing where `numpy.random` is not in use. The warning
    names the line that has the name of the generator that moved; if none has, the function. What is not seen: a generator
    that is made inside (with a fixed seed it draws the same at every call anyway), and one in another object. Another thread
    that draws meanwhile looks as if the function did.

Floor: 7.
"""

from __future__ import annotations

import dis
import functools
import importlib
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from functrace.source import is_users

if TYPE_CHECKING:
    Words = tuple[str, ...]
    State = dict[str, "State"] | np.ndarray[Any, Any] | int | float | str

_MOST = 64
"""How many functions are looked at, of those that a function names."""

_told: ContextVar[set[int] | None] = ContextVar(
    "generators of which has been warned while functions are staged", default=None
)


@contextmanager
def watching(f: Callable[..., Any], name: str) -> Iterator[None]:
    """Warn, once per line, if NumPy's global generator or one that a function names is drawn from meanwhile.

    Args:
        f: the function that is staged.
        name: what messages call it.
    """
    functions = list(_functions(f))
    seen = list(_generators(functions))
    if not seen:
        yield
        return
    outer = _told.get()
    told: set[int] = set() if outer is None else outer
    token = _told.set(told)
    before = {id(generator): _state(generator) for *_, generator in seen}
    try:
        yield
    finally:
        _told.reset(token)
    moved = {
        key: [(function, words) for function, words, generator in seen if id(generator) == key]
        for key in {id(generator): None for *_, generator in seen if not _equal(before[id(generator)], _state(generator))}
    }
    for key, places in moved.items():
        if key not in told:
            _warn(name, functions[0], places)
    told.update(moved)


def _warn(name: str, function: FunctionType, places: list[tuple[FunctionType, Words]]) -> None:
    found = next(((where, line) for where, words in places if (line := _line(where, words)) is not None), None)
    where, line = found or (function, function.__code__.co_firstlineno)
    how = "draws" if found else "draws, in what this function calls,"
    warnings.warn_explicit(
        f"numpy.random {how} while jit of {name} is staged: every call will use the numbers that it draws now. Draw with "
        "functrace.random, by a key that is an argument (docs/random.md), or pass what is drawn as an argument",
        UserWarning,
        where.__code__.co_filename,
        line,
        registry=where.__globals__.setdefault("__warningregistry__", {}),
    )


def _functions(f: object) -> Iterator[FunctionType]:
    """The Python function behind wrappers, partials and methods, and the functions that it names, and so on."""
    waiting, seen = [f], set[int]()
    while waiting and len(seen) < _MOST:
        f = waiting.pop(0)
        if id(f) in seen:
            continue
        seen.add(id(f))
        if isinstance(f, functools.partial):
            waiting.append(f.func)
        elif isinstance(f, MethodType):
            waiting.append(f.__func__)
        elif isinstance(f, FunctionType):
            yield f
            named = _named(f).values() if is_users(f.__code__.co_filename) else _closure(f).values()
            waiting += [x for x in named if isinstance(x, FunctionType | functools.partial | MethodType)]
        waiting.append(getattr(f, "__wrapped__", None))


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A function's code, and that of functions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _closure(function: FunctionType) -> dict[str, Any]:
    held = {}
    for word, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            held[word] = cell.cell_contents
        except ValueError:  # not bound yet
            continue
    return held


def _named(function: FunctionType) -> dict[str, Any]:
    """What the names in a function stand for: globals, what it closes over, defaults."""
    code, known = function.__code__, function.__globals__
    words = {word for part in _codes(code) for word in part.co_names}
    defaults = dict(zip(code.co_varnames[: code.co_argcount][::-1], (function.__defaults__ or ())[::-1], strict=False))
    return {word: known[word] for word in words if word in known} | _closure(function) | defaults


def _generators(functions: list[FunctionType]) -> Iterator[tuple[FunctionType, Words, Any]]:
    """NumPy's global generator, by the names that may stand for it, and those that functions name."""
    codes = (code for function in functions for code in _codes(function.__code__))
    if "numpy.random" not in sys.modules and not any("random" in code.co_names for code in codes):
        return
    random = importlib.import_module("numpy.random")
    legacy = random.mtrand._rand  # type: ignore[attr-defined]
    for function in functions:
        if not is_users(function.__code__.co_filename):
            continue
        for word, value in _named(function).items():
            if value is np:
                yield function, (word, "random"), legacy
            elif value is random or getattr(random, getattr(value, "__name__", ""), None) is value:
                yield function, (word,), legacy
            elif isinstance(value, random.Generator | random.RandomState):
                yield function, (word,), value
    for function in functions[:1]:
        yield function, (), legacy


def _state(generator: np.random.Generator | np.random.RandomState) -> State:
    if isinstance(generator, np.random.RandomState):
        return cast("State", generator.get_state(legacy=False))
    return cast("State", generator.bit_generator.state)


def _equal(a: State, b: State) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return all(_equal(a[key], b[key]) for key in a)
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    return a == b


def _line(function: FunctionType, words: Words) -> int | None:
    """The first line of a function that has a name, or an attribute of one."""
    for code in _codes(function.__code__) if words else ():
        listed = list(dis.get_instructions(code))
        for k, instruction in enumerate(listed):
            named = tuple([x.argval for x in listed[k : k + len(words)]])
            if named == words and instruction.positions is not None and instruction.positions.lineno:
                return instruction.positions.lineno
    return None
