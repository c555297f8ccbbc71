"""Passes: a program becomes an equal program that does less.

Floor: 5.
"""

from functrace.passes.fold import fold_constants

__all__ = ["fold_constants"]
