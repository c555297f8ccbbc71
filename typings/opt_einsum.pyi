"""Placeholder for the missing types of ``opt_einsum``: every name is ``Any``."""

from typing import Any

def __getattr__(name: str) -> Any: ...
