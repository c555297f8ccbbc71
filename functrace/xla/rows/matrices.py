"""Helpers of the lowerings of matrix functions, as `functrace.ops.matrices`: stacks of matrices.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from functrace.xla.lowering import Operation, Value, cast
from functrace.xla.rows.contraction import matmul

SINGULAR = "Singular matrix"
"""NumPy's message for a matrix that has no inverse."""


def product(*factors: Value) -> Any:
    """Return the product of stacks of matrices, in full precision."""
    found, *rest = factors
    for factor in rest:
        found = matmul(found, factor)
    return found


def turned(x: Value) -> Any:
    """Return transposes."""
    count = len(x.shape)
    return lax.transpose(x, (*range(count - 2), count - 1, count - 2))


def adjoint(x: Value) -> Any:
    """Return conjugate transposes."""
    found = turned(x)
    return lax.conj(found) if found.dtype.kind == "c" else found


def diagonal(x: Value) -> Any:
    """Return main diagonals."""
    *stack, rows, columns = x.shape
    size = min(rows, columns)
    elements = lax.reshape(x, (*stack, rows * columns))
    return lax.slice_in_dim(elements, 0, max(size * (columns + 1) - columns, 0), columns + 1, -1)


def half_lower(x: Value) -> Any:
    """Keep the lower triangles of matrices, and half of their diagonals."""
    n = x.shape[-1]
    return x * (np.tri(n, k=-1) + 0.5 * np.eye(n)).astype(x.real.dtype)


def in_one_stack(op: Operation, operands: Sequence[Any]) -> list[Any]:
    """Return operands in the dtype of the result, with their stacks broadcast: the factorizations of
    ``jax.lax`` do not broadcast.
    """
    arrays = [jnp.asarray(cast(x, op.dtype)) for x in operands]
    stack = np.broadcast_shapes(*[x.shape[:-2] for x in arrays])
    return [jnp.broadcast_to(x, (*stack, *x.shape[-2:])) for x in arrays]


def require_pivots(op: Operation, pivots: Value, message: str = SINGULAR) -> None:
    """Raise NumPy's error if a pivot is 0; nan is none."""
    op.require(pivots != 0, np.linalg.LinAlgError, message)


def require_converged(op: Operation, results: Value, has_failed: Value, message: str) -> None:
    """Raise NumPy's error where LAPACK reports one: JAX then fills the results of the matrix with nan.

    Args:
        op: the operation.
        results: (..., k), values or vectors of each matrix.
        has_failed: (...), False for matrices of which LAPACK gives nan without an error.
        message: NumPy's.
    """
    if results.shape[-1]:
        is_bad = jnp.all(jnp.isnan(results), axis=-1) & has_failed
        op.require(~is_bad, np.linalg.LinAlgError, message)


def flat(x: Value) -> Any:
    """Return the matrices of a stack as vectors."""
    return jnp.reshape(x, (*x.shape[:-2], x.shape[-2] * x.shape[-1]))
