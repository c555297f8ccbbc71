"""Lowerings of `functrace.ops.banded`: Gaussian elimination with row exchanges, one row at a time.

Layer: 7.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from functrace.ops import PRIMITIVES
from functrace.xla.lowering import Operation, Value, register
from functrace.xla.rows.contraction import PRECISION
from functrace.xla.rows.matrices import in_one_stack, require_pivots


def _band_rows(ab: Value, below: int, above: int) -> Any:
    """Return rows of banded matrices, (n + below + 1, ..., width): of row ``i``, columns from
    ``i - below`` on; zeros outside of the matrix, and for the rows that follow the last one.
    """
    n, width = ab.shape[-1], below + above + 1
    i, c = np.arange(n + below + 1)[:, None], np.arange(width)[None, :]
    column = i - below + c
    is_inside = (i < n) & (column >= 0) & (column < n)
    # ab[above + i - j, j] = a[i, j]
    found = ab[..., np.broadcast_to(above + below - c, column.shape), column % max(n, 1)]
    return jnp.moveaxis(jnp.where(is_inside, found, 0), -2, 0)


@register(PRIMITIVES["solve_banded"])
def _solve_banded(op: Operation, ab: Value, b: Value, below: int, above: int) -> Any:
    """Eliminate with a window of ``below + 1`` rows, of which the one with the greatest first element
    is the pivot row; then substitute from the last row on.
    """
    ab, b = in_one_stack(op, [ab, b])
    if not b.size:
        return b
    n, width = b.shape[-2], below + above + 1
    stack = b.shape[:-2]
    rows = _band_rows(ab, below, above)
    sides = jnp.moveaxis(b, -2, 0)
    sides = jnp.concatenate([sides, jnp.zeros((below + 1, *sides.shape[1:]), b.dtype)])
    # The first rows begin at column 0.
    first = [
        jnp.concatenate(
            [rows[r][..., below - r :], jnp.zeros((*stack, below - r), b.dtype)], axis=-1
        )
        for r in range(below + 1)
    ]
    window = jnp.stack(first, -2)
    side_window = jnp.moveaxis(sides[: below + 1], 0, -2)

    def swapped(x: Value, place: Value) -> Any:
        """Exchange the first row with another one."""
        order = jnp.broadcast_to(jnp.arange(below + 1), (*stack, below + 1))
        order = jnp.where(order == place, 0, order).at[..., 0].set(place[..., 0])
        return jnp.take_along_axis(x, order[..., None], axis=-2)

    def eliminate(state: Value, more: Value) -> Any:
        window, side_window = state
        row, side = more
        place = jnp.argmax(jnp.abs(window[..., 0]), axis=-1)[..., None]
        window, side_window = swapped(window, place), swapped(side_window, place)
        pivot, pivot_side = window[..., 0, :], side_window[..., 0, :]
        factors = window[..., 1:, :1] / pivot[..., None, :1]
        window = window[..., 1:, :] - factors * pivot[..., None, :]
        side_window = side_window[..., 1:, :] - factors * pivot_side[..., None, :]
        window = jnp.concatenate([window[..., 1:], jnp.zeros_like(window[..., :1])], axis=-1)
        window = jnp.concatenate([window, row[..., None, :]], axis=-2)
        side_window = jnp.concatenate([side_window, side[..., None, :]], axis=-2)
        return (window, side_window), (pivot, pivot_side)

    more = (rows[below + 1 :], sides[below + 1 :])
    _, (upper, right) = lax.scan(eliminate, (window, side_window), more, n)
    require_pivots(op, upper[..., 0], "singular matrix")

    def substitute(later: Value, row: Value) -> Any:
        pivot, side = row
        used = jnp.einsum("...c,...ck->...k", pivot[..., 1:], later, precision=PRECISION)
        x = (side - used) / pivot[..., :1]
        return jnp.concatenate([x[..., None, :], later], axis=-2)[..., : width - 1, :], x

    start = jnp.zeros((*stack, width - 1, b.shape[-1]), b.dtype)
    _, x = lax.scan(substitute, start, (upper, right), n, reverse=True)
    return jnp.moveaxis(x, 0, -2)
