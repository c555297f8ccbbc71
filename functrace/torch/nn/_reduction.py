"""``torch.nn._reduction``: names and numbers of the reductions of losses, which third-party losses
import.

Layer: 9.
"""

from __future__ import annotations

import warnings

from functrace.torch import errors

_NUMBERS = {"none": 0, "mean": 1, "elementwise_mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """Return the number of a reduction.

    Raises:
        ValueError: for an unknown name.
    """
    if reduction not in _NUMBERS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if reduction == "elementwise_mean":
        warnings.warn(
            "reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.",
            stacklevel=2,
        )
    return _NUMBERS[reduction]


def legacy_get_string(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> str:
    """Return the reduction that two older arguments mean.

    Args:
        size_average: whether the mean is taken, rather than the sum; None: True.
        reduce: whether there is a reduction; None: True.
        emit_warning: whether to warn that they are deprecated.
    """
    averages = size_average is None or size_average
    found = ("mean" if averages else "sum") if reduce is None or reduce else "none"
    if emit_warning:
        warnings.warn(errors.legacy_reduction(found), stacklevel=2)
    return found


def legacy_get_enum(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> int:
    """Return the number of the reduction that two older arguments mean; see `legacy_get_string`."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
