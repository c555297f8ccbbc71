"""The executor: run programs on arrays. Pipeline of passes → plan → backend.

Layer: 7.
"""

from functrace.executor.cache import TransformCache, run_recorded
from functrace.executor.runner import Runner

__all__ = ["Runner", "TransformCache", "run_recorded"]
