"""Passes: a program becomes an equal program that does less.

Layer: 6.
"""

from functrace.passes.again import compute_again
from functrace.passes.fold import fold_constants
from functrace.passes.inline import in_line
from functrace.passes.late import compute_late
from functrace.passes.own import Own, rows_of
from functrace.passes.pipeline import EARLY, LAST, LATE, PIPELINE, REORDERING, Pass, applied, optimized, without
from functrace.passes.unused import drop_unused

__all__ = [
    "EARLY",
    "LAST",
    "LATE",
    "PIPELINE",
    "REORDERING",
    "Own",
    "Pass",
    "applied",
    "compute_again",
    "compute_late",
    "drop_unused",
    "fold_constants",
    "in_line",
    "optimized",
    "rows_of",
    "without",
]
