"""``torch.cpu.amp``: the older names of `torch.amp` for the CPU.

Layer: 9.
"""

from __future__ import annotations

from functrace.torch.amp import autocast_mode as _modes
from functrace.torch.amp import older as _older
from functrace.torch.tensors.dtypes import bfloat16, dtype

__all__ = ["GradScaler", "autocast"]


class autocast(_modes.autocast):
    """`torch.amp.autocast` for the CPU (deprecated).

    Args:
        enabled: see `torch.amp.autocast`; so are the others.
    """

    def __init__(
        self, enabled: bool = True, dtype: dtype = bfloat16, cache_enabled: bool = True
    ) -> None:
        _older.warn_deprecated("cpu", "autocast")
        super().__init__("cpu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(_older.GradScaler):
    """`torch.amp.GradScaler` for the CPU (deprecated)."""

    _kind = "cpu"
