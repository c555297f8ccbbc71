"""What the peers' tests share: nothing of one file is kept for the next."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def _let_go_of_compiled_code() -> Iterator[None]:
    """JAX keeps all that it has compiled: gigabytes, over all files."""
    yield
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()
