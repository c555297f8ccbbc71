"""Fixtures of the peers' tests: JAX compiles quickly, and each file drops what it compiled."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

# Most of what these tests take is JAX compiling what runs once.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
)


@pytest.fixture(scope="module", autouse=True)
def _let_go_of_compiled_code() -> Iterator[None]:
    """JAX keeps all that it has compiled: gigabytes, over all files."""
    yield
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()
