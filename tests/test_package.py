"""What installs: the metadata, the pins of the lowest versions, and what pages and messages say about it."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = (".ci", "benchmarks", "docs", "examples", "functrace", "tests")
SUFFIXES = {".py", ".md", ".toml", ""}
FILES = [*ROOT.glob("*"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))]
TEXTS = [
    path
    for path in FILES
    if path.is_file() and path.suffix in SUFFIXES and not {"venv", "built", "_build"} & set(path.relative_to(ROOT).parts)
]


def test_nothing_says_to_install_the_other_functrace() -> None:
    """The package index has an unrelated package of this name."""
    assert len(TEXTS) > 200
    command = re.compile(r"(pip|uv|conda) (install|add)[^\n`'\"]* " + "functrace")
    found = [path.name for path in TEXTS if command.search(path.read_text(encoding="utf-8"))]
    assert not found


def test_readme_has_no_links_into_a_checkout() -> None:
    """It is shown where there is none: in the metadata of a wheel."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\((?!https://|#)[^)]*\)", text) == []


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_lowest_versions_are_pins_of_every_lower_bound() -> None:
    pins = runpy.run_path(str(ROOT / ".ci" / "lowest.py"))["pins"]
    project = pyproject()["project"]
    found = pins(["scipy", "shapes"])
    assert [pin.replace("==", ">=") for pin in found][: len(project["dependencies"])] == project["dependencies"]
    assert any(pin.startswith("scipy==") for pin in found)
    with pytest.raises(SystemExit, match="torch==2"):
        pins(["bench"])


def test_the_sdist_holds_what_tests_read() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"][
        "sdist"
    ]
    for path in listed["include"]:
        assert (ROOT / path.removeprefix("/")).exists(), path
    assert {f"/{folder}" for folder in FOLDERS if folder != ".ci"} <= set(listed["include"])
