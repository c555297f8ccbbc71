"""``torch.cuda.amp``: the older names of `torch.amp` for CUDA, which do nothing without it.

Layer: 9.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from functrace.torch.amp import autocast_mode as _modes
from functrace.torch.amp import grad_scaler as _scaling
from functrace.torch.errors.warnings import warn
from functrace.torch.tensors.dtypes import dtype, float16

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]

_DEPRECATED = (
    "`torch.cuda.amp.{0}(args...)` is deprecated. Please use `torch.amp.{0}('cuda', args...)` "
    "instead."
)


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
        warn(_DEPRECATED.format("autocast"), FutureWarning)
        super().__init__("cuda", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(_scaling.GradScaler):
    """`torch.amp.GradScaler` for CUDA (deprecated): without CUDA it is disabled.

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
        super().__init__(
            "cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )


def custom_fwd(fwd: Callable[..., Any] | None = None, *, cast_inputs: dtype | None = None) -> Any:
    """`torch.amp.custom_fwd` for CUDA (deprecated)."""
    warn(_DEPRECATED.format("custom_fwd"), FutureWarning)
    return functools.partial(_modes.custom_fwd, device_type="cuda")(fwd, cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable[..., Any]) -> Any:
    """`torch.amp.custom_bwd` for CUDA (deprecated)."""
    warn(_DEPRECATED.format("custom_bwd"), FutureWarning)
    return _modes.custom_bwd(bwd, device_type="cuda")
