"""``torch.nn.attention``: the choice of a kernel for attention, which has no effect: there is one.

Layer: 9.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(enum.IntEnum):
    """Kernels of ``scaled_dot_product_attention`` that PyTorch can choose from."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(
    backends: SDPBackend | Sequence[SDPBackend], set_priority: bool = False
) -> Iterator[None]:
    """Do nothing: attention is computed in one way.

    Args:
        backends: the kernels.
        set_priority: whether their order counts.

    Raises:
        AssertionError: for anything but kernels.
    """
    given = [backends] if isinstance(backends, SDPBackend) else list(backends)
    if not all(isinstance(x, SDPBackend) for x in given):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    yield
