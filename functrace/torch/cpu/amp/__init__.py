"""``torch.cpu.amp``: the older names of `torch.amp` for the CPU.

Layer: 9.
"""

from __future__ import annotations

from functrace.torch.amp import autocast_mode as _modes
from functrace.torch.amp import grad_scaler as _scaling
from functrace.torch.errors.warnings import warn
from functrace.torch.tensors.dtypes import bfloat16, dtype

__all__ = ["GradScaler", "autocast"]

_DEPRECATED = (
    "`torch.cpu.amp.{0}(args...)` is deprecated. Please use `torch.amp.{0}('cpu', args...)` "
    "instead."
)


class autocast(_modes.autocast):
    """`torch.amp.autocast` for the CPU (deprecated).

    Args:
        enabled: see `torch.amp.autocast`; so are the others.
    """

    def __init__(
        self, enabled: bool = True, dtype: dtype = bfloat16, cache_enabled: bool = True
    ) -> None:
        warn(_DEPRECATED.format("autocast"), FutureWarning)
        super().__init__("cpu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(_scaling.GradScaler):
    """`torch.amp.GradScaler` for the CPU (deprecated).

    Args:
        init_scale: see `torch.amp.GradScaler`; so are the others.
    """

    def __init__(
        self,
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        warn(_DEPRECATED.format("GradScaler"), FutureWarning)
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
