"""Fixture of the tests of XLA: JAX's own setting is its default."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def _default_mode() -> Iterator[None]:
    """JAX's mode of 32 bits: importing tensorly or pymanopt turns the other one on."""
    if importlib.util.find_spec("jax") is None:
        yield
        return
    import jax

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", False)
    yield
    jax.config.update("jax_enable_x64", before)
