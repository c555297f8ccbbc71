"""``torch.amp``: automatic mixed precision, which the CPU's NumPy does not have; its code runs.

Layer: 9.
"""

from functrace.torch.amp.autocast_mode import (
    autocast,
    custom_bwd,
    custom_fwd,
    is_autocast_available,
)
from functrace.torch.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
