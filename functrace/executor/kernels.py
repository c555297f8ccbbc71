"""NumPy kernels: how the executor spells a primitive where that is faster than its ``eval`` rule.

A kernel returns the expression for its operands (names in the generated code). ``bind_value`` gives a static
value a name there.

Floor: 6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.ops.indexing import decode_index

BindValue = Callable[[Any], str]


def _index(operands: tuple[str, ...], params: tuple[Any, ...], bind_value: BindValue) -> str:
    index = decode_index(params[0])
    return f"{operands[0]}[{bind_value(index[0] if len(index) == 1 else index)}]"


def _reduce_sum(operands: tuple[str, ...], params: tuple[Any, ...], bind_value: BindValue) -> str:
    return f"{bind_value(np.add.reduce)}({operands[0]}, {params[0]!r})"


def _reshape(operands: tuple[str, ...], params: tuple[Any, ...], bind_value: BindValue) -> str:
    return f"{operands[0]}.reshape({params[0]!r})"


def _transpose(operands: tuple[str, ...], params: tuple[Any, ...], bind_value: BindValue) -> str:
    return f"{operands[0]}.transpose({params[0]!r})"


KERNELS: dict[str, Callable[[tuple[str, ...], tuple[Any, ...], BindValue], str]] = {
    "index": _index,
    "reduce_sum": _reduce_sum,
    "reshape": _reshape,
    "transpose": _transpose,
}
"""Expression by primitive name."""
