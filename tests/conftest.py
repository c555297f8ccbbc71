"""Settings of the whole test suite: one reproducible hypothesis profile."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=40,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
settings.load_profile("ci")


def pytest_collection_finish() -> None:
    """Take what there is (some ten thousand tests) out of the garbage collector's sight: many tests call it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _kept_in_caches() -> Iterator[None]:
    """Likewise for what the tests of a file leave behind."""
    yield
    gc.collect()
    gc.freeze()
