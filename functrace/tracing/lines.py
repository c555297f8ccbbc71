"""The user's line of an operation that runs now: what warnings and errors of running programs name.

Note [Positions in cached programs]
    A program that is made from a recording is cached by structure, and runs for other recordings of the same structure,
    from other lines. So its positions are numbers of the recording's variables; whoever runs it passes the positions of the
    recording at hand (``lines``). Programs that operations hold have positions of their own, and are part of the key by
    identity, which tells lines apart (`Program.interned`).

Note [How a warning finds its line]
    NumPy warns from the operation that it is carrying out. Programs run with NumPy's error mode set to "call", and the
    function that is called looks through the running frames for the innermost one that runs a program (`RUNNING`): that
    frame's variables say which operation is on. Nothing is done per operation. Setting the mode takes 0.3 us per
    run where it is NumPy's default, which is found out by the identity of what NumPy keeps in a context variable; where
    that is not to be had, and for other modes, it takes 5 us.

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

from functrace.caches import Facts
from functrace.ir.primitive import Primitive
from functrace.ir.program import Position
from functrace.ir.walk import interpret
from functrace.source import Source

# Where NumPy keeps its error modes: private, and not to be relied on.
_modes: Any = getattr(umath, "_extobj_contextvar", None)
_make_modes: Any = getattr(umath, "_make_extobj", None)


class Now(NamedTuple):
    """The operation that a frame carries out.

    Args:
        primitive: what it applies.
        position: where it came from: a position, or a variable of the recording (see Note [Positions in cached programs]).
    """

    primitive: Primitive
    position: Position


RUNNING: dict[CodeType, Callable[[FrameType, int], Now | None]] = {}
"""By code of a function that runs programs: from its frame, and the line that the frame is at, what it carries out."""
LINES: set[CodeType] = set()
"""Codes of functions that have a variable ``lines``: the positions of the recording whose program they run."""
GENERATED = "operations"
"""Name under which generated code has, among its globals, what each of its lines carries out, by file name."""

_registries = Facts("warnings shown", 256)
"""By file: which warnings have been shown for its lines, as modules have it for their own."""


def _interpreted(frame: FrameType, _line: int) -> Now | None:
    tape, k = frame.f_locals["tape"], frame.f_locals.get("k")
    return None if k is None else Now(tape.columns.primitives[k], tape.position(k))


RUNNING[interpret.__code__] = _interpreted


def _now(frame: FrameType, line: int) -> Now | None:
    found = RUNNING.get(frame.f_code)
    if found is not None:
        return found(frame, line)
    generated: dict[str, dict[int, Now]] | None = frame.f_globals.get(GENERATED)
    if type(generated) is dict and frame.f_code.co_filename in generated:
        return generated[frame.f_code.co_filename].get(line)
    return None


def running(frame: FrameType | None) -> tuple[Primitive, Source | None] | None:
    """Return what is carried out in the innermost frame that runs a program, and the user's line; ``None`` outside."""
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
    """Return the user's line of the innermost operation that a traceback passes through."""
    found = None
    while traceback is not None:
        now = _now(traceback.tb_frame, traceback.tb_lineno)
        if now is not None and now.position is not None:
            position = now.position
            found = _resolved(position, lines) if isinstance(position, int) else Source(*position)
        traceback = traceback.tb_next
    return found


def _resolved(variable: int, lines: Sequence[Position]) -> Source | None:
    position = lines[variable] if variable < len(lines) else None
    return Source(*position) if isinstance(position, tuple) else None


def warn(kind: str, _flag: int) -> None:
    """Warn as NumPy does, at the user's line: what NumPy calls while a program runs."""
    now = running(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]  # documented for CPython
    if now is None:
        warnings.warn(f"{kind} encountered", RuntimeWarning, stacklevel=2)
    else:
        _warn(kind, *now)


def warn_at(kind: str, now: Now) -> None:
    """Warn as `warn` does, of an operation that the program which runs has carried out elsewhere."""
    position = now.position
    if not isinstance(position, int):
        _warn(kind, now.primitive, None if position is None else Source(*position))
        return
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # documented for CPython
    while frame is not None and frame.f_code not in LINES:
        frame = frame.f_back
    _warn(kind, now.primitive, None if frame is None else _resolved(position, frame.f_locals["lines"]))


def _warn(kind: str, primitive: Primitive, source: Source | None) -> None:
    name = primitive.eval.__name__ if isinstance(primitive.eval, np.ufunc) else primitive.warns or primitive.name
    message = f"{kind} encountered in {name}"
    if source is None:
        warnings.warn(message, RuntimeWarning, stacklevel=3)
        return
    registry = _registries.get(source.file)
    if registry is None:
        registry = _registries.keep(source.file, {})
    warnings.warn_explicit(message, RuntimeWarning, source.file, source.line, registry=registry)


current_modes: Callable[[], Any] = _modes.get if _modes is not None else object
"""Returns what stands for NumPy's error modes; the same object as long as nobody changes them."""


def _mode_setters() -> tuple[Any, Any, Callable[[Any], Any], Callable[[Any], object]]:
    """NumPy's default modes, those that name lines, and what sets and resets them; where they are not to be had, nothing."""
    if _modes is None or _make_modes is None:
        return None, None, id, id
    naming = _make_modes(divide="call", over="call", invalid="call", call=warn)
    return contextvars.Context().run(_modes.get), naming, _modes.set, _modes.reset


DEFAULT_MODES, NAMING_MODES, set_modes, reset_modes = _mode_setters()


def name_warnings() -> Any:
    """Let NumPy's warnings name the user's line until `stop_naming` is called with what this returns."""
    modes = current_modes()
    if modes is DEFAULT_MODES:
        return set_modes(NAMING_MODES)
    return None if modes is NAMING_MODES else _other_modes()


def stop_naming(token: Any) -> None:
    """End what `name_warnings` began."""
    if type(token) is np.errstate:
        token.__exit__(None, None, None)
    elif token is not None:
        reset_modes(token)


def _other_modes() -> Any:
    """Where modes are not the default: those that warn call `warn`, the others stay."""
    modes: dict[str, Any] = dict(np.geterr())
    if "warn" not in modes.values() or "call" in modes.values() or "log" in modes.values():
        return None
    called: dict[str, Any] = {kind: "call" if mode == "warn" else mode for kind, mode in modes.items()}
    token = np.errstate(**called, call=warn)
    token.__enter__()
    return token
