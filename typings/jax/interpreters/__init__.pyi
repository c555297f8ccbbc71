"""Placeholder for the missing types of ``jax.interpreters``: every name is ``Any``."""

from typing import Any

def __getattr__(name: str) -> Any: ...
