"""Arithmetic with PyTorch's bits: fused multiply-add, and functions of the C library.

PyTorch's kernels round ``a * b + c`` once. NumPy has no such function; here it is computed with
more digits than the result has.

Layer: 9.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from functrace.typing import Array

_SPLIT = 2.0**27 + 1


def multiply_add(x: Array, factor: float, summand: float | Array) -> Array:
    """Return ``x * factor + summand``, rounded once.

    Args:
        x: float32 or float64 numbers.
        factor: a number of that dtype.
        summand: a number of that dtype, or one for each.

    Float32 is computed in float64: one result in 2**29 is rounded to the other neighbour.
    """
    if x.dtype == np.float32:
        wide = np.multiply(x, np.float64(np.float32(factor)), dtype=np.float64)
        wide += np.asarray(summand, np.float32)
        return wide.astype(np.float32)
    product = x * factor
    if isinstance(summand, float) and summand == 0:
        return product + 0.0
    with np.errstate(all="ignore"):
        # Dekker's product and Knuth's sum: the errors of both, exactly
        x_high, f_high = _upper_half(x), _upper_half(np.float64(factor))
        x_low, f_low = x - x_high, factor - f_high
        lost = ((x_high * f_high - product) + x_high * f_low + x_low * f_high) + x_low * f_low
        total = product + summand
        back = total - product
        lost += (product - (total - back)) + (summand - back)
        exact = total + lost
    return np.where(np.isfinite(exact), exact, total)


def _upper_half(x: Any) -> Any:
    scaled = x * _SPLIT
    return scaled - (scaled - x)


@functools.lru_cache(maxsize=256)
def _agrees(name: str) -> bool:
    """Return True if NumPy's function gives the same bits as the C library's, as far as a sample
    shows.
    """
    sample = np.random.Generator(np.random.MT19937(1)).random(2000)
    compute = getattr(math, name)
    return getattr(np, name)(sample).tolist() == [compute(x) for x in sample.tolist()]


def exactly(name: str, x: Array) -> Array:
    """Return a function of float64 numbers with the bits of the C library, which PyTorch calls.

    NumPy's vectorized functions differ in the last digit on some processors. There, the library's
    function runs for each number: 0.1 us.

    Args:
        name: name of the function, in `math` and in NumPy.
        x: numbers in its domain.
    """
    if _agrees(name):
        return getattr(np, name)(x)
    flat = x.ravel()
    found = np.fromiter(map(getattr(math, name), flat.tolist()), np.float64, flat.size)
    return found.reshape(x.shape)
