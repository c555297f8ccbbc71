"""Readers of NumPy's names while a lift is open: lifted code, or code that gets NumPy's own names.

Note [Readers of NumPy's own names]
    Five kinds of readers get them. NumPy's and functrace's own code computes with plain arrays.
    Compiled code reads the memory of the result of ``np.zeros``; it is detected by the current
    instruction of the innermost Python frame, which does not read a name. Names of a module during
    its import would outlive the lift. Packages whose Python code passes its arrays to a compiled
    core (`PLAIN`) cannot use traced ones. And a library that was called without a reachable traced
    value (in its arguments, their attributes and items, and closures of functions among them)
    behaves as outside: its tables are plain arrays, as its compiled code, hashing and memory views
    need. A traced value that enters in another way (a global variable, a C object) is combined with
    plain arrays there, which raises, as without a lift.

Layer: 3.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Iterable, Mapping
from opcode import opmap
from types import (
    CellType,
    CodeType,
    FrameType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np

from functrace.source import OWN_AND_NUMPYS, is_users
from functrace.tracing.tracer import Tracer
from functrace.tracing.values import is_constant

PLAIN = tuple(
    [
        f"{name}."
        for name in (
            "autograd", "cupy", "h5py", "jax", "jaxlib", "llvmlite", "numba", "pandas", "PIL",
            "polars",
            "pyarrow", "scipy.sparse", "tensorflow", "torch", "xarray",
        )
    ]
)  # fmt: skip
"""Packages that pass their arrays to a compiled core, or to their own tracers."""

MOST = 400
"""Limit on objects searched for a traced value; beyond it, one is assumed."""

_DEEPEST = 6
_SHORT = 32
"""Maximum number of operations that are traversed to test whether a traced value is constant."""

_READS = frozenset(
    opmap[name]
    for name in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM", "IMPORT_STAR", "CALL_INTRINSIC_1")
    if name in opmap
)
"""Instructions that read a name of a module; since Python 3.12 ``import *`` is an intrinsic."""
_ATOMS = (
    int,
    float,
    complex,
    str,
    bytes,
    Tracer,
    np.ndarray,
    np.generic,
    np.dtype,
    type,
    ModuleType,
    type(None),
)


def reads_lifted(frame: FrameType) -> bool:
    """Return True if a frame reads lifted names; see Note [Readers of NumPy's own names]."""
    code = frame.f_code
    if (
        code.co_filename.startswith(OWN_AND_NUMPYS)
        or _instruction(code, frame.f_lasti) not in _READS
    ):
        return False
    if code.co_name == "<module>" and getattr(
        frame.f_globals.get("__spec__"), "_initializing", False
    ):
        return False
    return is_reached_code(frame)


def is_reached_code(frame: FrameType) -> bool:
    """Return True for frames of the user's code, or of a library with a reachable traced value."""
    return _is_users(frame.f_code.co_filename) or (not is_plain(frame) and _has_traced(frame))


def is_plain(frame: FrameType) -> bool:
    """Return True for frames of one of the packages `PLAIN`."""
    return f"{frame.f_globals.get('__name__', '')}.".startswith(PLAIN)


def _has_traced(frame: FrameType) -> bool:
    """Return True if the library of a frame was called with a reachable traced value."""
    entry, outer = frame, frame.f_back
    while outer is not None and not _is_users(outer.f_code.co_filename):
        if not outer.f_code.co_filename.startswith(OWN_AND_NUMPYS):
            entry = outer
        outer = outer.f_back
    return outer is None or holds_traced(_arguments(entry))


_is_users = functools.lru_cache(maxsize=4096)(is_users)


def _arguments(frame: FrameType) -> list[object]:
    """Return the current arguments and closure variables of the function of a frame."""
    code, values = frame.f_code, frame.f_locals
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return [
        values[name] for name in (*code.co_varnames[:count], *code.co_freevars) if name in values
    ]


def holds_traced(values: Iterable[object]) -> bool:
    """Return True if objects, their contents or closures contain a value that depends on an input.

    Cost:
        0.2 us per object searched, at most `MOST`; True if there are more.
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
    """Return the objects that an object contains."""
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
        wrapped = getattr(value, "__wrapped__", None)  # (of a jitted function that is machine code)
        return (value.func, *value.args, *value.keywords.values(), wrapped)
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if is_filled(cell)]
        return (*cells, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
    try:  # bypass __getattribute__ and __getattr__: a proxy would import, compute, or raise
        attributes: list[object] = list(object.__getattribute__(value, "__dict__").values())
    except AttributeError:
        attributes = []
    for kind in type(value).__mro__:
        if "__slots__" in kind.__dict__:
            attributes += [
                _slot(member, value)
                for member in kind.__dict__.values()
                if type(member) is MemberDescriptorType
            ]
    return attributes


def _slot(member: MemberDescriptorType, value: object) -> object:
    try:
        return member.__get__(value)
    except AttributeError:  # unset
        return None


def is_filled(cell: CellType) -> bool:
    """Return True if a closure variable has a value."""
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _instruction(code: CodeType, at: int) -> int:
    return code.co_code[at]
