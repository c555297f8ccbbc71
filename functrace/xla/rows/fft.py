"""Lowerings of `functrace.ops.fft`.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from functrace.ops import PRIMITIVES
from functrace.ops.matrices import real_dtype
from functrace.xla.lowering import Operation, Row, Value, cast, register


def _transform(function: Callable[..., Any], is_real: bool) -> Row:
    """Return the row of a transform.

    Args:
        function: of ``jax.numpy.fft``.
        is_real: True if the operand has real numbers.
    """

    def lowered(op: Operation, x: Value, n: int, axis: int, norm: str) -> Any:
        dtype = real_dtype(op.dtype)
        x = jnp.asarray(cast(x, dtype if is_real else np.result_type(dtype, np.complex64)))
        if not x.size:  # padded
            return jnp.zeros(op.shape, op.dtype)
        return function(x, n, axis, norm)

    return lowered


register(PRIMITIVES["fft"])(_transform(jnp.fft.fft, False))
register(PRIMITIVES["ifft"])(_transform(jnp.fft.ifft, False))
register(PRIMITIVES["rfft"])(_transform(jnp.fft.rfft, True))
register(PRIMITIVES["irfft"])(_transform(jnp.fft.irfft, False))
