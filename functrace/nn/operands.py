"""Conversion of operands of this package's functions: arrays, numbers and traced values.

Layer: 8 (api).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from functrace.api.capture.arguments import as_value
from functrace.tracing.tracer import Tracer
from functrace.typing import Array, ArrayLike

Axis = int | Sequence[int] | None
"""An axis, several, or all."""
X: TypeAlias = ArrayLike | Tracer
"""Argument of a function: an array, a number, or a traced value."""


def numeric(x: ArrayLike | Tracer, what: str) -> Array:
    """Return an argument as an array, a NumPy scalar or a traced value.

    Raises:
        DtypeError: if it is not numeric.
    """
    return as_value(x, what)


def floating(x: ArrayLike | Tracer, what: str) -> Array:
    """Return an argument as floats: integers and bools in double precision."""
    value = numeric(x, what)
    return value if value.dtype.kind in "fc" else value.astype(np.float64)


def plain_scalar(result: Array | Tracer) -> Any:
    """Return a plain 0-d result as a scalar, like NumPy's own functions."""
    return result[()] if isinstance(result, np.ndarray) and not result.ndim else result
