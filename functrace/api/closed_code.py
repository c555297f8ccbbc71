"""Whether a function is closed: what its code does, and what its names stand for.

Note [When a function is closed]
    Its code, and that of the functions that it calls, consists of `STEPS`: it reads arguments and constants, computes, keeps
    local variables, and decides. It names nothing but NumPy's functions that can be traced, a few of Python's (`BUILTINS`),
    functions that are closed, and constants: numbers, words, dtypes, ``None``. It asks objects for nothing but `ATTRIBUTES`.
    So there is nothing that it could change, or that could change it, besides (a) its arguments: arrays, which become inputs
    of the recording, and floats that are differentiated; (b) what its names stand for: these are looked up, and compared by
    identity, at every call (`Guard`; what is recorded is a function with these, since other threads may bind them anew
    meanwhile); (c) the values of its arguments: in a recording without values who asks for one gets an exception, and the
    function is called every time, as ever. And what was recorded of the call itself, with values, on plain arrays for what
    is not differentiated, are the same operations (`alike`): plain arrays differ from traced ones in what they refuse, warn
    of, and are.
    Names for arrays, lists, objects: not closed. Nor is what is not listed here; so a new version of Python, with steps of
    other names, has fewer closed functions and no wrong ones.

Floor: 7.
"""

from __future__ import annotations

import builtins
import dis
import functools
import sys
from collections.abc import Sequence
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple, TypeGuard, final

import numpy as np

from functrace.numpy.tables import FUNCTIONS, LIKE, METHODS, ROWS
from functrace.ops.elementwise import UFUNCS

STEPS = frozenset({
    "BINARY_OP", "BINARY_SLICE", "BINARY_SUBSCR", "BUILD_CONST_KEY_MAP", "BUILD_LIST", "BUILD_MAP", "BUILD_SLICE",
    "BUILD_TUPLE", "CACHE", "CALL", "CALL_FUNCTION_EX", "CALL_KW", "COMPARE_OP", "CONTAINS_OP", "COPY", "COPY_FREE_VARS",
    "DELETE_FAST", "END_FOR", "EXTENDED_ARG", "FOR_ITER", "GET_ITER", "IS_OP", "JUMP_BACKWARD",
    "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_FORWARD", "JUMP_IF_FALSE_OR_POP", "JUMP_IF_TRUE_OR_POP", "KW_NAMES", "LIST_APPEND",
    "LIST_EXTEND", "LIST_TO_TUPLE", "LOAD_ASSERTION_ERROR", "LOAD_ATTR", "LOAD_CONST", "LOAD_CONST_IMMORTAL",
    "LOAD_CONST_MORTAL", "LOAD_DEREF", "LOAD_FAST", "LOAD_FAST_AND_CLEAR", "LOAD_FAST_BORROW",
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW", "LOAD_FAST_CHECK", "LOAD_FAST_LOAD_FAST", "LOAD_GLOBAL", "LOAD_METHOD",
    "LOAD_SMALL_INT", "NOP", "NOT_TAKEN", "POP_ITER", "POP_JUMP_BACKWARD_IF_FALSE", "POP_JUMP_BACKWARD_IF_NONE",
    "POP_JUMP_BACKWARD_IF_NOT_NONE", "POP_JUMP_BACKWARD_IF_TRUE", "POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_FORWARD_IF_NONE",
    "POP_JUMP_FORWARD_IF_NOT_NONE", "POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_IF_FALSE", "POP_JUMP_IF_NONE",
    "POP_JUMP_IF_NOT_NONE", "POP_JUMP_IF_TRUE", "POP_TOP", "PRECALL", "PUSH_NULL", "RAISE_VARARGS", "RESUME",
    "RETURN_CONST", "RETURN_VALUE", "STORE_FAST", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST", "STORE_SLICE",
    "STORE_SUBSCR", "SWAP", "TO_BOOL", "UNARY_INVERT", "UNARY_NEGATIVE", "UNARY_NOT", "UNARY_POSITIVE", "UNPACK_EX",
    "UNPACK_SEQUENCE",
})  # fmt: skip
"""What Python's instructions in a closed function may be, of all versions from 3.11 on."""

GLOBALS, CELLS = "LOAD_GLOBAL", "LOAD_DEREF"
_ASKING = frozenset({"LOAD_ATTR", "LOAD_METHOD"})

BUILTINS = frozenset({
    abs, all, any, bool, complex, dict, divmod, enumerate, float, int, len, list, max, min, pow, range, reversed, round,
    slice, sorted, sum, tuple, zip,
})  # fmt: skip
"""Python's functions that a closed function may call."""

ATTRIBUTES = frozenset({
    *METHODS, "T", "accumulate", "append", "at", "copy", "dtype", "extend", "get", "imag", "index", "insert", "item",
    "items", "itemsize", "keys", "kind", "mT", "ndim", "outer", "pop", "real", "reduce", "reverse", "shape", "size",
    "tolist", "values",
})  # fmt: skip
"""What a closed function may ask objects for: of arrays, ufuncs, lists and dicts, which it has made itself."""

LEFT_OUT = frozenset({
    np.empty, np.empty_like, np.may_share_memory, np.shares_memory,
    np.cross, np.histogram, np.histogram2d, np.histogram_bin_edges,
    np.histogramdd, np.linalg.qr, np.polyfit,
    np.array2string, np.array_repr, np.array_str,
})  # fmt: skip
"""NumPy's functions that tell what memory holds, or shares; those that may warn as they are recorded, every time; those that
write as `numpy.set_printoptions` says."""

_FFTS_LEFT_OUT = frozenset({"fftn", "ifftn", "irfftn", "rfftn"})
"""Likewise of ``numpy.fft``, which takes 3 ms to import."""

OF_UFUNCS = frozenset({"accumulate", "at", "outer", "reduce"})
"""What functions of NumPy's may be asked for: whatever else they have, somebody has given them."""

_PLAIN = frozenset({bool, int, float, complex, str, bytes, type(None), type(Ellipsis)})
_SCALARS = frozenset({np.dtype(code).type for code in "?bBhHiIlLqQefdgFDG"})
_FUNCTIONS = frozenset({BuiltinFunctionType, FunctionType, type, type(np.sum)})

_ABSENT = object()


class Read(NamedTuple):
    """A name in a function's code: where it stands, and what is asked of it at once, one after the other."""

    kind: str
    name: str
    words: tuple[str, ...]


@functools.lru_cache(maxsize=1024)
def reads_in(code: CodeType) -> tuple[Read, ...] | None:
    """Return what names a function's code reads, if it consists of nothing but `STEPS` and asks for `ATTRIBUTES`.

    Cost:
        5 us per instruction, once.
    """
    found: dict[Read, None] = {}
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    k = 0
    while k < len(steps):
        name, word = steps[k].opname, steps[k].argval
        k += 1
        if name not in STEPS or (name in _ASKING and word not in ATTRIBUTES):
            return None
        if name in (GLOBALS, CELLS):
            words: list[str] = []
            while k < len(steps) and steps[k].opname in _ASKING and not steps[k].is_jump_target:
                words.append(steps[k].argval)
                k += 1
            found[Read(name, word, tuple(words))] = None
    return tuple(found)


@final
class Guard:
    """What a closed function reads of its surroundings.

    Args:
        defaults: of its parameters.
        names: globals, with what they stand for.
        cells: what it closes over, by place.
        attributes: words that modules are asked for: the module's dict, the word, and what it stands for.
        functions: closed functions that it calls: by name, or by place where it closes over them, each with code and guard.
    """

    __slots__ = ("_attributes", "_cells", "_defaults", "_functions", "_names")

    def __init__(
        self,
        defaults: tuple[Any, ...] | None,
        names: Sequence[tuple[str, Any]],
        cells: Sequence[tuple[int, Any]],
        attributes: Sequence[tuple[dict[str, Any], str, Any]],
        functions: Sequence[tuple[str | int, CodeType, Guard]],
    ) -> None:
        self._defaults, self._names, self._cells = defaults, tuple(names), tuple(cells)
        self._attributes, self._functions = tuple(attributes), tuple(functions)

    def holds(self, f: FunctionType) -> bool:
        """Whether a function of the same code would read the same.

        Cost:
            50 ns per name.
        """
        if f.__defaults__ is not self._defaults or f.__kwdefaults__:
            return False
        namespace, closure = f.__globals__, f.__closure__
        if namespace.__class__ is not dict or f.__builtins__ is not builtins.__dict__:  # type: ignore[attr-defined]
            return False
        for name, expected in self._names:
            if namespace.get(name, _ABSENT) is not expected:
                return False
        for held, word, expected in self._attributes:
            if held.get(word, _ABSENT) is not expected:
                return False
        try:
            for place, expected in self._cells:
                if closure[place].cell_contents is not expected:  # type: ignore[index]
                    return False
            for name, code, guard in self._functions:
                g: Any = namespace.get(name) if type(name) is str else closure[name].cell_contents  # type: ignore[index]
                if g.__class__ is not FunctionType or g.__code__ is not code or not guard.holds(g):
                    return False
        except ValueError:  # a cell that is empty: the function will raise
            return False
        return True

    def frozen(self, code: CodeType) -> FunctionType:
        """Return a function of some code that reads what this knows, whatever other threads do to its surroundings."""
        namespace: dict[str, Any] = {"__builtins__": builtins}
        namespace.update([(name, value) for name, value in self._names if value is not _ABSENT])
        cells = [CellType() for _ in code.co_freevars]
        for place, value in self._cells:
            cells[place] = CellType(value)
        for name, inner, guard in self._functions:
            made = guard.frozen(inner)
            if type(name) is str:
                namespace[name] = made
            else:
                cells[name] = CellType(made)  # type: ignore[index]
        return FunctionType(code, namespace, code.co_name, self._defaults, tuple(cells))


def guard_of(f: FunctionType, inside: tuple[CodeType, ...] = ()) -> Guard | None:
    """Return the guard of a function; ``None`` if it is not closed.

    Args:
        f: the function.
        inside: the code of the functions that call it.
    """
    code = f.__code__
    reads = None if code in inside else reads_in(code)
    if reads is None or f.__kwdefaults__ or not all(map(_is_known, f.__defaults__ or ())):
        return None
    if f.__builtins__ is not builtins.__dict__ or type(f.__globals__) is not dict:  # type: ignore[attr-defined]
        return None
    names: list[tuple[str, Any]] = []
    cells: list[tuple[int, Any]] = []
    attributes: list[tuple[dict[str, Any], str, Any]] = []
    functions: list[tuple[str | int, CodeType, Guard]] = []
    for kind, name, words in reads:
        place: str | int = name
        if kind == CELLS:
            if name not in code.co_freevars:  # a variable of its own, which functions in it share
                return None
            place = code.co_freevars.index(name)
            try:
                value: Any = (f.__closure__ or ())[place].cell_contents
            except ValueError:
                return None
        else:
            value = f.__globals__.get(name, _ABSENT)
        if type(value) is FunctionType and not (words or _is_numpys(value)):
            guard = None if value.__dict__ else guard_of(value, (*inside, code))
            if guard is None:
                return None
            functions.append((place, value.__code__, guard))
            continue
        if type(place) is int:
            cells.append((place, value))
        else:
            names.append((name, value))
        if value is _ABSENT:
            attributes.append((builtins.__dict__, name, builtins.__dict__.get(name, _ABSENT)))
            value = attributes[-1][-1]
        waiting = list(words)
        while waiting and _is_listed(value):
            attributes.append((value.__dict__, waiting[0], value.__dict__.get(waiting.pop(0), _ABSENT)))
            value = attributes[-1][-1]
        allowed = ATTRIBUTES if _is_constant(value) else OF_UFUNCS
        if not (allowed.issuperset(waiting) and _is_known(value)):
            return None
    return Guard(f.__defaults__, names, cells, attributes, functions)


def _is_listed(value: object) -> TypeGuard[ModuleType]:
    """Whether something is a module that is kept anyway."""
    return type(value) is ModuleType and sys.modules.get(value.__dict__.get("__name__", "")) is value


def _is_constant(value: object) -> bool:
    parts: Any = value
    if type(value) is tuple:
        return all(map(_is_constant, parts))
    return type(value) in _PLAIN or type(value) in _SCALARS or isinstance(value, np.dtype)


def _is_known(value: object) -> bool:
    """Whether something never changes: a constant, or a function of NumPy's or Python's that a closed function may call."""
    if isinstance(value, np.ufunc):
        return value in UFUNCS and _has_nothing_to_ask_for(value)
    if _is_constant(value):
        return True
    if type(value) not in _FUNCTIONS or is_left_out(value):
        return False
    return value in BUILTINS or value in _SCALARS or (_is_numpys(value) and _has_nothing_to_ask_for(value))


def is_left_out(value: object) -> bool:
    """Whether a function is called every time, though it can be traced."""
    name = getattr(value, "__name__", "")
    return value in LEFT_OUT or (name in _FFTS_LEFT_OUT and value is getattr(np.fft, name))


def _has_nothing_to_ask_for(function: object) -> bool:
    """Whether nobody has given a function `ATTRIBUTES`, which it may be asked for by another name."""
    return ATTRIBUTES.isdisjoint(getattr(function, "__dict__", ()))


def _is_numpys(value: object) -> bool:
    """Whether something is a function of NumPy's that can be traced, and has been."""
    return any(dict.__contains__(table, value) for table in (FUNCTIONS, ROWS, LIKE))
