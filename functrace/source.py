"""Source positions: the user's line that an operation came from.

A position costs almost nothing while recording: it is the caller's code object and the offset of
its running instruction. File, line, expression and the variables that the result was assigned to
are computed on demand (for a listing, an error). A program that was parsed or unpickled has a line
as a `SourceLine`: file and number, no code.

Note [How a variable is found]
    ``co_positions`` of CPython gives the source span of an instruction. An assignment is found in
    the syntax tree of the file by the span of its value; this does not depend on instructions, and
    all versions of Python give the same names. Without the source (``exec``, the prompt before
    Python 3.13) there are no names.

Layer: b (base).
"""

from __future__ import annotations

import ast
import contextlib
import functools
import itertools
import linecache
import os
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from opcode import opname
from types import CodeType, FrameType, TracebackType
from typing import Any, Generic, TypeAlias, TypeVar, final

import numpy as np

PACKAGE_PREFIX = os.path.dirname(os.path.abspath(__file__)) + os.sep
"""Frames whose file begins with this are functrace's own and are never shown to users."""

SEEN = [""]
"""The file of the last user's frame on a hot path: most lookups match it, by identity."""

GENERATED_FILES = "<functrace "
"""Prefix of the file names of generated code."""

OWN_AND_NUMPYS = (PACKAGE_PREFIX, os.path.dirname(np.__file__) + os.sep, GENERATED_FILES)
"""Prefixes of files that are neither the user's nor another library's."""
CYTHONS = (".pyx", ".pxd", ".pxi", "<stringsource>")
"""Suffixes of the files of frames that Cython adds to a traceback."""

_STORES = ("STORE_SUBSCR", "STORE_SLICE", "STORE_ATTR")
_STANDARD_LIBRARY = os.path.dirname(contextlib.__file__) + os.sep
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")

Span: TypeAlias = tuple[int | None, int | None, int | None, int | None]
"""A span of a file, as in ``co_positions``: first and last line, first and last column (in
bytes)."""

Names: TypeAlias = tuple[str | None, ...]
T = TypeVar("T")


@final
@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line given by its number, without a code object.

    Args:
        file: path of the file; one that is not absolute is shown, never opened.
        line: counted from 1.
        function: name of the function with the line.
    """

    file: str
    line: int
    function: str = "<program>"


@dataclass(frozen=True, slots=True)
class Source:
    """A place in the user's code: a code object and the offset of one instruction in it; or a
    `SourceLine`.
    """

    code: CodeType | SourceLine
    offset: int

    @property
    def file(self) -> str:
        """Path of the file, as Python knows it."""
        return self.code.file if isinstance(self.code, SourceLine) else self.code.co_filename

    @property
    def function(self) -> str:
        """Name of the function with the line."""
        return self.code.function if isinstance(self.code, SourceLine) else self.code.co_name

    @property
    def line(self) -> int:
        """Line number, counted from 1."""
        if isinstance(self.code, SourceLine):
            return self.code.line
        return self._span[0] or self.code.co_firstlineno

    @property
    def expression(self) -> str:
        """The text of the line, stripped; empty without the source."""
        # A parsed program may name any path of this machine as a file: a device, or other text.
        if isinstance(self.code, SourceLine) and not (
            os.path.isabs(self.file) and self.file.endswith(".py")
        ):
            return ""
        lines = _lines(self.file)
        return lines[self.line - 1].strip() if 0 < self.line <= len(lines) else ""

    @property
    def assigned(self) -> Names:
        """Variables that the result is stored in, several if it is unpacked (``None`` for other
        targets); empty if it is not stored, or without the source."""
        if isinstance(self.code, SourceLine):
            return ()
        lines = _lines(self.file)
        return _assignments(_ByIdentity(lines)).get(self._span, ()) if lines else ()

    @property
    def called(self) -> str:
        """Source text of the function that the instruction calls (``np.array``); empty if there is
        no call, or no source."""
        node = self._expression_tree
        return ast.unparse(node.func) if isinstance(node, ast.Call) else ""

    @property
    def operator(self) -> type[ast.operator] | None:
        """The class of the binary operator that the instruction applies (``ast.Div``); ``None`` if
        it applies none, or without the source."""
        node = self._expression_tree
        return type(node.op) if isinstance(node, ast.BinOp) else None

    @property
    def stored_into(self) -> str:
        """Source text of the object that the instruction writes into: ``y`` of ``y[0] = x`` and of
        ``y.flat = x``.

        Empty if the instruction is no assignment to an item or to an attribute; ``"an array"``
        without the source.
        """
        if isinstance(self.code, SourceLine) or not opname[
            self.code.co_code[self.offset & ~1]
        ].startswith(_STORES):
            return ""
        node = self._expression_tree
        return (
            ast.unparse(node.value)
            if isinstance(node, ast.Subscript | ast.Attribute)
            else "an array"
        )

    @property
    def formats(self) -> bool:
        """True if the instruction formats a value as text: in an f-string, or by ``%``."""
        if isinstance(self.code, SourceLine):
            return False
        if opname[self.code.co_code[self.offset & ~1]].startswith("FORMAT"):
            return True
        node = self._expression_tree
        if not (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.Mod)
            and isinstance(node.left, ast.Constant)
        ):
            return False
        return isinstance(node.left.value, str)

    @property
    def _expression_tree(self) -> ast.expr | None:
        """The expression that the instruction was compiled from; ``None`` if there is none, or no
        source."""
        first, last, start, stop = (None,) * 4 if isinstance(self.code, SourceLine) else self._span
        lines = _lines(self.file)
        if first is None or last is None or start is None or stop is None or last > len(lines):
            return None
        text = b"".join([line.encode() for line in lines[first - 1 : last]])
        text = text[start : len(text) - len(lines[last - 1].encode()) + stop]
        try:
            return ast.parse(b"(" + text + b")", mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # the file has changed since
            return None

    @property
    def short(self) -> str:
        """``file.py:14``, without directories; safe in a comment."""
        return f"{printable(os.path.basename(self.file))}:{self.line}"

    @property
    def _span(self) -> Span:
        assert not isinstance(self.code, SourceLine)
        return _spans(_ByIdentity(self.code))[self.offset // 2]

    def __reduce__(self) -> Any:
        """Copy and pickle as a `SourceLine`: code objects cannot be pickled."""
        place = (
            self.code
            if isinstance(self.code, SourceLine)
            else SourceLine(self.file, self.line, self.function)
        )
        return Source, (place, self.offset if isinstance(self.code, SourceLine) else 0)

    def __str__(self) -> str:
        expression = self.expression
        where = f"{self.short} in {printable(self.function)}"
        return f"{where}:   {expression}" if expression else where


def printable(text: str) -> str:
    """Escape everything in a text that is not printable, for comments and names.

    Line ends of Python's tokenizer, of `str.splitlines` or of a terminal are not printable, nor are
    the marks that change the direction of writing.
    """
    if text.isprintable():
        return text
    return "".join(
        [c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text]
    )


def is_users(file: str) -> bool:
    """Return True if a file is the user's own: not functrace's, NumPy's, or another installed
    library's."""
    if file.startswith(OWN_AND_NUMPYS) or file.endswith(CYTHONS):
        return False
    return not (file.startswith(_STANDARD_LIBRARY) or any(part in file for part in _INSTALLED))


def user_frame(depth: int = 1) -> FrameType | None:
    """Return the innermost running frame that is the user's own; if all are libraries', the
    innermost that is not ours.
    """
    frame: FrameType | None
    frame = sys._getframe(depth)  # pyright: ignore[reportPrivateUsage]  # documented for CPython
    while frame is not None and frame.f_code.co_filename.startswith(OWN_AND_NUMPYS):
        frame = frame.f_back
    innermost = frame
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return innermost if frame is None else frame


def user_position() -> tuple[CodeType, int] | None:
    """Return code and offset of the innermost running frame outside of functrace, for a recorded
    operation.

    Only for functions that append to a tape, which functrace calls.
    """
    # skip this function, its caller and the caller of that
    frame: Any = sys._getframe(3)  # pyright: ignore[reportPrivateUsage]  # documented for CPython
    code = frame.f_code
    while code.co_filename is not SEEN[0]:
        if code.co_filename.startswith(PACKAGE_PREFIX):
            frame = frame.f_back
            if frame is None:
                return None
            code = frame.f_code
        else:
            SEEN[0] = code.co_filename
    return code, frame.f_lasti


def user_source() -> Source | None:
    """Return the position of the user's line that is running now."""
    frame = user_frame(2)
    return None if frame is None else Source(frame.f_code, frame.f_lasti)


def source_of_traceback(traceback: TracebackType | None) -> Source | None:
    """Return the innermost user line of a traceback; if all are libraries', the innermost that is
    not ours.
    """
    own = other = None
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not file.startswith(OWN_AND_NUMPYS):
            other = Source(traceback.tb_frame.f_code, traceback.tb_lasti)
            own = other if is_users(file) else own
        traceback = traceback.tb_next
    return own or other


# -- tracebacks ------------------------------------------------------------------------------------


def hide_own_frames(error: BaseException) -> None:
    """Remove functrace's own frames from the traceback of an error that leaves a public function.

    Also removes chained errors, unless they passed through frames of the user's, or of another
    library: errors that functrace, or NumPy for it, has raised and handled do not help the user.
    ``FUNCTRACE_TRACEBACKS=full`` in the environment disables this.
    """
    if os.environ.get("FUNCTRACE_TRACEBACKS") == "full":
        return
    seen: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and all(current is not other for other in seen):
        seen.append(current)
        is_own = type(current).__module__.startswith("functrace.") or _raised_by(
            current, PACKAGE_PREFIX
        )
        current.__traceback__ = _users_part(current.__traceback__)
        if current.__cause__ is not None and _is_internal(current.__cause__):
            current.__cause__ = None  # (`__suppress_context__` stays true)
        context = current.__context__
        is_hidden = is_own and current.__suppress_context__ and current.__cause__ is None
        if context is not None and (is_hidden or _is_internal(context)):
            current.__context__ = None
        current = current.__cause__ or current.__context__


def _raised_by(error: BaseException, prefix: str) -> bool:
    """Return True if the line that raised an error is in a file with a given prefix."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback is not None and traceback.tb_frame.f_code.co_filename.startswith(prefix)


def _is_internal(error: BaseException) -> bool:
    """Return True if a handled error has passed only through frames of functrace and NumPy."""
    traceback = error.__traceback__
    if traceback is None:  # never raised: created as a cause
        return False
    while traceback is not None:
        if not traceback.tb_frame.f_code.co_filename.startswith(OWN_AND_NUMPYS):
            return False
        traceback = traceback.tb_next
    return error.__cause__ is None or _is_internal(error.__cause__)


def _users_part(traceback: TracebackType | None) -> TracebackType | None:
    kept: list[TracebackType] = []
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not file.startswith((PACKAGE_PREFIX, GENERATED_FILES)):
            kept.append(traceback)
        traceback = traceback.tb_next
    for one, after in itertools.zip_longest(kept, kept[1:]):
        one.tb_next = after
    return kept[0] if kept else None


# -- code objects and files ------------------------------------------------------------------------


@final
class _ByIdentity(Generic[T]):
    """A key that compares an object by identity: equal code objects may be in different files."""

    __slots__ = ("object",)

    def __init__(self, of: T) -> None:
        self.object = of

    def __hash__(self) -> int:
        return id(self.object)

    def __eq__(self, other: object) -> bool:
        untyped: Any = other
        return isinstance(other, _ByIdentity) and self.object is untyped.object


def _lines(file: str) -> list[str]:
    """Return the lines of a file, the same list until it is reread; empty if it is not
    available."""
    try:
        return linecache.getlines(file)
    except ValueError:  # no file can have this name
        return []


@functools.lru_cache(maxsize=256)
def _spans(code: _ByIdentity[CodeType]) -> list[Span]:
    """Return the span of every instruction, two bytes each."""
    return list(code.object.co_positions())


@functools.lru_cache(maxsize=64)
def _assignments(lines: _ByIdentity[list[str]]) -> dict[Span, Names]:
    """Map the span of the instruction that computes a value to the variables that it is assigned
    to, for a file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # Python has emitted these warnings when it compiled the file
            tree = ast.parse("".join(lines.object))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the file has changed since
        return {}
    return {span: names for node in ast.walk(tree) for span, names in _stored_by(node)}


def _stored_by(node: ast.AST) -> Iterator[tuple[Span, Names]]:
    """Yield the spans and targets of one statement or expression."""
    if isinstance(node, ast.Assign):
        for target in reversed(node.targets):  # of `a = b = value`, the first counts
            yield from _stored(target, node.value)
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        yield from _stored(node.target, node.value)
    elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield (
            _span(node),
            (node.target.id,),
        )  # the operation has the characters of the whole statement


def _stored(target: ast.expr, value: ast.expr) -> Iterator[tuple[Span, Names]]:
    if isinstance(value, ast.IfExp):
        yield from _stored(target, value.body)
        yield from _stored(target, value.orelse)
    elif isinstance(target, ast.Name):
        yield from [(span, (target.id,)) for span in _spans_of(value)]
    elif isinstance(target, (ast.Tuple, ast.List)) and not any(
        isinstance(t, ast.Starred) for t in target.elts
    ):
        if isinstance(value, (ast.Tuple, ast.List)):
            for part, of in zip(target.elts, value.elts, strict=False):
                yield from _stored(part, of)
        else:
            names = tuple([t.id if isinstance(t, ast.Name) else None for t in target.elts])
            yield from [
                (span, names) for span in (*_spans_of(value), _span(target))
            ]  # a traced array unpacks at the target


def _spans_of(value: ast.expr) -> Iterator[Span]:
    """Yield the spans that the last instruction of an expression may have.

    The span of an attribute, or of a method call, on another line than its object begins at its
    name.
    """
    whole = _span(value)
    yield whole
    attribute = value.func if isinstance(value, ast.Call) else value
    if isinstance(attribute, ast.Attribute) and attribute.end_lineno != value.lineno:
        line, end = attribute.end_lineno, attribute.end_col_offset
        assert line is not None and end is not None
        yield line, whole[1], end - len(attribute.attr), whole[3]


def _span(node: ast.expr | ast.stmt) -> Span:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset
