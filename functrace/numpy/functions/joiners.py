"""``r_`` and ``c_`` with traced values.

Layer: 3.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np

from functrace.errors import UnsupportedFunctionError
from functrace.numpy.arrays.traced_number import common_dtype, weak_kind
from functrace.numpy.functions.creation import arange, array, linspace
from functrace.numpy.protocol.operands import Arrayed, Index, holds_tracer
from functrace.ops.shaping import convert


@final
class Joiner:
    """``r_`` and ``c_``: NumPy's for plain values; traced values are joined by the same rules.

    Args:
        name: "r_" or "c_".
        axis, ndmin, trans1d: parameters of ``numpy.lib.index_tricks.AxisConcatenator``.
    """

    def __init__(self, name: str, axis: int, ndmin: int, trans1d: int) -> None:
        self._name, self._rule = name, (axis, ndmin, trans1d)

    def __getitem__(self, items: Index) -> Any:
        parts = items if isinstance(items, tuple) else (items,)
        if not any(
            holds_tracer([p.start, p.stop, p.step]) if isinstance(p, slice) else holds_tracer(p)
            for p in parts
        ):
            return getattr(np, self._name)[items]
        axis, ndmin, trans1d = self._rule
        if isinstance(parts[0], str):
            axis, ndmin, trans1d = self._directive(parts[0])
            parts = parts[1:]
        found: list[Any] = []
        for part in parts:
            if isinstance(part, slice):
                found.append(_lined_up(_range(part), ndmin, trans1d, 1))
            elif weak_kind(part) is not None:
                found.append(part)
            elif isinstance(part, str):
                raise ValueError("special directives must be the first entry.")
            else:
                made = array(part, copy=None)  # type: ignore[arg-type]
                found.append(_lined_up(made, ndmin, trans1d, made.ndim))
        dtype = common_dtype(found)
        arrays = [
            array(x, dtype, ndmin=ndmin) if weak_kind(x) is not None else convert(x, dtype)
            for x in found
        ]
        return np.concatenate(arrays, axis)

    def _directive(self, text: str) -> tuple[int, int, int]:
        """Parse a directive like ``'0,2'``: axis, minimum number of axes, position of vectors."""
        if text in ("r", "c"):
            raise UnsupportedFunctionError(
                f"numpy.{self._name}[{text!r}, …] makes a numpy.matrix, which no traced value is",
                fix="use np.stack or np.concatenate",
            )
        axis, ndmin, trans1d = self._rule
        try:
            given = [int(word) for word in text.split(",")]
        except ValueError as error:
            raise ValueError(f"unknown special directive {text!r}") from error
        return (*given[:3], *(axis, ndmin, trans1d)[len(given) :])  # type: ignore[return-value]

    def __len__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return f"<functrace.numpy {self._name}>"


def _range(part: slice) -> Any:
    """Return the array of a slice: a range, or, for an imaginary step, that number of points."""
    start, stop = 0 if part.start is None else part.start, part.stop
    step = 1 if part.step is None else part.step
    if isinstance(step, complex):
        return linspace(start, stop, int(abs(step)))
    return arange(start, stop, step)


def _lined_up(x: Arrayed, ndmin: int, trans1d: int, ndim: int) -> Any:
    """Return an array with at least ``ndmin`` axes, the original ones placed by ``trans1d``."""
    missing = ndmin - ndim
    if missing <= 0:
        return x
    x = np.reshape(x, (1,) * missing + x.shape)
    if trans1d == -1:
        return x
    first = trans1d + missing + 1 if trans1d < 0 else trans1d
    axes = list(range(ndmin))
    return np.transpose(x, axes[:first] + axes[missing:] + axes[first:missing])
