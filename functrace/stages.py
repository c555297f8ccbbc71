"""Types of objects that transforms return, for annotations: ``Jitted``, ``CacheInfo``, ``GuardsInfo``, ``Residuals``.

Layer: 8 (api).
"""

from functrace.api.jit import Jitted
from functrace.api.residuals import Residuals
from functrace.api.staged import CacheInfo, GuardsInfo

__all__ = ["CacheInfo", "GuardsInfo", "Jitted", "Residuals"]
