"""Source lines for a page: those that operations come from, with the lines around them.

Source that is missing (``exec``, a removed file) gives no lines. Of positions without a code object,
from a program that was parsed or loaded, only the line itself is read: such a program may name any
file of this machine.

Layer: 8 (api).
"""

from __future__ import annotations

import linecache
import os
from types import CodeType
from typing import Any

from functrace.ir.program import Program
from functrace.source import Source, SourceLine, printable

AROUND = 3
"""Number of lines that are shown before and after one with an operation."""
LONGEST_FUNCTION = 80
"""Maximum number of lines of a function that is shown as a whole."""
LONGEST = 300
"""Maximum number of characters of a line on the page."""


class SourceTable:
    """The files and lines that a page shows, numbered; filled while programs are described."""

    def __init__(self) -> None:
        self._files: dict[str, int] = {}
        self._lines: list[dict[int, str]] = []
        self._names: list[str] = []
        self._around: dict[int, set[int]] = {}
        self.places: list[tuple[int, int, str]] = []
        """File, line and function of each place."""
        self._numbers: dict[tuple[int, int, str], int] = {}

    def place(self, program: Program, k: int) -> int:
        """Return the number of the place that an operation comes from; -1 if it is unknown."""
        source = program.source(k)
        if source is None:
            return -1
        file, line = self._file(source.file), source.line
        lines = self._lines[file]
        if line not in lines:
            self._read(source, file, line)
        key = file, line, printable(source.function)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.places)
            self.places.append(key)
        return found

    def text(self, place: int) -> str:
        """Return ``file.py:14`` for a place."""
        file, line, _ = self.places[place]
        return f"{self._names[file]}:{line}"

    def as_json(self) -> dict[str, Any]:
        """Return files with their lines, and the places, as JSON data."""
        files = [
            {"name": name, "lines": [[n, lines[n]] for n in sorted(lines)]}
            for name, lines in zip(self._names, self._lines, strict=True)
        ]
        return {"files": files, "places": [list(place) for place in self.places]}

    def _file(self, file: str) -> int:
        found = self._files.get(file)
        if found is None:
            found = self._files[file] = len(self._names)
            self._names.append(printable(os.path.basename(file)) or "?")
            self._lines.append({})
        return found

    def _read(self, source: Source, file: int, line: int) -> None:
        """Add a line, and those around it in the same file."""
        lines = self._lines[file]
        if isinstance(source.code, SourceLine):
            lines[line] = _shown(source.expression)
            return
        try:
            whole = linecache.getlines(source.file)
        except ValueError:  # no file can have this name
            whole = []
        if not 0 < line <= len(whole):
            lines[line] = ""
            return
        first, last = max(1, line - AROUND), min(len(whole), line + AROUND)
        if source.function != "<module>":
            begin, end = _span(source.code)
            whole_function = end - begin < LONGEST_FUNCTION
            first = begin if whole_function else max(first, begin)
            last = min(len(whole), end) if whole_function else min(last, end)
            lines.setdefault(begin, _shown(whole[begin - 1]))
        for n in range(min(first, line), max(last, line) + 1):
            lines.setdefault(n, _shown(whole[n - 1]))


def _span(code: CodeType) -> tuple[int, int]:
    """Return the first and the last line of a function."""
    lines = [line for _, _, line in code.co_lines() if line is not None]
    return max(1, code.co_firstlineno), max([code.co_firstlineno, *lines])


def _shown(line: str) -> str:
    text = printable(line.rstrip().expandtabs(4))
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
