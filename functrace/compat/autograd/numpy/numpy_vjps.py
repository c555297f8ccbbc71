"""``autograd.numpy.numpy_vjps``: helpers for rules of primitives.

Layer: 10.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from functrace.compat.autograd.numpy.numpy_wrapper import metadata
from functrace.compat.kinds import Values
from functrace.typing import Array

__all__ = [
    "balanced_eq",
    "match_complex",
    "repeat_to_match_shape",
    "replace_zero",
    "unbroadcast",
    "unbroadcast_f",
]


def unbroadcast(
    x: Values, target_meta: tuple[tuple[int, ...], int, Any, bool], broadcast_idx: int = 0
) -> Any:
    """Sum a cotangent over the axes along which the argument was broadcast.

    Args:
        x: the cotangent of the result.
        target_meta: `metadata` of the argument.
        broadcast_idx: where axes were added.
    """
    shape, ndim, _, is_complex = target_meta
    while np.ndim(x) > ndim:
        x = np.sum(x, axis=broadcast_idx)
    stretched = tuple(
        [axis for axis, size in enumerate(shape) if size == 1 and np.shape(x)[axis] != 1]
    )
    x = np.sum(x, axis=stretched, keepdims=True) if stretched else x
    return np.real(x) if np.iscomplexobj(x) and not is_complex else x


def unbroadcast_f(target: Values, f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return ``g ↦ f(g)``, summed over the axes along which ``target`` was broadcast."""
    meta = metadata(target)
    return lambda g: unbroadcast(f(g), meta)


def match_complex(target: Values, x: Values) -> Any:
    """Return ``x`` as a real or a complex array, like ``target``."""
    if np.iscomplexobj(target):
        return x if np.iscomplexobj(x) else x + 0j
    return np.real(x) if np.iscomplexobj(x) else x


def repeat_to_match_shape(
    g: Values, shape: Values, dtype: Values, axis: Values, keepdims: bool
) -> tuple[Any, Any]:
    """Return a reduction's cotangent in the argument's shape, and the reduced size."""
    if shape == ():
        return g, 1
    axes = (
        tuple(range(len(shape))) if axis is None else (axis,) if np.ndim(axis) == 0 else tuple(axis)
    )
    kept = list(shape)
    for k in axes:
        kept[k] = 1
    whole = np.broadcast_to(np.reshape(g, kept), shape)
    return whole.astype(dtype) if whole.dtype != dtype else whole, np.prod([shape[k] for k in axes])


def balanced_eq(x: Values, z: Values, y: Values) -> Any:
    """Return 1 where ``x`` equals ``z``, 1/2 where it equals ``y``, too, and 0 elsewhere."""
    return (x == z) / (1.0 + (x == y))


def replace_zero(x: Values, val: Values) -> Any:
    """Return ``x`` with zeros replaced by ``val``."""
    return cast("Array", np.where(x, x, val))
