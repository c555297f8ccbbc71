"""One side of `tests.peers.torch.suite`: run the tests of a file, and write their results.

    python -m tests.peers.torch.suite.child pytorch|here FILE RESULTS.json [WORD]

A name that a test file imports and functrace.torch does not have becomes a `Missing` one, which
raises where a test calls it, so that the other tests run.
"""

from __future__ import annotations

import ast
import copy
import importlib
import importlib.util
import json
import signal
import sys
import traceback
import unittest
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

UTILITIES = Path(__file__).parent / "utilities"
INTERNAL = "torch.testing._internal"
SECONDS = 60
"""The time that a test may take."""

ABSENT = {
    "torch.profiler.itt.is_available()": "False",
    "torch._nnpack_available()": "False",
    "@mark_subclass_constructor_exportable_experimental": "",
    "torch.overrides.enable_reentrant_dispatch": "__import__('contextlib').nullcontext",
}
"""Expressions of PyTorch's files that run at import, and their values in a CPU build."""


class Missing:
    """A name that is not there: it may be passed on, and raises when it is called."""

    def __init__(self, name: str) -> None:
        self.__name__ = self.name = name

    def __call__(self, *args: object, **keywords: object) -> None:
        raise NotImplementedError(f"missing: {self.name}")

    def __getattr__(self, name: str) -> Missing:
        if name.startswith("__"):
            raise AttributeError(name)
        return Missing(f"{self.name}.{name}")

    def __bool__(self) -> bool:
        return False

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        return ()

    def __getitem__(self, _key: object) -> Missing:
        return self

    def __or__(self, _other: object) -> Missing:
        return self

    __ror__ = __or__


class MissingModule(Loader):
    """Loader of a module all of whose names are missing."""

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        def __getattr__(name: str) -> Missing:
            if name.startswith("__"):
                raise AttributeError(name)
            return Missing(f"{module.__name__}.{name}")

        module.__dict__["__getattr__"] = __getattr__


def with_missing_names(tree: ast.Module) -> ast.Module:
    """Return a file whose imports from ``torch`` replace what is missing."""
    lines: list[ast.stmt] = []
    for line in tree.body:
        if (
            not isinstance(line, ast.ImportFrom)
            or not (line.module or "").startswith("torch")
            or (line.module or "").startswith(INTERNAL)
        ):
            lines.append(line)
            continue
        for alias in line.names:
            name = alias.asname or alias.name
            text = (
                f"try:\n    from {line.module} import {alias.name} as {name}\nexcept ImportError:\n"
            )
            text += f"    {name} = __import__({__name__!r}).Missing('{line.module}.{alias.name}')"
            for new in ast.parse(text).body:
                lines.append(ast.fix_missing_locations(ast.copy_location(new, line)))
    tree.body = lines
    return tree


def parsed(text: str, side: str) -> ast.Module:
    """Parse a file of PyTorch's; without its imports of other test files, whose tests they add."""
    for call, value in ABSENT.items():
        text = text.replace(call, value)
    tree = ast.parse(text)
    tree.body = [
        line
        for line in tree.body
        if not isinstance(line, ast.ImportFrom)
        or not (line.module or "").startswith(("autograd.", "nn.", "optim.", "test_"))
    ]
    return with_missing_names(tree) if side == "here" else tree


class FileOfPyTorch(SourceFileLoader):
    """Loader of a file of the installed PyTorch's test utilities."""

    def get_code(self, fullname: str) -> Any:
        return compile(parsed(Path(self.path).read_text(), SIDE), self.path, "exec")


class Utilities(MetaPathFinder):
    """Finder of ``torch.testing._internal``: own files, then the installed PyTorch's."""

    def __init__(self, side: str, installed: Path) -> None:
        self.side, self.installed = side, installed / "testing" / "_internal"

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == INTERNAL:
            return importlib.util.spec_from_file_location(
                fullname, UTILITIES / "__init__.py", submodule_search_locations=[str(UTILITIES)]
            )
        if not fullname.startswith(INTERNAL + "."):
            return None
        leaf = fullname[len(INTERNAL) + 1 :] + ".py"
        own, theirs = UTILITIES / leaf, self.installed / leaf
        if own.exists() and not (self.side == "pytorch" and leaf == "common_dtype.py"):
            return importlib.util.spec_from_file_location(fullname, own)
        if theirs.exists():
            loader = FileOfPyTorch(fullname, str(theirs))
            return importlib.util.spec_from_file_location(fullname, theirs, loader=loader)
        return ModuleSpec(fullname, MissingModule())


class Absent(MetaPathFinder):
    """The last finder: modules of ``torch`` that functrace.torch does not have."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.startswith("torch."):
            return ModuleSpec(fullname, MissingModule(), is_package=True)
        return None


def import_torch(side: str) -> ModuleType:
    """Import ``torch``: PyTorch, or functrace.torch under its name."""
    found = PathFinder.find_spec("torch")
    assert found is not None and found.origin is not None, "PyTorch is not installed"
    utilities = Utilities(side, Path(found.origin).parent)
    if side == "here":
        import functrace.torch

        functrace.torch.stand_in()
        sys.meta_path.append(Absent())
    sys.meta_path.insert(0, utilities)
    torch = importlib.import_module("torch")
    if side == "here":  # (there, torch.testing is no package)
        spec = utilities.find_spec(INTERNAL)
        assert spec is not None
        sys.modules[INTERNAL] = torch.testing.__dict__["_internal"] = (
            importlib.util.module_from_spec(spec)
        )
    torch.set_num_threads(1)
    copy_saved_modules(torch)
    return torch


def copy_saved_modules(torch: ModuleType) -> None:
    """Let ``torch.save`` and ``torch.load`` copy a module that is saved whole."""
    save, load = torch.save, torch.load
    copies: dict[int, Any] = {}

    def saved(value: Any, file: Any, *args: Any, **keywords: Any) -> None:
        if not isinstance(value, torch.nn.Module) or isinstance(file, str):
            return save(value, file, *args, **keywords)
        file.write(b"copied")
        copies[id(file)] = copy.deepcopy(value)
        return None

    def loaded(file: Any, *args: Any, **keywords: Any) -> Any:
        return copies.pop(id(file)) if id(file) in copies else load(file, *args, **keywords)

    torch.save, torch.load = saved, loaded


class Report(unittest.TestResult):
    """The results by name of the test."""

    def __init__(self) -> None:
        super().__init__()
        self.by_name: dict[str, tuple[str, str]] = {}

    def _add(self, test: unittest.TestCase, kind: str, text: str = "") -> None:
        self.by_name[test.id().partition(".")[2]] = (kind, text[-3500:])

    def addSuccess(self, test: Any) -> None:
        self._add(test, "passed")

    def addSkip(self, test: Any, reason: str) -> None:
        self._add(test, "skipped", str(reason))

    def addFailure(self, test: Any, err: Any) -> None:
        self._add(test, "failed", "".join(traceback.format_exception(*err)))

    addError = addFailure

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self.addFailure(test, err)

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        self._add(test, "passed")

    def addUnexpectedSuccess(self, test: Any) -> None:
        self._add(test, "failed", "it was expected to fail")


def tests_of(file: Path, side: str, word: str) -> list[unittest.TestCase]:
    """Import a test file, and return its tests whose names contain a word."""
    module = sys.modules[file.stem] = ModuleType(file.stem)
    module.__file__ = str(file)
    sys.path.insert(0, str(file.parent))
    exec(compile(parsed(file.read_text(), side), str(file), "exec"), module.__dict__)
    return [
        case(name)
        for case in list(vars(module).values())
        if isinstance(case, type)
        and issubclass(case, unittest.TestCase)
        and case.__module__ == file.stem
        for name in dir(case)
        if name.startswith("test") and callable(getattr(case, name)) and word in name
    ]


def stop(_signal: int, _frame: FrameType | None) -> None:
    """End a test that takes too long."""
    raise TimeoutError(f"the test took more than {SECONDS} s")


def main(side: str, file: Path, output: Path, word: str) -> None:
    """Run the tests of a file, and write their results."""
    sys.setrecursionlimit(3000)
    import_torch(side)
    signal.signal(signal.SIGALRM, stop)
    report = Report()
    for test in tests_of(file, side, word):
        signal.alarm(SECONDS)
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            test.run(report)
        signal.alarm(0)
    output.write_text(json.dumps(report.by_name))


SIDE = sys.argv[1] if len(sys.argv) > 1 else ""

if __name__ == "__main__":
    sys.modules.setdefault(Path(__file__).stem, sys.modules["__main__"])
    main(SIDE, Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4] if len(sys.argv) > 4 else "")
