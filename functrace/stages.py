"""Types of objects that transforms return, for annotations: ``Jitted``, ``CacheInfo``,
``GuardsInfo``, ``MemoryPlan``, ``ProgramPage``, ``Residuals``, ``BudgetPlan``.

Layer: 8 (api).
"""

from functrace.api.residuals.listing import Residuals
from functrace.api.residuals.plans import BudgetPlan, ParetoPoint, RecomputedOperation
from functrace.api.staging.jitted import Jitted
from functrace.api.staging.program_cache import CacheInfo, GuardsInfo
from functrace.executor.memory.timeline import MemoryPlan, MemoryPoint, MemoryValue
from functrace.viz.page import ProgramPage

__all__ = [
    "BudgetPlan",
    "CacheInfo",
    "GuardsInfo",
    "Jitted",
    "MemoryPlan",
    "MemoryPoint",
    "MemoryValue",
    "ParetoPoint",
    "ProgramPage",
    "RecomputedOperation",
    "Residuals",
]
