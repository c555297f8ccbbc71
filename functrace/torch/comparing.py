"""Scripts on functrace.torch, beside PyTorch: ``python -m functrace.torch.check FILE``.

The script runs in a process of its own with `functrace.torch.stand_in`, and, where PyTorch is
installed, in a second one with PyTorch. A third of the report needs no run: names of ``torch`` in
the script's text that functrace.torch does not have.

Layer: 9.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import math
import os
import re
import runpy
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from types import FrameType, ModuleType, TracebackType
from typing import Any, TextIO, final

__all__ = ["ScriptReport", "check_script", "missing_names"]

SHOWN = 5
"""Differences that are printed."""
RTOL = 1e-4
"""Relative difference up to which numbers are the same, besides half a unit of the last digit."""

_NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?")


# -- names -----------------------------------------------------------------------------------------


def missing_names(text: str) -> list[tuple[int, str]]:
    """Return the names of ``torch`` in a script that functrace.torch does not have.

    Args:
        text: the script.

    Returns:
        lines, and names such as ``torch.fx.symbolic_trace``; each name once.

    Raises:
        SyntaxError: if the text is no Python.

    Example:
        >>> missing_names("import torch.nn as nn\\nlayer = nn.Linear(2, 3)\\nother = nn.Nonsense()")
        [(3, 'torch.nn.Nonsense')]
    """
    names = _Names()
    names.visit(ast.parse(text))
    found: dict[str, int] = {}
    for line, name in sorted(names.used):
        missing = _first_missing(name)
        if missing:
            found.setdefault(missing, line)
    return [(line, name) for name, line in found.items()]


@final
class _Names(ast.NodeVisitor):
    """Collector of dotted names that begin with ``torch``, after imports under other names."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.used: set[tuple[int, str]] = set()

    def visit_Import(self, node: ast.Import) -> None:
        for item in node.names:
            if item.name.partition(".")[0] == "torch":
                self.used.add((node.lineno, item.name))
                if item.asname:
                    self.known[item.asname] = item.name
                else:
                    self.known["torch"] = "torch"

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level or (node.module or "").partition(".")[0] != "torch":
            return
        for item in node.names:
            if item.name != "*":
                name = f"{node.module}.{item.name}"
                self.used.add((node.lineno, name))
                self.known[item.asname or item.name] = name

    def visit_Attribute(self, node: ast.Attribute) -> None:
        parts: list[str] = []
        at: ast.expr = node
        while isinstance(at, ast.Attribute):
            parts.append(at.attr)
            at = at.value
        if isinstance(at, ast.Name) and at.id in self.known:
            name = ".".join([self.known[at.id], *reversed(parts)])
            self.used.add((node.lineno, name))
        else:
            self.generic_visit(node)


def _first_missing(name: str) -> str:
    """Return the beginning of a dotted name that functrace.torch lacks; empty, if it has all.

    Attributes of anything but modules are not looked up.
    """
    at: Any = importlib.import_module("functrace.torch")
    parts = name.split(".")
    for k, part in enumerate(parts[1:], 2):
        if not isinstance(at, ModuleType):
            return ""
        try:
            at = getattr(at, part)
        except AttributeError:
            try:
                at = importlib.import_module(f"functrace.{'.'.join(parts[:k])}")
            except ImportError:
                return ".".join(parts[:k])
        except ImportError:
            return ".".join(parts[:k])
    return ""


# -- the report ------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Difference:
    """A line of output that differs.

    Args:
        number: number of the line, from 1.
        line: line of the script that printed it; 0 if unknown.
        expected: PyTorch's line; None if there is none.
        found: the line on functrace.torch; None if there is none.
    """

    number: int
    line: int
    expected: str | None
    found: str | None

    def __str__(self) -> str:
        where = f" (printed by line {self.line})" if self.line else ""
        return (
            f"  output line {self.number}{where}\n"
            f"    PyTorch:   {_shown(self.expected)}\n"
            f"    functrace: {_shown(self.found)}"
        )


def _shown(line: str | None) -> str:
    return "(no such line)" if line is None else line


@final
@dataclass(frozen=True)
class ScriptReport:
    """Result of `check_script`; it prints itself, and is true if the script runs as on PyTorch.

    Args:
        script: its name.
        missing: lines and names that functrace.torch does not have.
        failure: the exception that ended the script on functrace.torch; empty without one.
        failed_at: line of the script where it was raised; 0 if unknown.
        expected_failure: the exception that ended the script on PyTorch.
        has_torch: whether PyTorch is installed.
        count: number of lines of the output.
        differences: lines that differ.
    """

    script: str
    missing: tuple[tuple[int, str], ...] = ()
    failure: str = ""
    failed_at: int = 0
    expected_failure: str = ""
    has_torch: bool = False
    count: int = 0
    differences: tuple[Difference, ...] = field(default=())

    def __bool__(self) -> bool:
        if self.differences:
            return False
        return self.failure == self.expected_failure if self.has_torch else not self.failure

    def __str__(self) -> str:
        parts = []
        if self.missing:
            parts.append(f"{self.script}: names that functrace.torch does not have")
            parts += [f"  line {line}: {name}" for line, name in self.missing]
        if self.failure and not (self.has_torch and self.failure == self.expected_failure):
            where = f"  line {self.failed_at}: " if self.failed_at else "  "
            parts += [f"{self.script}: it stops on functrace.torch", f"{where}{self.failure}"]
        if self.has_torch and self.expected_failure and self.failure != self.expected_failure:
            parts += [f"{self.script}: it stops on PyTorch", f"  {self.expected_failure}"]
        if self.differences:
            count = len(self.differences)
            parts.append(f"{self.script}: {count} of {self.count} lines of output differ")
            parts += [str(difference) for difference in self.differences[:SHOWN]]
            if count > SHOWN:
                parts.append(f"  ... and {count - SHOWN} more")
        if self:
            beside = "the same as on PyTorch" if self.has_torch else "(PyTorch is not installed)"
            parts.append(f"{self.script}: it runs, {self.count} lines of output, {beside}")
        return "\n".join(parts)


def check_script(
    path: str | os.PathLike[str],
    arguments: Sequence[str] = (),
    *,
    beside: bool = True,
    timeout: float | None = None,
) -> ScriptReport:
    """Run a script that imports ``torch`` on functrace.torch, and, if it is installed, on PyTorch.

    Args:
        path: the script.
        arguments: its arguments.
        beside: False to run it on functrace.torch only.
        timeout: seconds after which either run is ended.

    Returns:
        a report of missing names, exceptions, and lines of output that differ. Numbers are the same
        up to the last digit that is printed.

    Raises:
        FileNotFoundError: if there is no such script.
        subprocess.TimeoutExpired: after the timeout.
    """
    script = Path(path)
    try:
        missing = tuple(missing_names(script.read_text(encoding="utf-8")))
    except SyntaxError:
        missing = ()
    given = [str(script), *arguments]
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder, "record.json")
        found = _run(["-m", "functrace.torch.comparing", str(record), *given], timeout)
        noted = json.loads(record.read_text()) if record.exists() else {}
    failure = noted.get("failure") or _ended(found)
    lines = found.stdout.splitlines()
    has_torch = beside and importlib.util.find_spec("torch") is not None
    if not has_torch:
        return ScriptReport(script.name, missing, failure, noted.get("line", 0), count=len(lines))
    expected = _run(given, timeout)
    wanted = expected.stdout.splitlines()
    if failure and not expected.returncode:
        wanted = wanted[: len(lines)]  # the rest follows the exception
    differences = _differences(wanted, lines, noted.get("lines", []))
    return ScriptReport(
        script.name,
        missing,
        failure,
        noted.get("line", 0),
        _last_line(expected.stderr) if expected.returncode else "",
        True,
        len(lines),
        tuple(differences),
    )


def _run(command: list[str], timeout: float | None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        env=environment,
        timeout=timeout,
        check=False,
    )


def _ended(run: subprocess.CompletedProcess[str]) -> str:
    return _last_line(run.stderr) or f"exit code {run.returncode}" if run.returncode else ""


def _last_line(text: str) -> str:
    """Return the last line of a traceback that names an exception."""
    lines = [line for line in text.splitlines() if line and not line[0].isspace()]
    named = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Interrupt|Exit)\b", line)]
    return (named or lines or [""])[-1].removeprefix("torch.").strip()


def _differences(
    expected: Sequence[str], found: Sequence[str], printed: Sequence[int]
) -> Iterator[Difference]:
    for k, (a, b) in enumerate(zip_longest(expected, found)):
        if a is None or b is None or not _is_same(a, b):
            yield Difference(k + 1, printed[k] if k < len(printed) else 0, a, b)


def _is_same(expected: str, found: str) -> bool:
    """Return True for lines with the same text and the same numbers."""
    if expected == found:
        return True
    if _NUMBER.sub("#", expected).split() != _NUMBER.sub("#", found).split():
        return False
    pairs = zip(_NUMBER.findall(expected), _NUMBER.findall(found), strict=True)
    return all(_is_close(a, b) for a, b in pairs)


def _is_close(a: str, b: str) -> bool:
    if "." not in a and "." not in b:
        return int(float(a)) == int(float(b))
    x, y = float(a), float(b)
    digits = len(a.partition(".")[2].partition("e")[0].partition("E")[0])
    exponent = int(re.split("[eE]", a)[1]) if re.search("[eE]", a) else 0
    unit = 10.0 ** (exponent - digits)
    return math.isclose(x, y, rel_tol=RTOL, abs_tol=1.01 * unit)


# -- the process on functrace.torch ----------------------------------------------------------------


@final
class _Output:
    """Standard output that records the line of the script that printed each line.

    Args:
        target: the stream.
        script: the script's file.
    """

    def __init__(self, target: TextIO, script: str) -> None:
        self._target, self._script = target, script
        self.lines: list[int] = []

    def write(self, text: str) -> int:
        """Write, and record the line."""
        count = text.count("\n")
        if count:
            self.lines += [_line_of(sys._getframe(1), self._script)] * count
        return self._target.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)


def _line_of(frame: FrameType | None, script: str) -> int:
    """Return the line of a script that a frame runs for; 0 if there is none."""
    while frame is not None and frame.f_code.co_filename != script:
        frame = frame.f_back
    return 0 if frame is None else frame.f_lineno


def _raised_at(trace: TracebackType | None, script: str) -> int:
    """Return the last line of a script in a traceback."""
    line = 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == script:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def run_script(record: str, script: str, *arguments: str) -> int:
    """Run a script on functrace.torch in this process; returns the exit code.

    Args:
        record: file for the lines that printed, and for the exception.
        script: the script.
        arguments: its arguments.
    """
    from functrace.torch.standing_in import stand_in

    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    output = _Output(sys.stdout, script)
    sys.stdout = output  # type: ignore[assignment]
    noted: dict[str, Any] = {}
    code = 0
    stand_in()
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException as error:
        trace = error.__traceback__
        traceback.print_exception(error)
        last = traceback.format_exception_only(error)[-1]
        noted["failure"] = _last_line("".join(traceback.format_exception_only(error))) or last
        syntax = error.lineno if isinstance(error, SyntaxError) else None
        noted["line"] = syntax or _raised_at(trace, script)
        code = 1
    finally:
        sys.stdout.flush()
        noted["lines"] = output.lines
        Path(record).write_text(json.dumps(noted))
    return code


if __name__ == "__main__":
    sys.exit(run_script(*sys.argv[1:]))
