"""Find the user's line of the running operation, for warnings and errors.

Note [Positions in cached programs]
    A program that is made from a recording is cached by structure, and runs for other recordings of
    the same structure from other lines. So its positions are numbers of the recording's variables,
    and its caller passes the positions of the current recording (``lines``). Sub-programs have
    positions of their own, and are part of the key by identity, which distinguishes lines
    (`Program.interned`).

Note [How a warning finds its line]
    NumPy warns from inside the operation. Programs run with NumPy's error mode set to "call", and
    the callback searches the running frames for the innermost one that runs a program (`RUNNING`):
    that frame's variables tell which operation is running. There is no cost per operation. Setting
    the mode takes 0.3 us per run if NumPy's default mode is active, which is detected by the
    identity of NumPy's context variable; if that is not accessible, or for other modes, it takes 5
    us.

Layer: 1.
"""

from __future__ import annotations

import contextvars
import sys
import warnings
from collections.abc import Callable, Sequence
from types import CodeType, FrameType, TracebackType
from typing import Any, NamedTuple

import numpy as np
from numpy._core import umath  # pyright: ignore[reportPrivateImportUsage]

from functrace.caches import MemoTable
from functrace.ir.primitive import Primitive
from functrace.ir.program import Position, resolved
from functrace.ir.walk import interpret
from functrace.source import Source

# NumPy's error modes: a private API, which may be missing.
_modes: Any = getattr(umath, "_extobj_contextvar", None)
_make_modes: Any = getattr(umath, "_make_extobj", None)


class CurrentOperation(NamedTuple):
    """The operation that a frame is running.

    Args:
        primitive: its primitive.
        position: its source position, or a variable of the recording (see Note [Positions in cached
            programs]).
    """

    primitive: Primitive
    position: Position


RUNNING: dict[CodeType, Callable[[FrameType, int], CurrentOperation | None]] = {}
"""By code of a function that runs programs: maps its frame, and the frame's line, to the running
operation."""
LINES: set[CodeType] = set()
"""Codes of functions with a local variable ``lines``: the positions of the recording whose program
they run."""
GENERATED = "operations"
"""Global of generated code that maps file names to the operation on each line."""

_registries = MemoTable("warnings shown", 256)
"""Warnings already shown, by file: like a module's ``__warningregistry__``."""


def _interpreted(frame: FrameType, _line: int) -> CurrentOperation | None:
    tape, k = frame.f_locals["tape"], frame.f_locals.get("k")
    return None if k is None else CurrentOperation(tape.columns.primitives[k], tape.position(k))


RUNNING[interpret.__code__] = _interpreted


def _now(frame: FrameType, line: int) -> CurrentOperation | None:
    found = RUNNING.get(frame.f_code)
    if found is not None:
        return found(frame, line)
    generated: dict[str, dict[int, CurrentOperation]] | None = frame.f_globals.get(GENERATED)
    if type(generated) is dict and frame.f_code.co_filename in generated:
        return generated[frame.f_code.co_filename].get(line)
    return None


def running(frame: FrameType | None) -> tuple[Primitive, Source | None] | None:
    """Return primitive and user's line of the innermost running operation, if any."""
    now = None
    while frame is not None:
        if now is None:
            now = _now(frame, frame.f_lineno)
        if now is not None:
            if not isinstance(now.position, int):
                return now.primitive, None if now.position is None else Source(*now.position)
            if frame.f_code in LINES:
                return now.primitive, _resolved(now.position, frame.f_locals["lines"])
        frame = frame.f_back
    return None if now is None else (now.primitive, None)


def raised_in(traceback: TracebackType | None, lines: Sequence[Position]) -> Source | None:
    """Return the user's line of the innermost operation in a traceback."""
    found = None
    while traceback is not None:
        now = _now(traceback.tb_frame, traceback.tb_lineno)
        if now is not None and now.position is not None:
            position = now.position
            found = _resolved(position, lines) if isinstance(position, int) else Source(*position)
        traceback = traceback.tb_next
    return found


def _resolved(variable: int, lines: Sequence[Position]) -> Source | None:
    position = resolved(variable, lines)
    return Source(*position) if isinstance(position, tuple) else None


def warn(kind: str, _flag: int) -> None:
    """Emit a NumPy warning at the user's line: NumPy's callback while a program runs."""
    now = running(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]  # documented for CPython
    if now is None:
        warnings.warn(f"{kind} encountered", RuntimeWarning, stacklevel=2)
    else:
        _warn(kind, *now)


def warn_at(kind: str, now: CurrentOperation) -> None:
    """Emit the warning of `warn` for an operation executed elsewhere."""
    position = now.position
    if not isinstance(position, int):
        _warn(kind, now.primitive, None if position is None else Source(*position))
        return
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # documented for CPython
    while frame is not None and frame.f_code not in LINES:
        frame = frame.f_back
    _warn(
        kind, now.primitive, None if frame is None else _resolved(position, frame.f_locals["lines"])
    )


def _warn(kind: str, primitive: Primitive, source: Source | None) -> None:
    name = (
        primitive.eval.__name__
        if isinstance(primitive.eval, np.ufunc)
        else primitive.warns or primitive.name
    )
    message = f"{kind} encountered in {name}"
    if source is None:
        warnings.warn(message, RuntimeWarning, stacklevel=3)
        return
    registry = _registries.get(source.file)
    if registry is None:
        registry = _registries.keep(source.file, {})
    warnings.warn_explicit(message, RuntimeWarning, source.file, source.line, registry=registry)


current_modes: Callable[[], Any] = _modes.get if _modes is not None else object
"""Returns an object that identifies NumPy's error modes: the same object until they change."""


def _mode_setters() -> tuple[Any, Any, Callable[[Any], Any], Callable[[Any], object]]:
    """Return NumPy's default modes, the modes with `warn`, their setter and resetter, or no-ops."""
    if _modes is None or _make_modes is None:
        return None, None, id, id
    naming = _make_modes(divide="call", over="call", invalid="call", call=warn)
    return contextvars.Context().run(_modes.get), naming, _modes.set, _modes.reset


DEFAULT_MODES, NAMING_MODES, set_modes, reset_modes = _mode_setters()


def name_warnings() -> Any:
    """Make NumPy's warnings name the user's line until `stop_naming(token)`; return the token."""
    modes = current_modes()
    if modes is DEFAULT_MODES:
        return set_modes(NAMING_MODES)
    return None if modes is NAMING_MODES else _other_modes()


def stop_naming(token: Any) -> None:
    """Undo `name_warnings`."""
    if type(token) is np.errstate:
        token.__exit__(None, None, None)
    elif token is not None:
        reset_modes(token)


def _other_modes() -> Any:
    """Replace mode "warn" by a call of `warn`, and keep all other modes."""
    modes: dict[str, Any] = dict(np.geterr())
    if "warn" not in modes.values() or "call" in modes.values() or "log" in modes.values():
        return None
    called: dict[str, Any] = {
        kind: "call" if mode == "warn" else mode for kind, mode in modes.items()
    }
    token = np.errstate(**called, call=warn)
    token.__enter__()
    return token
