"""Placeholder for the missing types of ``scipy.optimize``: every name is ``Any``."""

from typing import Any

def __getattr__(name: str) -> Any: ...
