"""The page of what SciPy's functions do says what is so; no function gives a wrong result, or an exception from inside."""

from __future__ import annotations

import pytest

from tests.numpy.coverage import COLUMNS, Row
from tests.scipy.coverage import PAGE, page, rows


@pytest.mark.parametrize("found", rows(), ids=lambda found: found.name)
def test_functions_are_right_or_raise(found: Row) -> None:
    assert not {found.marks[column] for column in COLUMNS} & {"wrong", "breaks", "no case"}, found.note


def test_the_page_is_what_was_found() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m tests.scipy.coverage`"
