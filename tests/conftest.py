"""Settings of the whole test suite: one reproducible hypothesis profile, programs that are compiled early."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from functrace.executor import Runner
from functrace.transforms import templates

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


@pytest.fixture(scope="session", autouse=True)
def _compiled_at_the_second_call() -> Iterator[None]:
    """Let programs be compiled at their second call, and whole: so whatever is called three times runs in every tier.

    When it is earned otherwise, and how it is done, is tested in tests/executor/test_tiers.py.
    """
    advanced = Runner._advanced
    templates.RULES_PER_TEMPLATE = 0
    Runner._advanced = Runner.compile  # type: ignore[method-assign]
    yield
    Runner._advanced = advanced  # type: ignore[method-assign]
