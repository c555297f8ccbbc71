"""The executor: runs programs on arrays, fast. Pipeline of passes → plan → backend.

Floor: 6.
"""

from functrace.executor.backend import Backend, compiled
from functrace.executor.cache import TransformCache, run_recorded
from functrace.executor.first_sight import first_sight
from functrace.executor.numpy_source import NUMPY, generate
from functrace.executor.plan import Group, Plan, Step, plan, planned
from functrace.executor.runner import Runner
from functrace.ir.parts import Compiled

__all__ = [
    "NUMPY",
    "Backend",
    "Compiled",
    "Group",
    "Plan",
    "Runner",
    "Step",
    "TransformCache",
    "compiled",
    "first_sight",
    "generate",
    "plan",
    "planned",
    "run_recorded",
]
