"""Lowerings of `functrace.ops.fft`.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from functrace.ir.aval import ShapeDtype
from functrace.ops import PRIMITIVES
from functrace.ops.matrices import real_dtype
from functrace.xla.lowering import Operation, Row, Value, cast, register


def _transform(function: Callable[..., Any], is_real: bool, is_inverse: bool) -> Row:
    """Return the row of a transform.

    Args:
        function: of ``jax.numpy.fft``.
        is_real: True if the operand has real numbers.
        is_inverse: True for an inverse transform.
    """

    def lowered(op: Operation, x: Value, n: int, axis: int, norm: str) -> Any:
        dtype = real_dtype(op.dtype)
        x = jnp.asarray(cast(x, dtype if is_real else np.result_type(dtype, np.complex64)))
        if not x.size:  # padded
            return jnp.zeros(op.shape, op.dtype)
        if isinstance(spec := op.specs[0], ShapeDtype) and spec.dtype == np.float16:
            scale = _half_scale(n, norm, is_inverse)
            unscaled = "forward" if is_inverse else "backward"
            return function(x, n, axis, unscaled) * scale.astype(dtype)
        return function(x, n, axis, norm)

    return lowered


def _half_scale(n: int, norm: str, is_inverse: bool) -> Any:
    """Return the factor of a transform of float16, which NumPy rounds to float16."""
    if norm == "ortho":
        return np.reciprocal(np.sqrt(n, dtype=np.float16), dtype=np.float16)
    is_scaled = (norm == "backward") == is_inverse
    return np.reciprocal(n, dtype=np.float16) if is_scaled else np.float16(1)


register(PRIMITIVES["fft"])(_transform(jnp.fft.fft, False, False))
register(PRIMITIVES["ifft"])(_transform(jnp.fft.ifft, False, True))
register(PRIMITIVES["rfft"])(_transform(jnp.fft.rfft, True, False))
register(PRIMITIVES["irfft"])(_transform(jnp.fft.irfft, False, True))
