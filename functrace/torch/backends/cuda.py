"""``torch.backends.cuda``: absent; its switches can be set, and have no effect.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

matmul = SimpleNamespace(
    allow_tf32=False,
    allow_fp16_reduced_precision_reduction=True,
    allow_bf16_reduced_precision_reduction=True,
    allow_fp16_accumulation=False,
    fp32_precision="none",
)
cufft_plan_cache: list[Any] = []
_SWITCHES = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def is_built() -> bool:
    """Return False."""
    return False


def flash_sdp_enabled() -> bool:
    """Return the switch of flash attention."""
    return _SWITCHES["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Set the switch of flash attention."""
    _SWITCHES["flash"] = enabled


def mem_efficient_sdp_enabled() -> bool:
    """Return the switch of memory-efficient attention."""
    return _SWITCHES["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Set the switch of memory-efficient attention."""
    _SWITCHES["mem_efficient"] = enabled


def math_sdp_enabled() -> bool:
    """Return the switch of plain attention."""
    return _SWITCHES["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Set the switch of plain attention."""
    _SWITCHES["math"] = enabled


def cudnn_sdp_enabled() -> bool:
    """Return the switch of cuDNN's attention."""
    return _SWITCHES["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Set the switch of cuDNN's attention."""
    _SWITCHES["cudnn"] = enabled


@contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """Set the switches of attention in a context."""
    before = dict(_SWITCHES)
    _SWITCHES.update(
        flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn
    )
    try:
        yield
    finally:
        _SWITCHES.update(before)


class SDPAParams:
    """Arguments of attention, to ask for kernels on a GPU.

    Args:
        arguments: the tensors, and the rest.
    """

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments


def is_flash_attention_available() -> bool:
    """Return False."""
    return False


def can_use_flash_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Return False."""
    return False


def can_use_efficient_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Return False."""
    return False


def can_use_cudnn_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Return False."""
    return False
