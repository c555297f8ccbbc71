"""Fixtures of the executor's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from functrace.threads import THREADS


@pytest.fixture(params=[1, 2, 3, 4])
def count(request: pytest.FixtureRequest) -> Iterator[int]:
    """Run with this number of threads."""
    before = THREADS.count
    THREADS.resize(request.param)
    yield request.param
    THREADS.resize(before)
