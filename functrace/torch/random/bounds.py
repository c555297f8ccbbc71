"""Bounds of random numbers, and what a dtype holds of them.

Layer: 9.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrace.torch import errors
from functrace.torch.errors.warnings import warn_once
from functrace.torch.tensors.dtypes import DTYPES, limits_of


def digits_of(kind: np.dtype[Any]) -> int:
    """Return how many binary digits integers of a dtype have."""
    if kind.kind == "b":
        return 1
    if kind.kind in "iu":
        return 8 * kind.itemsize - (kind.kind == "i")
    return int(limits_of(kind).nmant) + 1


def integer_bounds(low: int, high: int, kind: np.dtype[Any]) -> tuple[int, int]:
    """Check the bounds of random integers, and return them as a floating dtype allows.

    Args:
        low: the least.
        high: one more than the greatest.
        kind: dtype of the result.

    Returns:
        the bounds; those that a floating dtype would round outwards are moved inwards, as in
        PyTorch.

    Raises:
        RuntimeError: for complex numbers, if there is no integer between the bounds, and if the
            dtype does not hold all of them.

    A floating dtype that does not hold every integer between them gives a warning.
    """
    if low >= high:
        raise RuntimeError(
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    if kind.kind == "c":
        raise RuntimeError(
            "check_random_bounds handles only integral, floating-point and boolean types"
        )
    is_floating = kind.kind not in "biu"
    info: Any = limits_of(kind) if is_floating else np.iinfo(kind) if kind.kind != "b" else None
    least, most = (0, 1) if info is None else (int(float(info.min)), int(float(info.max)))
    for bound, value in (("from", low), ("to - 1", high - 1)):
        if not least <= value <= most:
            raise RuntimeError(errors.integer_out_of_bounds(bound, kind))
    if is_floating:
        digits = digits_of(kind)
        for bound, value in (("from", low), ("to - 1", high - 1)):
            if abs(value) > 1 << digits:
                warn_once(errors.integer_loses_digits(bound, kind, digits))
        low, high = inwards(low, 1, kind), inwards(high, -1, kind)
        if low >= high:
            raise RuntimeError(
                "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but "
                f"got from={low} >= to={high}"
            )
    return low, high


def inwards(bound: int, step: int, kind: np.dtype[Any]) -> int:
    """Return a bound of random integers, moved if a floating dtype rounds it outwards.

    Args:
        bound: the bound.
        step: 1 for a lower bound, -1 for an upper one.
        kind: the dtype.
    """
    beside = int(float(kind.type(bound + step)))
    if beside < bound if step == 1 else beside >= bound:
        size = max(abs(bound + step).bit_length() - 1, 0)
        return beside + step * (1 << (size - digits_of(kind) + 1))
    return bound


def _real(kind: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(f"f{kind.itemsize // 2}") if kind.kind == "c" else kind


def check_uniform(low: float, high: float, kind: np.dtype[Any]) -> None:
    """Check the bounds of uniform numbers.

    Args:
        low: the lower bound.
        high: the upper bound.
        kind: a floating dtype.

    Raises:
        RuntimeError: if they are in the wrong order, or the dtype does not hold them.
    """
    most = float(limits_of(_real(kind)).max)
    for bound, value in (("from", low), ("to", high)):
        if not -most <= value <= most:
            raise RuntimeError(errors.integer_out_of_bounds(bound, kind))
    if low > high:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}"
        )
    if high - low > most or not math.isfinite(high - low):
        raise RuntimeError(
            "uniform_ expects to-from <= std::numeric_limits<"
            f"{DTYPES[kind].printed}>::max(), but found to={high:g} and from={low:g} which "
            "result in to-from to exceed the limit"
        )
