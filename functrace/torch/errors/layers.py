"""Messages about functions of neural networks.

Layer: 9.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def softshrink_range(bound: float, dtype: np.dtype[Any]) -> str:
    """Return the message for a negative bound of softshrink."""
    name = {"float16": "Half", "float32": "Float", "float64": "Double"}.get(dtype.name, dtype.name)
    return (
        f"lambda must be in range [0, {np.finfo(dtype).max:.6g}] for input dtype {name}, but found "
        f"{bound:g}"
    )


def prelu_weight(ndim: int) -> str:
    """Return the message for a matrix of slopes."""
    return f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {ndim}"


def prelu_channels(count: int, channels: int) -> str:
    """Return the message for another number of slopes than of channels."""
    return (
        f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {count} "
        f"and channel size = {channels}."
    )


def implicit_dim(name: str) -> str:
    """Return the warning for softmax without a dimension."""
    return (
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument."
    )
