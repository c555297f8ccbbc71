"""`isinstance` of traced values in lifted code.

Note [A traced value is an ndarray to isinstance, in lifted code]
    Plain NumPy code checks ``isinstance(x, np.ndarray)`` or ``isinstance(x, (int, float))``, and
    rejects other types. Python checks the type of ``x`` first, then ``x.__class__``, which is a
    property of a traced value. If the current instruction of the innermost Python frame is a call
    of ``isinstance`` (or a class pattern of ``match``) in lifted code, the property returns the
    class of NumPy's value: ``np.ndarray``, ``np.float64`` and the like for a scalar, the number
    type for a traced Python number. Otherwise it returns the true class: for ``x.__class__``,
    ``type(x)``, pickle, `functools.singledispatch`, NumPy's and functrace's own code, and compiled
    code, which reads the memory of an ndarray. C code checks the type (``PyArray_Check``), which
    never changes.

Layer: 3.
"""

from __future__ import annotations

import dis
from collections.abc import Iterable
from contextvars import ContextVar
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any, Protocol

import numpy as np

from functrace.numpy.arrays.views import is_scalar
from functrace.numpy.protocol.readers import is_plain
from functrace.source import OWN_AND_NUMPYS
from functrace.tracing.tracer import Tracer


class OpenLift(Protocol):
    """Interface of a lift that this module needs; see `functrace.numpy.protocol.lifting.Lift`."""

    @property
    def holds(self) -> bool:
        """True if it applies to the current context."""
        ...

    @property
    def outer(self) -> OpenLift | None:
        """The enclosing lift."""
        ...


INNERMOST_LIFT: ContextVar[Any] = ContextVar("the innermost lift", default=None)


def is_lifted() -> bool:
    """Return True if NumPy's names are lifted in the current context."""
    lifted: OpenLift | None = INNERMOST_LIFT.get()
    while lifted is not None:
        if lifted.holds:
            return True
        lifted = lifted.outer
    return False


def naming_modules() -> str:
    """Return the hint for messages in lifted code: how to lift names that a module bound before."""
    if not is_lifted():
        return ""
    return (
        ". Here it is lifted: if a package has bound the name before, name it, "
        "functrace.numpy.lift(f, modules=['package'])"
    )


def class_for_caller(x: Tracer, frame: FrameType | None) -> type:
    """Return the class of a traced value as seen from a frame; see the note of this module.

    Args:
        x: the traced value.
        frame: the innermost Python frame outside of the property.
    """
    if INNERMOST_LIFT.get() is None or not is_lifted():
        return type(x)
    while frame is not None and frame.f_code.co_name == "__instancecheck__":  # of abstract classes
        frame = frame.f_back
    if frame is None or frame.f_code.co_filename.startswith(OWN_AND_NUMPYS):
        return type(x)
    if frame.f_lasti not in _type_checks(frame.f_code) or is_plain(frame):
        return type(x)
    return numpys_class(x)


def numpys_class(x: Any) -> type:
    """Return the class of NumPy's value; a 0-d value that may be a scalar counts as a scalar."""
    if x.is_number:
        return x.kind
    kind = getattr(type(x), "subclass", None)
    if kind is not None:
        return kind
    return np.ndarray if x.aval.shape or is_scalar(x) is False else x.aval.dtype.type


_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FAST", "LOAD_DEREF"})
_CALLS = frozenset({"CALL", "PRECALL"})  # Python 3.11 merges both into one, at the former's offset


@lru_cache(maxsize=4096)
def _type_checks(code: CodeType) -> frozenset[int]:
    """Return the offsets of ``isinstance`` calls and class patterns in a code object."""
    instructions = list(dis.get_instructions(code))
    starts = {_start(i) for i in instructions if i.opname in _LOADS and i.argval == "isinstance"}
    return frozenset(_offsets(instructions, starts))


def _offsets(instructions: list[dis.Instruction], starts: set[Any]) -> Iterable[int]:
    for i in instructions:
        if i.opname == "MATCH_CLASS" or (
            i.opname in _CALLS and _start(i) in starts and _start(i) is not None
        ):
            yield i.offset


def _start(instruction: dis.Instruction) -> tuple[int, int] | None:
    """Return the line and column where the source of an instruction begins."""
    found = instruction.positions
    return (
        None
        if found is None or found.lineno is None or found.col_offset is None
        else (found.lineno, found.col_offset)
    )
