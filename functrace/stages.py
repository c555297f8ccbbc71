"""Types of objects that transforms return, for annotations: ``Jitted``, ``CacheInfo``,
``GuardsInfo``, ``ProgramPage``, ``Residuals``.

Layer: 8 (api).
"""

from functrace.api.residuals.checkpointing import Residuals
from functrace.api.staging.jitted import Jitted
from functrace.api.staging.program_cache import CacheInfo, GuardsInfo
from functrace.viz.page import ProgramPage

__all__ = ["CacheInfo", "GuardsInfo", "Jitted", "ProgramPage", "Residuals"]
