"""Passes: a program becomes an equal program that does less.

Floor: 5.
"""

from functrace.passes.fold import fold_constants, folding
from functrace.passes.late import compute_late
from functrace.passes.steps import finished
from functrace.passes.unused import drop_unused

__all__ = ["compute_late", "drop_unused", "finished", "fold_constants", "folding"]
