"""Large matrix products on functrace's threads.

NumPy multiplies the matrices of a stack sequentially, on one core. And the threads of its BLAS spin
for 0.1 s while they wait for work, on the cores that the threads of fusion groups
(executor/parallel/blocks.py) need; on a core that another process uses, BLAS waits for its own
thread. So BLAS runs single-threaded in functrace's threads. See docs/decisions/0036.

Note [Parts depend on shapes]
    The division of a product into parts depends on its shape alone, so results are bitwise
    independent of the number of threads and of the load. BLAS itself rounds differently with two
    threads than with one.

Layer: 7.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrace.ops.blas import one_thread
from functrace.passes.matmul_selection import LEAST, parts_of
from functrace.threads import THREADS, Take
from functrace.typing import Array

IN_TURN = 1 << 20
"""Multiplications: for smaller matrices, BLAS multiplies by a transpose without a copy, at 1.6
times the cost.
"""


def in_parts(x: Array, y: Array, out: Array | None = None) -> Any:
    """Return ``np.matmul`` of two matrices, or stacks of them, of the same floats; all sizes are 2
    or more.

    Args:
        x, y: operands of a product that is large enough for
            `functrace.passes.matmul_selection.divide_products`.
        out: an array in C order for the product.

    Warns:
        RuntimeWarning: as in NumPy.
    """
    limit = one_thread()
    if limit is None:
        return np.matmul(x, y) if out is None else np.matmul(x, y, out)
    if y.ndim == 2 < x.ndim:
        made = in_parts(
            x.reshape(-1, x.shape[-1]), y, None if out is None else out.reshape(-1, out.shape[-1])
        )
        return made.reshape(*x.shape[:-1], made.shape[-1])
    made, pieces = pieces_of(x, y, out)

    def work(take: Take) -> None:
        while (n := take()) < len(pieces):
            multiply(*pieces[n])

    with limit:
        if THREADS.share_without_warnings(work, len(pieces)):
            return made
    return np.matmul(x, y) if out is None else np.matmul(x, y, out)


def divided(x: Array, y: Array) -> Any:
    """Return ``np.matmul`` of two arrays; large products on functrace's threads, all others on one.

    BLAS's own threads wait for each other at every product, which takes longer than a small product
    itself, and much longer on a core that another process uses.

    Args:
        x, y: arrays with an axis or more.
    """
    limit = one_thread()
    if limit is None:
        return np.matmul(x, y)
    if x.ndim > 1 and y.ndim > 1 and x.dtype == y.dtype and x.dtype.char in "fdFD":
        rows = math.prod(x.shape[:-1]) if y.ndim == 2 else x.shape[-2]
        is_stack = y.ndim > 2 and x.size * y.shape[-1] >= LEAST
        if is_stack or parts_of(rows, x.shape[-1], y.shape[-1])[1] > 1:
            return in_parts(x, y)
    with limit:
        return np.matmul(x, y)


def multiply(x: Array, y: Array, out: Array) -> None:
    """Write a product in the calling thread: of two stacks, or of one or more matrices and one.

    Args:
        x, y: operands; all sizes are 2 or more except the first.
        out: in C order, if ``x`` has more axes than ``y``.
    """
    if y.ndim < x.ndim:
        x, out = x.reshape(-1, x.shape[-1]), out.reshape(-1, out.shape[-1])
    elif (
        y.ndim > 2
        and y.strides[-2] == y.itemsize
        and x.shape[-2] * x.shape[-1] * y.shape[-1] < IN_TURN
    ):
        y = np.ascontiguousarray(y)
    np.matmul(x, y, out)


def pieces_of(x: Array, y: Array, out: Array | None = None) -> tuple[Array, list[Piece]]:
    """Divide a product of two matrices, or two stacks; returns the result array, and the pieces."""
    rows, inner, columns = *x.shape[-2:], y.shape[-1]
    stack = np.broadcast_shapes(x.shape[:-2], y.shape[:-2]) if x.ndim > 2 or y.ndim > 2 else ()
    made = np.empty((*stack, rows, columns), x.dtype) if out is None else out
    return made, _of_stack(x, y, made) if stack else _of_matrices(
        x, y, made, *parts_of(rows, inner, columns)
    )


Piece = tuple[Array, Array, Array]
"""Two operands, and the target of their product."""


def _of_matrices(x: Array, y: Array, out: Array, is_by_columns: bool, count: int) -> list[Piece]:
    """Divide a product by rows or columns."""
    size = out.shape[is_by_columns]
    step = -(-size // count)
    spans = [slice(start, start + step) for start in range(0, size, step)]
    return [(x, y[:, s], out[:, s]) if is_by_columns else (x[s], y, out[s]) for s in spans]


def _of_stack(x: Array, y: Array, out: Array) -> list[Piece]:
    """Divide a stack along one of its axes; bits do not depend on the division, as each matrix is a
    separate product.
    """
    stack = out.shape[:-2]
    axis = next(k for k, n in enumerate(stack) if n > 1)
    x, y = np.broadcast_to(x, stack + x.shape[-2:]), np.broadcast_to(y, stack + y.shape[-2:])
    size = stack[axis]
    count = min(size, 2 * THREADS.count)
    before = (slice(None),) * axis
    spans = [(*before, slice(size * n // count, size * (n + 1) // count)) for n in range(count)]
    return [(x[s], y[s], out[s]) for s in spans]
