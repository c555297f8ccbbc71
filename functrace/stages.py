"""Types of objects that transforms return, for annotations: ``Jitted``, ``CacheInfo``,
``GuardsInfo``, ``Residuals``.

Layer: 8 (api).
"""

from functrace.api.residuals.checkpointing import Residuals
from functrace.api.staging.jitted import Jitted
from functrace.api.staging.program_cache import CacheInfo, GuardsInfo

__all__ = ["CacheInfo", "GuardsInfo", "Jitted", "Residuals"]
