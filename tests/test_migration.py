"""docs/migration: functrace has every name of the tables. (tests/peers resolves the names of other
libraries.)
"""

from __future__ import annotations

import importlib

import pytest

from tests.migration import FOLDER, SHORT, resolved, rows

LIBRARIES = sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "index")


@pytest.mark.parametrize("library", LIBRARIES)
def test_names_of_functrace_exist(library: str) -> None:
    found = list(rows(library))
    assert len(found) > 20
    for row in found:
        assert row.difference, row
        for name in row.ours:
            resolved(name)


@pytest.mark.parametrize("library", LIBRARIES)
def test_tables_name_the_other_library_first(library: str) -> None:
    prefix = {"pytorch": "torch"}.get(library, library)
    for row in rows(library):
        assert all(name.split(".")[0] == prefix for name in row.theirs), row
        assert all(name.split(".")[0] in {*SHORT, "dict", "list", "tuple"} for name in row.ours), (
            row
        )


def test_compat_has_the_names_of_autograd() -> None:
    module = importlib.import_module("functrace.compat.autograd")
    for row in rows("autograd"):
        for name in row.theirs:
            if name.count(".") == 1 and name != "autograd.numpy":
                assert name.partition(".")[2] in module.__all__, name
