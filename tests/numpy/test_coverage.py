"""The page of coverage says what is so; no function gives a wrong result, or an exception from inside."""

from __future__ import annotations

import pytest

from tests.numpy.coverage import COLUMNS, PAGE, UNREACHED, Row, page, rows


@pytest.mark.parametrize("found", rows(), ids=lambda found: found.name)
def test_functions_are_right_or_raise(found: Row) -> None:
    assert not {found.marks[column] for column in COLUMNS} & {"wrong", "breaks"}, found.note


def test_the_page_is_what_was_found() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m tests.numpy.coverage`"


def test_what_is_not_reached_raises() -> None:
    marks = {found.name: found.marks for found in rows()}
    assert all(set(marks[name].values()) == {"raises"} for name in UNREACHED)


ASK_FOR_VALUES = {"arange", "asarray_chkfinite"}


@pytest.mark.parametrize("name", sorted(UNREACHED))
def test_what_is_not_reached_is_right_in_the_namespace_and_under_lift(name: str) -> None:
    for found in rows():
        if found.name in (f"functrace.numpy.{name}", f"{name}, under lift"):
            raising = {column for column, mark in found.marks.items() if mark not in "✓0"}
            assert raising == ({"jit"} if name in ASK_FOR_VALUES else set()), found.note
