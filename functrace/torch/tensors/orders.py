"""Memory order of elementwise results whose operands have different memory orders.

PyTorch's iterator sorts axes by the strides of the operands, first to last; NumPy's prefers C
order. Whether a later ``view`` or ``reshape`` shares memory depends on it.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.typing import Array


def laid(result: Array, operands: Sequence[Array]) -> Array:
    """Return the result of an elementwise operation in PyTorch's memory layout, for operands of
    different layouts.

    Of two axes, the inner one is that with the smaller stride in the first operand that has
    nonzero strides along both.

    Args:
        result: NumPy's result.
        operands: the converted operands.
    """
    shape = result.shape
    steps = []
    for x in operands:
        extra = len(shape) - x.ndim
        own = zip(x.shape, shape[extra:], x.strides, strict=True)
        steps.append((0,) * extra + tuple([0 if m == 1 and n > 1 else s for m, n, s in own]))
    return laid_by(result, steps)


def laid_by(result: Array, steps: Sequence[tuple[int, ...]]) -> Array:
    """Return a result in the memory order given by the strides of its operands; see `laid`."""
    return ordered(result, _axes_by(result.shape, steps))


def memory_order(array: Array) -> list[int]:
    """Return the axes of an array in the order in which PyTorch's iterator visits them, outermost
    first.
    """
    return _axes_by(array.shape, [array.strides])


def _axes_by(shape: tuple[int, ...], steps: Sequence[tuple[int, ...]]) -> list[int]:
    order = list(range(len(shape)))[::-1]
    for moving in range(1, len(shape)):
        for place in reversed(range(moving)):
            is_outside = _compared(order[place], order[moving], shape, steps)
            if is_outside is False:
                break
            if is_outside:
                order[place], order[moving] = order[moving], order[place]
                moving = place
    return order[::-1]


def ordered(result: Array, order: Sequence[int]) -> Array:
    """Return an array with a certain order of axes in memory, outermost first: itself, or a
    copy.
    """
    turned = result.transpose(order)
    if turned.flags.c_contiguous:
        return result
    return np.ascontiguousarray(turned).transpose(np.argsort(order))


def _compared(
    a: int, b: int, shape: tuple[int, ...], steps: Sequence[tuple[int, ...]]
) -> bool | None:
    """Return True if axis ``a`` is outside of ``b``; None if no operand decides."""
    for s in steps:
        if s[a] and s[b]:
            if s[a] != s[b]:
                return s[a] > s[b]
            if shape[a] > shape[b]:
                return True
    return None


def channels_lie_last(x: Array) -> bool:
    """Return True if the second of four or five axes is innermost in memory, as in PyTorch's
    ``channels_last``.
    """
    if x.ndim not in (4, 5) or not x.strides[1] or 0 in x.shape:
        return False
    least = 0
    for axis in (1, *range(x.ndim - 1, 1, -1), 0):
        step = x.strides[axis]
        if step < least or (axis == 0 and least == x.strides[1]):
            return False
        least = step * x.shape[axis]
    return True


def copied(array: Array, dtype: np.dtype[Any]) -> Array:
    """Return a copy in a dtype, with the memory order of the original if that is dense."""
    copy = np.array(array, dtype)
    return copy if copy.flags.c_contiguous else laid(copy, [array])
