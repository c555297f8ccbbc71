"""Passes: a program becomes an equal program that does less.

Floor: 5.
"""

from functrace.passes.fold import fold_constants
from functrace.passes.late import compute_late
from functrace.passes.unused import drop_unused

__all__ = ["compute_late", "drop_unused", "fold_constants"]
