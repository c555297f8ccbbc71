"""Large products of matrices, spread over functrace's threads.

NumPy computes the matrices of a stack one after the other, on one core. And the threads of its BLAS wait for work by
spinning, a tenth of a second long, on the cores that the threads of groups (executor/parallel/blocks.py) need meanwhile; on
a core that somebody else uses, BLAS waits for its own thread. So BLAS is kept to the threads that call it, and these are
functrace's. See docs/decisions/0036.

Note [Parts depend on shapes]
    Into which parts a product is divided depends on its shape alone, so bits depend neither on threads nor on what else the
    machine does. BLAS itself rounds otherwise with two threads than with one.

Layer: 7.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.executor.parallel.threads import THREADS, Take
from functrace.ops.blas import one_thread
from functrace.passes.matmul_selection import parts_of
from functrace.typing import Array

IN_TURN = 1 << 20
"""Multiplications: of smaller matrices, BLAS multiplies by a transpose without a copy, and takes 1.6 times as long."""


def in_parts(x: Array, y: Array, out: Array | None = None) -> Any:
    """Return ``np.matmul`` of two matrices, or stacks of them, of the same floats; all sizes are 2 or more.

    Args:
        x, y: operands whose product is large enough for `functrace.passes.matmul_selection.divide_products`.
        out: an array in C order for the product.

    Warns:
        RuntimeWarning: as NumPy does.
    """
    limit = one_thread()
    if limit is None:
        return np.matmul(x, y) if out is None else np.matmul(x, y, out)
    if y.ndim == 2 < x.ndim:
        made = in_parts(x.reshape(-1, x.shape[-1]), y, None if out is None else out.reshape(-1, out.shape[-1]))
        return made.reshape(*x.shape[:-1], made.shape[-1])
    made, pieces = pieces_of(x, y, out)

    def work(take: Take) -> None:
        while (n := take()) < len(pieces):
            multiply(*pieces[n])

    noted: list[str] = []
    modes: dict[str, Any] = {kind: "ignore" if mode == "ignore" else "call" for kind, mode in np.geterr().items()}
    with np.errstate(**modes, call=lambda kind, _flag: noted.append(kind)), limit:
        THREADS.share(work, len(pieces))
    if noted:  # NumPy says so, in the thread and from the line that it is to be said of
        return np.matmul(x, y) if out is None else np.matmul(x, y, out)
    return made


def multiply(x: Array, y: Array, out: Array) -> None:
    """Write a product in the thread that calls: of two stacks, or of one or more matrices and one.

    Args:
        x, y: operands, all sizes 2 or more but for that of the first axis.
        out: in C order, if ``x`` has more axes than ``y``.
    """
    if y.ndim < x.ndim:
        x, out = x.reshape(-1, x.shape[-1]), out.reshape(-1, out.shape[-1])
    elif y.ndim > 2 and y.strides[-2] == y.itemsize and x.shape[-2] * x.shape[-1] * y.shape[-1] < IN_TURN:
        y = np.ascontiguousarray(y)
    np.matmul(x, y, out)


def pieces_of(x: Array, y: Array, out: Array | None = None) -> tuple[Array, list[Piece]]:
    """Divide a product of two matrices, or two stacks; returns where it is written, and the pieces."""
    rows, inner, columns = *x.shape[-2:], y.shape[-1]
    stack = np.broadcast_shapes(x.shape[:-2], y.shape[:-2]) if x.ndim > 2 or y.ndim > 2 else ()
    made = np.empty((*stack, rows, columns), x.dtype) if out is None else out
    return made, _of_stack(x, y, made) if stack else _of_matrices(x, y, made, *parts_of(rows, inner, columns))


Piece = tuple[Array, Array, Array]
"""Two operands, and where their product is written."""


def _of_matrices(x: Array, y: Array, out: Array, is_by_columns: bool, count: int) -> list[Piece]:
    """Divide a product by rows or columns."""
    size = out.shape[is_by_columns]
    step = -(-size // count)
    spans = [slice(start, start + step) for start in range(0, size, step)]
    return [(x, y[:, s], out[:, s]) if is_by_columns else (x[s], y, out[s]) for s in spans]


def _of_stack(x: Array, y: Array, out: Array) -> list[Piece]:
    """Divide a stack along one of its axes. How does not matter: each matrix is a product of its own."""
    stack = out.shape[:-2]
    axis = next(k for k, n in enumerate(stack) if n > 1)
    x, y = np.broadcast_to(x, stack + x.shape[-2:]), np.broadcast_to(y, stack + y.shape[-2:])
    size = stack[axis]
    count = min(size, 2 * THREADS.count)
    before = (slice(None),) * axis
    spans = [(*before, slice(size * n // count, size * (n + 1) // count)) for n in range(count)]
    return [(x[s], y[s], out[s]) for s in spans]
