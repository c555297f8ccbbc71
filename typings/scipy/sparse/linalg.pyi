"""Placeholder for the missing types of ``scipy.sparse.linalg``: every name is ``Any``."""

from typing import Any

def __getattr__(name: str) -> Any: ...
