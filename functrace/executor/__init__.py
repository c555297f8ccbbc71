"""The executor: runs programs on arrays, fast. Pipeline of passes → plan → backend.

Floor: 6.
"""

from functrace.executor.cache import TransformCache, run_recorded
from functrace.executor.first_sight import at_sight, first_sight
from functrace.executor.runner import Runner

__all__ = ["Runner", "TransformCache", "at_sight", "first_sight", "run_recorded"]
