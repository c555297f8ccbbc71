"""Installation: the metadata, the pins of the lowest versions, pages and messages about it."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import functrace
from functrace.distribution import NAME

ROOT = Path(__file__).parents[1]
FOLDERS = ("benchmarks", "docs", "examples", "functrace", "tests")
SUFFIXES = {".py", ".md", ".toml", ""}
FILES = [
    *ROOT.glob("*"),
    *(ROOT / ".ci").glob("*"),
    *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*")),
]
TEXTS = [
    path
    for path in FILES
    if path.is_file() and path.suffix in SUFFIXES and "_build" not in path.parts
]


def test_nothing_recommends_installing_the_other_functrace() -> None:
    """The package index has an unrelated package of this name."""
    assert len(TEXTS) > 200
    command = re.compile(r"(pip|uv|conda) (install|add)[^\n`'\"]* ['\"]?" + "functrace(?!-numpy)")
    found = [path.name for path in TEXTS if command.search(path.read_text(encoding="utf-8"))]
    assert not found


def test_readme_has_no_links_into_a_checkout() -> None:
    """It is shown where there is none: in the metadata of a wheel."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\((?!https://|#)[^)]*\)", text) == []


def test_one_version_stands_everywhere() -> None:
    """The package's, with its section of the changelog, the citation's, and the one that has
    security fixes.
    """
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## \[(.*)\](?: - (\d{4}-\d\d-\d\d))?$", text, re.MULTILINE)
    assert sections[0] == ("Unreleased", "")
    assert sections[1][0] == functrace.__version__
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {functrace.__version__}\ndate-released: {sections[1][1]}\n" in citation
    minor = functrace.__version__.rpartition(".")[0]
    assert f"| {minor}.x | yes |" in (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_lowest_versions_are_pins_of_every_lower_bound() -> None:
    pins = runpy.run_path(str(ROOT / ".ci" / "lowest.py"))["pins"]
    project = pyproject()["project"]
    found = pins(["scipy"])
    assert [pin.replace("==", ">=") for pin in found][: len(project["dependencies"])] == project[
        "dependencies"
    ]
    assert any(pin.startswith("scipy==") for pin in found)
    with pytest.raises(SystemExit, match="torch==2"):
        pins(["bench"])


def test_the_sdist_includes_files_that_tests_read() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"][
        "build"
    ]["targets"]["sdist"]
    for path in listed["include"]:
        assert (ROOT / path.removeprefix("/")).exists(), path
    assert {f"/{folder}" for folder in FOLDERS if folder != ".ci"} <= set(listed["include"])


# -- the other distribution of this name -----------------------------------------------------------

OTHER = "from functrace.api import *\n\n__version__ = (0, 0, 5)\n"
"""``functrace/__init__.py`` of functrace 0.0.5, an unrelated project."""


def installed(directory: Path, *distributions: str) -> Path:
    """Return a directory that holds the package and what installers record of distributions."""
    shutil.copytree(
        ROOT / "functrace",
        directory / "functrace",
        ignore=shutil.ignore_patterns("__pycache__", "torch"),
    )
    for name in distributions:
        (directory / f"{name}.dist-info").mkdir()
    return directory


def imported(place: Path) -> subprocess.CompletedProcess[str]:
    """Import functrace from a place in a process of its own."""
    code = f"import sys; sys.path.insert(0, {str(place)!r}); import functrace; print(functrace.grad(lambda x: x * x)(3.0))"
    return subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)


@pytest.mark.parametrize("is_first", [True, False])
def test_two_distributions_in_one_directory_are_refused_whichever_came_first(
    tmp_path: Path, is_first: bool
) -> None:
    installed(tmp_path, "functrace_numpy-0.2.0", "functrace-0.0.5")
    if not is_first:
        (tmp_path / "functrace" / "__init__.py").write_text(OTHER)
    error = imported(tmp_path).stderr
    assert "ImportError: functrace-0.0.5 and functrace-numpy are installed in one place" in error
    assert (
        "fix: pip uninstall functrace functrace-numpy, then pip install functrace-numpy again"
        in error
    )


@pytest.mark.parametrize(
    "distributions",
    [
        ("functrace_numpy-0.2.0",),
        (),
        ("functrace-0.0.5",),
        ("functrace_numpy-0.2.0", "functrace_tools-1.0", "functracer-2"),
    ],
    ids=["installed", "vendored", "vendored beside the other", "similar names"],
)
def test_the_package_is_imported_from_wherever_it_is_alone(
    tmp_path: Path, distributions: tuple[str, ...]
) -> None:
    assert imported(installed(tmp_path, *distributions)).stdout == "6.0\n"


def test_the_package_is_imported_from_an_archive(tmp_path: Path) -> None:
    installed(tmp_path / "files")
    archive = shutil.make_archive(str(tmp_path / "archive"), "zip", tmp_path / "files")
    found = imported(Path(archive))
    assert (found.stdout, found.stderr) == ("6.0\n", "")


def test_the_distribution_has_the_name_that_messages_give() -> None:
    assert pyproject()["project"]["name"] == NAME
    assert f"`{NAME}`" in (ROOT / "README.md").read_text(encoding="utf-8")
