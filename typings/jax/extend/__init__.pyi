"""Placeholder for the missing types of ``jax.extend``: every name is ``Any``."""

from typing import Any

def __getattr__(name: str) -> Any: ...
