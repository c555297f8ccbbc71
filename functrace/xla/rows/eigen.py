"""Lowerings of `functrace.ops.eigen`: on the CPU, by LAPACK. XLA has no eigenvalues of general
matrices for other devices: JAX refuses there, or needs a library of its own.

Layer: 7.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from functrace.ops import PRIMITIVES
from functrace.xla.lowering import Operation, Value, register
from functrace.xla.rows.matrices import require_converged
from functrace.xla.rows.sorting import over_rows


def _eig(op: Operation, x: Value, with_vectors: bool) -> list[Any]:
    x = jnp.asarray(x)
    if not x.size:
        return [jnp.zeros(a.shape, a.dtype) for a in op.outputs]
    op.require(jnp.isfinite(x), np.linalg.LinAlgError, "Array must not contain infs or NaNs")
    results = lax.linalg.eig(
        x, compute_left_eigenvectors=False, compute_right_eigenvectors=with_vectors
    )
    require_converged(op, results[0], True, "Eigenvalues did not converge")
    return results


register(PRIMITIVES["eig"])(lambda op, x: tuple(_eig(op, x, True)))
register(PRIMITIVES["eigvals"])(lambda op, x: _eig(op, x, False)[0])


@register(PRIMITIVES["matching"])
def _matching(op: Operation, wanted: Value, values: Value) -> Any:
    """Positions, the nearest pairs first: see `functrace.ops.eigen`."""
    wanted, values = jnp.asarray(wanted), jnp.asarray(values)
    n = wanted.shape[-1]
    numbers = jnp.broadcast_to(jnp.arange(n), wanted.shape)
    if not wanted.size:
        return numbers

    def match(wanted: Value, values: Value) -> Any:
        distance = jnp.abs(wanted[:, None] - values)
        distance = jnp.where(jnp.isnan(distance), np.inf, distance)

        def place(state: Value, row: Value) -> Any:
            places, is_free = state
            column = jnp.argmin(jnp.where(is_free, distance[row], np.inf))
            return (places.at[row].set(column), is_free.at[column].set(False)), None

        start = jnp.zeros(n, numbers.dtype), jnp.ones(n, bool)
        order = jnp.argsort(jnp.min(distance, axis=1))
        return lax.scan(place, start, order)[0][0]

    found = over_rows(wanted.ndim - 1, match)(wanted, values)
    is_same = jnp.array_equal(wanted, values, equal_nan=True)
    return jnp.where(is_same, numbers, found)
