"""Placeholder for the missing types of ``scipy.optimize``: names are ``Any``, except a class from
which functrace derives one.
"""

from typing import Any

class OptimizeResult(dict[str, Any]):
    def __getattr__(self, name: str) -> Any: ...

def __getattr__(name: str) -> Any: ...
