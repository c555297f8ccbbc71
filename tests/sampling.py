"""Samples: fewer examples and one parameter per row in the default run, all of them in the full
one.

Most tests need the marker ``sampled`` only (tests/conftest.py). Here is what lists and loops need.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import pytest
from hypothesis import settings

MOST_EXAMPLES = 40
"""Number of examples that a law draws in a full run."""


def scaled(most: int) -> int:
    """Return the number of examples of this run where a full one draws ``most``; at least one.

    A test that calls it is marked ``draws``, as laws are, so that a full run repeats it.
    """
    return max(1, most * settings().max_examples // MOST_EXAMPLES)


def examples(most: int) -> settings:
    """The settings of a law that draws another number of examples than others."""
    return settings(max_examples=scaled(most))


def first_of_each(
    values: Iterable[Any], row: Callable[[Any], Hashable], interval: int = 1
) -> list[Any]:
    """Mark all but the first value of each row as ``full``; of these, CI takes one in
    ``interval``.
    """
    rows: set[Hashable] = set()
    found = []
    for number, value in enumerate(values):
        mark = pytest.mark.release if number % interval else pytest.mark.full
        found.append(pytest.param(value, marks=mark) if row(value) in rows else value)
        rows.add(row(value))
    return found


def on_release(*values: Any) -> list[Any]:
    """Mark parameters for which CI has no time."""
    return [pytest.param(value, marks=pytest.mark.release) for value in values]
