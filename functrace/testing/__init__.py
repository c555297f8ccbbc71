"""Checks for tests: ``check_grads`` of derivatives, ``check_rules`` of rules, ``check_memory`` of memory.

The first two compare with values computed by an independent route, and locate an error: the
argument, the element, the equation of the program, and the line.

Layer: 8 (api).
"""

from typing import TYPE_CHECKING

from functrace.lazy import lazy_attributes
from functrace.testing.grads import check_grads
from functrace.testing.memory import MemoryCheck, check_memory
from functrace.testing.rules import check_rules

__all__ = ["MemoryCheck", "check_grads", "check_memory", "check_rules"]


if not TYPE_CHECKING:  # so that type checkers report a misspelt name
    __getattr__, __dir__ = lazy_attributes(__name__, __all__)
