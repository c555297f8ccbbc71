"""The older names of `torch.amp`, of one kind of device: ``torch.cpu.amp`` and ``torch.cuda.amp``.

Layer: 9.
"""

from __future__ import annotations

from typing import ClassVar

from functrace.torch.amp import grad_scaler
from functrace.torch.errors.warnings import warn


def warn_deprecated(kind: str, name: str) -> None:
    """Give PyTorch's warning of an older name."""
    text = f"`torch.{kind}.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}('{kind}', args...)` instead."
    warn(text, FutureWarning)


class GradScaler(grad_scaler.GradScaler):
    """`torch.amp.GradScaler` for one kind of device (deprecated); without CUDA, that of CUDA is
    disabled.

    Args:
        init_scale: see `torch.amp.GradScaler`; so are the others.
    """

    _kind: ClassVar[str]

    def __init__(
        self,
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        warn_deprecated(self._kind, "GradScaler")
        super().__init__(
            self._kind, init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )
