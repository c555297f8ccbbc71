"""`isinstance` of traced values, in code that is lifted.

Note [A traced value is an ndarray to isinstance, in lifted code]
    Plain NumPy code asks ``isinstance(x, np.ndarray)``, ``isinstance(x, (int, float))``, and refuses what is neither. Python
    decides by the type of ``x``, and where that says no, by ``x.__class__``. Of a traced value this is a property: where the
    instruction that runs in the innermost Python frame is a call of ``isinstance`` (or a class pattern of ``match``), in
    code that is lifted, it is the class that NumPy's value would have: ``np.ndarray``, for a scalar ``np.float64`` and the
    like, for a traced Python number its type. For all others it is the true one: ``x.__class__``, ``type(x)``, pickle,
    `functools.singledispatch`, NumPy's and functrace's own code, and compiled code, which goes on to the memory of what it
    takes for an ndarray. The check that C uses for that (``PyArray_Check``) looks at the type, which never changes.

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
    """A lift, as far as this module goes: see `functrace.numpy.protocol.lifting.Lift`."""

    @property
    def holds(self) -> bool:
        """Whether code that runs here is inside of it."""
        ...

    @property
    def outer(self) -> OpenLift | None:
        """The lift that it was opened inside of."""
        ...


INNERMOST_LIFT: ContextVar[Any] = ContextVar("the innermost lift", default=None)


def is_lifted() -> bool:
    """Whether NumPy's names are lifted for code that runs here."""
    lifted: OpenLift | None = INNERMOST_LIFT.get()
    while lifted is not None:
        if lifted.holds:
            return True
        lifted = lifted.outer
    return False


def naming_modules() -> str:
    """Return what messages add in lifted code: the way to reach names that a module has bound before."""
    if not is_lifted():
        return ""
    return (
        ". Here it is lifted: if a package has bound the name before, name it, functrace.numpy.lift(f, modules=['package'])"
    )


def class_asked_for(x: Tracer, frame: FrameType | None) -> type:
    """Return the class of a traced value, as the code of a frame is to see it; see the note of this module.

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
    if frame.f_lasti not in _questions(frame.f_code) or is_plain(frame):
        return type(x)
    return numpys_class(x)


def numpys_class(x: Any) -> type:
    """Return the class that NumPy's value would have; a 0-d one that may be a scalar counts as one."""
    if x.is_number:
        return x.kind
    kind = getattr(type(x), "subclass", None)
    if kind is not None:
        return kind
    return np.ndarray if x.aval.shape or is_scalar(x) is False else x.aval.dtype.type


_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FAST", "LOAD_DEREF"})
_CALLS = frozenset({"CALL", "PRECALL"})  # Python 3.11 has a short form of both that stands at the former


@lru_cache(maxsize=4096)
def _questions(code: CodeType) -> frozenset[int]:
    """The offsets of the calls of ``isinstance`` in a code object, and of class patterns."""
    instructions = list(dis.get_instructions(code))
    starts = {_start(i) for i in instructions if i.opname in _LOADS and i.argval == "isinstance"}
    return frozenset(_offsets(instructions, starts))


def _offsets(instructions: list[dis.Instruction], starts: set[Any]) -> Iterable[int]:
    for i in instructions:
        if i.opname == "MATCH_CLASS" or (i.opname in _CALLS and _start(i) in starts and _start(i) is not None):
            yield i.offset


def _start(instruction: dis.Instruction) -> tuple[int, int] | None:
    """The line and column that an instruction's source begins at."""
    found = instruction.positions
    return None if found is None or found.lineno is None or found.col_offset is None else (found.lineno, found.col_offset)
