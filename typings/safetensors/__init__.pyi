"""Placeholder for the missing types of ``safetensors``: every name is ``Any``."""

from typing import Any

def __getattr__(name: str) -> Any: ...

class SafetensorError(Exception): ...
