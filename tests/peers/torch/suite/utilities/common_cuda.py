"""GPUs: there are none."""

from __future__ import annotations

import contextlib
from typing import Any

from .decorators import unchanged

CUDA_DEVICE = None
TEST_CUDNN_VERSION = 0
tf32_on_and_off = with_tf32_off = unchanged
tf32_on = tf32_off = contextlib.nullcontext


def __getattr__(name: str) -> Any:
    if name.startswith(("TEST_", "SM", "PLATFORM_")):
        return False
    if name.startswith("_get_torch_"):
        return lambda: (0, 0)
    raise AttributeError(name)


def tf32_is_not_fp32() -> bool:
    return False
