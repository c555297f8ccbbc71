"""Warnings about draws from NumPy's and Python's generators during staging: the draws become
constants.

Note [Detecting draws by a generator's state]
    A generator does not report who draws from it, but a draw changes its state. So the states of
    NumPy's global generator, and of the generators that a function reaches
    (functrace/api/capture/closures.py: NumPy's, `random.Random`, their bound methods), are compared
    before and after staging: 60 us for the global one, nothing where `numpy.random` is not in use.
    The warning names the line that mentions the generator that changed, or else the function. It
    misses a generator that is created inside (with a fixed seed it draws the same numbers in every
    call anyway), and one that no name refers to. A draw in another thread meanwhile is attributed
    to the function.

Layer: 8.
"""

from __future__ import annotations

import dis
import importlib
import sys
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from functrace.api.capture.closures import codes, functions_named, named, reachable_objects
from functrace.source import is_users

if TYPE_CHECKING:
    Words = tuple[str, ...]
    State = dict[str, "State"] | np.ndarray[Any, Any] | tuple[Any, ...] | int | float | str

_warned: ContextVar[set[int] | None] = ContextVar(
    "generators of which has been warned while functions are staged", default=None
)


@contextmanager
def watching(f: Callable[..., Any], name: str) -> Generator[None]:
    """Warn, once per line, of draws from NumPy's global generator or from one that a function
    reaches.

    Args:
        f: the function that is staged.
        name: its name, for messages.
    """
    functions = functions_named(f)
    seen = list(_generators(f, functions))
    if not seen:
        yield
        return
    outer = _warned.get()
    warned: set[int] = set() if outer is None else outer
    token = _warned.set(warned)
    before = {id(generator): _state(generator) for *_, generator in seen}
    try:
        yield
    finally:
        _warned.reset(token)
    moved = {
        key: [(function, words) for function, words, generator in seen if id(generator) == key]
        for key in {
            id(generator): None
            for *_, generator in seen
            if not _equal(before[id(generator)], _state(generator))
        }
    }
    for key, places in moved.items():
        if key not in warned:
            is_pythons = any(
                id(generator) == key and hasattr(generator, "getstate") for *_, generator in seen
            )
            _warn(name, functions[0], places, is_pythons=is_pythons)
    warned.update(moved)


def _warn(
    name: str, function: FunctionType, places: list[tuple[FunctionType, Words]], *, is_pythons: bool
) -> None:
    found = next(
        ((where, line) for where, words in places if (line := _line(where, words)) is not None),
        None,
    )
    where, line = found or (function, function.__code__.co_firstlineno)
    how = "draws" if found else "draws, in what this function calls,"
    warnings.warn_explicit(
        f"{'random' if is_pythons else 'numpy.random'} {how} while jit of {name} is staged: every "
        "call will use the "
        "numbers that it draws now. Draw with functrace.random, by a key that is an argument "
        "(docs/random.md), or pass what "
        "is drawn as an argument",
        UserWarning,
        where.__code__.co_filename,
        line,
        registry=where.__globals__.setdefault("__warningregistry__", {}),
    )


def _generators(
    f: object, functions: list[FunctionType]
) -> Iterator[tuple[FunctionType, Words, Any]]:
    """Yield NumPy's and Python's global generators, by their names in each function, and reachable
    ones."""
    every = (code for function in functions for code in codes(function.__code__))
    is_numpys = "numpy.random" in sys.modules or any("random" in code.co_names for code in every)
    module: Any = importlib.import_module("numpy.random") if is_numpys else None
    random = sys.modules.get("random")  # drawing from it requires the import
    pythons: Any = getattr(random, "_inst", None)
    for function in functions:
        if not is_users(function.__code__.co_filename):
            continue
        for word, value in named(function).items():
            if value is random and pythons is not None:
                yield function, (word,), pythons
            elif is_numpys and value is np:
                yield function, (word, "random"), module.mtrand._rand
            elif is_numpys and (
                value is module or getattr(module, getattr(value, "__name__", ""), None) is value
            ):
                yield function, (word,), module.mtrand._rand
    kinds = ((module.Generator, module.RandomState) if is_numpys else ()) + (
        () if random is None else (random.Random,)
    )
    for word, generator in reachable_objects(f, kinds):
        for function in functions:
            yield function, (word,), generator
    for function in functions[:1] if is_numpys else ():
        yield function, (), module.mtrand._rand


def _state(generator: object) -> State:
    source: Any = generator
    if hasattr(source, "getstate"):  # Python's
        return source.getstate()
    if isinstance(source, np.random.RandomState):
        return cast("State", source.get_state(legacy=False))
    return source.bit_generator.state


def _equal(a: State, b: State) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return all(_equal(a[key], b[key]) for key in a)
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    return a == b


def _line(function: FunctionType, words: Words) -> int | None:
    """Return the first line of a function that has a name, or an attribute of one."""
    for code in codes(function.__code__) if any(words) else ():
        listed = list(dis.get_instructions(code))
        for k, instruction in enumerate(listed):
            found = tuple([x.argval for x in listed[k : k + len(words)]])
            line = None if instruction.positions is None else instruction.positions.lineno
            if found == words and instruction.opname != "LOAD_CONST" and line:
                return line
    return None
