"""Source positions: which line of the user's an operation came from.

A position costs almost nothing while recording: only the caller's code object and the
offset of its running instruction are kept. File, line, expression and the variable that
the result was assigned to are worked out when somebody asks (a listing, an error).

Floor: b (base).
"""

from __future__ import annotations

import dis
import linecache
import os
import sys
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FrameType, TracebackType

import numpy as np

PACKAGE_PREFIX = os.path.dirname(os.path.abspath(__file__)) + os.sep
"""Frames whose file begins with this are functrace's own and are never shown to users."""

_LIBRARY_PREFIXES = (PACKAGE_PREFIX, os.path.dirname(np.__file__) + os.sep)


@dataclass(frozen=True, slots=True)
class Source:
    """A place in the user's code: a code object and the offset of one instruction in it."""

    code: CodeType
    offset: int

    @property
    def file(self) -> str:
        """Path of the file, as Python knows it."""
        return self.code.co_filename

    @property
    def function(self) -> str:
        """Name of the function that the line stands in."""
        return self.code.co_name

    @property
    def line(self) -> int:
        """Line number, counted from 1."""
        return _positions(self.code)[self.offset // 2][0] or self.code.co_firstlineno

    @property
    def expression(self) -> str:
        """The text of the line, stripped; empty where the source is not at hand."""
        return linecache.getline(self.file, self.line).strip()

    @property
    def assigned(self) -> str | None:
        """The variable that the result is stored in by the next instruction, if there is one."""
        return _stored_names(self.code).get(self.offset)

    @property
    def short(self) -> str:
        """``file.py:14``, without directories."""
        return f"{os.path.basename(self.file)}:{self.line}"

    def __str__(self) -> str:
        expression = self.expression
        where = f"{self.short} in {self.function}"
        return f"{where}:   {expression}" if expression else where


def user_frame(depth: int = 1) -> FrameType | None:
    """Return the innermost running frame that is not functrace's own (nor NumPy's)."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and frame.f_code.co_filename.startswith(_LIBRARY_PREFIXES):
        frame = frame.f_back
    return frame


def user_source() -> Source | None:
    """Return the position of the user's line that is running now."""
    frame = user_frame(2)
    return None if frame is None else Source(frame.f_code, frame.f_lasti)


def source_of_traceback(traceback: TracebackType | None) -> Source | None:
    """Return the innermost user line of a traceback."""
    found = None
    while traceback is not None:
        if not traceback.tb_frame.f_code.co_filename.startswith(_LIBRARY_PREFIXES):
            found = Source(traceback.tb_frame.f_code, traceback.tb_lasti)
        traceback = traceback.tb_next
    return found


@lru_cache(maxsize=256)
def _positions(code: CodeType) -> list[tuple[int | None, int | None, int | None, int | None]]:
    return list(code.co_positions())


_STORES = ("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF")


@lru_cache(maxsize=256)
def _stored_names(code: CodeType) -> dict[int, str]:
    """Map an instruction's offset to the name that the instruction after it stores."""
    names: dict[int, str] = {}
    before: int | None = None
    for instruction in dis.get_instructions(code):
        if instruction.opname.startswith(_STORES) and before is not None:
            stored = instruction.argval  # a pair for the fused instructions of Python 3.13 (STORE_FAST_LOAD_FAST)
            names[before] = str(stored[0] if isinstance(stored, tuple) else stored)
        before = instruction.offset
    return names
