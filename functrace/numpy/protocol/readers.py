"""Who reads a name of NumPy's modules while a lift is open: code that lifts are for, or code that runs as it would outside.

Note [Who gets NumPy's own names]
    Five readers do. NumPy's and functrace's own code computes with plain arrays. Compiled code looks into the memory of what
    ``np.zeros`` returns; it is told by the instruction that the innermost Python frame is at, which is not one that reads a
    name. The names of a module that is being imported would outlive the lift. Packages whose Python code hands its arrays
    to a compiled core (`PLAIN`) could not use traced ones. And a library that was called with no traced value in reach
    (among its arguments, their attributes and items, and what functions among them close over) does what it would do
    outside: so its tables are plain arrays, which its own compiled code, hashing and memory views take.
    If a traced value comes in by another way (a file's global variable, a C object), it meets plain arrays there: that
    raises, as without a lift.

Layer: 3.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Iterable, Mapping
from opcode import opmap
from types import CellType, CodeType, FrameType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import numpy as np

from functrace.source import OWN_AND_NUMPYS, is_users
from functrace.tracing.tracer import Tracer
from functrace.tracing.values import is_constant

PLAIN = tuple(
    [
        f"{name}."
        for name in (
            "autograd", "cupy", "h5py", "jax", "jaxlib", "llvmlite", "numba", "pandas", "PIL", "polars",
            "pyarrow", "scipy.sparse", "tensorflow", "torch", "xarray",
        )
    ]
)  # fmt: skip
"""Packages whose code hands what it makes to a compiled core of theirs, or to tracers of their own."""

MOST = 400
"""Objects among which a traced value is looked for; of more, one is taken to be there."""

_DEEPEST = 6
_SHORT = 32
"""Maximum number of operations that are traversed to test whether a traced value is constant."""

_READS = frozenset(
    opmap[name] for name in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM", "IMPORT_STAR", "CALL_INTRINSIC_1") if name in opmap
)
"""Instructions that read a name of a module; since Python 3.12 ``import *`` is an intrinsic."""
_ATOMS = (int, float, complex, str, bytes, Tracer, np.ndarray, np.generic, np.dtype, type, ModuleType, type(None))


def reads_lifted(frame: FrameType) -> bool:
    """Whether the code of a frame, which reads a name, gets what is lifted; see Note [Who gets NumPy's own names]."""
    code = frame.f_code
    if code.co_filename.startswith(OWN_AND_NUMPYS) or _instruction(code, frame.f_lasti) not in _READS:
        return False
    if code.co_name == "<module>" and getattr(frame.f_globals.get("__spec__"), "_initializing", False):
        return False
    return is_reached_code(frame)


def is_reached_code(frame: FrameType) -> bool:
    """Whether the code of a frame is the user's, or of a library that has a traced value in reach."""
    return _is_users(frame.f_code.co_filename) or (not is_plain(frame) and _has_traced(frame))


def is_plain(frame: FrameType) -> bool:
    """Whether the code of a frame is of one of the packages `PLAIN`."""
    return f"{frame.f_globals.get('__name__', '')}.".startswith(PLAIN)


def _has_traced(frame: FrameType) -> bool:
    """Whether the library that the code of a frame belongs to was called with a traced value in reach."""
    entry, outer = frame, frame.f_back
    while outer is not None and not _is_users(outer.f_code.co_filename):
        if not outer.f_code.co_filename.startswith(OWN_AND_NUMPYS):
            entry = outer
        outer = outer.f_back
    return outer is None or holds_traced(_arguments(entry))


_is_users = functools.lru_cache(maxsize=4096)(is_users)


def _arguments(frame: FrameType) -> list[object]:
    """What the function of a frame was called with, as its variables are now, and what it closes over."""
    code, values = frame.f_code, frame.f_locals
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return [values[name] for name in (*code.co_varnames[:count], *code.co_freevars) if name in values]


def holds_traced(values: Iterable[object]) -> bool:
    """Whether a value that depends on an input is among objects, in what they hold, or in what functions close over.

    Cost:
        0.2 us per object that is looked at, at most `MOST` of them: of more, the answer is yes.
    """
    seen: set[int] = set()
    level = list(values)
    for _ in range(_DEEPEST):
        held: list[object] = []
        for value in level:
            if isinstance(value, Tracer) and not is_constant(value, _SHORT):
                return True
            if (isinstance(value, _ATOMS) and not _is_of_objects(value)) or id(value) in seen:
                continue
            seen.add(id(value))
            held += itertools.islice(_held(value), MOST)
        if len(seen) + len(held) > MOST:
            return True
        if not held:
            return False
        level = held
    return True


def _is_of_objects(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == object


def _held(value: Any) -> Iterable[object]:
    """The objects that an object holds."""
    if f"{type(value).__module__}.".startswith(PLAIN):
        return ()
    if isinstance(value, (list, tuple, set, frozenset)):
        return value
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, np.ndarray):
        return value.flat
    if isinstance(value, MethodType):
        return (value.__self__, value.__func__)
    if isinstance(value, functools.partial):
        return (value.func, *value.args, *value.keywords.values())
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if is_filled(cell)]
        return (*cells, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
    try:  # not by the class's own __getattribute__ or __getattr__: a proxy would import or compute, or raise
        attributes: list[object] = list(object.__getattribute__(value, "__dict__").values())
    except AttributeError:
        attributes = []
    for kind in type(value).__mro__:
        if "__slots__" in kind.__dict__:
            attributes += [_slot(member, value) for member in kind.__dict__.values() if type(member) is MemberDescriptorType]
    return attributes


def _slot(member: MemberDescriptorType, value: object) -> object:
    try:
        return member.__get__(value)
    except AttributeError:  # it has no value
        return None


def is_filled(cell: CellType) -> bool:
    """Whether a variable that a function closes over has a value."""
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _instruction(code: CodeType, at: int) -> int:
    return code.co_code[at]
