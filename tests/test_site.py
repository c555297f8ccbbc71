"""The documentation site: its reference has every public name. (.ci/run builds it, with warnings as errors.)"""

from __future__ import annotations

import types
from pathlib import Path

import functrace as ft

API = Path(__file__).parents[1] / "docs" / "api"


def test_reference_has_every_public_name() -> None:
    entries = {line.strip() for line in (API / "functrace.md").read_text(encoding="utf-8").splitlines()}
    names = {name for name in ft.__all__ if not isinstance(getattr(ft, name), types.ModuleType)}
    assert names <= entries, names - entries
    pages = {path.stem for path in API.glob("*.md")}
    modules = {name for name in dir(ft) if isinstance(getattr(ft, name), types.ModuleType)}
    assert modules <= pages, modules - pages
