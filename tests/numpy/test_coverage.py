"""The page of coverage says what is so; no function gives a wrong result, or an exception from
inside.
"""

from __future__ import annotations

import pytest

from tests.numpy.coverage import COLUMNS, PAGE, UNREACHED, page, rows

pytestmark = pytest.mark.full  # tries every function; tests/test_cases.py has the cases one by one


def test_functions_are_right_or_raise_and_the_page_is_current() -> None:
    bad = {"wrong", "breaks"}
    assert not [
        (found.name, found.note) for found in rows() if bad & {found.marks[c] for c in COLUMNS}
    ]
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m tests.numpy.coverage`"


def test_functions_without_dispatch_raise() -> None:
    marks = {found.name: found.marks for found in rows()}
    assert all(set(marks[name].values()) == {"raises"} for name in UNREACHED)


ASK_FOR_VALUES = {"arange", "asarray_chkfinite"}


@pytest.mark.parametrize("name", sorted(UNREACHED))
def test_functions_without_dispatch_work_in_the_namespace_and_under_lift(name: str) -> None:
    for found in rows():
        if found.name in (f"functrace.numpy.{name}", f"{name}, under lift"):
            raising = {column for column, mark in found.marks.items() if mark not in "✓0"}
            assert raising == ({"jit"} if name in ASK_FOR_VALUES else set()), found.note
