"""``torch.cuda.amp``: the older names of `torch.amp` for CUDA, which do nothing without it.

Layer: 9.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from functrace.torch.amp import autocast_mode as _modes
from functrace.torch.amp import older as _older
from functrace.torch.tensors.dtypes import dtype, float16

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(_modes.autocast):
    """`torch.amp.autocast` for CUDA (deprecated).

    Args:
        enabled: see `torch.amp.autocast`; without CUDA it has no effect.
        dtype: the lower precision.
        cache_enabled: ignored.
    """

    def __init__(
        self, enabled: bool = True, dtype: dtype = float16, cache_enabled: bool = True
    ) -> None:
        _older.warn_deprecated("cuda", "autocast")
        super().__init__("cuda", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(_older.GradScaler):
    """`torch.amp.GradScaler` for CUDA (deprecated): without CUDA it is disabled."""

    _kind = "cuda"


def custom_fwd(fwd: Callable[..., Any] | None = None, *, cast_inputs: dtype | None = None) -> Any:
    """`torch.amp.custom_fwd` for CUDA (deprecated)."""
    _older.warn_deprecated("cuda", "custom_fwd")
    return functools.partial(_modes.custom_fwd, device_type="cuda")(fwd, cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable[..., Any]) -> Any:
    """`torch.amp.custom_bwd` for CUDA (deprecated)."""
    _older.warn_deprecated("cuda", "custom_bwd")
    return _modes.custom_bwd(bwd, device_type="cuda")
