"""``autograd.scipy.signal``: convolution with autograd's arguments; other names are those of
``scipy.signal``.

Layer: 10.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.compat.autograd.names import names_of as _names_of
from functrace.compat.kinds import Values
from functrace.errors import ArgumentError, ShapeError
from functrace.numpy.protocol.operands import arrayed

__all__ = ["convolve"]
__getattr__ = _names_of("functrace.scipy.signal", __name__)


def convolve(
    A: Values,
    B: Values,
    axes: Values = None,
    dot_axes: Sequence[Sequence[int]] = ((), ()),
    mode: str = "full",
) -> Any:
    """Convolve arrays along pairs of axes, and contract others.

    Args:
        A, B: the arrays.
        axes: ``(axes of A, axes of B)`` to convolve along; all of both by default.
        dot_axes: ``(axes of A, axes of B)`` to sum products over.
        mode: ``"full"``, ``"valid"`` or ``"same"`` (of the size of ``A``).

    Returns:
        an array with the other axes of ``A``, the other axes of ``B``, and those that were
        convolved.

    Raises:
        ArgumentError: if ``mode`` is another one.
        ShapeError: in mode ``"valid"``, if neither array is the longer one along all axes.

    Source: ``autograd.scipy.signal.convolve``.
    """
    if mode not in ("full", "valid", "same"):
        raise ArgumentError(f"convolve: mode={mode!r}", fix="choose 'full', 'valid' or 'same'")
    left, right = arrayed(A), arrayed(B)
    of_a, of_b = (range(left.ndim), range(right.ndim)) if axes is None else axes
    sizes = [(left.shape[i], right.shape[j]) for i, j in zip(of_a, of_b, strict=True)]
    if mode == "valid" and any(a < b for a, b in sizes) and any(a > b for a, b in sizes):
        raise ShapeError(
            "convolve: neither array is the longer one along all axes", fix="use mode='full'"
        )
    of_a, of_b = [k % left.ndim for k in of_a], [k % right.ndim for k in of_b]
    summed_a, summed_b = [k % left.ndim for k in dot_axes[0]], [k % right.ndim for k in dot_axes[1]]
    letters = iter(string.ascii_letters)
    a_letters, b_letters = (
        [next(letters) for _ in range(left.ndim)],
        [next(letters) for _ in range(right.ndim)],
    )
    for i, j in zip(summed_a, summed_b, strict=True):
        b_letters[j] = a_letters[i]
    outer_a = [a_letters[k] for k in range(left.ndim) if k not in (*of_a, *summed_a)]
    outer_b = [b_letters[k] for k in range(right.ndim) if k not in (*of_b, *summed_b)]
    convolved: list[str] = [a_letters[k] for k in of_a]
    # An axis of A becomes two, (position, step back), of which the second is contracted with the
    # axis of B.
    for i, j in sorted(zip(of_a, of_b, strict=True), reverse=True):
        a: int = left.shape[i]
        b: int = right.shape[j]
        first, count = {
            "full": (0, a + b - 1),
            "same": ((b - 1) // 2, a),
            "valid": (min(a, b) - 1, abs(a - b) + 1),
        }[mode]
        source = np.arange(first, first + count)[:, None] - np.arange(b)
        inside = (source >= 0) & (source < a)
        windows = np.take(left, np.clip(source, 0, a - 1), axis=i)
        left = np.where(
            inside.reshape(*inside.shape, *[1] * (windows.ndim - i - 2)),
            windows,
            np.zeros((), left.dtype),
        )
        a_letters.insert(i + 1, b_letters[j])
    result = "".join([*outer_a, *outer_b, *convolved])
    return np.einsum(f"{''.join(a_letters)},{''.join(b_letters)}->{result}", left, right)
