"""Placeholder for the missing types of ``jax.experimental.multihost_utils``: every name is ``Any``."""

from typing import Any

def __getattr__(name: str) -> Any: ...
