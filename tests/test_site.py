"""The documentation site: its reference has every public name. (.ci/run builds it, with warnings as
errors.)
"""

from __future__ import annotations

import runpy
import types
from pathlib import Path

import functrace as ft

DOCS = Path(__file__).parents[1] / "docs"
API = DOCS / "api"


def test_reference_has_every_public_name() -> None:
    entries = {
        line.strip() for line in (API / "functrace.md").read_text(encoding="utf-8").splitlines()
    }
    names = {name for name in ft.__all__ if not isinstance(getattr(ft, name), types.ModuleType)}
    assert names <= entries, names - entries
    pages = {path.stem for path in API.glob("*.md")}
    modules = {name for name in dir(ft) if isinstance(getattr(ft, name), types.ModuleType)}
    assert modules <= pages, modules - pages


DOCSTRING = """Apply ``f(*args)`` to `x*`, *args and |z|; see docs/random.md::

    keep * this

Then x*y:

Example:
    >>> 2 * 3
    6
"""


def test_docstrings_are_text() -> None:
    lines = DOCSTRING.splitlines()
    runpy.run_path(str(DOCS / "_ext" / "docstrings.py"))["escape_markup"](
        None, "", "", None, None, lines
    )
    assert lines == [
        r"Apply ``f(*args)`` to `x*`, \*args and \|z\|; see :doc:`/random`::",
        "",
        "    keep * this",
        "",
        r"Then x\*y:",
        "",
        "Example:",
        "    >>> 2 * 3",
        "    6",
    ]
