"""Checks of derivatives and of rules, for tests: ``check_grads`` and ``check_rules``.

Both compare with values computed by an independent route, and locate an error: the argument, the
element, the equation of the program, and the line.

Layer: 8 (api).
"""

from typing import TYPE_CHECKING

from functrace.lazy import lazy_attributes
from functrace.testing.grads import check_grads
from functrace.testing.rules import check_rules

__all__ = ["check_grads", "check_rules"]


if not TYPE_CHECKING:  # so that type checkers report a misspelt name
    __getattr__, __dir__ = lazy_attributes(__name__, __all__)
