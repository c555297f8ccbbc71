"""The executor: runs programs on arrays, fast.

Floor: 6.
"""

from functrace.executor.cache import TransformCache, run_recorded
from functrace.executor.compile import Runner

__all__ = ["Runner", "TransformCache", "run_recorded"]
