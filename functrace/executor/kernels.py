"""NumPy kernels: how the executor spells a primitive where that is faster than its ``eval`` rule.

A kernel returns the expression for its operands (names in the generated code). ``bind_value`` gives a static
value a name there.

Floor: 6.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.ops.indexing import decode_index

BindValue = Callable[[Any], str]


def _index(operands: tuple[str, ...], params: tuple[Any, ...], bind_value: BindValue) -> str:
    index = decode_index(params[0])
    return f"{operands[0]}[{bind_value(index[0] if len(index) == 1 else index)}]"


def _reduce_sum(operands: tuple[str, ...], params: tuple[Any, ...], bind_value: BindValue) -> str:
    # Measured on 9 elements: 0.5 us for the default axis 0, 1.2 us for an axis that is passed.
    axes = "" if params[0] == (0,) else f", {params[0]!r}"
    return f"{bind_value(np.add.reduce)}({operands[0]}{axes})"


def _reshape(operands: tuple[str, ...], params: tuple[Any, ...], bind_value: BindValue) -> str:
    return f"{operands[0]}.reshape({params[0]!r})"


def _transpose(operands: tuple[str, ...], params: tuple[Any, ...], bind_value: BindValue) -> str:
    return f"{operands[0]}.transpose({params[0]!r})"


def _broadcast_to(operands: tuple[str, ...], params: tuple[Any, ...], bind_value: BindValue) -> str:
    # Small results are written out: 0.3 us, against 2.5 us for numpy.broadcast_to.
    shape = params[0]
    if math.prod(shape) > 4096:
        return f"{bind_value(np.broadcast_to)}({operands[0]}, {shape!r})"
    return f"{bind_value(filled)}({operands[0]}, {shape!r})"


def filled(x: Any, shape: tuple[int, ...]) -> Any:
    """Return ``x`` broadcast to a shape, written out."""
    out = np.empty(shape, x.dtype if hasattr(x, "dtype") else np.result_type(x))
    out[...] = x
    return out


def _embed(operands: tuple[str, ...], params: tuple[Any, ...], bind_value: BindValue) -> str:
    index = decode_index(params[0])
    index = index[0] if len(index) == 1 else index
    return f"{bind_value(embedded)}({operands[0]}, {bind_value(index)}, {params[1]!r})"


def embedded(x: Any, index: Any, shape: tuple[int, ...]) -> Any:
    """Return zeros with ``x`` written at a decoded index."""
    out = np.zeros(shape, x.dtype)
    out[index] = x
    return out


KERNELS: dict[str, Callable[[tuple[str, ...], tuple[Any, ...], BindValue], str]] = {
    "broadcast_to": _broadcast_to,
    "embed": _embed,
    "index": _index,
    "reduce_sum": _reduce_sum,
    "reshape": _reshape,
    "transpose": _transpose,
}
"""Expression by primitive name."""
