"""Python numbers as operands of tensor operations.

Layer: 9.
"""

from __future__ import annotations

from typing import Any

import numpy as np

NUMBERS = frozenset({bool, int, float, complex})
_KINDS: tuple[type[Any], ...] = (int, float, complex)


def number_of(x: Any) -> Any:
    """Convert a NumPy scalar, or an instance of a subclass of a Python number type, to a Python
    number.
    """
    if type(x) in NUMBERS:
        return x
    if isinstance(x, np.generic):
        return float(x) if isinstance(x, np.bool_) else x.item()  # as PyTorch converts a NumPy bool
    return next((kind(x) for kind in _KINDS if isinstance(x, kind)), x)
