"""Type checkers on users' code: no error where it is right, an error at each marked line where it
is wrong.

Snippets stand in typing/right, where each one also runs, and in typing/wrong, where ``# E`` marks
the lines with errors.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import runpy
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import functrace as ft
import functrace.torch as torch
from functrace.torch.lazy import NAMES

HERE = Path(__file__).parent / "typing"
RIGHT, WRONG = sorted(HERE.glob("right/*.py")), sorted(HERE.glob("wrong/*.py"))
ROOT = Path(ft.__file__).parents[1]


def marked(path: Path) -> set[int]:
    return {
        number
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if line.endswith("# E")
    }


def run(command: list[str], tmp_path: Path) -> str:
    """Run a checker from an empty directory, on the functrace that is tested, without this
    project's own settings.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MYPYPATH": str(ROOT)}
    if "site-packages" in ROOT.parts:  # an installed wheel is found where it is
        del environment["MYPYPATH"], environment["PYTHONPATH"]
    paths = [str(path) for path in (*RIGHT, *WRONG)]
    done = subprocess.run(
        [*command, *paths], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def compare(found: dict[Path, dict[int, str]]) -> None:
    for path in (*RIGHT, *WRONG):
        errors, expected = found.get(path, {}), marked(path) if path in WRONG else set()
        said = "\n".join(
            f"{path.name}:{line}: {errors[line]}" for line in sorted(set(errors) - expected)
        )
        missed = ", ".join(f"{path.name}:{line}" for line in sorted(expected - set(errors)))
        assert set(errors) == expected, textwrap.dedent(f"said:\n{said}\nmissed: {missed}")


@pytest.mark.parametrize("path", RIGHT, ids=lambda path: path.stem)
def test_right_snippets_run(path: Path) -> None:
    runpy.run_path(str(path), run_name="__main__")


def test_there_are_snippets_of_both_kinds() -> None:
    assert len(RIGHT) >= 15
    assert sum(len(marked(path)) for path in WRONG) >= 60


@pytest.mark.full
def test_pyright_agrees(tmp_path: Path) -> None:
    pytest.importorskip("pyright", reason="pyright is not installed")
    shown = json.loads(
        run(
            [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson"],
            tmp_path,
        )
    )
    found: dict[Path, dict[int, str]] = {}
    for said in shown["generalDiagnostics"]:
        if said["severity"] == "error":
            found.setdefault(Path(said["file"]), {})[said["range"]["start"]["line"] + 1] = said[
                "message"
            ]
    compare(found)


@pytest.mark.full
def test_mypy_agrees(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--check-untyped-defs",
        "--show-absolute-path",
        "--no-pretty",
    ]
    found: dict[Path, dict[int, str]] = {}
    for line in run(command, tmp_path).splitlines():
        said = re.match(r"(.+?):(\d+): error: (.*)", line)
        if said is not None:
            found.setdefault(Path(said[1]), {})[int(said[2])] = said[3]
    assert not [path for path in found if path.is_relative_to(Path(ft.__file__).parent)], found
    compare(found)


# -- names that type checkers are told of apart ----------------------------------------------------


def test_the_shim_exports_all_public_names() -> None:
    public = {
        name
        for name, value in vars(torch).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    exported = {
        name
        for name in torch.__all__
        if not name.startswith("_") and not inspect.ismodule(getattr(torch, name))
    }
    assert exported | {"LAZY"} == public | {name for name in NAMES if not name.startswith("_")}


def test_checkers_see_no_module_that_accepts_any_name() -> None:
    """A module-level ``__getattr__`` that type checkers see hides misspelt names."""
    package = Path(ft.__file__).parent
    seen = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if not path.with_suffix(".pyi").exists()
        for statement in ast.parse(path.read_text(encoding="utf-8")).body
        if (isinstance(statement, ast.FunctionDef) and statement.name == "__getattr__")
        or (
            isinstance(statement, ast.Assign) and "__getattr__" in ast.unparse(statement.targets[0])
        )
    }
    assert {name for name in seen if not name.startswith(("scipy/", "compat/"))} == {
        "control/__init__.py",
        "torch/_C/__init__.py",
        "torch/_C/_functions.py",
        "torch/_VF.py",
        "torch/functions/named_results.py",
    }
