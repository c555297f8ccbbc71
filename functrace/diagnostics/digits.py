"""Decimal digits and rounding errors of dtypes.

Layer: 6.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from functrace.typing import Array


def is_inexact(dtype: np.dtype[Any]) -> bool:
    """Return True for floating and complex dtypes."""
    return dtype.kind in "fc" or dtype.name == "bfloat16"


def rounding(dtype: np.dtype[Any]) -> float:
    """Return the largest relative error of one rounding."""
    return 2.0**-9 if dtype.kind == "V" else float(np.finfo(dtype).eps) / 2


def digits_of(dtype: np.dtype[Any]) -> float:
    """Return the number of decimal digits of a dtype."""
    return -float(np.log10(rounding(dtype)))


def digits_lost(error: Array, dtype: np.dtype[Any]) -> Any:
    """Return the decimal digits that a relative error costs, at most all of them."""
    unit = rounding(dtype)
    return np.log10(np.clip(error, unit, 1.0) / unit)


@functools.lru_cache(maxsize=16)
def smallest(dtype: np.dtype[Any]) -> float:
    """Return the smallest normal number of a dtype."""
    return float(np.finfo(dtype).smallest_normal)
