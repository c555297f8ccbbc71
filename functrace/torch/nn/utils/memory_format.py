"""Memory formats of weights, which have no effect: convolutions accept any.

Layer: 9.
"""

from __future__ import annotations

from typing import Any


def convert_conv2d_weight_memory_format(module: object, memory_format: object) -> Any:
    """Return the module."""
    return module


def convert_conv3d_weight_memory_format(module: object, memory_format: object) -> Any:
    """Return the module."""
    return module
