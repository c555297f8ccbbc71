"""The page of what SciPy's functions do says what is so; no function gives a wrong result, or an
exception from inside.
"""

from __future__ import annotations

import pytest

from tests.numpy.coverage import COLUMNS
from tests.scipy.coverage import PAGE, page, rows

pytestmark = pytest.mark.full  # tries every function; tests/test_cases.py has the cases one by one


def test_functions_are_right_or_raise_and_the_page_is_current() -> None:
    bad = {"wrong", "breaks", "no case"}
    assert not [
        (found.name, found.note) for found in rows() if bad & {found.marks[c] for c in COLUMNS}
    ]
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m tests.scipy.coverage`"
